"""Forms of tables of pairs: names of classes that a table has, and questions where a guess could turn the meaning."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

import bertkit
from bertkit.cli.app import app
from bertkit.runtime.errors import DataError
from bertkit.tasks.reranking import RerankingTask
from bertkit.tasks.similarity.task import SimilarityTask

INFERENCE = ["entailment", "neutral", "contradiction"]
NLI = "premise,hypothesis,label\na,b,0\nc,d,1\ne,f,2\ng,h,-1\n"


@pytest.fixture
def task(task_of_files):
    """Builds a task of files, each given by its content: ``task(train_csv=…, form=…)``."""
    return partial(task_of_files, SimilarityTask)


@pytest.fixture
def reranking(task_of_files):
    """Builds a task of files, as ``task``."""
    return partial(task_of_files, RerankingTask)


@pytest.fixture
def parquet(tmp_path):
    """Writes a table with a column of class ids, as `datasets` does, and returns its path."""
    import datasets

    def write(columns: dict[str, list[Any]], names: list[str], label: str = "label") -> str:
        table = datasets.Dataset.from_dict(columns).cast_column(label, datasets.ClassLabel(names=names))
        path = tmp_path / f"{'-'.join(names)}.parquet"
        table.to_parquet(path)
        return str(path)

    return write


def loaded(task: Any) -> tuple[Any, list[list[str]], list[Any], str]:
    """Returns the settled task, the texts and labels of its training set, and the note on its form."""
    settled, splits = task.load(["train"])
    examples = splits["train"].examples
    return settled, examples["texts"], examples["labels"], splits["train"].notes[0]


@pytest.mark.parametrize("order", [INFERENCE, INFERENCE[::-1], ["neutral", "entailment", "contradiction"]])
def test_class_names_of_parquet_are_read(task, parquet, order, capsys):
    path = parquet({"premise": [*"aceg"], "hypothesis": [*"bdfh"], "label": [0, 1, 2, -1]}, order)
    settled, texts, labels, _ = loaded(task(train_file=path))
    assert settled.settings.form == "nli"
    assert texts == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert labels == [{"contradiction": 0, "neutral": 1, "entailment": 2}[name] for name in order]
    assert capsys.readouterr().err.count("left out 1 of 4 rows, which have no label (label is -1)") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            NLI,
            "'label' has the numbers -1, 0, 1, 2: classes, of which 0 may be entailment, or scores; give their names",
        ),
        (
            NLI.replace("g,h,-1\n", ""),
            "--label-names entailment neutral contradiction, or --form scored_pairs if larger",
        ),
        ("premise,hypothesis,score\na,b,0\nc,d,1\n", "such as --label-names entailment not_entailment, or"),
        ("Premise,Hypothesis,label\na,b,0.0\nc,d,2.0\n", "'label' has the numbers 0, 2"),
        ("sentence1,sentence2,label\na,b,0\nc,d,1\ne,f,2\n", "'label' has the numbers 0, 1, 2"),
        ("question,sentence,label\na,b,0\nc,d,1\n", "'label' has the numbers 0, 1"),
        ("sentence1,sentence2,distance\na,b,0.1\nc,d,0.7\n", "'distance' may be larger for texts that are less alike"),
        ("question1,question2,is_duplicate\na,b,0\nc,d,1\n", "'is_duplicate' may say which pairs belong together"),
        ("question1,question2,valid\na,b,0\nc,d,1\ne,f,1\ng,h,0\n", "'valid' may say which pairs belong together"),
        ("premise,hypothesis,gold\na,b,neutral\nc,d,entailment\n", "'gold' may say which pairs belong together"),
        ("sentence1,sentence2,gold\na,b,related\nc,d,unrelated\n", "'gold' may say which pairs belong together"),
        ("query,passage,is relevant\na,b,true\nc,d,false\n", "give --label-column 'is relevant', or --form pairs"),
        ("query,passage,relevant\na,b,true\nc,d,false\n", "give --label-column relevant, or --form pairs if all do"),
    ],
)
def test_a_guess_that_may_turn_the_meaning_around_is_a_question(task, content, message):
    label = "distance" if "distance" in content else None
    with pytest.raises(DataError) as caught:
        task(train_csv=content, label_column=label).load(["train"])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("premise,hypothesis,score\na,b,0.5\nc,d,1\n", "scored_pairs"),
        ("premise,hypothesis,label\na,b,0\nc,d,1\ne,f,2\ng,h,3\ni,j,4\n", "scored_pairs"),
        ("sentence1,sentence2,score\na,b,0\nc,d,1\ne,f,2\n", "scored_pairs"),
        ("sentence1,sentence2,label\na,b,0\nc,d,1\n", "scored_pairs"),
        ("query,passage,passage_id,year,source\na,b,1,1999,x\nc,d,1,2000,y\ne,f,2,1999,z\ng,h,2,2000,x\n", "pairs"),
        ("query,passage,qid,pairID\na,b,1,4\na,d,1,4\ne,f,2,5\ne,h,2,5\n", "pairs"),
        ("anchor,positive,negative,label\na,b,c,0\nd,e,f,1\n", "triplets"),
    ],
)
def test_what_is_clear_is_not_asked(task, content, form):
    settled, _, _, note = loaded(task(train_csv=content))
    assert settled.settings.form == form
    assert ("larger for texts that are more alike" in note) == (form == "scored_pairs")


def test_names_that_are_given_settle_the_form(task):
    settled, texts, labels, _ = loaded(task(train_csv=NLI, label_names=INFERENCE))
    assert (settled.settings.form, labels, len(texts)) == ("nli", [2, 1, 0], 3)
    for name in ("duplicate", "entailment"):
        content = "premise,hypothesis,label\na,b,0\nc,d,1\n"
        settled, _, labels, _ = loaded(task(train_csv=content, label_names=[name, f"not_{name}"]))
        assert (settled.settings.form, labels) == ("scored_pairs", [1.0, 0.0])
    with pytest.raises(DataError, match="--label-names are for labels that are whole numbers; remove them"):
        task(train_csv=NLI.replace("0", "0.5"), label_names=INFERENCE).load(["train"])


def test_a_form_that_is_given_settles_the_meaning(task):
    content = "query,passage,relevant\na,b,True\nc,d,false\n"  # as a question proposes
    assert loaded(task(train_csv=content, label_column="relevant"))[2] == [1.0, 0.0]
    of_one_class = task(train_csv=content, validation_csv="query,passage,relevant\na,b,True\n", label_column="relevant")
    assert of_one_class.load()[1]["validation"].examples["labels"] == [1.0]
    assert loaded(task(train_csv=NLI, form="scored_pairs"))[2] == [0.0, 1.0, 2.0, -1.0]
    with pytest.raises(DataError, match="label has numbers whose classes are unknown; write the names of the classes"):
        task(train_csv=NLI, form="nli").load(["train"])


def test_the_names_of_the_table_are_not_overruled(task, parquet):
    path = parquet({"premise": [*"ace"], "hypothesis": [*"bdf"], "label": [0, 1, 2]}, INFERENCE)
    with pytest.raises(DataError, match="its classes are 'entailment', 'neutral', 'contradiction', not"):
        task(train_file=path, label_names=INFERENCE[::-1]).load(["train"])


@pytest.mark.parametrize("names", [["entailment", "not_entailment"], ["not_relevant", "relevant"]])
def test_rerankers_read_the_names_of_classes(reranking, parquet, names):
    path = parquet({"question": [*"qq"], "sentence": [*"ab"], "label": [0, 1]}, names)
    _, splits = reranking(train_file=path).load(["train"])
    assert splits["train"].examples["labels"] == [float(not name.startswith("not")) for name in names]


def test_rerankers_ask_what_numbers_are(reranking):
    content = "question,sentence,label\nq,a,0\nq,b,1\n"
    with pytest.raises(DataError, match="classes, of which 0 may be entailment, or scores; write names such as ent"):
        reranking(train_csv=content).load(["train"])
    _, splits = reranking(train_csv=content, label_column="label").load(["train"])
    assert splits["train"].examples["labels"] == [0.0, 1.0]


def test_negatives_are_not_mined_from_pairs_that_do_not_belong_together(tmp_path, checkpoint):
    pytest.importorskip("sentence_transformers")
    path = tmp_path / "pairs.csv"
    path.write_text("premise,hypothesis,label\na,b,neutral\nc,d,entailment\n")
    with pytest.raises(DataError, match="'label' may say which pairs belong together; give a table of those that do"):
        bertkit.mine_negatives(path, tmp_path / "out.csv", model=str(checkpoint))


def test_the_command_takes_several_names(tmp_path, checkpoint):
    pytest.importorskip("sentence_transformers")
    path, out = tmp_path / "train.csv", tmp_path / "out"
    texts = ["a lovely film", "the plot is good", "the story is awful", "a bad film", "lovely"]
    lines = [f"{texts[row % 5]},{texts[(row + row // 5 + 1) % 5]},{row % 3}\n" for row in range(12)]
    path.write_text("premise,hypothesis,label\n" + "".join(lines))
    words = ["finetune", "similarity", "--train-file", str(path), "--model", str(checkpoint), "--output-dir", str(out)]
    words += [
        "--max-seq-length",
        "16",
        "--max-steps",
        "1",
        "--set",
        "train.report=false",
        "--validation-file",
        str(path),
    ]
    given = CliRunner().invoke(app, [*words, "--label-names", *INFERENCE])
    assert given.exit_code == 0, given.exception
    recipe = bertkit.load_recipe(str(out / "recipe.yaml"))
    assert recipe.task.label_names == INFERENCE
    assert "eval_spearmanr" in bertkit.evaluate(str(out), validation_file=str(path)).metrics
