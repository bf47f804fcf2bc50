"""Reports in Chromium: no error on the console, no request, no horizontal scrolling, at both widths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bertkit import finetune, pretrain, report
from tests import conftest
from tests.features.reporting.conftest import HOSTILE

pytestmark = pytest.mark.browser
WIDTHS = (400, 1600)


def opened(browser: Any, path: Path, width: int) -> Any:
    """Opens a report and checks its pictures."""
    page = conftest.opened(browser, path, width)
    assert page.evaluate(
        "[...document.images].every(each => each.alt && each.naturalWidth && each.getBoundingClientRect().width > 100)"
    )
    return page


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_labels_and_texts_do_no_harm(browser, hostile_run, width):
    page = opened(browser, hostile_run.output_dir / "report.html", width)
    assert page.locator("h1").inner_text() == "run"
    assert page.locator("th[scope=row]", has_text=HOSTILE).count() >= 1
    page.close()


@pytest.mark.parametrize(
    ("scheme", "media", "is_dark"),
    [("light", "screen", False), ("dark", "screen", True), ("dark", "print", False)],
)
def test_pages_are_dark_on_screens_alone(browser, hostile_run, scheme, media, is_dark):
    page = opened(browser, hostile_run.output_dir / "report.html", 1600)
    page.emulate_media(color_scheme=scheme, media=media)
    ink, chart = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.querySelector('figure img')).filter]"
    )
    assert (min(map(int, re.findall(r"\d+", ink))) > 200) == is_dark
    assert (chart != "none") == is_dark
    page.close()


def test_errors_can_be_sorted_and_filtered(browser, hostile_run):
    page = opened(browser, hostile_run.output_dir / "report.html", 1600)
    rows = page.locator("table.errors tbody tr")
    number = rows.count()
    page.locator("table.errors thead button").first.click()
    shown = [int(re.sub(r"\D", "", text)) for text in page.locator("table.errors tbody th").all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    page.get_by_role("searchbox").fill("lovely")
    hits = [text for text in rows.all_inner_texts() if "lovely" in text]
    assert page.locator("table.errors tbody tr:visible").count() == len(hits) < number
    assert page.locator("output").inner_text() == f"{len(hits)} of {number}"
    lengths = page.locator("table", has_text="Score by length")
    lengths.get_by_role("button", name="words").click()
    firsts = [int(re.split(r"\D", text)[0]) for text in lengths.locator("tbody th").all_inner_texts()]
    assert len({len(str(first)) for first in firsts}) > 1  # as texts, 10 would come before 9
    assert firsts == sorted(firsts)
    page.close()


def test_a_page_can_be_read_without_scripts(browser, hostile_run):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 400, "height": 1000})
    page = context.new_page()
    page.goto((hostile_run.output_dir / "report.html").as_uri())
    assert page.locator("table.errors tbody tr").first.is_visible()
    assert page.locator("figure img").first.is_visible()
    context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_several_runs_fit(browser, copied, tmp_path, width):
    page = opened(browser, report(copied("one"), copied("two"), output=tmp_path / "both.html"), width)
    assert page.locator("article").count() == 2
    page.close()


WORDS = "a good bad film story the plot is lovely or awful".split()
TEXTS = [" ".join(WORDS[(row + step) % 11] for step in range(row % 9 + 3)) for row in range(60)]


def tagged(text: str) -> dict[str, Any]:
    return {"tokens": text.split(), "tags": ["B-FILM" if word == "film" else "O" for word in text.split()]}


def asked(row: int, text: str) -> dict[str, Any]:
    """A question, to which every second text has the answer."""
    answers = {"text": [text[:3]], "answer_start": [2]} if row % 2 else {"text": [], "answer_start": []}
    return {"id": str(row), "question": "what film", "context": f"a {text}", "answers": answers}


# Kind of report -> the recipe, and the rows.
TABLES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "numbers": ("classification", [{"text": text, "label": row % 25 / 4} for row, text in enumerate(TEXTS)]),
    "labels": ("classification", [{"text": text, "label": text.split()[: row % 3]} for row, text in enumerate(TEXTS)]),
    "entities": ("ner", [tagged(text) for text in TEXTS]),
    "answers": ("squad/v2", [asked(row, text) for row, text in enumerate(TEXTS)]),
}


@pytest.mark.parametrize("kind", TABLES)
def test_reports_of_other_kinds_fit(browser, checkpoint, tmp_path, quick, kind):
    recipe, rows = TABLES[kind]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {**quick, **{f"data.{name}_file": str(tmp_path / "rows.jsonl") for name in ("train", "validation")}}
    values |= {"data.max_seq_length": 32, "train.logging_steps": 1}
    values |= {"data.doc_stride": 8, "data.max_query_length": 8} if kind == "answers" else {}
    run = finetune(recipe, model=str(checkpoint), output_dir=tmp_path / "run", overrides=values)
    for width in WIDTHS:
        page = opened(browser, run.output_dir / "report.html", width)
        main = page.locator(".tile.main b").inner_text()
        assert any(f"{value:.4f}" == main for key, value in run.metrics.items() if key.startswith("eval_"))
        assert page.locator("figure").count() >= 4
        page.close()


def test_a_report_of_pretraining(browser, tmp_path, quick):
    (tmp_path / "corpus.txt").write_text("\n\n".join(f"{text}. ".capitalize() * 9 for text in TEXTS))
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    values = {key: value for key, value in quick.items() if "load_best" not in key}
    values |= {f"model.{name}": value for name, value in sizes.items()}
    values |= {"data.vocab_size": 60, "data.phases": {32: 0.5, 64: 0.5}, "data.max_seq_length": 64}
    values |= {
        "data.document_separator": "blank-line",
        "train.eval_strategy": "steps",
        "train.eval_steps": 1,
        "train.logging_steps": 1,
    }
    run = pretrain(corpus=[tmp_path / "corpus.txt"], output_dir=tmp_path / "run", overrides=values)
    for width in WIDTHS:
        page = opened(browser, run.output_dir / "report.html", width)
        titles = page.locator("figcaption").all_inner_texts()
        assert {"Masked LM loss", "Next sentence accuracy", "Perplexity"} <= set(titles)
        loss = page.locator("img[alt^='Masked LM loss']").get_attribute("alt")
        assert "uniform " in loss
        assert "unigram" in loss
        page.close()
