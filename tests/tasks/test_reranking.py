"""Reranking: tables, runs, rankings, and scores beside those of sentence-transformers' CrossEncoder."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import bertkit
from bertkit.runtime.errors import DataError
from bertkit.tasks.base import with_optional_labels
from bertkit.tasks.folds import groups, load_splits
from bertkit.tasks.reranking import RerankingTask

pytestmark = pytest.mark.numeric

WORDS = "lovely good bad awful".split()
NOUNS = "story plot film".split()
# Passages of a query differ in words of the vocabulary: equal scores would be ranked by the last digits of an addition.
LABELLED = "query,passage,label\n" + "".join(
    f"a {WORDS[number % 4]} film {number // 4},the {WORDS[number % 4]} {noun},{float(noun == NOUNS[number % 3])}\n"
    for number in range(12)
    for noun in NOUNS
)
NEGATIVES = "query,passage,negative\n" + "".join(
    f"a {WORDS[number % 4]} film {number // 4},the {WORDS[number % 4]} story,the {WORDS[(number + 1) % 4]} plot\n"
    for number in range(12)
)


@pytest.fixture
def task(task_of_files):
    """Builds a task of files, each given by its content: ``task(train_csv=…)``."""
    return partial(task_of_files, RerankingTask)


@pytest.fixture(scope="module")
def run(checkpoint, tmp_path_factory):
    """Returns a function that fine-tunes on the rows of a table; each is computed once."""
    made = {}

    def finetune(content: str, report: bool = False):
        if (content, report) not in made:
            folder = tmp_path_factory.mktemp("reranking")
            (folder / "train.csv").write_text(content)
            values = {"data.train_file": str(folder / "train.csv"), "data.max_seq_length": 32}
            values |= {"data.validation_fraction": 0.25, "train.learning_rate": 1e-3, "train.report": report}
            made[content, report] = bertkit.finetune(
                "finetune/reranking", model=str(checkpoint), output_dir=folder / "run", overrides=values
            )
        return made[content, report]

    return finetune


def test_a_relevance_that_is_given_goes_before_negatives_by_name(task):
    rows = "query,passage,negative,score\nq,a,b,1\nq,c,d,0\n"
    settled, splits = task(label_column="score", train_csv=rows).load(["train"])
    assert (settled.settings.negative_columns, settled.settings.label_column) == ([], "score")
    assert splits["train"].examples["labels"] == [1.0, 0.0]
    with pytest.raises(DataError, match=r"task\.text_columns: expected two"):
        task(text_columns=["query", "Query"], train_csv=rows).load(["train"])
    with pytest.raises(DataError, match=r"task\.negative_columns: expected each column once, got query, passage, pass"):
        task(negative_columns=["passage"], train_csv=rows).load(["train"])


def test_negatives_become_pairs(task):
    settled, splits = task(train_csv=NEGATIVES).load(["train"])
    assert settled.settings.negative_columns == ["negative"]
    for given in ({"negative_columns": ["negative"]}, {"text_columns": ["query", "passage"]}):
        assert task(train_csv=NEGATIVES, **given).load(["train"])[0].settings == settled.settings
    examples = splits["train"].examples
    assert examples["passage"][:2] == ["the lovely story", "the good plot"]
    assert examples["labels"][:2] == [1.0, 0.0]
    assert splits["train"].place(3) == "line 3"


def test_pairs_that_a_teacher_labels_need_no_negatives(task):
    trained = task(train_csv=NEGATIVES).load(["train"])[0].settings
    given = {"text_columns": trained.text_columns, "negative_columns": trained.negative_columns}
    made = task(train_csv="query,passage,site\nq,a,x\nq,b,y\n", folds=2, fold=0, group_column="site", **given)
    learner, splits = with_optional_labels(made).load(["train"])
    assert splits["train"].examples[:2] == {"query": ["q", "q"], "passage": ["a", "b"]}
    assert groups(learner, splits["train"].examples) == ["x", "y"]
    with pytest.raises(DataError, match="no column 'negative'"):
        made.load(["train"])


def test_queries_are_held_out_whole(task):
    _, splits = task(train_csv=LABELLED, validation_fraction=0.25).load(["train", "validation"])
    queries = {name: set(split.examples["query"]) for name, split in splits.items()}
    assert len(splits["validation"].examples) == 9
    assert not queries["train"] & queries["validation"]


def test_a_single_query_cannot_be_held_out(task):
    with pytest.raises(DataError, match=r"2 examples in 1 group are too few .* give --validation-file$"):
        task(train_csv="query,passage,label\nq,a,0\nq,b,1\n").load(["train", "validation"])


@pytest.mark.parametrize("content", [LABELLED, NEGATIVES], ids=["labelled", "negatives"])
def test_folds_do_not_divide_queries(task, content):
    _, splits = load_splits(task(train_csv=content, folds=3, fold=1), ["train", "validation"])
    queries = {name: set(split.examples["query"]) for name, split in splits.items()}
    assert queries["validation"]
    assert not queries["train"] & queries["validation"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query,passage,label\nq,a,0\nq,b,0\nr,c,1\n", "line 2: 1 query has no relevant passage, first 'q'"),
        ("query,passage,label\nq,a,1\nr,b,1\n", "others; give passages that do not answer their query too"),
        ("query,passage,label\nq,a,1\nq,b,3\n", "line 3: label is 3; expected a relevance from 0 to 1"),
        ("query,passage\nq,a\n", "without others to compare with"),
        ("query,passage,negative\nq,a,a\n", "line 2: negative is the text of passage too"),
        ("a,b,label\nq,a,1\n", "cannot determine which of its columns"),
    ],
)
def test_faults_of_the_data_are_named(task, content, message):
    with pytest.raises(DataError) as caught:
        task(train_csv=content).load(["train"])
    assert message in str(caught.value)


def test_rankings_are_those_of_the_queries(task):
    settled, splits = task(train_csv="query,passage,label\nq,a,0\nq,b,1\nr,c,1\nr,d,0\nq,e,0\n").load(["train"])
    examples = splits["train"].examples
    columns = {name: examples[name] for name in ("query", "passage", "labels")}
    logits = np.array([[0.9], [0.5], [2.0], [-1.0], [0.1]])  # b is second of q, c first of r
    scores = settled.score(logits, columns, columns)
    assert scores["mrr_at_10"] == pytest.approx((1 / 2 + 1) / 2)
    assert scores["ndcg_at_10"] == pytest.approx((1 / np.log2(3) + 1) / 2)
    assert scores["accuracy_at_1"] == 0.5
    rows, _ = settled.predictions_and_references(logits, columns, columns)
    assert [row[0] for row in rows] == [1, 0, 1, 0, 0]  # one row of each query counts


def test_equal_scores_are_no_ranking(task):
    settled, splits = task(train_csv=NEGATIVES).load(["train"])
    columns = {name: splits["train"].examples[name] for name in ("query", "passage", "labels")}
    scores = settled.score(np.zeros((24, 1)), columns, columns)
    assert (scores["accuracy_at_1"], scores["mrr_at_10"]) == (0, 0.5)


def test_the_loss_is_the_binary_cross_entropy(task):
    settled, _ = task(train_csv=LABELLED).load(["train"])
    logits, labels = torch.tensor([[0.3], [-2.0], [5.0]]), torch.tensor([1.0, 0.0, 0.5])
    loss = settled.loss({"logits": logits}, {"labels": labels}, torch.tensor(3))
    expected = torch.nn.BCEWithLogitsLoss()(logits[:, 0], labels)  # that of BinaryCrossEntropyLoss
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("content", [LABELLED, NEGATIVES], ids=["labelled", "negatives"])
def test_the_result_is_a_cross_encoder(run, content):
    library = pytest.importorskip("sentence_transformers")
    folder = str(run(content).output_dir)
    pairs = [("a good film", "the good story"), ("a bad film", "the lovely plot")]
    theirs = library.CrossEncoder(folder, device="cpu").predict(pairs, show_progress_bar=False)
    own = [each["score"] for each in bertkit.load(folder).predict(["\t".join(pair) for pair in pairs])]
    np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-5)
    again = bertkit.evaluate(folder).metrics
    assert again["eval_ndcg_at_10"] == pytest.approx(run(content).metrics["eval_ndcg_at_10"], abs=1e-5)


def test_the_report_is_of_queries(run):
    page = (run(LABELLED, report=True).output_dir / "report.html").read_text()
    assert "3 queries" in page
