"""Every row of a small table is scored by a model that has not seen its label, and the run's model learns all rows."""

from __future__ import annotations

import json
from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest

from bertkit import check, compare, evaluate, finetune, load
from bertkit.inference.evaluation import outcome_of, unsure_on_validation
from bertkit.inference.outcome import OUT_OF_FOLD
from bertkit.metrics import pearson, score_limits
from bertkit.metrics.statistics import by_example
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks import folds as tasks_folds
from bertkit.training.recovery import folds_done, how_to_continue
from bertkit.training.runs import rivals
from bertkit.training.runs.folds import ModelsOfFolds
from bertkit.training.runs.resolve import ResolvedFinetuning
from bertkit.training.runs.rivals import Rivals

FAST = {
    "data.max_seq_length": 16,
    "train.max_steps": 8,
    "train.learning_rate": 1e-3,
    "train.contrast_steps": 2,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


def write_table(folder):
    path = folder / "films.csv"
    words = {"good": "lovely film", "bad": "awful plot"}
    lines = [f"a {text} number {place},{label}" for place in range(20) for label, text in words.items()]
    path.write_text("\n".join(["text,label", *lines, lines[0], lines[1]]))
    return path


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path)


@pytest.fixture
def train(table, tuned):
    def run(name="run", resume=False, **overrides):
        values = FAST | {key.replace("__", "."): value for key, value in overrides.items()}
        return tuned("classification", values, name, train_file=str(table), resume=resume)

    return run


def watched(patch):
    """A list that gets the rows that each model is trained on, in order, by their lengths and inputs."""
    made, original = [], ResolvedFinetuning.build_trainer

    def trainer(self, rows, arguments, what="", **given):
        made.append((what, [tuple(ids) for ids in rows["input_ids"][:]]))
        return original(self, rows, arguments, what, **given)

    patch.setattr(ResolvedFinetuning, "build_trainer", trainer)
    return made


