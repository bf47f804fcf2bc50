"""A file by its name: kind, packing, fingerprint; and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit.errors import DataError
from bertkit.tables import is_table, read_table

CONTENTS = {
    ".csv": 'text,label\n"a, b",1\n',
    ".tsv": "text\tlabel\na, b\t1\n",
    ".jsonl": '{"text": "a, b", "label": "1"}\n',
}


def written(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def packed(data: bytes, packing: str) -> bytes:
    import pyarrow as pa

    return {"": data, ".gz": gzip.compress(data), ".zst": pa.Codec("zstd").compress(data, asbytes=True)}[packing]


def refusal(*given, **options) -> str:
    with pytest.raises(DataError) as caught:
        read_table(*given, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("packing", ["", ".gz", ".ZST"])
def test_every_kind_gives_the_same_table_however_packed(tmp_path, kind, packing):
    data = CONTENTS[kind].encode()
    path = written(tmp_path / f"x{kind.upper()}{packing}", packed(data, packing.lower()))
    table = read_table(path)
    assert table.columns == {"text": ["a, b"], "label": ["1"]}
    assert table.source == str(path)
    assert table.place(0) == f"{path}, line {1 if kind == '.jsonl' else 2}"
    assert table.fingerprint == "sha256:" + hashlib.sha256(data).hexdigest()[:16]


def test_a_parquet_file_and_its_fingerprint(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": ["a, b"]}), path)
    table = read_table(str(path))
    assert table.columns == {"text": ["a, b"]}
    assert table.place(0) == f"{path}, row 1"
    assert table.fingerprint == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def test_quoting_can_be_told(tmp_path):
    tsv = written(tmp_path / "x.tsv", 'text\tlabel\n"a\tb"\t1\n')
    assert read_table(tsv, quoting=True).columns == {"text": ["a\tb"], "label": ["1"]}
    csv = written(tmp_path / "x.csv", 'text,label\n"a,1\n')
    assert read_table(csv, quoting=False).columns == {"text": ['"a'], "label": ["1"]}


def test_names_and_skipping_reach_the_reader(tmp_path):
    path = written(tmp_path / "x.tsv", "a\t1\nb\n")
    table = read_table(path, columns=["text", "label"], skip_ragged=True)
    assert (table.columns, table.skipped) == ({"text": ["a"], "label": ["1"]}, 1)


@pytest.mark.parametrize("option", [{"columns": ["a"]}, {"quoting": False}, {"skip_ragged": True}])
def test_options_of_text_files_are_refused_for_others(tmp_path, option):
    path = written(tmp_path / "x.jsonl", CONTENTS[".jsonl"])
    assert refusal(path, **option) == (
        f"{path}: names of columns, quoting and the skipping of ragged rows are for .csv and .tsv files; "
        "remove them for .jsonl"
    )


@pytest.mark.parametrize("name", ["x.txt", "x.json", "x", "x.gz", "x.parquet.gz", "csv"])
def test_other_formats_are_refused_with_the_supported(tmp_path, name):
    path = written(tmp_path / name, "text,label\na,1\n")
    assert refusal(path) == (
        f"{path}: unsupported table format; expected .csv (commas), .tsv (tabs), .jsonl (one JSON object per "
        "line), these also compressed as .gz or .zst, or .parquet; rename it if it is one"
    )


def test_the_name_tells_a_table_from_plain_text():
    tables = ["a.csv", "b/A.TSV.gz", "a.jsonl.zst", "a.parquet"]
    assert list(map(is_table, [*tables, "a.txt", "a.csv.txt", "csv", "a.gz"])) == [True] * 4 + [False] * 4


@pytest.mark.parametrize("kind", [*CONTENTS, ".parquet"])
def test_a_file_that_cannot_be_read(tmp_path, kind):
    assert refusal(tmp_path / f"x{kind}") == f"{tmp_path}/x{kind}: cannot be read: No such file or directory"
    (tmp_path / f"y{kind}").mkdir()
    assert refusal(tmp_path / f"y{kind}") == f"{tmp_path}/y{kind}: cannot be read: Is a directory"


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_that_is_not_utf8(tmp_path, kind):
    path = written(tmp_path / f"x{kind}", CONTENTS[kind].replace("a, b", "café").encode("latin1"))
    shown = refusal(path)
    offset = path.read_bytes().index(b"\xe9")
    assert shown.startswith(f"{path}: not UTF-8 at byte offset {offset} ")
    assert "iconv -f latin1 -t utf-8" in shown


def test_a_damaged_file(tmp_path):
    assert "damaged or truncated" in refusal(written(tmp_path / "x.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-4]))
    assert "not a Parquet file, damaged or truncated" in refusal(written(tmp_path / "x.parquet", b"PAR1 or not"))


def test_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = written(tmp_path / "x.csv", CONTENTS[".csv"])
    assert read_table("~/x.csv").source == str(path)


def test_reading_text_costs_no_start_of_large_libraries(tmp_path):
    path = written(tmp_path / "x.csv", CONTENTS[".csv"])
    program = f"""
import sys
import bertkit.tables
bertkit.tables.read_table({str(path)!r})
print(*sorted({{"torch", "transformers", "datasets", "pyarrow", "pandas"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("MRPC/train.tsv", 3668, "Quality|#1 ID|#2 ID|#1 String|#2 String"),  # a byte order mark, unpaired quotes
        ("RTE/dev.tsv", 277, "index|sentence1|sentence2|label"),
        ("STS-B/dev.tsv", 1500, "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score"),
        ("SST-2/train.tsv", 67_349, "sentence|label"),
    ],
)
def test_the_published_files_are_read_whole(real_data, name, rows, columns):
    table = read_table(real_data / "glue" / name)
    assert list(table.columns) == columns.split("|")
    assert len(table) == rows
    assert list(table.lines) == list(range(2, rows + 2))
