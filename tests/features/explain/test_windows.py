"""Texts longer than the model reads: one window is shown, and it is said which."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import bertkit
from bertkit import explain
from bertkit.features.explain.network import load_network
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.windows import encode_in_windows

LONG = "a good film, the plot is lovely or awful, " * 8


@pytest.mark.numeric
def test_windows_are_those_of_the_tasks(checkpoint):
    network = load_network(str(checkpoint))
    windowed = encode_in_windows([LONG], network.tokenizer, 64, 16)[0]
    assert len(windowed.windows) > 1
    for number, inputs in enumerate(windowed.inputs):
        inside = explain(checkpoint, LONG, window=number)
        assert inside.pieces.ids.tolist() == inputs["input_ids"]
        assert (inside.pieces.window, inside.pieces.windows) == (number, len(windowed.windows))
        assert f"this is window {number}, from “" in str(inside)
        assert f"this is window {number}, from “" in inside.html()
        assert inside.attention.shape[-1] == len(inputs["input_ids"])
        assert len(inside.masked.words) == len(inside.pieces.words)
        start, end = windowed.offsets[[windowed.windows[number].start, windowed.windows[number].end - 1], [0, 1]]
        assert "".join(word.text for word in inside.pieces.words) == LONG[start:end].replace(" ", "")


def test_a_text_that_fits_has_one_window(checkpoint):
    inside = explain(checkpoint, "a good film", window=0)
    assert inside.pieces.note == ""
    assert inside.record()["pieces"]["windows"] == 1


@pytest.mark.parametrize("window", [-1, 3, "0"])
@pytest.mark.parametrize("kind", ["film", "chunks", "entities", "answers", "choices"])
def test_other_windows_are_refused(fine_tuned, kind, window):
    texts = {
        "answers": ("a good film", LONG[:40]),
        "choices": ("a good film", "the plot\tor a story"),
    }.get(kind, ("a good film, the plot is lovely",))
    with pytest.raises(RecipeError, match=rf"window {window!r}: the input has \d windows?, numbered from 0"):
        explain(fine_tuned(kind), *texts, window=window)


@pytest.mark.numeric
def test_a_text_that_the_task_cuts_has_one_window(fine_tuned):
    inside = explain(fine_tuned("film"), LONG)
    whole = load_network(str(fine_tuned("film"))).tokenizer(LONG)["input_ids"]
    assert len(inside.pieces.ids) == 24
    assert (inside.pieces.windows, inside.pieces.left_out) == (1, len(whole) - 24)
    assert "attributions" not in inside.missing


@pytest.mark.numeric
def test_windows_of_more_tokens_than_are_explained_are_shown_in_shorter_ones(fine_tuned, monkeypatch):
    monkeypatch.setattr("bertkit.features.explain.network._LONGEST", 8)  # those of the task share 6 of 24 tokens
    inside = explain(fine_tuned("chunks"), LONG, window=1)
    assert (len(inside.pieces.ids), inside.pieces.window) == (8, 1)
    assert "the task reads 24 tokens, and attributions are of at most 8" in inside.missing["attributions"]


@pytest.mark.numeric
@pytest.mark.parametrize("kind", ["film", "pairs"])
def test_an_input_of_more_tokens_than_are_explained_is_named(fine_tuned, kind, monkeypatch):
    monkeypatch.setattr("bertkit.features.explain.network._LONGEST", 8)
    texts = ["a good film and a bad plot", *(["the plot is bad"] if kind == "pairs" else [])]
    missing = explain(fine_tuned(kind), *texts).missing["attributions"]
    assert "tokens, and attributions are of at most 8; shorten the text" in missing


def test_pooled_windows_are_attributed_alone(fine_tuned):
    """By default the window with the largest logit of the predicted label, whose words sum to that logit."""
    import torch

    run = fine_tuned("chunks")
    predicted = bertkit.load(run).predict(LONG)[0]
    network = load_network(str(run))
    data = network.task.data
    windows = encode_in_windows([LONG], network.tokenizer, data.max_seq_length, data.overlap)[0].inputs
    label = network.task.settings.label_names.index(predicted["label"])
    with torch.inference_mode():
        logits = [float(network.model(torch.tensor([each["input_ids"]])).logits[0, label]) for each in windows]
    inside = explain(run, LONG)
    (reason,) = inside.attributions.reasons
    assert inside.attributions.prediction.startswith(predicted["label"])
    assert inside.pieces.window == int(np.argmax(logits))
    assert f"the prediction is of all {len(windows)} windows together" in inside.attributions.note
    for number, logit in enumerate(logits):
        reason = explain(run, LONG, window=number).attributions.reasons[0]
        assert (reason.name, reason.value) == (predicted["label"], pytest.approx(logit, abs=1e-4))
        assert reason.gradients.sum() == pytest.approx(reason.value - reason.baseline, abs=0.05)


@pytest.mark.numeric
def test_tags_are_attributed_in_their_window(fine_tuned):
    """The words of a window are all there; the tags are those that are read from it."""
    run = fine_tuned("entities")
    tagged = {}
    for number in range(explain(run, LONG).pieces.windows):
        inside = explain(run, LONG, window=number)
        assert [word.text for word in inside.attributions.words] == [word.text for word in inside.pieces.words]
        joined = "".join(inside.pieces.tokens[1:-1]).replace("##", "")
        assert "".join(word.text for word in inside.pieces.words) == joined
        for reason in inside.attributions.reasons:
            tagged.setdefault(reason.name.partition(": ")[0], number)
    assert len(tagged) > 1
    word, number = next(iter(tagged.items()))
    assert explain(run, LONG, label=word).pieces.window == number


@pytest.mark.numeric
def test_answers_are_attributed_in_their_window(fine_tuned):
    run, question = fine_tuned("answers"), "is a film good"
    predicted = bertkit.load(run).predict(question=question, context=LONG)[0]
    inside = explain(run, question, LONG)
    assert inside.pieces.windows > 1
    assert inside.attributions.curve.spans[0][0] == predicted["answer"]
    assert predicted["answer"].split()[0].strip(",") in [word.text for word in inside.pieces.words if word.segment == 1]
    assert [word.text for word in inside.pieces.words if word.segment == 0] == question.split()
    for number in range(inside.pieces.windows):
        other = explain(run, question, LONG, window=number)
        assert other.attributions.prediction == inside.attributions.prediction
        assert f"the best answer in window {number}" in other.attributions.note
        joined = "".join(other.pieces.tokens).replace("##", "").replace("[CLS]", "").split("[SEP]")[1]
        assert "".join(word.text for word in other.pieces.words if word.segment == 1) == joined


@pytest.mark.numeric
def test_a_long_question_is_cut(fine_tuned):
    """The task reads the first 8 tokens of a question."""
    inside = explain(fine_tuned("answers"), "is a film good or bad or awful or lovely", "the plot is lovely")
    assert "attributions" not in inside.missing
    assert [word.text for word in inside.pieces.words if word.segment == 0] == "is a film good or bad or awful".split()


def test_the_function_is_called_after_an_import_of_a_module():
    """Such an import sets `bertkit.explain` to the package."""
    program = (
        "import bertkit, bertkit.features.explain.network\n"
        "try: bertkit.explain()\nexcept bertkit.BertkitError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout.startswith("explain: give one of text, rank"), done.stderr
