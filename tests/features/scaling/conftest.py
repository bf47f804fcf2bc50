"""A folder of files in every format, whose rows tell where they are from."""

from __future__ import annotations

import csv
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

WORDS = "a good bad film story the plot is lovely or awful".split()


def texts(count, seed):
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, 20))) for _ in range(count)]


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Keeps the work of calls that do not say otherwise in this process, which is quicker for a few rows."""
    for module in ("features.scaling.folders", "data.corpus.store.units"):
        monkeypatch.setattr(f"bertkit.{module}.usable_cores", lambda: 1)


@pytest.fixture
def film(fine_tuned):
    """A classifier of three classes."""
    return fine_tuned("film")


def lines(path):
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="session")
def write_corpus():
    """Returns a function that writes files of ``rows`` rows each to a folder."""

    def write(folder, rows):
        (folder / "part").mkdir(parents=True)
        with (folder / "b.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "text", "label"])
            writer.writerows([f"b{row}", f"{text}\n{text}", "good"] for row, text in enumerate(texts(rows, 1)))
        with (folder / "part" / "c.jsonl").open("w") as stream:
            for row, text in enumerate(texts(rows, 2)):
                stream.write(json.dumps({"id": f"c{row}", "text": text}) + "\n")
        table = pa.table({"id": [f"d{row}" for row in range(rows)], "text": texts(rows, 3)})
        pq.write_table(table, folder / "part" / "d.parquet", row_group_size=7)
        (folder / "e.txt").write_text("".join(f"{text}\n" for text in texts(rows, 4)))
        (folder / ".hidden.csv").write_text("text\nno\n")
        (folder / "notes.md").write_text("no table")
        return folder

    return write


@pytest.fixture
def corpus(tmp_path, write_corpus):
    return write_corpus(tmp_path / "corpus", 20)


@pytest.fixture(scope="session")
def contents():
    """Returns a function for the content of all files below a folder, by their names."""
    return lambda folder: {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