@pytest.fixture(scope="module")
def whole(checkpoint, tmp_path_factory, module_patch):
    """A finished run of the table, which tests do not change, and what its models were trained on."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        made = watched(patch)
        given = {"model": str(checkpoint), "train_file": str(write_table(folder))}
        return finetune("classification", **given, output_dir=folder / "run", overrides=FAST), made


def written(run):
    return [json.loads(line) for line in (run.output_dir / "out_of_fold.jsonl").read_text().splitlines()]


@pytest.mark.numeric
def test_every_row_is_scored_by_a_model_that_has_not_seen_it(whole):
    run, trainings = whole
    rows = written(run)
    assert [row["index"] for row in rows] == list(range(42))
    assert [row["line"] for row in rows] == list(range(2, 44))
    assert rows[0]["fold"] == rows[40]["fold"]  # copies
    assert rows[0]["unit"] == rows[40]["unit"] != rows[2]["unit"]
    (_, everything), *of_folds = trainings
    assert len(everything) == 42
    for fold, (what, seen) in enumerate(of_folds):
        assert what == f"fold {fold + 1} of 5"
        own = Counter(everything[row["index"]] for row in rows if row["fold"] == fold)
        assert own
        assert Counter(seen) == Counter(everything) - own
    right = np.mean([row["label"] == row["gold"] for row in rows])
    assert run.metrics["eval_accuracy"] == pytest.approx(right)
    assert run.metrics["eval_samples"] == run.metrics["train_samples"] == 42
    record = json.loads((run.output_dir / "run.json").read_text())
    assert (record["estimate"], record["folds"]["folds"]) == ("folds", 5)
    assert not (run.output_dir / "folds").exists()
    assert f"{round(42 * right)} of 42 examples are right" in run.verdict.sentences[0]
    losses, best = record["folds"]["losses"], record["folds"]["trained_for"]
    assert len(losses) == 2
    assert losses[best] == min(losses.values())


def test_what_is_said_of_the_model_is_said_once(train, capsys):
    train(placement__attn_implementation="joined", train__max_steps=1)
    assert capsys.readouterr().err.count("this run computes padded sequences") == 1


def test_a_collapse_is_said_of_the_rows_that_are_scored(train, capsys, monkeypatch):
    monkeypatch.setattr(
        ModelsOfFolds, "_predictions", lambda folds, fold, start: np.zeros((2, sum(folds.of_rows == fold), 2))
    )
    run = train(train__max_steps=1, data__folds=2)
    collapse = f"{run.collapse} on {OUT_OF_FOLD}"
    assert run.collapse.startswith("all predictions are '")
    assert f"The model has collapsed: {collapse}." in (run.output_dir / "README.md").read_text()
    assert f"warning: {collapse}; " in capsys.readouterr().err


@pytest.mark.numeric
def test_evaluate_and_compare_have_the_predictions_of_the_folds(train, table):
    run = train(train__report=True, data__folds=2)
    assert evaluate(run.output_dir).metrics["eval_accuracy"] == run.metrics["eval_accuracy"]
    for given in ({"max_samples": 3}, {"max_seq_length": 9}, {"columns": {"label_column": "x"}}, {"precision": "bf16"}):
        with pytest.raises(DataError, match=r"has no validation set.*remove (max|label_c|precision)"):
            evaluate(run.output_dir, **given)
    with pytest.raises(DataError, match="give the directory of the run"):
        evaluate(next(run.output_dir.glob("checkpoint-*")))
    assert evaluate(run.output_dir, split="train", max_samples=3).examples == 3
    assert unsure_on_validation(run.output_dir, 0.5).startswith(f"unsure below 0.5 on {OUT_OF_FOLD}: ")
    assert evaluate(run.output_dir, validation_file=str(table)).examples == 42
    outcome = outcome_of(run.output_dir)
    logits = [row["logits"] for row in written(run)]
    assert np.allclose(outcome.outputs, logits)
    assert "one of 2 models that had not seen it" in (run.output_dir / "README.md").read_text()
    page = (run.output_dir / "report.html").read_text()
    assert "all rows, each by a model that has not seen its label" in page
    other = train("other", train__seed=7, data__folds=2)
    assert compare(run.output_dir, other.output_dir).examples == 42
    (run.output_dir / "out_of_fold.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="missing or damaged"):
        outcome_of(run.output_dir)


@pytest.mark.numeric
def test_the_temperature_is_that_of_the_predictions_of_the_folds(train):
    run = train(task__calibrate=True, data__folds=2)
    scores = run.metrics
    assert scores["eval_ece"] <= scores["eval_ece_uncalibrated"] + 0.1
    assert load(run.output_dir).task.settings.temperature == 1.0
    assert evaluate(run.output_dir).metrics["eval_accuracy"] == scores["eval_accuracy"]


@pytest.mark.numeric
def test_a_killed_run_goes_on_with_the_fold_it_had_reached(train, whole, monkeypatch, tmp_path):
    predictions = ModelsOfFolds._predictions

    def killed(self, fold, start):
        if fold == 3:
            raise KeyboardInterrupt
        return predictions(self, fold, start)

    monkeypatch.setattr(ModelsOfFolds, "_predictions", killed)
    with pytest.raises(KeyboardInterrupt):
        train("run")
    assert how_to_continue(None, folds_done(tmp_path / "run")) == (
        "interrupted; 3 folds are done, and the same command with --resume continues after that"
    )
    monkeypatch.setattr(ModelsOfFolds, "_predictions", predictions)
    trainings = watched(monkeypatch)
    (tmp_path / "run" / "folds" / "1.npy").write_bytes(b"")  # damaged
    run = train("run", resume=True)
    assert [what for what, _ in trainings] == ["", "fold 2 of 5", "fold 4 of 5", "fold 5 of 5"]
    for name in ("eval_loss", "train_loss"):
        assert run.metrics[name] == pytest.approx(whole[0].metrics[name], rel=1e-3)


@pytest.mark.numeric
def test_a_run_that_is_killed_while_it_is_scored_trains_no_fold_again(train, monkeypatch):
    scored = Mock(side_effect=[KeyboardInterrupt, {}])  # killed, then no test sets
    monkeypatch.setattr("bertkit.training.runs.finetune.score_other_splits", scored)
    with pytest.raises(KeyboardInterrupt):
        train("run", data__folds=2)
    trainings = watched(monkeypatch)
    run = train("run", data__folds=2, resume=True)
    assert [what for what, _ in trainings if what] == []
    assert not (run.output_dir / "folds").exists()


def test_a_resumed_run_whose_recipe_is_cut_off_is_scored_by_folds_too(train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").touch()  # what a full disk may leave
    assert train("run", resume=True).metrics["eval_samples"] == 42


@pytest.mark.parametrize(("best", "steps", "when"), [(0, 1, "no step"), (1, 8, "all steps")])
def test_the_model_keeps_its_probe_if_training_made_the_folds_worse(train, monkeypatch, best, steps, when):
    monkeypatch.setattr(ModelsOfFolds, "best", best)
    run = train(data__folds=2, train__lr_scheduler_type="polynomial", train__warmup_steps=0)
    assert json.loads((run.output_dir / "trainer_state.json").read_text())["global_step"] == steps
    assert json.loads((run.output_dir / "run.json").read_text())["folds"]["trained_for"] == when
    assert run.verdict.proposal is None or "--num-train-epochs" not in " ".join(run.verdict.proposal.options)


@pytest.mark.parametrize(
    "given",
    [
        {"data__folds": 0},
        {"data__validation_fraction": 0.1},  # the usual fraction
        {"data__max_train_samples": 40},
        {"train__load_best_model_at_end": True},
    ],
)
def test_rows_are_held_out_where_that_is_asked_for(train, given):
    run = train(**given)
    assert not (run.output_dir / "out_of_fold.jsonl").exists()
    assert run.metrics["eval_samples"] < 42
    assert json.loads((run.output_dir / "run.json").read_text())["estimate"] == "held_out"


def test_a_fold_is_no_file_though_a_validation_file_is_named(train, table):
    run = train(data__folds=4, data__fold=1, data__validation_file=str(table), train__max_steps=1)
    assert json.loads((run.output_dir / "run.json").read_text())["estimate"] == "held_out"


def test_scores_on_the_rows_of_the_training_have_a_warning(train, table, capsys):
    run = train(data__folds=0)
    capsys.readouterr()
    evaluate(run.output_dir)
    assert "was trained on" not in capsys.readouterr().err
    evaluate(run.output_dir, validation_file=str(table))
    assert f"was trained on {table}: its scores on other rows are lower" in capsys.readouterr().err
    [checkpoint] = run.output_dir.glob("checkpoint-*")
    evaluate(checkpoint, validation_file=str(table))
    assert f"was trained on {table}: its scores on other rows are lower" in capsys.readouterr().err


def test_checkpoints_without_evaluation_need_no_held_out_rows(train):
    assert train(train__save_strategy="epoch").metrics["eval_samples"] == 42


def test_large_tables_hold_rows_out(train, monkeypatch):
    monkeypatch.setattr(tasks_folds, "MOST_ROWS", 41)
    assert train().metrics["eval_samples"] < 42
    assert train("two", data__folds=2).metrics["eval_samples"] == 42


def test_a_validation_set_beside_folds_is_said_to_be_unused(train, table, capsys):
    assert train(data__folds=2, data__validation_file=str(table)).metrics["eval_samples"] == 42
    said = capsys.readouterr().err
    assert "warning: data.validation_file: not used, as data.folds 2 scores all training rows; remove it" in said
    assert "data.validation_fraction" not in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data__folds": 5, "train__early_stopping_patience": 2}, "early_stopping_patience needs a validation set"),
        ({"data__folds": 41}, "41 folds of 40 different texts"),
    ],
)
def test_what_is_refused(train, tmp_path, given, message):
    with pytest.raises((RecipeError, DataError), match=message):
        train(**given)
    assert not (tmp_path / "run").exists()


def test_tasks_without_held_out_rows_of_a_table_refuse_folds(tuned, glue):
    with pytest.raises(RecipeError, match="needs a validation set"):
        tuned("sst2", {"data.folds": 5, "data.max_seq_length": 16}, data_dir=glue)


def test_a_check_counts_the_models_of_the_folds(checkpoint, table, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.check.make_trial", lambda *_: None)  # measures for seconds
    given = {"model": str(checkpoint), "train_file": str(table)}
    plan = check("classification", **given, overrides=FAST).plan
    assert (plan["models"], plan["examples"]) == (6, {"train": 42})
    assert check("classification", **given, overrides=FAST | {"data.folds": 0}).plan["models"] == 1


def test_a_class_of_one_row_is_named(train, table, tmp_path, capsys):
    with table.open("a") as file:
        file.write("\nan odd film,odd")
    train(data__folds=2)
    note = "1 class ('odd') has all its rows in one fold, where no model has seen it: all count as wrong"
    assert f"validation: {note}" in capsys.readouterr().err
    assert note in json.loads((tmp_path / "run" / "run.json").read_text())["data"]["validation"]["notes"]


def test_labels_that_are_all_different_are_no_classes(tuned, tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text("\n".join(["text,label", *(f"mail number {day},on day {day}" for day in range(12))]))
    with pytest.raises(DataError, match="12 rows have 12 different labels; give the column of the classes"):
        tuned("classification", FAST, train_file=str(path))


# ---- rivals ---------------------------------------------------------------------------------------------------------


@pytest.mark.numeric
def test_a_run_stands_beside_what_is_cheap(whole):
    run, _ = whole
    assert run.metrics["baseline_words_accuracy"] == 1.0
    assert run.metrics["baseline_most_frequent_accuracy"] == pytest.approx(0.5)
    assert 0 <= run.metrics["baseline_frozen_accuracy"] <= 1
    [line] = [each for each in run.verdict.sentences if "On the same rows" in each]
    assert "a linear model of words (TF-IDF): 100.0 %" in line
    difference = 100 * (run.metrics["eval_accuracy"] - 1.0)
    assert f"({difference:+.1f}" in line


def test_rivals_of_a_validation_set_are_fitted_to_the_training_rows(train, table, tmp_path):
    scored = tmp_path / "scored.csv"
    scored.write_text("text,label\na lovely plot,bad\nan awful film,good\na lovely film,good\na awful plot,bad")
    run = train(data__validation_file=str(scored))
    assert run.metrics["eval_samples"] == 4
    assert run.metrics["baseline_words_accuracy"] in (0.25, 0.5, 0.75, 1.0)


def test_rivals_of_copies_of_one_text_are_fitted(tuned, tmp_path):
    rows, scored = tmp_path / "rows.csv", tmp_path / "scored.csv"
    rows.write_text("text,label\n" + "same,good\nsame,bad\n" * 6)
    scored.write_text("text,label\nsame,good\nsame,bad\n")
    files = {"train_file": str(rows), "validation_file": str(scored)}
    run = tuned("classification", FAST | {"train.contrast_steps": 0}, **files)
    assert run.metrics["baseline_words_accuracy"] == run.metrics["baseline_frozen_accuracy"] == 0.5


def test_accuracies_of_two_rows_differ_by_100_points_at_most():
    sides = [[1, 1]], [[1, 0]], [1, 1]
    test = by_example(*sides, lambda own, true: float(np.mean(np.equal(own, true))), bounds=score_limits("accuracy"))
    assert Rivals("accuracy", {})._in_words(1.0, test) == "100.0 % (-50.0, -100.0 to +100.0)"


@pytest.mark.parametrize(
    ("of_model", "of_rival", "words"),
    [
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], "1.0000 (that of the model is undefined)"),
        ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], "undefined"),
    ],
)
def test_a_score_beside_an_undefined_one_is_told(of_model, of_rival, words):
    true = [1.0, 2.0, 3.0]
    test = by_example([of_rival], [of_model], true, lambda own, true: pearson(np.array(own), np.array(true)))
    assert Rivals("pearson", {})._in_words(pearson(np.array(of_rival), np.array(true)), test) == words


@pytest.mark.parametrize(
    ("metric", "labels"),
    [("f1_micro", lambda n: [["film"], ["film", "good"], ["plot"]][n % 3]), ("pearson", lambda n: n % 3 + n / 70)],
)
def test_labels_and_numbers_have_rivals_too(tuned, tmp_path, metric, labels):
    path = tmp_path / "rows.jsonl"
    texts = ["the film", "a lovely film", "an awful plot"]
    rows = [{"text": f"{texts[n % 3]} {'so ' * (n // 3)}", "label": labels(n)} for n in range(30)]
    path.write_text("\n".join(map(json.dumps, rows)))
    run = tuned("classification", FAST | {"train.contrast_steps": 0}, train_file=str(path))
    score = run.metrics[f"baseline_words_{metric}"]
    assert 0.8 < score <= 1
    [line] = [each for each in run.verdict.sentences if "On the same rows, by" in each]
    assert (
        f"(TF-IDF): {score:.4f} ({run.metrics[f'eval_{metric}'] - score:+.4f}" in line
    )  # and an interval where rows differ


def test_rivals_of_a_run_with_a_given_threshold_have_none_fitted(tuned, tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    rows = [{"text": f"{['film', 'plot'][n % 2]} {n // 2}", "label": [["a"], ["a", "b"]][n % 2]} for n in range(24)]
    path.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(rivals, "best_threshold", None)
    run = tuned("classification", FAST | {"task.threshold": 0.5}, train_file=str(path))
    assert 0 <= run.metrics["baseline_words_f1_micro"] <= 1
    assert any("one of the most frequent combinations of labels" in each for each in run.verdict.sentences)


@pytest.mark.numeric
def test_a_temperature_that_is_given_is_not_fitted_again(train):
    run = train(task__temperature=1.0, data__folds=2)
    logits = [row["logits"] for row in written(run)]
    assert "eval_temperature" not in run.metrics
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(probabilities.max(axis=1), [row["probability"] for row in written(run)], atol=1e-3)
    assert run.metrics["eval_loss"] == pytest.approx(
        -np.mean([np.log(each["probabilities"][each["gold"]]) for each in written(run)]), abs=1e-3
    )


def test_a_fold_without_a_whole_batch_is_refused_before_anything_is_written(train, tmp_path):
    """42 rows: a batch of 40 is one of all rows, and none of those that a fold leaves."""
    with pytest.raises(
        RecipeError, match=r"dataloader_drop_last: leaves out a batch of fewer than 40, so nothing of 3"
    ):
        train(train__dataloader_drop_last=True, train__global_train_batch_size=40)
    assert not (tmp_path / "run").exists()
