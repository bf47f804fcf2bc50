"""Attribution of predictions to words: sums, plain loops, and words that are known to decide."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

import bertkit
from bertkit import BertForPreTraining, BertForTokenClassification, explain
from bertkit.features.explain.attribution import Reason, attribution_of, subject_to_explain
from bertkit.features.explain.network import load_network
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.runtime.errors import DataError

TEXTS = {
    "film": ("a good film, the plot is lovely",),
    "topics": ("a good film, the plot is lovely",),
    "pairs": ("a good film", "the plot is lovely"),
    "entities": ("a good film, the plot is lovely",),
    "answers": ("a good film", "the plot is lovely, or a bad story " * 5),
    "maybe": ("a good film", "the plot is lovely, or a bad story"),
    "choices": ("a good film", "the plot is lovely\tor a bad story"),
}


def trained(checkpoint, table, epochs, **overrides):
    """A classifier of a table, in the folder ``run`` beside it."""
    overrides |= {"data.train_file": str(table), "data.max_seq_length": 16, "train.learning_rate": 2e-3}
    overrides |= {"train.num_train_epochs": epochs, "placement.device": "cpu", "placement.mixed_precision": "no"}
    return bertkit.finetune(
        "classification", model=str(checkpoint), output_dir=table.with_name("run"), overrides=overrides
    )


def check_sums(attribution):
    for reason in attribution.reasons:
        assert reason.error <= 0.02
        assert reason.gradients.sum() == pytest.approx(
            reason.value - reason.baseline, abs=0.021 * abs(reason.value - reason.baseline) + 1e-4
        )
        assert len(reason.gradients) == len(reason.occlusion) == len(attribution.words)


@pytest.mark.numeric
@pytest.mark.parametrize("kind", TEXTS)
def test_attributions_sum_to_the_difference(fine_tuned, kind):
    inside = explain(fine_tuned(kind), *TEXTS[kind])
    assert "attributions" not in inside.missing
    check_sums(inside.attributions)
    page = inside.html()
    assert "Why this prediction" in page
    assert ("Start and end over the passage" in page) == (kind in ("answers", "maybe"))


@pytest.mark.numeric
def test_every_family_is_attributed(encoder, saved):
    torch.manual_seed(0)
    encoder.initializer_range = 0.2
    folder = saved(AutoModelForSequenceClassification.from_config(encoder))
    inside = explain(folder, "a good film, the plot is lovely")
    assert "attributions" not in inside.missing
    check_sums(inside.attributions)


@pytest.mark.numeric
def test_tags_of_a_stock_checkpoint(checkpoint, tmp_path):
    config = load_config(str(checkpoint))
    config.id2label = {0: "O", 1: "B-FILM", 2: "I-FILM"}
    config.initializer_range = 0.5
    torch.manual_seed(0)
    BertForTokenClassification(config).save_pretrained(tmp_path / "model")
    load_tokenizer(str(checkpoint)).save_pretrained(tmp_path / "model")
    inside = explain(tmp_path / "model", "a badly film", label="badly")
    assert "attributions" not in inside.missing
    assert [word.text for word in inside.attributions.words] == ["a", "badly", "film"]
    assert [word.end - word.start for word in inside.attributions.words] == [1, 3, 1]
    check_sums(inside.attributions)


@pytest.mark.numeric
def test_value_is_that_of_the_prediction(fine_tuned):
    run, text = fine_tuned("film"), TEXTS["film"][0]
    predicted = bertkit.load(run).predict(text)[0]
    reason = explain(run, text).attributions.reasons[0]
    assert (reason.name, reason.probability) == (predicted["label"], pytest.approx(predicted["probability"], abs=1e-5))
    other = explain(run, text, label="fair").attributions.reasons[0]
    assert other.probability == pytest.approx(predicted["probabilities"]["fair"], abs=1e-5)
    regression = explain(fine_tuned("pairs"), *TEXTS["pairs"]).attributions.reasons[0]
    score = bertkit.load(fine_tuned("pairs")).predict("\t".join(TEXTS["pairs"]))[0]["score"]
    assert (regression.value, regression.unit) == (pytest.approx(score, abs=1e-5), "score")


@pytest.mark.numeric
def test_the_score_of_a_reranker_is_a_probability(fine_tuned):
    run, texts = fine_tuned("reranker"), ("a good film", "the plot is lovely")
    score = bertkit.load(run).predict("\t".join(texts))[0]["score"]
    for unit, value in (("logit", math.log(score / (1 - score))), ("probability", score)):
        attributions = explain(run, *texts, unit=unit).attributions
        check_sums(attributions)
        (reason,) = attributions.reasons
        assert (reason.unit, reason.value) == (unit, pytest.approx(value, abs=1e-5))


@pytest.mark.numeric
@pytest.mark.parametrize("kind", ["film", "topics", "entities", "answers", "maybe"])
def test_probabilities_are_attributed(fine_tuned, kind):
    inside = explain(fine_tuned(kind), *TEXTS[kind], unit="probability")
    check_sums(inside.attributions)
    for reason in inside.attributions.reasons:
        assert reason.unit == "probability"
        assert reason.value == pytest.approx(reason.probability, abs=1e-5)
        assert 0 <= reason.baseline <= 1


@pytest.mark.numeric
@pytest.mark.parametrize("problem", ["single_label", "multi_label"])
def test_calibrated_probabilities_of_a_trained_model(checkpoint, tmp_path, problem):
    """It is the prediction's, with the fitted temperature; what one of two classes gains, the other loses."""
    rows = [
        (f"a {word} film, the plot {number % 2 * 'is '}", word) for number in range(40) for word in ("lovely", "bad")
    ]
    rows = [(text, label if number % 7 else "bad") for number, (text, label) in enumerate(rows)]
    if problem == "multi_label":
        rows = [(text, f"{label};film") for text, label in rows]
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    separator = ";" if problem == "multi_label" else None
    calibrated = {"task.problem": problem, "task.calibrate": True, "task.label_separator": separator}
    run = trained(checkpoint, tmp_path / "rows.tsv", 3, **calibrated)
    fitted = "temperature" if problem == "single_label" else "class/lovely/temperature"
    assert abs(run.metrics[f"eval_{fitted}"] - 1) > 0.02
    text = "a lovely film, the plot is bad"
    predicted = bertkit.load(run.output_dir).predict(text)[0]["probabilities"]
    reasons = {}
    for label in ("lovely", "bad"):
        (reasons[label],) = explain(run.output_dir, text, label=label, unit="probability").attributions.reasons
        assert reasons[label].value == pytest.approx(predicted[label], abs=1e-5)
        assert reasons[label].probability == pytest.approx(predicted[label], abs=1e-5)
        (logit,) = explain(run.output_dir, text, label=label).attributions.reasons
        assert logit.probability == pytest.approx(predicted[label], abs=1e-5)
        if problem == "multi_label":
            expected = np.log(predicted[label] / (1 - predicted[label]))
            assert logit.value == pytest.approx(expected, abs=1e-3)
    check_sums(explain(run.output_dir, text, unit="probability").attributions)
    if problem == "single_label":
        largest = abs(reasons["bad"].gradients).max()
        np.testing.assert_allclose(reasons["lovely"].gradients, -reasons["bad"].gradients, atol=0.02 * largest)
        np.testing.assert_allclose(reasons["lovely"].occlusion, -reasons["bad"].occlusion, atol=1e-5)


