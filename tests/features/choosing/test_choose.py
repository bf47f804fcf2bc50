"""`bertkit.choose`: scores of frozen vectors, conclusions, and what is refused."""

from __future__ import annotations

import json
import shlex
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import bertkit
from bertkit.data.tables import read_table
from bertkit.features.choosing.conclusions import name_fastest
from bertkit.features.choosing.data import read_labelled
from bertkit.features.choosing.result import Candidate, FrozenScore
from bertkit.runtime.errors import CheckpointError, DataError, OutputError, RecipeError


def test_the_checkpoint_that_tells_texts_apart_is_best(checkpoint, blind, table):
    choice = bertkit.choose([blind, checkpoint], train_file=table)
    assert choice.metric == "accuracy"
    assert choice.examples == 60
    of_blind, of_shared = choice.candidates
    assert choice.best == of_shared.name
    assert of_shared.frozen.score > 0.9 > 0.5 > of_blind.frozen.score
    assert of_shared.frozen.low <= of_shared.frozen.score <= of_shared.frozen.high
    assert any(line.startswith("Worse than it") and of_blind.name in line for line in choice.sentences)
    assert {name: len(scores) for name, scores in of_shared.frozen.by_layer.items()} == {"cls": 3, "mean": 3}
    data = ["--train-file", str(table)]
    words = ["bertkit", "finetune", "classification", *data, "--model", str(checkpoint), "--output-dir", "OUT"]
    assert choice.command == shlex.join(words)


@pytest.mark.parametrize(("label", "metric"), [("label", "accuracy"), ("score", "pearson"), ("topics", "f1_micro")])
def test_labels_of_every_form_are_scored(checkpoint, blind, table, label, metric):
    overrides = {"task.label_column": label, "task.text_columns": ["text", "other"]}
    overrides |= {"score": {"task.problem": "regression"}, "topics": {"task.label_separator": "|"}}.get(label, {})
    choice = bertkit.choose([checkpoint, blind], train_file=table, overrides=overrides)
    scores = [each.frozen.score for each in choice.candidates]
    assert choice.metric == metric
    assert scores[0] > 0.8
    assert (scores[1] or 0) < scores[0]  # a correlation of equal predictions is undefined
    undefined = f"{metric} is undefined for {choice.candidates[1].name}: the same prediction for all examples."
    assert (undefined in choice.sentences) == (scores[1] is None)
    assert not any(line.startswith("Not told apart") for line in choice.sentences)
    assert choice.best == choice.candidates[0].name
    assert "pair" in choice.candidates[0].frozen.by_layer


def test_the_score_in_the_place_of_a_metric_of_ones_own_is_no_error(checkpoint, blind, table):
    overrides = {"task.label_column": "score", "task.problem": "regression", "task.text_columns": ["text"]}
    overrides |= {"task.metrics": ["mae"], "task.main_metric": "mae"}
    choice = bertkit.choose([checkpoint, blind], train_file=table, overrides=overrides)
    assert choice.metric == "pearson"
    assert choice.best == choice.candidates[0].name


def test_words_are_scored_by_their_first_pieces(checkpoint, blind, tagged):
    choice = bertkit.choose([blind, checkpoint], task="ner", train_file=tagged, examples=30)
    of_blind, of_shared = choice.candidates
    assert (choice.metric, choice.examples) == ("overall_f1", 30)
    assert of_shared.frozen.score > 0.95 > 0.2 > of_blind.frozen.score
    assert list(of_shared.frozen.by_layer) == ["word"]
    assert "bertkit finetune ner " in choice.command
    assert f" --max-seq-length 64 --model {checkpoint} " in choice.command  # the recipe has 128


def test_equal_checkpoints_are_not_told_apart(checkpoint, headless, table):
    """An exact tie has no best; the command has the first of them."""
    choice = bertkit.choose([checkpoint, headless], train_file=table)
    one, of_headless = choice.candidates
    assert choice.best is None
    assert choice.sentences[0].startswith(f"{one.name} and {of_headless.name} have the same accuracy, ")
    assert not any("Best by" in line or "More examples" in line for line in choice.sentences)  # all are read
    assert shlex.split(choice.command)[-3] == str(checkpoint)
    assert of_headless.perplexity is None
    assert "the weights lack" in of_headless.no_perplexity
    assert of_headless.parameters < choice.candidates[0].parameters


def candidate(name, milliseconds, score=0.9):
    """A checkpoint as it is measured, of which only the time and the score matter."""
    wording = SimpleNamespace(too_long=0.0)
    frozen = FrozenScore(score, None, None, 1, 2, "cls", {})
    return Candidate(name, name, frozen, wording, None, None, None, "none", 1, None, milliseconds)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((0.52, 0.49), None),
        ((0.55, 0.46), "0.46 ms per text in place of 0.55"),
        ((12.0, 3.0), "3.0 ms per text in place of 12.0"),
    ],
)
def test_a_faster_one_is_named_where_its_time_is_another(times, said):
    first, other = (candidate(name, each) for name, each in zip("ab", times, strict=True))
    fastest, more = name_fastest(first, [other], False), "More examples (--examples) may tell them apart."
    assert fastest == ([] if said is None else [f"b is the fastest of these, {said}."])
    assert name_fastest(first, [other], True) == [*fastest, more]


