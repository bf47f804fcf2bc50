"""Comparisons of runs, grids and files of predictions."""

from __future__ import annotations

import json

import pandas
import pytest

import bertkit
from bertkit.features.grids.table import comparison_table
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.outcome import Outcome
from bertkit.runtime.errors import BertkitError, DataError


def test_a_list_is_not_an_argument():
    with pytest.raises(BertkitError, match=r"got a list; give its entries as arguments: compare\(\*runs\)"):
        bertkit.compare(["a", "b"])


def test_files_of_predictions(predictions):
    a, b = predictions("a.jsonl", ["yes"] * 5 + ["no"] * 5), predictions("b.jsonl", ["yes"] * 10)
    results = bertkit.compare(a, b)
    [found] = results.comparisons
    assert (results.metric, results.examples) == ("accuracy", 10)
    assert found.by_example.difference == pytest.approx(0.5)
    assert found.by_example.p == found.agreement.mcnemar_p == pytest.approx(1 / 16)
    assert not found.by_example.is_significant
    assert [row["index"] for row in found.only_b] == [5, 6, 7, 8, 9]
    assert found.only_a == ()
    assert "10 examples are too few to show small differences: one is 10.0 % of an accuracy" in results.notes
    text = comparison_table(results)
    assert "right: both 5, only A 0, only B 5, neither 0; same prediction: 5 of 10" in text
    assert (
        "No significant difference: accuracy B − A +0.5000, 95 % interval +0.1230 to +0.8770, p = 0.0625 (McNemar's"
        in text
    )
    assert "only B is right: line 6, gold 'yes', A 'no', B 'yes'" in text