@pytest.mark.parametrize("kind", ["pairs", "choices"])
def test_numbers_without_a_probability_are_named(fine_tuned, kind):
    inside = explain(fine_tuned(kind), *TEXTS[kind], unit="probability")
    assert "has no probability that depends on this input alone" in inside.missing["attributions"]
    assert inside.attention is not None


@pytest.mark.numeric
def test_occlusion_equals_a_plain_loop(fine_tuned):
    run, text = fine_tuned("film"), TEXTS["film"][0]
    attribution = explain(run, text).attributions
    network = load_network(str(run))

    def logits(ids):
        with torch.no_grad():
            return network.model(torch.tensor([ids])).logits[0]

    ids = network.tokenizer(text)["input_ids"]
    label = int(logits(ids).argmax())
    for word, occlusion in zip(attribution.words, attribution.reasons[0].occlusion, strict=True):
        masked = [*ids[: word.start], *[network.tokenizer.mask_token_id] * (word.end - word.start), *ids[word.end :]]
        assert occlusion == pytest.approx(float(logits(ids)[label] - logits(masked)[label]), abs=1e-4)


def test_best_answers_are_those_of_the_prediction(fine_tuned):
    run, (question, context) = fine_tuned("maybe"), TEXTS["maybe"]
    curve = explain(run, question, context).attributions.curve
    predicted = bertkit.load(run).predict(question=question, context=context)[0]
    spans = dict(curve.spans)
    assert spans["(no answer)"] == pytest.approx(predicted["no_answer_probability"], abs=1e-5)
    if predicted["answer"]:
        assert spans[predicted["answer"]] == pytest.approx(predicted["probability"], abs=1e-5)
    assert len(curve.start) == len(curve.words) == len(curve.end)
    assert 0 < curve.start.sum() <= 1 + 1e-6


@pytest.mark.numeric
@pytest.mark.parametrize("context", ["ß 🙂 … film … 🙂", "🙂"])
def test_the_tokens_of_the_best_answer_are_explained(stock_models, tmp_path, context):
    """Not others with the same characters: tokens of bytes share those of an emoji."""
    run = stock_models.stock_checkpoint(tmp_path / "model", "roberta", "AutoModelForQuestionAnswering")
    found = explain(run, "is a film good", context).attributions
    start, end = (reason.probability for reason in found.reasons)
    total = np.triu(np.outer(found.curve.start, found.curve.end)).sum()  # of all spans
    assert start * end / total == pytest.approx(found.curve.spans[0][1], abs=1e-4)