def test_the_share_of_the_most_frequent_class_is_said(checkpoint):
    rows = [{"text": f"a good film {n}", "label": "good" if n % 4 else "bad"} for n in range(40)]
    choice = bertkit.choose(checkpoint, train_file=rows)
    said = "75.0 % of the examples are 'good', the most frequent class: always guessing it gives accuracy 0.7500."
    assert said in choice.sentences
    assert said in choice.html().replace("&#39;", "'")


def test_texts_without_labels_rank_by_masked_words(checkpoint, blind, headless, tmp_path):
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / "texts" / f"{name}.txt").write_text("a good film\n\nthe plot is bad\n\n" * 20)
    choice = bertkit.choose([checkpoint, blind, headless], texts=tmp_path / "texts", examples=10)
    assert (choice.metric, choice.examples, choice.folds) == (None, 10, None)
    shared, of_blind, of_headless = choice.candidates
    assert shared.frozen is of_headless.perplexity is None
    assert shared.perplexity_low < shared.perplexity < shared.perplexity_high
    # Weights of 0 expect every piece of the vocabulary alike, and all of these words are one piece.
    size = bertkit.BertConfig.from_pretrained(checkpoint).vocab_size
    assert of_blind.wording.pieces_per_word == 1
    assert of_blind.perplexity == pytest.approx(size, rel=1e-5)
    assert choice.best in (shared.name, of_blind.name)
    assert choice.command.startswith("bertkit pretrain --corpus ")
    assert " --pair-objective none " in choice.command  # pairs of other documents need several in each corpus
    assert choice.sentences[0].startswith("Lowest pseudo-perplexity per word: ")


def test_texts_beyond_the_maximum_are_counted(checkpoint, tmp_path):
    (tmp_path / "long.txt").write_text("a good film\n\n" + "plot " * 100 + "\n")
    choice = bertkit.choose([checkpoint], texts=tmp_path / "long.txt")
    assert choice.candidates[0].wording.too_long == 0.5
    assert any("Texts with more tokens than the checkpoint reads" in line for line in choice.sentences)


def test_a_checkpoint_is_not_scored_on_its_training_rows(checkpoint, table, tmp_path):
    run = shutil.copytree(checkpoint, tmp_path / "run")
    of_rows = {"source": str(table), "fingerprint": read_table(table).fingerprint}
    (run / "run.json").write_text(json.dumps({"data": {"train": of_rows}}))
    with pytest.raises(RecipeError, match=r"run was trained on .*, so its score would be too high"):
        bertkit.choose([checkpoint, run], train_file=table, examples=40)


