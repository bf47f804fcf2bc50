"""The page of a choice: one file, its drawings, and what is drawn where something is missing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import bertkit
from bertkit.runtime.errors import OutputError
from tests.conftest import opened


@pytest.fixture(scope="module")
def choice(checkpoint, blind, headless, table):
    return bertkit.choose([checkpoint, blind, headless], train_file=table, examples=40)


def test_a_page_has_every_checkpoint_and_score(choice):
    page = choice.html()
    for candidate in choice.candidates:
        assert page.count(f'<th scope="row">{candidate.model}</th>') == 3  # scores, texts and cost
        assert f"{candidate.frozen.score:.4f}" in page
    # A line of each checkpoint for both kinds of vectors, with a point of each layer.
    assert page.count("<polyline points=") == 2 * 3 + 3  # and those of the names
    assert len(re.findall(r'<circle cx="[\d.]+" cy="[\d.]+" r="3">', page)) == 2 * (3 + 3 + 2)
    assert "default-src 'none'" in page
    assert choice.command.split()[2] in page


def test_ticks_of_wide_intervals_have_room(choice):
    first, *others = choice.candidates
    wide = replace(first, perplexity=1e6, perplexity_low=1.0, perplexity_high=1e18)
    page = replace(choice, candidates=[wide, *others]).html()
    drawing = page[page.index('aria-label="Pseudo-perplexities') :].partition("</svg>")[0]
    places = [float(place) for place in re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="middle"', drawing)]
    assert 3 < len(places) < 7
    assert np.diff(places).min() > 60


@pytest.mark.parametrize(("low", "high"), [(21.0, 48.0), (2.1, 4.0), (11.0, 12.0), (51.0, 199.0), (110.0, 4000.0)])
def test_each_axis_of_perplexities_has_a_tick(choice, low, high):
    only = replace(choice.candidates[0], perplexity=low, perplexity_low=low, perplexity_high=high)
    page = replace(choice, candidates=[only]).html()
    drawing = page[page.index('aria-label="Pseudo-perplexities') :].partition("</svg>")[0]
    assert 1 <= drawing.count('text-anchor="middle"') <= 7


def test_texts_alone_have_no_scores(headless, tmp_path):
    (tmp_path / "texts.txt").write_text("a good <film>\n\nthe plot\n")
    page = tmp_path / "page.html"
    choice = bertkit.choose([headless], texts=tmp_path / "texts.txt", output=page)
    written = page.read_text()
    assert written == choice.html()
    assert "Scores of frozen vectors" not in written
    assert "Masked words" not in written
    assert "No pseudo-perplexity of " in written
    with pytest.raises(OutputError, match="already exists"):
        bertkit.choose([headless], texts=tmp_path / "texts.txt", output=page)


def test_notebooks_show_the_page_in_a_frame(choice):
    assert str(choice).splitlines() == choice.lines()
    assert choice._repr_html_().startswith('<iframe title="Choice of a checkpoint" srcdoc="')


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1240, "light"), (390, "dark")])
def test_a_hidden_checkpoint_leaves_all_drawings(browser, choice, tmp_path, width, scheme):
    (tmp_path / "page.html").write_text(choice.html())
    page = opened(browser, tmp_path / "page.html", width, scheme, "document.documentElement.dataset.drawn === 'true'")
    drawn = page.locator('[data-model="1"]')
    assert drawn.count() == 4  # scores, two kinds of vectors, masked words
    assert all(drawn.nth(place).is_visible() for place in range(4))
    page.locator("#models input").nth(1).uncheck()
    assert not any(drawn.nth(place).is_visible() for place in range(4))
    assert page.locator('[data-model="0"]').first.is_visible()
