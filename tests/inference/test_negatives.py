"""Hard negatives: what is near but no positive, and what is refused."""

from __future__ import annotations

import pytest

import bertkit
from bertkit.data.tables import read_table
from bertkit.runtime.errors import CheckpointError, DataError, OutputError, RecipeError
from bertkit.runtime.files import write_json_lines

pytestmark = pytest.mark.numeric

WORDS = "lovely good bad awful".split()
PAIRS = [(f"a {first} film", f"the {second} story") for first in WORDS for second in WORDS[:3]]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("query,passage\n" + "".join(f"{query},{passage}\n" for query, passage in PAIRS[::2] + PAIRS[1::2]))
    return path


@pytest.fixture(autouse=True)
def library():
    return pytest.importorskip("sentence_transformers")


def test_negatives_are_no_positives_of_the_query(pairs, tmp_path, checkpoint):
    pairs.write_text(pairs.read_text() + "".join(f'the plot {word},"the ""{word}"", plot"\n' for word in WORDS))
    pairs.write_text(pairs.read_text().replace("query,passage", "Query,Passage"))  # columns are named in any case
    options = {"number": 2, "margin": 0.0, "text_columns": ["query", "passage"]}
    done = bertkit.mine_negatives(pairs, tmp_path / "out.csv", model=checkpoint, **options)
    assert done.pairs == 16
    columns = read_table(str(done.path)).columns
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert 0 < len(rows) == done.rows
    known = {*PAIRS, *((f"the plot {word}", f'the "{word}", plot') for word in WORDS)}
    for row in rows:
        assert (row["query"], row["passage"]) in known
        for name in ("negative_1", "negative_2"):
            assert (row["query"], row[name]) not in known
            assert row[name] in {passage for _, passage in known}


def test_line_endings_within_texts_stay(tmp_path, checkpoint):
    rows = [(f"a {word}\rfilm", f"the\n{word} story") for word in WORDS]
    write_json_lines(tmp_path / "pairs.jsonl", [{"query": query, "passage": passage} for query, passage in rows])
    out = tmp_path / "out.csv"
    bertkit.mine_negatives(tmp_path / "pairs.jsonl", out, model=str(checkpoint), number=1, margin=0.0)
    columns = read_table(str(out)).columns
    assert set(zip(columns["query"], columns["passage"], strict=True)) <= set(rows)
    assert set(columns["negative_1"]) <= {passage for _, passage in rows}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"number": 9}, DataError, "3 different texts in 'passage', too few for 9 negatives"),
        ({"number": 0}, RecipeError, "expected a number and a batch_size from 1"),
        ({"batch_size": 0}, RecipeError, "expected a number and a batch_size from 1"),
        ({"margin": 1.0}, RecipeError, "a margin from 0 to below 1"),
        ({"text_columns": "query"}, RecipeError, "expected two, the text and its positive, got query$"),
        ({"text_columns": ["query"] * 2}, RecipeError, "expected two, the text and its positive, got query, query"),
        ({"text_columns": [0, 1]}, DataError, "no column '0'; available: 'query', 'passage'"),
        ({"margin": 0.999}, DataError, "the 2 texts nearest to the first one; give a smaller --margin or another"),
        ({"number": 2, "margin": 0.999}, DataError, "; give a smaller --number or a smaller --margin or another --mod"),
        ({"model": "/nowhere"}, CheckpointError, "/nowhere: no such folder"),
        ({"model": "no/where"}, CheckpointError, "no/where: neither a local folder nor a model that is available"),
    ],
)
def test_impossible_arguments(pairs, tmp_path, checkpoint, options, error, message):
    with pytest.raises(error, match=message):
        bertkit.mine_negatives(pairs, tmp_path / "out.csv", **{"model": str(checkpoint), "number": 1, **options})
    assert not (tmp_path / "out.csv").exists()


def test_texts_that_are_all_positives_need_more_pairs(pairs, tmp_path, checkpoint):
    rows = [f"a {first} film,the {second} story\n" for first in WORDS for second in WORDS[:2]]
    pairs.write_text("query,passage\n" + "".join(rows))
    with pytest.raises(DataError, match=r"no pair has 1 text that is no positive of its first one .* or more pairs$"):
        bertkit.mine_negatives(pairs, tmp_path / "out.csv", model=str(checkpoint), number=1, margin=0)


def test_an_existing_file_and_another_format_are_refused(pairs, tmp_path, checkpoint):
    with pytest.raises(RecipeError, match="expected a file with the ending"):
        bertkit.mine_negatives(pairs, tmp_path / "out.txt", model=str(checkpoint))
    with pytest.raises(OutputError):
        bertkit.mine_negatives(pairs, pairs, model=str(checkpoint))