def test_two_calls_give_the_same(checkpoint, table):
    first, second = (bertkit.choose([checkpoint], train_file=table, examples=40) for _ in range(2))
    assert first.candidates[0].frozen == second.candidates[0].frozen
    assert first.candidates[0].perplexity == second.candidates[0].perplexity


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"models": []}, RecipeError, "no checkpoint"),
        ({"models": ["{one}", "{one}"]}, RecipeError, "given twice"),
        ({"models": ["{one}", "{one}/"]}, RecipeError, "given twice"),
        ({"models": ["{one}", "missing"]}, CheckpointError, "missing"),
        ({"train_file": None}, RecipeError, "no data; give --train-file"),
        ({"train_file": "missing.csv"}, DataError, "missing.csv"),
        ({"texts": "texts"}, RecipeError, "give only one of them"),
        ({"train_file": None, "texts": "missing"}, DataError, "missing"),
        ({"train_file": None, "texts": "missing", "task": "ner"}, RecipeError, "--task is for labelled data"),
        ({"train_file": None, "texts": "missing", "folds": 3}, RecipeError, "--folds is for labelled data"),
        ({"learning_rate": 1e-3}, RecipeError, "trains nothing, so train.learning_rate changes nothing"),
        ({"task": "sst3"}, RecipeError, "did you mean 'sst2'"),
        ({"task": "squad/v1"}, RecipeError, "question_answering has no linear head"),
        ({"task": "similarity"}, RecipeError, "similarity has no linear head"),
        ({"task": "reranking"}, RecipeError, "reranking has no linear head"),
        ({"output": "missing/page.html"}, OutputError, "the folder missing does not exist"),
        ({"folds": 1}, RecipeError, "expected two folds or more"),
        ({"train_file": None, "texts": "missing", "examples": 0}, RecipeError, "examples 0: expected at least 1"),
        (
            {"examples": 70, "folds": 65},
            DataError,
            "65 folds of 60 training examples; give at most 60",
        ),
        ({"overrides": {"task.label_column": "lable"}}, DataError, "did you mean 'label'"),
        ({"overrides": {"data.long_text": "chunk"}}, RecipeError, "reads the first part of long texts only"),
        ({"overrides": {"train.epochs": 3}}, RecipeError, "train.epochs"),
    ],
)
def test_wrong_arguments_are_refused(checkpoint, table, monkeypatch, tmp_path, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    given = {"models": ["{one}"], "train_file": table, **arguments}
    models = [model.replace("{one}", str(checkpoint)) for model in given.pop("models")]
    with pytest.raises(error) as raised:
        bertkit.choose(models, **given)
    assert message in str(raised.value)


def test_only_tasks_that_are_scored_are_expected(checkpoint, table):
    with pytest.raises(RecipeError) as raised:
        bertkit.choose([checkpoint], train_file=table, task="question-answering")
    expected = str(raised.value).removeprefix("--task question-answering: expected one of ").split(", ")
    assert {"classification", "ner", "sst2"} < set(expected)
    assert not {"multiple-choice", "reranking", "similarity", "squad/v1"} & set(expected)


def test_texts_without_words_are_refused(checkpoint, tmp_path):
    (tmp_path / "marks.txt").write_text("... !!!\n")
    with pytest.raises(DataError, match="no word with a letter or a digit"):
        bertkit.choose([checkpoint], texts=tmp_path / "marks.txt")


def test_groups_need_no_other_folds(tmp_path):
    rows = "".join(f"{n % 5} film {n},{'good' if n % 3 else 'bad'},{n % 5}\n" for n in range(20))
    (tmp_path / "rows.csv").write_text(f"text,label,author\n{rows}")
    values = {"data.train_file": str(tmp_path / "rows.csv"), "data.group_column": "author"}
    labelled = read_labelled("classification", values, 20, 4)
    authors = [text[0] for text in labelled.examples["text"]]
    assert len(set(zip(authors, labelled.folds.tolist(), strict=True))) == 5
    assert {"data.folds=4", "data.group_column=author"} < set(labelled.command)  # one is refused without the other


def test_settings_are_arguments_and_rows_a_table(checkpoint):
    texts = [f"{a} {{}} {b}" for a in ("a", "the", "is", "or", "awful") for b in ("film", "plot")]
    rows = [{"review": text.format(word), "kind": word} for word in ("good", "bad") for text in texts]
    choice = bertkit.choose([checkpoint], train_file=rows, text_columns=["review"], label_column="kind", folds=2)
    assert choice.candidates[0].frozen.score == 1
    assert "--text-column review --label-column kind" in choice.command


def test_another_recipe_and_switches_are_in_the_command(checkpoint, tagged):
    given = {"train_file": tagged, "folds": 2, "label_all_subwords": True, "snap": False}
    words = shlex.split(bertkit.choose([checkpoint], task="ner-features", **given).command)
    assert words[:6] == ["bertkit", "finetune", "ner", "--recipe", "finetune/ner-features", "--train-file"]
    assert words[7:10] == ["--label-all-subwords", "--set", "data.snap=false"]


def test_a_mapping_is_json_in_the_command(checkpoint, table):
    columns = {"label_column": "topics", "label_separator": "|", "threshold": {"cast": 0.25, "plot": 0.5}}
    words = shlex.split(bertkit.choose([checkpoint], train_file=table, **columns).command)
    assert 'task.threshold={"cast":0.25,"plot":0.5}' in [word.replace(" ", "") for word in words]


def test_a_text_is_predicted_by_heads_that_have_not_seen_a_copy(checkpoint):
    """Thirty random texts of random classes, each five times: half of them are right, of 30 texts."""
    generator, words = (
        np.random.default_rng(3),
        ("a", "film", "story", "the", "plot", "is", "or", "awful", "good", "bad"),
    )
    texts = [" ".join(generator.choice(words, 12)) for _ in range(30)]
    rows = [{"text": text, "label": label} for text, label in zip(texts, ["no", "yes"] * 15, strict=True)] * 5
    once, many = (bertkit.choose([checkpoint], train_file=each).candidates[0].frozen for each in (rows[:30], rows))
    assert many.score < 0.75
    assert many.high - many.low > 0.9 * (once.high - once.low)
    choice = bertkit.choose([checkpoint], train_file=rows)
    said = (
        "120 of 150 examples have the text of an earlier example; copies are in one fold, and intervals and tests count"
    )
    assert [sentence for sentence in choice.sentences if sentence.startswith(said)]
    with pytest.raises(DataError, match=r"5 folds of 1 different text, which 9 rows have"):
        bertkit.choose([checkpoint], train_file=[{"text": "a film", "label": each} for each in "ababababa"])
