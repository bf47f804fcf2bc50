"""The verdict on a run: what is said of its predictions, what is proposed, and when nothing is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bertkit.inference.classification import numbers_in_words
from bertkit.inference.evaluation import Evaluation
from bertkit.inference.facts import classes_in_words, never_predicted, right_of_all
from bertkit.inference.loaded import load
from bertkit.inference.outcome import Outcome
from bertkit.inference.predictor import load_task
from bertkit.inference.verdict import Verdict, sentence_if_falling, verdict_of
from bertkit.runtime.errors import BertkitError
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs.evaluate import verdict_on_run
from bertkit.training.runs.record import Run

from .conftest import answered, known_answers


@pytest.mark.parametrize(
    ("true", "predicted", "expected"),
    [
        ((3, 1, 0), (4, 0, 0), ["1 of 2 classes that occur here is never predicted: 'b' (1 example)."]),
        ((3, 1, 2), (6, 0, 0), ["2 of 3 classes are never predicted: 'b' (1 example), 'c' (2 examples)."]),
        ((3, 1, 2), (4, 1, 1), []),
    ],
)
def test_classes_that_are_never_predicted(true, predicted, expected):
    assert never_predicted("abc", np.array(true), np.array(predicted), what=("class", "classes")) == expected


@pytest.mark.parametrize(
    ("losses", "is_said"),
    [
        ((1.4, 1.13, 0.89), True),
        ((1.4, 0.89, 1.13), False),
        ((0.7, 0.0140, 0.0136), False),  # the last part of a long way
        ((1.3853, 1.3845), False),  # it does not learn
        ((0.0, 0.0), False),
        ((0.9,), False),
        ((), False),
    ],
)
def test_a_loss_that_still_falls_is_said(losses, is_said):
    assert bool(sentence_if_falling(losses)) == is_said


def outcome(folder, outputs, training=None, **columns):
    task, _ = load_task(str(folder), {})
    columns = {name: np.array(values) for name, values in columns.items()}
    columns |= {
        name: [f"text {row}" for row in range(len(outputs))] for name in getattr(task.settings, "text_columns", ())
    }
    known = None if training is None else {"labels": np.array(training)}
    return Outcome(task, np.array(outputs, dtype=np.float64), columns, columns, "rows.csv", training=known)


def decided(folder, predictions, references, texts=None, training=None):
    """As `outcome`, with predictions and references in place of outputs; ``texts`` are the numbers of their texts."""
    made = outcome(folder, [], training)
    vars(made).update(
        _predictions_and_references=(predictions, references),
        same_texts=np.arange(len(references)) if texts is None else texts,
        collapse=None,
    )
    return made


def test_right_predictions_are_counted_against_guessing():
    sentences, is_wide = right_of_all([True] * 9 + [False], guess=("guessing", 0.95))
    assert sentences == [
        "9 of 10 examples are right, 90.0 % (95 % interval 59.6 to 98.2 %); guessing gives 95.0 %.",
        "That is not more than guessing.",
    ]
    assert is_wide
    assert "includes guessing" in right_of_all([True] * 9 + [False], guess=("guessing", 0.7))[0][1]
    assert len(right_of_all([True] * 900 + [False] * 100, guess=("guessing", 0.7))[0]) == 1
    assert right_of_all([]) == ([], False)


def test_where_the_examples_of_a_class_went():
    true, own = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 0, 0, 0, 3, 0, 0])
    facts = classes_in_words(own, true, np.eye(4)[own], ["a", "b", "c", "d"], np.array([1, 9, 3, 2]))
    right, never = facts.sentences[0], facts.sentences[-1]
    assert "2 of 7 examples are right" in right
    assert "always guessing 'b', the most frequent class in training, gives 28.6 %" in right
    of_equals = classes_in_words(own, true, np.eye(4)[own], ["a", "b", "c", "d"], np.array([1, 9, 9, 2])).sentences[0]
    assert "always guessing 'b', one of the most frequent classes in training, gives" in of_equals
    assert never == (
        "2 of 3 classes that occur here are never predicted: 'b' (2 examples, all as 'a'), "
        "'c' (3 examples: 2 as 'a', 1 as 'd')."
    )
    assert facts.lacks_classes
    assert not facts.learnt_little


def test_a_class_that_is_predicted_for_a_class_unknown_to_training_alone_is_predicted():
    true, own = np.array([0, 0, 1, -1]), np.array([0, 0, 0, 1])
    facts = classes_in_words(own, true, np.eye(2)[own], ["a", "b"], np.array([9, 1]))
    assert not any("never predicted" in sentence for sentence in facts.sentences)
    assert (facts.lacks_classes, facts.lacks_rare) == (False, False)


def test_numbers_are_compared_with_their_median():
    facts = numbers_in_words(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.5, 4.5]), np.array([2.0, 2.0, 9.0]))
    assert facts.sentences[0].startswith("The mean absolute error is 0.3333 (95 % interval ")
    assert facts.sentences[0].endswith("always guessing 2, the median of the training set, gives 1.3333.")
    assert numbers_in_words(np.array([0.2, 0.2001]), np.array([0.0, 5.0]), None).learnt_little


def test_each_kind_of_task_says_what_is_right(fine_tuned):
    film = outcome(fine_tuned("film"), 9 * np.eye(3)[[1, 0, 2]], [2, 2, 1], labels=[1, 0, 1])
    [right] = verdict_of(film).sentences[:1]
    assert right.startswith("2 of 3 examples are right, 66.7 %")
    topics = outcome(fine_tuned("topics"), [[-1.0, 2.0], [-1.0, 2.0]], labels=[[0, 1], [1, 1]])
    right, _, never = verdict_of(topics).sentences
    assert right.startswith("1 of 2 examples is right in all labels")
    assert never == "1 of 2 labels is never predicted: 'plot' (1 example)."
    choices = {"labels": [0, 1], "choice_count": [2, 2], "context": ["a", "b"], "endings": [["a", "b"], ["c", "d"]]}
    assert (
        "guessing at random gives 50.0 %"
        in verdict_of(outcome(fine_tuned("choices"), np.eye(2), **choices)).sentences[0]
    )


def test_copies_of_a_text_count_once(fine_tuned):
    """Ten right texts, each five times, have the interval of ten."""
    once = outcome(fine_tuned("film"), 9 * np.eye(3)[[0, 1] * 5], labels=[0, 1] * 5)
    many = outcome(fine_tuned("film"), 9 * np.eye(3)[[0, 1] * 25], labels=[0, 1] * 25)
    many.examples["text"] = list(once.examples["text"]) * 5
    (of_once, *others), (of_many, said, *_) = verdict_of(once).sentences, verdict_of(many).sentences
    assert of_once.startswith("10 of 10 examples are right, 100.0 % (95 % interval 72.2 to 100.0 %)")
    assert of_many.startswith("50 of 50 examples are right, 100.0 % (95 % interval 72.2 to 100.0 %)")
    assert said == "40 of 50 examples have the text of an earlier example; intervals and tests count a text once."
    assert not any("earlier" in sentence for sentence in others)


def test_copies_of_a_sentence_count_once_with_plain_tags(fine_tuned):
    """Four sentences, each five times, have the interval of four."""
    intervals = []
    for times in (1, 5):
        own, true = ids([0, 1], [1, 0], [0, 0], [1, 1]) * times, ids([0, 1], [0, 0], [0, 1], [1, 1]) * times
        of_kind = decided(fine_tuned("tags"), own, true, texts=np.tile(np.arange(4), times))
        vars(of_kind.task)["word_probabilities"] = lambda *_, own=own: [np.eye(2)[tags] for tags in own]
        sentence = of_kind.facts().sentences[0]
        assert sentence.startswith(f"{6 * times} of {8 * times} words are right, 75.0 % (95 % interval ")
        intervals.append(sentence.partition("(")[2].partition(")")[0])
    assert intervals[0] == intervals[1]


def ids(*values):
    return [np.array(each) for each in values]


OF_TWO = "Of 2 entities, 1 are found with type and bounds, and of 2 predicted ones 1 are right: F1 0.5000 (95 % "
NEVER = "1 of 1 type is never predicted: 'FILM' (%s)."
UNSURE = answered("xxxx", [9.0] * 4)
ERROR = "The mean absolute error is 0.5000 (95 % interval 0.0000 to 6."  # it is not below 0
OTHER_KINDS = [  # kind, predictions, references, how the first sentence begins and the last one ends
    ("entities", ids([1, 2, 0], [0, 0, 1]), ids([1, 2, 0], [0, 1, 0]), OF_TWO, "; predicting none gives 0."),
    ("entities", ids([0, 0]), ids([1, 2]), "Of 1 entity, 0 are found", NEVER % "1 entity"),
    ("entities", ids([0, 0], [0]), ids([0, 0], [0]), "Of 0 entities, 0 are found", "; predicting none gives 0."),
    ("entities", ids([0, 0, 0]), ids([1, 1, 2]), "Of 2 entities, 0 are found", NEVER % "2 entities"),
    ("answers", answered(["Rome", "Paris"]), known_answers(["Rome"], ["Bonn"]), "1 of 2 answers is right", "%)."),
    (
        "maybe",
        UNSURE,
        known_answers([], ["x"], ["x"], ["x"]),
        "1 of 4 answers is right, 25.0 %",
        "That is not more than guessing.",
    ),
    ("pairs", np.array([1.0, 3.0]), np.array([1.0, 2.0]), ERROR, "gives 0.5000."),
]


@pytest.mark.parametrize(("kind", "predictions", "references", "first", "last"), OTHER_KINDS)
def test_other_kinds_say_what_is_right(fine_tuned, kind, predictions, references, first, last):
    sentences = decided(fine_tuned(kind), predictions, references).facts().sentences
    assert sentences[0].startswith(first)
    assert sentences[-1].endswith(last)


def recipe(**train):
    overrides = {f"train.{key}": value for key, value in train.items()}
    return load_recipe("finetune/classification", {"data.train_file": "rows.csv", **overrides})


# Logits of four examples with the classes 0, 1, 2 and 0.
LOGITS = {
    "right": 9 * np.eye(3)[[0, 1, 2, 0]],
    "one class": 9 * np.eye(3)[[0, 0, 0, 0]],
    "unsure": np.eye(3)[[0, 0, 0, 0]] / 10,
    "never the third class": 9 * np.eye(3)[[0, 1, 1, 1]],
}
RARE, EQUAL = [0] * 9 + [1] * 9 + [2], [0, 1, 2] * 9  # classes of training examples
FALLING = [{"eval_loss": 1.4, "eval_accuracy": 0.5}, {"eval_loss": 0.9, "eval_accuracy": 0.75}]
FEW_STEPS = [{"step": 12, "eval_loss": 0.9}]
EPOCHS, STEPS, FOLDS = "--num-train-epochs 6", "--max-steps 24", ("--folds 5",)


@pytest.mark.parametrize(
    ("logits", "training", "history", "train", "options"),
    [
        ("unsure", None, (), {"learning_rate": 2e-5}, (EPOCHS, "--learning-rate 6e-05")),
        ("unsure", None, (), {"learning_rate": 1e-4, "num_train_epochs": 2}, ("--num-train-epochs 4",)),
        ("one class", None, (), {"learning_rate": 2e-5}, (EPOCHS, "--learning-rate 1e-05")),
        ("one class", None, (), {"learning_rate": 5}, (EPOCHS, "--learning-rate 5e-05")),
        ("one class", None, FEW_STEPS, {"max_steps": 12, "learning_rate": 2e-5}, (STEPS,)),
        ("never the third class", None, FEW_STEPS, {"max_steps": 12}, (STEPS,)),
        ("never the third class", RARE, (), {}, ("--class-weights balanced",)),
        ("never the third class", RARE, (), {"class_weights": "focal"}, FOLDS),
        ("never the third class", RARE, (), {"label_smoothing_factor": 0.1}, FOLDS),
        ("never the third class", EQUAL, (), {}, FOLDS),  # all weights would be 1
        ("right", None, FALLING, {"max_steps": 50}, ("--max-steps 100",)),
        ("right", None, (), {}, FOLDS),  # four examples say little
        ("right", None, (), {"early_stopping_patience": 2}, None),  # with folds the run would be refused
        ("right", None, (), {"save_strategy": "best"}, None),
        ("right", None, (), {"distill": {"teacher": "film"}}, None),
    ],
)
def test_what_is_proposed_follows_from_the_facts(fine_tuned, logits, training, history, train, options):
    of_run = outcome(fine_tuned("film"), LOGITS[logits], training, labels=[0, 1, 2, 0])
    proposal = verdict_on_run(of_run, history, {}, recipe(**train)).proposal
    assert (proposal and proposal.options) == options


def test_a_run_with_folds_is_not_told_to_train_longer(fine_tuned):
    """They have found for how long."""
    of_run = outcome(fine_tuned("film"), LOGITS["unsure"], labels=[0, 1, 2, 0])
    given = load_recipe("finetune/classification", {"data.train_file": "rows.csv", "data.folds": 5})
    proposal = verdict_on_run(of_run, (), {}, given).proposal
    assert (proposal.reason, proposal.options) == ("at a higher rate", ("--learning-rate 0.00015",))


def unsure_outcome(fine_tuned):
    """Nearly all right, with probabilities of about a half; one class is never predicted, and rare in training."""
    own = [0, 1] * 20
    logits = 1.0 * np.eye(3)[own]
    training = [0, 1] * 40 + [2]
    return outcome(fine_tuned("film"), logits, labels=[*own[:-1], 2], training=training)


def test_a_model_that_is_less_sure_than_it_is_right_trains_longer(fine_tuned):
    verdict = verdict_on_run(unsure_outcome(fine_tuned), (), {}, recipe())
    assert any("less sure than it is right" in sentence for sentence in verdict.sentences)
    assert verdict.proposal is not None
    assert verdict.proposal.options == ("--num-train-epochs 6",)
    verdict = verdict_on_run(unsure_outcome(fine_tuned), (), {}, recipe(max_steps=600_000))
    assert verdict.proposal.options == ("--max-steps 1200000",)


@pytest.mark.parametrize(("epochs", "proposed"), [(10, 20), (20, 40), (30, 40), (40, None)])
def test_no_more_epochs_are_proposed_than_a_check_allows(fine_tuned, epochs, proposed):
    """Of 22 steps each: 10 are usual, and beyond 40 a check warns."""
    history = [{"step": 22 * epochs, "epoch": float(epochs), "eval_loss": 1.0}]
    given = recipe(num_train_epochs=epochs, learning_rate=2e-4)
    proposal = verdict_on_run(unsure_outcome(fine_tuned), history, {}, given).proposal
    options = () if proposal is None else proposal.options
    assert options == (() if proposed is None else (f"--num-train-epochs {proposed}",))


@pytest.mark.parametrize(
    ("history", "is_said"),
    [
        (FALLING, True),
        ([FALLING[0], {"step": 2, "loss": 0.5}, FALLING[1]], True),
        ([FALLING[0], {"step": 2, "loss": 0.05}, FALLING[1]], False),  # the model fits its training examples
        ([*FALLING, {"eval_loss": 0.5, "eval_accuracy": 1.0}], False),
        # The weights that a run keeps are evaluated once more in its last step: that loss is no end of the curve.
        ([{"step": step, "eval_loss": loss} for step, loss in ((1, 0.9), (2, 0.5), (3, 1.4), (3, 0.5))], False),
    ],
)
def test_a_loss_that_still_falls_is_said_of_models_that_could_learn_more(fine_tuned, history, is_said):
    right = outcome(fine_tuned("film"), LOGITS["right"], labels=[0, 1, 2, 0])
    assert any("falls" in sentence for sentence in verdict_of(right, history).sentences) == is_said


def test_the_score_of_a_labelled_test_set_is_said(fine_tuned):
    right = outcome(fine_tuned("film"), 9 * np.eye(3)[[0, 1, 2, 0] * 25], labels=[0, 1, 2, 1] * 25)
    results = {"eval_accuracy": 0.75, "predict_accuracy": 0.5, "predict_samples": 40.0}
    line = "On the test set of 40 inputs the accuracy is 0.5000, and 0.7500 on the validation set"
    assert f"{line}; the interval of the latter does not include the former." in (
        verdict_of(right, (), results).sentences
    )
    assert f"{line.replace('0.5000', '0.7200')}." in (
        verdict_of(right, (), {**results, "predict_accuracy": 0.72}).sentences
    )
    del results["predict_accuracy"]
    assert not any("test set" in sentence for sentence in verdict_of(right, (), results).sentences)
    # A score of the probabilities, for which no selection of examples is scored again.
    topics = outcome(fine_tuned("topics"), np.eye(2), labels=np.eye(2))
    results = {"eval_average_precision": 0.75, "predict_average_precision": 0.5, "predict_samples": 40.0}
    assert f"{line.replace('accuracy', 'average precision')}." in verdict_of(topics, (), results).sentences


@pytest.mark.parametrize(("each", "is_said"), [(1, True), (4, True), (5, False)])
def test_few_examples_of_each_class_are_said(each, is_said):
    true = np.repeat(np.arange(6), each)
    facts = classes_in_words(true, true, np.eye(6)[true], list("abcdef"), np.full(6, 9))
    said = [sentence for sentence in facts.sentences if sentence.startswith("Most classes have")]
    assert bool(said) == is_said
    if said:
        assert f"have {each} example" in said[0]


def test_entities_of_several_words_that_cannot_be_right(fine_tuned):
    """No word is predicted to continue an entity; weights of the classes do not help that."""
    own, true = ids([1, 0, 1], [1, 1]) * 5, ids([1, 2, 0], [1, 2]) * 5
    of_kind = decided(fine_tuned("entities"), own, true, training=[[1, 2, 0]] * 9)
    verdict = verdict_on_run(of_kind, (), {}, load_recipe("finetune/ner", {"data.train_file": "x"}))
    assert "No predicted entity has more than one word, so that 10 entities of several words cannot be right." in (
        verdict.sentences
    )
    assert verdict.proposal is not None
    assert verdict.proposal.reason == "longer"


def test_few_entities_propose_folds(fine_tuned):
    recipe, right = load_recipe("finetune/ner", {"data.train_file": "x"}), ids([1, 2], [0]) * 2
    assert verdict_on_run(decided(fine_tuned("entities"), right, right), (), {}, recipe).proposal is None
    some = decided(fine_tuned("entities"), ids([1, 2], [0, 0]) * 5, ids([1, 2], [1, 2]) * 5)
    proposal = verdict_on_run(some, (), {}, recipe).proposal
    assert proposal is not None
    assert proposal.options == ("--folds 5",)


def test_a_proposal_is_a_command(fine_tuned, tmp_path):
    labels = [0, 1, 2, 0]
    proposal = verdict_on_run(
        outcome(fine_tuned("film"), 9 * np.eye(3)[labels], labels=labels), (), {}, recipe()
    ).proposal
    assert proposal.line() == ("bertkit finetune classification --recipe recipe.yaml --output-dir NEW --folds 5")
    assert proposal.line(tmp_path / "a run").startswith(
        f"bertkit finetune classification --recipe '{tmp_path}/a run/recipe.yaml' --output-dir '{tmp_path}/a run-folds'"
    )


def test_results_show_themselves_in_notebooks(fine_tuned):
    run = Run(Path("a<b"), {"eval_accuracy": 0.5, "eval_class/x/f1": 1.0, "epoch": 3.0}, None, Verdict(("1 < 2.",)))
    assert run._repr_html_() == (
        "<b>Run a&lt;b</b><p>1 &lt; 2.</p><table><tr><th>accuracy</th><td>0.5000</td></tr></table>"
    )
    scores = Evaluation({"eval_accuracy": 0.5, "eval_class/x/f1": 1.0}, 4, "x.csv", {}, "all are 'x'")
    assert scores._repr_html_() == (
        "<b>4 examples of x.csv</b><p>all are &#x27;x&#x27;</p><table><tr><th>accuracy</th><td>0.5000</td></tr></table>"
    )
    assert str(run) == "Run a<b\n1 < 2.\naccuracy  0.5000"
    assert str(run.verdict) == "1 < 2."
    loaded = load(fine_tuned("film"))
    assert "<tr><th>labels</th><td>bad, fair, good</td></tr>" in loaded._repr_html_()
    assert "labels='bad, fair, good'" in repr(loaded)


def test_what_is_assumed_of_a_stock_checkpoint_is_said_once(fine_tuned, tmp_path, capfd):
    folder = shutil.copytree(fine_tuned("film"), tmp_path / "stock")
    config = json.loads((folder / "config.json").read_text())
    del config["bertkit_task"]
    (folder / "config.json").write_text(json.dumps(config))
    assert "labels='bad, fair, good'" in repr(load(folder))
    assert capfd.readouterr().err.count("records no task; assumed") == 1


def test_notebooks_show_the_lines_of_the_caller_and_the_message():
    with pytest.raises(BertkitError) as caught:
        load_recipe("no-such-recipe")
    lines = caught.value._render_traceback_()
    assert len(lines) == 2
    assert 'load_recipe("no-such-recipe")' in lines[0]
    assert lines[1].startswith("RecipeError: unknown recipe 'no-such-recipe'")
