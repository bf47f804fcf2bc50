"""The label ``unsure``: what gets it, what is said of it first, and what has no such label."""

from __future__ import annotations

import pytest

import bertkit
from bertkit.errors import RecipeError
from bertkit.inference.unsure import UNSURE, or_unsure


def rows(checkpoint, probability):
    blocks = bertkit.predict(checkpoint, ["a lovely film", "a dull plot"], unsure_below=probability)
    return [row for block in blocks for row in block.rows]


def test_improbable_predictions_are_unsure(fine_tuned, capsys):
    checkpoint = fine_tuned("film")
    plain = [row for block in bertkit.predict(checkpoint, ["a lovely film", "a dull plot"]) for row in block.rows]
    least = min(row["probability"] for row in plain)
    kept = [{**row, "label": UNSURE} if row["probability"] < least + 1e-9 else row for row in plain]
    assert rows(checkpoint, least + 1e-9) == kept
    assert [row["label"] for row in rows(checkpoint, 1.0)] == [UNSURE] * 2
    assert rows(checkpoint, least) == plain
    assert "the share of such predictions is not known: " in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "probability"), [("film", 0.0), ("film", 1.5), ("topics", 0.6), ("pairs", 0.6)])
def test_what_has_no_unsure_label(fine_tuned, kind, probability):
    with pytest.raises(RecipeError, match="--unsure-below: "):
        list(bertkit.predict(fine_tuned(kind), ["a"], unsure_below=probability))


def test_a_probability_at_the_limit_is_sure():
    assert or_unsure({"label": "a", "probability": 0.6}, 0.6)["label"] == "a"