def test_faults_of_all_files_are_one_list(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    with pytest.raises(BertkitError, match=r"^4 faults:(\n  - .*a\.csv: no column '(prediction|gold)'.*){4}$"):
        bertkit.compare(tmp_path / "a.csv", tmp_path / "a.csv")


SCORES = [each / 8 for each in range(24)]
VERSIONS = ["3.10", "3.1", "3.2", "3.1"]


def test_numbers_are_compared_by_their_correlation(predictions):
    noisy = {"a": 0.1, "b": 1}
    results = bertkit.compare(
        *(
            predictions(f"{name}.jsonl", [each + width * (-1) ** row for row, each in enumerate(SCORES)], SCORES)
            for name, width in noisy.items()
        )
    )
    assert results.metric == "pearson"
    assert results.comparisons[0].by_example.difference < 0
    assert results.comparisons[0].agreement is None
    assert "right" not in comparison_table(results)
    assert "'gold' has numbers, inferred from 24 labels; give --metric accuracy if" in results.notes[0]


def test_names_with_a_point_are_asked_for(predictions):
    """3.1 and 3.10 are two classes, and one number."""
    a, b = predictions("a.jsonl", ["3.1", "3.1", "3.2", "3.10"], VERSIONS), predictions("b.jsonl", VERSIONS, VERSIONS)
    with pytest.raises(DataError, match="give --metric pearson if they are amounts, or --metric accuracy if they are"):
        bertkit.compare(a, b)
    results = bertkit.compare(a, b, metric="accuracy")
    assert results.comparisons[0].scores_a == (0.5,)
    assert bertkit.compare(a, b, metric="pearson").comparisons[0].scores_b == (pytest.approx(1),)


def test_whole_numbers_are_classes(predictions, tmp_path):
    """1.0, as pandas writes 1 beside a missing value, is the class 1; also in a sheet of Excel."""
    book = pandas.DataFrame({"prediction": [1, 0, 0], "gold": [1.0, 0.0, 0.0]})
    book.to_excel(tmp_path / "b.xlsx", sheet_name="May", index=False)
    results = bertkit.compare(predictions("a.jsonl", [1.0, 0.0, 1.0], ["1", "0", "0"]), tmp_path / "b.xlsx#May")
    assert results.metric == "accuracy"
    assert results.comparisons[0].scores_b == (1,)
    assert results.comparisons[0].agreement.both == 2


@pytest.mark.parametrize(
    ("values", "gold", "expected"),
    [
        (["x", *SCORES[1:]], SCORES, r"b\.jsonl, line 1: 'prediction' is 'x'; expected a number"),
        ([*SCORES[:-1], "nan"], SCORES, r"b\.jsonl, line 24: 'prediction' is 'nan'; expected a number"),
        (["1", "x"], ["1", "0"], r"b\.jsonl, line 2: 'prediction' is 'x', where all values of 'gold' are numbers"),
        (["yes", " "], ["yes", "no"], r"b\.jsonl, line 2: no value for 'prediction'"),
        (["yes", "no"], ["yes", ""], r"b\.jsonl, line 2: no value for 'gold'"),
    ],
)
def test_unreadable_values_are_named(predictions, values, gold, expected):
    known = ["no" if each == "" else each for each in gold]
    a = predictions("a.jsonl", known, known)
    with pytest.raises(DataError, match=expected):
        bertkit.compare(a, predictions("b.jsonl", values, gold))


def test_a_constant_prediction_has_no_correlation(predictions):
    a, b = predictions("a.jsonl", SCORES, SCORES), predictions("b.jsonl", [2.0] * 24, SCORES)
    text = comparison_table(bertkit.compare(a, b))
    assert "B undefined" in text
    assert "0.0000" not in text


@pytest.mark.parametrize(
    ("gold", "expected"),
    [(["no"] * 10, "differ in 10 places, first in line 1"), (["yes"] * 9, "has 10 examples and")],
)
def test_other_examples_are_refused(predictions, gold, expected):
    a, b = predictions("a.jsonl", ["yes"] * 10), predictions("b.jsonl", ["yes"] * len(gold), gold)
    with pytest.raises(BertkitError, match=expected):
        bertkit.compare(a, b)


def test_what_is_no_system_is_refused(predictions, tmp_path, checkpoint):
    a = predictions("a.jsonl", ["yes"] * 10)
    (tmp_path / "labels.csv").write_text("label\nyes\n")
    with pytest.raises(BertkitError) as refused:
        bertkit.compare(a, tmp_path / "labels.csv", checkpoint, tmp_path / "nothing")
    message = str(refused.value)
    assert message.startswith("4 faults")
    assert "no column 'prediction'" in message
    assert f"{checkpoint}: contains no recipe.yaml" in message
    with pytest.raises(DataError, match=r"x\.jsonl: does not exist; (.|\n)*y\.xlsx#May: does not exist"):
        bertkit.compare(tmp_path / "x.jsonl", tmp_path / "y.xlsx#May")
    with pytest.raises(BertkitError, match="two or more"):
        bertkit.compare(a)
    with pytest.raises(BertkitError, match="no metric 'acuracy'; expected accuracy; did you mean 'accuracy'"):
        bertkit.compare(a, a, metric="acuracy")


def test_the_same_prediction_for_all_examples_is_named(predictions):
    gold = ["yes", "no"] * 5
    a, b = predictions("a.jsonl", ["yes"] * 10, gold), predictions("b.jsonl", gold, gold)
    notes = bertkit.compare(a, b).notes
    assert [note for note in notes if "collapsed" in note] == [f"{a} has collapsed: all predictions are 'yes'"]


def test_choice_and_collapse_of_a_setting_are_named(grid, predictions, monkeypatch):
    results = grid(grid=["train.learning_rate=1e-3,2e-3"], seeds=2)
    best = results.output_dir / "best"
    monkeypatch.setattr(Outcome, "collapse", "all predictions are 'good'")
    notes = bertkit.compare(results.output_dir, best).notes
    assert f"{best} has collapsed: all predictions are 'good'" in notes
    outcome = outcome_of(best)
    gold = outcome.task.to_labels(outcome.predictions_and_references()[1])
    of_file = bertkit.compare(results.output_dir, predictions("gold.jsonl", gold, gold)).notes
    for each in (notes, of_file):
        assert any(f"{results.output_dir}: {results.best} is the best of 2 settings" in note for note in each)


@pytest.mark.slow
def test_grids_are_compared_by_example_and_by_seed(grid):
    first = grid("first", seeds=2)
    second = grid("second", seeds=[44, 45], overrides={"train.learning_rate": 5e-3})
    [found] = bertkit.compare(first.output_dir, second.output_dir).comparisons
    assert found.scores_a == pytest.approx([each["score"] for each in first.runs.values()])
    assert found.by_run.units == (2, 2)
    assert found.settings.startswith("Do these settings differ?")
    outcomes = {name: outcome_of(first.output_dir / "runs" / name) for name in first.runs}
    assert first.settings[0].collapsed == tuple(name for name, outcome in outcomes.items() if outcome.collapse)


def test_a_run_is_compared_with_itself_and_with_a_file(grid, predictions):
    results = grid(seeds=1)
    run = results.output_dir / "runs" / results.best_run
    same = bertkit.compare(run, run).comparisons[0]
    assert (same.by_example.difference, same.by_example.p, same.agreement.mcnemar_p) == (0, 1, 1)
    assert same.by_run.p is None
    outcome = outcome_of(run)
    gold = outcome.task.to_labels(outcome.predictions_and_references()[1])
    mixed = bertkit.compare(run, predictions("predictions.jsonl", ["good"] * len(gold), gold)).comparisons[0]
    assert mixed.scores_a == same.scores_a
    assert mixed.scores_b == (gold.count("good") / len(gold),)
    predicted = outcome.task.to_labels(outcome.predictions_and_references()[0])
    wrong = ["good" if label == "bad" else "bad" for label in predicted]
    differing = bertkit.compare(run, predictions("wrong.jsonl", wrong, gold)).comparisons[0]
    rows = [*differing.only_a, *differing.only_b]
    assert len(rows) == len(gold)
    assert all(row["place"].startswith("reviews.jsonl, line ") for row in rows)  # the run knows them


@pytest.mark.parametrize("metric", [None, "accuracy"])
def test_a_run_of_rankings_is_not_compared_with_a_file(tmp_path, checkpoint, quick, predictions, metric):
    """The scores of a query are not the predictions of its passages."""
    rows = "".join(f"the story {n},the plot,1\nthe story {n},a film,0\n" for n in range(6))
    (tmp_path / "train.csv").write_text(f"query,passage,label\n{rows}")
    files = {f"data.{split}_file": str(tmp_path / "train.csv") for split in ("train", "validation")}
    run = bertkit.finetune(
        "finetune/reranking", model=str(checkpoint), output_dir=tmp_path / "run", overrides={**quick, **files}
    )
    file = predictions("a.jsonl", SCORES[:12], [1.0, 0.0] * 6)
    with pytest.raises(BertkitError, match="run: rankings are scored by query, and a file has a prediction for each"):
        bertkit.compare(file, run.output_dir, metric=metric)


@pytest.mark.slow
def test_grids_on_the_same_folds(grid, monkeypatch):
    """Cells of the same fold share their data, whatever their seeds; with other folds nothing is paired."""
    first, second = (grid(name, folds=3, seeds=[seed]) for name, seed in (("first", 1), ("second", 2)))
    with monkeypatch.context() as patch:
        patch.setattr("bertkit.features.grids.compare.compare_systems", lambda systems, metric: systems)
        systems = bertkit.compare(first.output_dir, second.output_dir)
    # Whether the models disagree, and so whether a place is looked up, depends on the last bits of a loss.
    assert [len(system.places) for system in systems] == [30, 30]
    assert all(place.startswith("reviews.jsonl, line ") for place in systems[0].places)
    [found] = bertkit.compare(first.output_dir, second.output_dir).comparisons
    assert found.by_run.units == (3,)
    assert "folds" in found.settings
    assert len(found.scores_a) == 1
    for each in (first, second):
        for record in (each.output_dir / "records").glob("*-fold=[12].json"):
            record.unlink()
    with pytest.raises(BertkitError, match=r"^2 faults:(\n  - .*no seed .* has finished all folds){2}$"):
        bertkit.compare(first.output_dir, second.output_dir)


@pytest.fixture
def words_file(tmp_path):
    """Twelve sentences with entities, in the form of CoNLL."""
    rows = ["a\tO", "lovely\tB-FILM", "film\tI-FILM", "the\tO", "plot\tB-FILM"]
    path = tmp_path / "train.conll"
    path.write_text("\n\n".join("\n".join([*rows[:3], *rows[3:][: 1 + number % 2]]) for number in range(12)) + "\n")
    return path


@pytest.fixture
def questions_file(tmp_path):
    """Eight questions in the form of SQuAD 1.1."""
    context = "the lovely film has an awful plot"
    answers = ["lovely film", "awful", "plot", "film"]
    asked = [
        {"id": str(n), "question": f"the plot {n}", "answers": [{"text": text, "answer_start": context.index(text)}]}
        for n, text in enumerate(answers * 2)
    ]
    path = tmp_path / "train.json"
    paragraphs = [{"context": context, "qas": asked}]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "films", "paragraphs": paragraphs}]}))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "file", "examples"),
    [("finetune/ner", "words_file", 12), ("finetune/squad/v1", "questions_file", 8)],
)
def test_entities_and_answers(request, tmp_path, checkpoint, quick, recipe, file, examples):
    """The difference of two runs is that of the scores which `evaluate` gives them."""
    path = str(request.getfixturevalue(file))
    files = {"data.train_file": path, "data.validation_file": path}
    if "squad" in recipe:
        files |= {"data.doc_stride": 4, "data.max_query_length": 6}
    runs = []
    for seed in (1, 2):
        overrides = {**quick, **files, "train.max_steps": 40, "train.learning_rate": 5e-3, "train.seed": seed}
        bertkit.finetune(recipe, model=str(checkpoint), output_dir=tmp_path / str(seed), overrides=overrides)
        runs.append(tmp_path / str(seed))
    results = bertkit.compare(*runs)
    [found] = results.comparisons
    assert results.metric.rpartition("_")[2] == "f1"
    scores = [bertkit.evaluate(run, validation_file=path).metrics[f"eval_{results.metric}"] for run in runs]
    assert [*found.scores_a, *found.scores_b] == pytest.approx(scores)
    assert found.by_example.difference == pytest.approx(scores[1] - scores[0])
    assert results.examples == examples
    assert bertkit.compare(runs[0], runs[0]).comparisons[0].by_example.p == 1
