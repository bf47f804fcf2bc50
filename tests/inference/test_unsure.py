"""The label ``unsure``: what gets it, what is said of it first, and what has no such label."""

from __future__ import annotations

import csv

import pytest

import bertkit
from bertkit.inference.options import UNSURE
from bertkit.runtime.errors import RecipeError


def rows(checkpoint, probability):
    blocks = bertkit.predict(checkpoint, ["a lovely film", "a dull plot"], unsure_below=probability)
    return [row for block in blocks for row in block.rows]


def test_improbable_predictions_are_unsure(fine_tuned, capsys):
    checkpoint = fine_tuned("film")
    plain = [row for block in bertkit.predict(checkpoint, ["a lovely film", "a dull plot"]) for row in block.rows]
    least = min(row["probability"] for row in plain)
    both = [{**row, "best_label": row["label"]} for row in plain]
    kept = [{**row, "label": UNSURE} if row["probability"] < least + 1e-9 else row for row in both]
    assert rows(checkpoint, least + 1e-9) == kept
    assert [row["label"] for row in rows(checkpoint, 1.0)] == [UNSURE] * 2
    assert rows(checkpoint, least) == both
    assert "the share of such predictions is not known: " in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "probability"), [("film", 0.0), ("film", 1.5), ("topics", 0.6), ("pairs", 0.6)])
def test_what_has_no_unsure_label(fine_tuned, kind, probability):
    with pytest.raises(RecipeError, match="--unsure-below: "):
        list(bertkit.predict(fine_tuned(kind), ["a"], unsure_below=probability))


def test_the_best_guess_is_a_column(fine_tuned, tmp_path):
    """Also of a table that has a column of this name already."""
    (tmp_path / "in.csv").write_text("text,best_label\na film,mine\n")
    out = tmp_path / "out.csv"
    plain, unsure = (
        list(bertkit.predict(fine_tuned("film"), input_file=tmp_path / "in.csv", output_file=file, unsure_below=below))
        for file, below in ((None, None), (out, 1.0))
    )
    with out.open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["label"], row["best_label"], row["input_best_label"]) == (UNSURE, plain[0].rows[0]["label"], "mine")
    assert unsure[0].rows[0]["best_label"] == row["best_label"]