@pytest.mark.parametrize("threshold", [-100, 100])
def test_the_numbers_beside_no_answer_are_of_the_best_span(fine_tuned, tmp_path, threshold):
    folder = tmp_path / "maybe"
    shutil.copytree(fine_tuned("maybe"), folder)
    config = json.loads((folder / "config.json").read_text())
    config["bertkit_task"]["task"]["predict_threshold"] = threshold
    (folder / "config.json").write_text(json.dumps(config))
    why = explain(folder, "the plot", "a good film").attributions
    has_none = why.prediction.startswith("(no answer)")
    assert has_none == (threshold < 0)
    assert why.note == ("no answer is predicted; the numbers are of the best span" if has_none else "")


def test_tags_are_asked_for_by_word(fine_tuned):
    inside = explain(fine_tuned("entities"), TEXTS["entities"][0], label="plot")
    assert [reason.name.partition(":")[0] for reason in inside.attributions.reasons] == ["plot"]
    with pytest.raises(DataError, match="expected a word of the text: 'a', 'good'"):
        explain(fine_tuned("entities"), TEXTS["entities"][0], label="nowhere")
    with pytest.raises(DataError, match="leaves nothing of this word"):
        explain(fine_tuned("entities"), "a good \ufe0f film", label="\ufe0f")


@pytest.mark.parametrize(
    ("kind", "texts", "message"),
    [
        ("film", ("a film", "a plot"), "reads 1 text (text), got 2"),
        ("pairs", ("a film",), "reads 2 texts (one, two), got 1"),
        ("answers", ("a film",), "a question and a context"),
        ("choices", ("a film",), "its endings with tabs"),
    ],
)
def test_texts_that_do_not_fit_leave_the_rest(fine_tuned, kind, texts, message):
    inside = explain(fine_tuned(kind), *texts)
    assert message in inside.missing["attributions"]
    assert inside.attention is not None


def test_doubtful_numbers_are_warned_of():
    numbers = np.array([1.0, 2, 3])
    reason = Reason("good", "logit", 0.9, 2.0, 1.0, numbers, numbers, 0.001, 32, 1.0)
    assert reason.warnings() == []
    reason = Reason("good", "logit", 0.9, 2.0, 1.0, numbers, -numbers, 0.05, 512, -1.0)
    first, second = reason.warnings()
    assert "miss the difference of the outputs by 5.0 % after 512 steps" in first
    assert "rank correlation -1.00" in second


@pytest.mark.slow
@pytest.mark.numeric
def test_a_planted_word_comes_first(checkpoint, tmp_path):
    """One word alone decides the label; after training it has the largest attribution in at least 95 of 100 texts.

    Texts without such a word have a label of their own, for which the absence of words decides.
    """
    generator = random.Random(0)
    others = "a the film story plot is or".split()

    def text(word):
        words = generator.choices(others, k=7)
        words.insert(generator.randrange(8), word or generator.choice(others))
        return " ".join(words)

    rows = [(text(word), word or "neither") for _ in range(300) for word in ("lovely", "awful", "")]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"{one},{label}\n" for one, label in rows))
    run = trained(checkpoint, tmp_path / "rows.csv", 6, **{"data.folds": 0})
    assert run.metrics["eval_accuracy"] == 1
    network = load_network(str(run.output_dir))
    first = {"gradients": 0, "occlusion": 0}
    for number in range(100):
        word = ("lovely", "awful")[number % 2]
        attribution = attribution_of(network, subject_to_explain(network, [text(word)]))
        check_sums(attribution)
        for method in first:
            best = int(getattr(attribution.reasons[0], method).argmax())
            first[method] += attribution.words[best].text == word
    assert min(first.values()) >= 95, first


@pytest.mark.slow
@pytest.mark.numeric
def test_no_word_stands_out_of_random_labels(checkpoint, tmp_path):
    """Of 5 trainings on labels by chance, a word that was named before is mostly first in no more than chance allows.

    A model of random labels does use a few words, those that go with a label by chance in its own training set, and
    texts of one model are no independent draws. So a training is the unit. All words are equally frequent, and the
    weights are drawn anew, so that in each training every word is first in most texts with probability 1/9; 4 of 5 or
    more have probability 0.0007.
    """
    words = ["lovely", *"a the film story plot is or awful".split()]
    mostly_first = [_word_of_random_labels(words, checkpoint, tmp_path / str(seed), seed) for seed in range(5)]
    assert mostly_first.count(words[0]) < 4, mostly_first


def _word_of_random_labels(words, checkpoint, folder, seed):
    """Returns the word that is first in most of 20 texts, after training from new weights on random labels."""
    generator = random.Random(seed)
    torch.manual_seed(seed)
    BertForPreTraining(load_config(str(checkpoint))).save_pretrained(folder / "model")
    load_tokenizer(str(checkpoint)).save_pretrained(folder / "model")
    rows = [(" ".join(generator.sample(words, 8)), generator.choice(("one", "two"))) for _ in range(400)]
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    run = trained(folder / "model", folder / "rows.csv", 3, **{"data.folds": 0})
    network = load_network(str(run.output_dir))
    first: Counter[str] = Counter()
    for _ in range(20):
        attribution = attribution_of(network, subject_to_explain(network, [" ".join(generator.sample(words, 8))]))
        first[attribution.words[int(attribution.reasons[0].gradients.argmax())].text] += 1
    return first.most_common(1)[0][0]
