"""Pages of `bertkit explain` in Chromium: nothing on the console, no request, no horizontal scrolling, both schemes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertkit import build_corpus, explain
from bertkit.model.checkpoint.load import load_tokenizer
from tests import conftest

pytestmark = pytest.mark.browser
HOSTILE = '<script>alert(1)</script> "><img src=x onerror=alert(2)> lovely film'


@pytest.fixture(scope="module")
def page_file(checkpoint, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    explain(checkpoint, HOSTILE, "the plot is <b>lovely</b>", output=path)
    return path


def opened(browser: Any, path: Path, width: int, scheme: str = "light") -> Any:
    """Opens a page, and waits for the matrix of a head if it has one."""
    drawn = "!document.querySelector('#matrix') || document.querySelector('#matrix svg')"
    return conftest.opened(browser, path, width, scheme, drawn)


PAGES = ("pretrained", "film", "entities", "maybe", "word", "rank", "pairs", "corpus")


@pytest.fixture(scope="module")
def page_of(checkpoint, fine_tuned, tmp_path_factory) -> Callable[[str], Path]:
    """Returns a function that writes a page of each kind of `PAGES`, with markup in every text."""
    folder = tmp_path_factory.mktemp("pages")

    def write(kind: str) -> Path:
        page = folder / f"{kind}.html"
        if page.exists():
            return page
        if kind == "pretrained":
            (folder / "story.txt").write_text(f"{HOSTILE}. The plot is <b>lovely</b>. " * 3)
            explain(checkpoint, HOSTILE, "the plot is lovely", sentences=folder / "story.txt", output=page)
        elif kind == "maybe":
            explain(fine_tuned(kind), HOSTILE, f"{HOSTILE} a plot. " * 4, output=page)
        elif kind == "word":
            (folder / "texts.tsv").write_text("text\tlabel\n" + f"{HOSTILE}\t<i>one\nthe film plot\ttwo\n" * 3)
            explain(checkpoint, word="film", texts=folder / "texts.tsv", output=page)
        elif kind == "rank":
            explain(checkpoint, rank=[HOSTILE, "a film"], output=page)
        elif kind == "pairs":
            (folder / "pairs.tsv").write_text(f"good\tbad\n{HOSTILE}\tlovely {HOSTILE}\n")
            explain(checkpoint, pairs=folder / "pairs.tsv", output=page)
        elif kind == "corpus":
            (folder / "corpus").mkdir()
            for number in range(8):
                (folder / "corpus" / f"{number}.txt").write_text(f"{HOSTILE}. The plot is <b>lovely</b>. " * 8)
            tokenizer = load_tokenizer(str(checkpoint))
            tokenizer.add_tokens(["<script>alert(1)</script>"])  # a piece with markup
            tokenizer.save_pretrained(folder / "tokenizer")
            build_corpus([folder / "corpus"], folder / "store", tokenizer=str(folder / "tokenizer"), workers=1)
            recipe = {"task": {"kind": "pretraining"}, "data": {"max_seq_length": 64, "validation_fraction": 0}}
            explain(corpus=folder / "store", recipe={**recipe, "train": {"max_steps": 2}}, output=page)
        else:
            explain(fine_tuned(kind), HOSTILE, output=page)
        return page

    return write


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_pages_are_accessible(browser, page_of, kind, scheme):
    """axe-core finds nothing serious, with all details open."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = opened(browser, page_of(kind), 1440, scheme)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = axe.Axe().run(page).response["violations"]
    assert [
        (each["id"], node["target"], node["failureSummary"])
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ] == []
    page.close()


@pytest.mark.parametrize("kind", PAGES)
def test_markup_in_texts_stays_text(browser, page_of, kind):
    """`opened` fails at a dialog or a request; the only elements are those of the page."""
    page = opened(browser, page_of(kind), 390)
    assert page.locator("img[onerror]").count() == page.locator("main i, main script").count() == 0
    assert "<script>alert(1)</script>" in page.locator("body").inner_text()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_page_fits(browser, page_file, width, scheme):
    page = opened(browser, page_file, width, scheme)
    assert page.locator("h1").inner_text().startswith("<script>alert(1)</script>")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert light == (scheme == "light")
    page.close()


def test_a_head_is_chosen_by_mouse_and_keyboard(browser, page_file):
    page = opened(browser, page_file, 1440)
    page.locator(".thumb[data-layer='1'][data-head='2']").click()
    page.wait_for_function("document.getElementById('head-name').textContent.startsWith('Layer 2, head 3: ')")
    assert page.locator(".thumb[aria-pressed='true']").get_attribute("data-head") == "2"
    page.locator("#head").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.getElementById('head-name').textContent.startsWith('Layer 2, head 4: ')")
    assert page.locator("#arcs path, #arcs circle").count() > 0
    page.close()


def test_pictures_are_read_back(browser, checkpoint, tmp_path):
    """The matrix names the token that gets most of each token's attention, as the arrays have it."""
    inside = explain(checkpoint, "a lovely film", output=tmp_path / "page.html")
    page = opened(browser, tmp_path / "page.html", 1440)
    label = page.locator("#matrix svg").get_attribute("aria-label")
    layer, head = inside.heads.strongest()
    weights = inside.attention[layer, head]
    tokens = inside.heads.tokens
    for row, token in enumerate(tokens):
        best = float(weights[row].max())
        shown = float(label.split("; ")[row].removeprefix("Attention as a matrix. Most of each token: ").split()[-1])
        assert shown == pytest.approx(best, abs=0.011)
        assert f"{token} → " in label
    page.close()


def test_a_slider_chooses_the_layer(browser, checkpoint, tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n" + "a film,one\nthe film plot,two\n" * 3)
    explain(checkpoint, word="film", texts=tmp_path / "texts.csv", output=tmp_path / "page.html")
    page = opened(browser, tmp_path / "page.html", 768)
    assert page.locator("figure.layer:visible").count() == 1
    page.locator("#slider input").fill("0")
    assert page.locator("figure.layer:visible").get_attribute("data-layer") == "0"
    assert page.locator("figure.layer:visible g").count() == 6
    page.close()


def test_the_page_can_be_read_without_scripts(browser, page_file):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 1000})
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator(".thumb").first.is_visible()
    assert page.locator("noscript").count() == 1
    context.close()
