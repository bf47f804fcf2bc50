"""``train.label_smoothing_factor``: changes the loss of one class per row or word; other tasks refuse it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bertkit.runtime.errors import RecipeError
from bertkit.training.runs.pretrain import pretrain
from tests.training.conftest import SMALL, TINY

TEXTS = [f"the {noun} is {word}" for noun in ("film", "plot") for word in ("good", "bad", "awful", "lovely")]
TAGGED = "\n\n".join("\n".join(f"{word} {'B-X' if word == 'film' else 'O'}" for word in text.split()) for text in TEXTS)
SQUAD = [
    {"context": text, "qas": [{"id": f"{n}", "question": "what", "answers": [{"text": "is", "answer_start": 9}]}]}
    for n, text in enumerate(TEXTS)
]
FILES = {
    "classification": ("a.csv", "text,label\n" + "".join(f"{text},{n % 2}\n" for n, text in enumerate(TEXTS))),
    "regression": ("a.csv", "text,label\n" + "".join(f"{text},{n}.5\n" for n, text in enumerate(TEXTS))),
    "multi_label": ("a.csv", "text,label\n" + "".join(f"{text},x|{n % 2}\n" for n, text in enumerate(TEXTS))),
    "ner": ("a.conll", TAGGED + "\n"),
    "multiple_choice": (
        "a.csv",
        "context,ending0,ending1,label\n" + "".join(f"{text},good,bad,0\n" for text in TEXTS),
    ),
    "question_answering": ("a.json", json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": SQUAD}]})),
}
MORE: dict[str, dict[str, Any]] = {
    "regression": {"task.problem": "regression"},
    "multi_label": {"task.label_separator": "|"},
    "multiple_choice": {"task.context_column": "context", "task.ending_columns": ["ending0", "ending1"]},
    "question_answering": {"data.max_query_length": 8, "data.doc_stride": 4},
}


@pytest.fixture
def train(tuned, tmp_path):
    """Fine-tunes for a few steps on a task and returns their mean loss."""

    def run(kind: str, factor: float) -> float:
        name, content = FILES[kind]
        (tmp_path / name).write_text(content)
        file = {"data.train_file": str(tmp_path / name), "data.validation_file": str(tmp_path / name)}
        values = {**SMALL, **file, **MORE.get(kind, {}), "data.max_seq_length": 32, "train.max_steps": 6}
        values |= {"train.label_smoothing_factor": factor, "train.save_strategy": "no", "train.eval_strategy": "no"}
        recipe = {"task": {"kind": kind if kind not in ("regression", "multi_label") else "classification"}}
        return tuned(recipe, values, f"{factor}").metrics["train_loss"]

    return run


@pytest.mark.parametrize("kind", ["classification", "ner", "multiple_choice"])
def test_labels_are_smoothed(train, kind):
    assert train(kind, 0.5) != pytest.approx(train(kind, 0.0), rel=1e-6)


@pytest.mark.parametrize("kind", ["regression", "multi_label", "question_answering"])
def test_other_labels_are_refused_before_the_run(train, tmp_path, kind):
    with pytest.raises(RecipeError, match=r"train\.label_smoothing_factor: is for one class per row or word"):
        train(kind, 0.5)
    assert not (tmp_path / "0.5").exists()
    assert train(kind, 0.0) > 0


def test_pretraining_is_refused_before_the_run(corpus, tmp_path):
    values = {**TINY, "train.label_smoothing_factor": 0.1}
    with pytest.raises(RecipeError, match=r"train\.label_smoothing_factor: is for fine-tuning"):
        pretrain("bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides=values)
    assert not (tmp_path / "run").exists()
