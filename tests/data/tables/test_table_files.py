"""Tables of files: CSV and TSV return every text as it was written; each fault has its line; formats by their names."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertkit.data.tables import Table, is_table, read_table
from bertkit.data.tables.delimited import COMMA, NAMES, TAB, delimited_parts, find_delimiter
from bertkit.data.tables.table import ROWS_AT_ONCE
from bertkit.data.tables.table_files import read_table_parts
from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.text import decode_pieces
from tests.data.conftest import packed, parquet, refusal, written

CONTENTS = {
    ".csv": 'text,label\n"a, b",1\n',
    ".tsv": "text\tlabel\na, b\t1\n",
    ".jsonl": '{"text": "a, b", "label": "1"}\n',
}


def read(text: str, delimiter: str = COMMA, quoting: bool | None = None, block: int = 1 << 20, **options) -> Table:
    data = text.encode()
    blocks = [data[start : start + block] for start in range(0, len(data), block)]
    quoting = delimiter == COMMA if quoting is None else quoting
    pieces = decode_pieces(blocks, "x")
    (table,) = delimited_parts(pieces, "x", delimiter=delimiter, quoting=quoting, **options)
    return table


def rows(table: Table) -> list[tuple[str, ...]]:
    return list(zip(*table.columns.values(), strict=True))


# ---- CSV -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delimiter", "text", "columns", "lines"),
    [
        (COMMA, 'text,label\nplain, \n"a, ""b""",1\n\n"two\nlines",0\n',
         {"text": ["plain", 'a, "b"', "two\nlines"], "label": [" ", "1", "0"]}, [2, 3, 5]),
        (TAB, 'sentence\tlabel\r\na "half quote\t1\r\n\r\n"b""\t0',
         {"sentence": ['a "half quote', '"b""'], "label": ["1", "0"]}, [2, 4]),
        # A quote within a field that does not begin with one is a plain character.
        (COMMA, 'text,label\n5" of rain, 2" of snow\n', {"text": ['5" of rain'], "label": [' 2" of snow']}, [2]),
        # A single column needs no delimiter, and a blank line is one of its rows; else it is none.
        (COMMA, 'text\na; b\n"c, d"\n', {"text": ["a; b", "c, d"]}, [2, 3]),
        (COMMA, '"text, as it was"\na\n', {"text, as it was": ["a"]}, [2]),
        *[(delimiter, "text\na\n\nb\n", {"text": ["a", "", "b"]}, [2, 3, 4]) for delimiter in (COMMA, TAB)],
        (TAB, "text\tlabel\n\na\t1\n\n\n", {"text": ["a"], "label": ["1"]}, [3]),
        # Words for nothing are words.
        *[(COMMA, f"word,n\n{word},1\n", {"word": [word], "n": ["1"]}, [2])
          for word in ("NA", "None", "null", "nan", "N/A", "", "True", "007", " ")],
        # A column without a name is left out: pandas writes row numbers to one.
        (COMMA, ",text,label\n0,good,1\n1,bad,0\n", {"text": ["good", "bad"], "label": ["1", "0"]}, [2, 3]),
        *[(COMMA, f'text,label{end}"a{end}b",1{end}c,0', {"text": [f"a{end}b", "c"], "label": ["1", "0"]}, [2, 4])
          for end in ("\n", "\r\n", "\r")],
    ],
)  # fmt: skip
def test_text_of_fields_is_unchanged(delimiter, text, columns, lines):
    table = read(text, delimiter)
    assert (table.columns, list(table.lines)) == (columns, lines)
    assert table.place(0) == f"x, line {lines[0]}"
    assert (table.skipped, table.class_names) == (0, {})


def test_fields_of_megabytes_are_read():
    long = 'word, "quoted"\n' * 200_000
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["text", "label"], [long, "1"], ["after", "0"]])
    table = read(stream.getvalue())
    assert (rows(table), list(table.lines)) == ([(long, "1"), ("after", "0")], [2, 200_003])


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
HOSTILE = st.lists(st.sampled_from(['"', ",", "\r", "\n", "\t", "\u2028", "\x85", "\x0b", "a", "é", ""])).map("".join)


@st.composite
def tables(draw, texts) -> list[list[str]]:
    """A header and at least one row, of one to four columns."""
    width = draw(st.integers(1, 4))
    header = [f"column {number}" for number in range(width)]
    return [header, *draw(st.lists(st.lists(texts, min_size=width, max_size=width), min_size=1, max_size=6))]


@given(
    tables(TEXTS | HOSTILE),
    st.sampled_from([COMMA, TAB]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.booleans(),
    st.integers(1, 30),
)
def test_rows_of_the_csv_module_round_trip(written, delimiter, quoting, marked, block):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting)
    begins = []
    for row in written:
        begins.append(1 + len(re.findall("\r\n|\r|\n", stream.getvalue())))
        writer.writerow(row)
    text = "\ufeff" * marked + stream.getvalue()
    table = read(text, delimiter, quoting=True, block=block)
    assert list(table.columns) == written[0]
    assert rows(table) == list(map(tuple, written[1:]))
    assert list(table.lines) == begins[1:]


def unclosed(opened: int, noticed: int) -> str:
    return f"x, line {opened}: a field begins with a quote here and does not end with one (line {noticed}: "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('text,label,note\na,1,\n"two\nlines",0,"never closed\nb,1,\n', unclosed(4, 5)),
        ('text,label\n5" pipe,"open, ""so"" it\ngoes "" on\n"",and on\n', unclosed(2, 4)),  # doubled quotes after it
        ('text,label\n"one "word" quoted",1\n', unclosed(2, 2)),
        ('text,label\n"not closed,1\n"closed",0\n', unclosed(2, 3)),
        ('"text,label\na,1\n', unclosed(1, 2)),
        (
            'text,label\na\n"b,1\n',
            f"2 faults:\n  - x, line 2: 1 field where the header has 2\n  - {unclosed(3, 3)}",
        ),
    ],
)
def test_unclosed_quote_is_named_by_its_opening_line(text, expected):
    for delimiter in NAMES:
        fault = refusal(read, text.replace(",", delimiter), delimiter, quoting=True)
        assert fault.startswith(expected)
        assert fault.endswith("); close it, and double the quotes within it")


@given(
    tables((TEXTS | HOSTILE).map(lambda text: text.translate(dict.fromkeys(map(ord, "\t\r\n"))))), st.integers(1, 30)
)
@example([["a"], [""], ["x"], [""]], 3)
@example([["a", "b"], ["", ""]], 1)
def test_tab_separated_texts_round_trip(written, block):
    text = "".join("\t".join(row) + "\n" for row in written)
    table = read(text, TAB, block=block)
    assert rows(table) == list(map(tuple, written[1:]))
    assert list(table.lines) == list(range(2, len(written) + 1))


def test_names_for_a_file_without_a_header():
    names = ["source", "label", "star", "sentence"]
    table = read("gj04\t1\t\tOur friends won't buy this.\ngj04\t0\t*\tThem won't.\n", TAB, columns=names)
    assert list(table.columns) == names
    assert table.column("label") == ["1", "0"]
    assert list(table.lines) == [1, 2]
    assert refusal(read, "a\tb\n", TAB, columns=names) == "x, line 1: 2 fields where 4 column names are given"


def test_ragged_rows_are_skipped_only_when_asked():
    text = "a\tb\n1\t2\n3\n4\t5\t6\n\n7\t8\n"
    left_out = []
    table = read(text, TAB, left_out=left_out)
    assert rows(table) == [("1", "2"), ("7", "8")]
    assert list(table.lines) == [2, 6]
    faults = ["x, line 3: 1 field where the header has 2", "x, line 4: 3 fields where the header has 2"]
    assert left_out == faults
    assert refusal(read, text, TAB).splitlines()[1:] == [f"  - {fault}" for fault in faults]
    assert refusal(read, "a\tb\n1\n", TAB, left_out=[]) == (
        "x: no rows after the header, but 1 with a different number of fields"
    )


def test_ragged_rows_at_the_end_of_a_part_are_counted(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("a\tb\n" + "1\t2\n" * ROWS_AT_ONCE + "3\n4\n")
    table = read_table(path, skip_ragged=True)
    assert (len(table), table.skipped) == (ROWS_AT_ONCE, 2)


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "delimiter", "options", "expected"),
    [
        ("text,label\nwell, well,1\n", COMMA, {}, "x, line 2: 3 fields where the header has 2; put quotes around a "
         "field that contains a comma"),
        ("text,label\n  \n", COMMA, {}, "x, line 2: 1 field where the header has 2"),
        (",\n1,2\n", COMMA, {}, "x, line 1: none of the columns has a name; add names"),
        ("1,2\n", COMMA, {"columns": ["a", "a"]}, "x, the names given for its columns: 2 columns are named 'a'; "
         "expected one of each name"),
        *[(text, delimiter, {}, "x, line 1: empty; expected a header line with the names of the columns")
          for text in ("", "\ufeff", "\n\na\n") for delimiter in (COMMA, TAB)],
        *[(f"a{delimiter}b\n\n", delimiter, {}, "x: no rows after the header") for delimiter in (COMMA, TAB)],
        *[("", delimiter, {"columns": ["a"]}, "x: no rows") for delimiter in (COMMA, TAB)],
    ],
)  # fmt: skip
def test_wrong_tables_are_refused_with_a_remedy(text, delimiter, options, expected):
    assert refusal(read, text, delimiter, **options) == expected


def test_faults_are_collected_and_at_most_ten_shown():
    faults = refusal(read, "a,,a\n" + "1,2\n" * 20)
    total, first, second = faults.splitlines()
    assert total == "21 faults:"
    assert first == "  - x, line 1: 2 columns are named 'a'; expected one of each name"
    assert second.startswith("  - x, line 2: 2 fields where the header has 3 (20 times, also line 3, line 4, ")


@pytest.mark.parametrize("delimiter", [COMMA, TAB])
def test_invalid_bytes_are_named_by_their_offset(delimiter):
    assert refusal(read, f"a{delimiter}b\n1{delimiter}\0\n", delimiter).startswith("x: NUL byte at byte offset 6: ")


# ---- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "packing"), [*((kind, packing) for kind in CONTENTS for packing in ("", ".gz", ".ZST")), (".parquet", "")]
)
def test_every_format_gives_the_same_table(tmp_path, kind, packing):
    data = parquet({"text": ["a, b"], "label": ["1"]}) if kind == ".parquet" else CONTENTS[kind].encode()
    path = written(tmp_path / f"x{kind.upper()}{packing}", packed(data, packing.lower()))
    table = read_table(str(path))
    assert table.columns == {"text": ["a, b"], "label": ["1"]}
    assert table.source == str(path)
    assert table.place(0) == f"{path}, {'row 1' if kind == '.parquet' else 'line 1' if kind == '.jsonl' else 'line 2'}"
    assert table.fingerprint == "sha256:" + hashlib.sha256(data).hexdigest()[:16]


def test_options_reach_the_reader_of_the_file(tmp_path, monkeypatch):
    tsv = written(tmp_path / "x.tsv", 'text\tlabel\n"a\tb"\t1\n')
    assert read_table(tsv, quoting=True).columns == {"text": ["a\tb"], "label": ["1"]}
    table = written(tmp_path / "x.csv", 'text,label\n"a,1\n')
    assert read_table(table, quoting=False).columns == {"text": ['"a'], "label": ["1"]}
    monkeypatch.setenv("HOME", str(tmp_path))
    ragged = written(tmp_path / "y.tsv", "a\t1\nb\n")
    read = read_table("~/y.tsv", columns=["text", "label"], skip_ragged=True)
    assert (read.columns, read.skipped, read.source) == ({"text": ["a"], "label": ["1"]}, 1, str(ragged))


@pytest.mark.parametrize("option", [{"columns": ["a"]}, {"quoting": False}, {"skip_ragged": True}])
def test_options_of_text_files_are_refused_for_others(tmp_path, option):
    path = written(tmp_path / "x.jsonl", CONTENTS[".jsonl"])
    for place, form in ((path, ".jsonl"), *([] if "skip_ragged" in option else [(tmp_path, "a folder")])):
        fault = refusal(read_table, place, **option)
        assert fault.startswith(
            f"{place}: names of columns, quoting and the skipping of ragged rows are for .csv and .tsv"
        )
        assert fault.endswith(f"remove them for {form}")


@pytest.mark.parametrize("name", ["x.txt", "x.json.gz", "x", "x.gz", "x.parquet.gz", "csv"])
def test_other_formats_are_refused_with_the_supported(tmp_path, name):
    path = written(tmp_path / name, "text,label\na,1\n")
    fault = refusal(read_table, path)
    assert fault.startswith(f"{path}: unsupported table format; expected .csv, .tsv, .jsonl")
    assert all(form in fault for form in (".gz or .zst", ".json (", ".parquet", ".xlsx; rename it"))


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.json", "x.parquet", "x.xlsx", "x.csv.gz"])
def test_what_stands_in_the_place_of_a_file_is_named(tmp_path, name):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"
    for content, expected in (
        (pointer, "a pointer of Git LFS, not the file itself; fetch it: git lfs pull"),
        ("\ufeff\n<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "a page of a web site (HTML), not a table; "),
    ):
        path = written(tmp_path / name, content)
        assert refusal(read_table, path).startswith(f"{path}: {expected}")
        with pytest.raises(DataError, match=re.escape(expected)):
            list(read_table_parts(path, 10, lambda share: None))


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(written(tmp_path / "a.txt", "a text").parent)
    with pytest.raises(DataError, match="'' is not the name of a file or folder"):
        read_table("")
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        read_table("a text in the place of a file " * 9 + ".csv")
    for url in ("https://x/a.csv", Path("hf://datasets/a.csv")):
        with pytest.raises(DataError, match=r"a\.csv: is a URL; download the file"):
            read_table(url)


def test_a_list_of_json_objects_is_a_table(tmp_path):
    path = written(tmp_path / "x.JSON", '[{"text": "a", "label": ["b"]},\n {"text": "c"}]')
    for table in (read_table(path), *read_table_parts(path, 1, print)):
        assert (table.columns, table.place(1)) == ({"text": ["a", "c"], "label": [["b"], None]}, f"{path}, line 2")


def test_the_name_tells_a_table_from_plain_text():
    tables = ["a.csv", "b/A.TSV.gz", "a.jsonl.zst", "a.parquet", "a.xlsx", "a.XLSX#May", "a.json"]
    assert list(map(is_table, [*tables, "a.txt", "a.csv.txt", "csv", "a.gz"])) == [True] * 7 + [False] * 4


@pytest.mark.parametrize(
    ("name", "delimiter", "said"),
    [
        ("x.csv", ";", "semicolons"),
        ("x.csv", "\t", "tabs"),
        ("x.csv", "|", "vertical bars"),
        ("x.tsv", ",", "commas"),
        ("x.tsv", ";", "semicolons"),
        ("x.csv", ",", ""),
        ("x.tsv", "\t", ""),
    ],
)
def test_the_separator_is_found_and_said(tmp_path, capsys, name, delimiter, said):
    lines = [["text", "label"], ["good, and; cheap | new", "1"], ["bad", "0"]]
    path = tmp_path / name
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(lines)
    parts = list(read_table_parts(path, 1, lambda share: None))
    for table in (read_table(path), *parts[:1]):
        assert rows(table)[0] == ("good, and; cheap | new", "1")
    assert [table.place(0) for table in parts] == [f"{path}, line 2", f"{path}, line 3"]
    expected = f"{path}: columns are separated by {said}\n" if said else ""
    assert capsys.readouterr().err == expected * 2


@pytest.mark.parametrize(
    ("header", "usual", "delimiter"),
    [
        ("text", COMMA, COMMA),
        ('"a; b",label', COMMA, COMMA),
        ('"Text,\nas it was";Label\n"good; cheap";1', COMMA, ";"),  # of Excel, in a name with Alt+Enter
        ('id;"Price, ""EUR"""\n1;"3,5"', COMMA, ";"),
        ('screen 5";label\n"a, b";1', COMMA, ";"),
        ("", TAB, TAB),
        ("text\x0bbody;label\na;b", COMMA, ";"),  # no end of a line
        ("a, b\tlabel", TAB, TAB),
        ("id;text, original;label\n1;well, well;a\n2;no;b", COMMA, ";"),
        ("id,text; original,label\n1,well; well,a\n2,no,b", COMMA, COMMA),
        ("id;text, original;label", COMMA, ";"),
        ("id;text, original;label\n1;well, well;a\n2;no, no;b", COMMA, ";"),
        # over which csv's sniffer would sit for hours
        pytest.param("id,text; original\n1,b\n" + "'s " * 1_000_000, COMMA, COMMA, id="apostrophes"),
    ],
)
def test_the_header_tells_the_separator(header, usual, delimiter):
    assert find_delimiter(header, usual) == delimiter


@pytest.mark.parametrize("kind", [*CONTENTS, ".parquet"])
def test_a_file_that_cannot_be_read(tmp_path, kind):
    file, folder = tmp_path / f"x{kind}", tmp_path / f"y{kind}"
    folder.mkdir()
    assert refusal(read_table, file) == f"{file}: cannot be read: No such file or directory"
    assert refusal(read_table, folder).startswith(f"{folder}: a folder that has no file that ends in .txt, .md")


def test_a_damaged_file(tmp_path):
    assert "damaged or truncated" in refusal(
        read_table, written(tmp_path / "x.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-4])
    )
    assert "not a Parquet file, damaged or truncated" in refusal(
        read_table, written(tmp_path / "x.parquet", b"PAR1 or not")
    )


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


def test_a_title_above_the_names_is_left_out(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("Reviews;;\n;;\nText;Stars;Day\ngood;5;\n")  # as Excel writes it
    table = read_table(tmp_path / "x.csv")
    assert table.columns == {"Text": ["good"], "Stars": ["5"], "Day": [""]}
    assert table.place(0) == f"{tmp_path}/x.csv, line 4"
    assert "x.csv, line 3: read as the names of the columns, below the title 'Reviews'" in capsys.readouterr().err
    (tmp_path / "x.csv").write_text("comment\ngood, as it was\n")  # an unquoted separator is a fault
    assert "line 2: 2 fields where the header has 1" in refusal(read_table, tmp_path / "x.csv")


def test_parts_of_parquet_are_one_table(tmp_path):
    for number, text in enumerate("ab"):
        data = parquet({"text": [text, text * 2], "label": [0, 1]})
        written(tmp_path / f"train-0000{number}-of-00002.parquet", data)
    written(tmp_path / "test-00000-of-00001.parquet", parquet({"text": ["c"]}))
    table = read_table(tmp_path / "train-*.parquet")
    assert table.columns["text"] == ["a", "aa", "b", "bb"]
    assert table.place(3) == f"{tmp_path}/train-*.parquet, row 4"
    assert table.fingerprint != read_table(tmp_path / "train-00000-of-00002.parquet").fingerprint
    assert "its columns differ from those of" in refusal(read_table, tmp_path / "*.parquet")
    written(tmp_path / "train-00002-of-00002.parquet", parquet({"text": ["c"], "label": [1.0]}))
    differing = refusal(read_table, tmp_path / "train-*.parquet")
    assert differing.endswith(": 'text: string', 'label: double' in place of 'text: string', 'label: int64'")
    (tmp_path / "train-00002-of-00002.parquet").unlink()
    assert (
        refusal(read_table, tmp_path / "x*.parquet") == f"{tmp_path}/x*.parquet: this pattern matches no file or folder"
    )
    (tmp_path / "README.md").write_text("a description")
    expected = f"a folder of tables; give the file of one: '{tmp_path}/test-*.parquet', '{tmp_path}/train-*.parquet'"
    assert refusal(read_table, tmp_path) == f"{tmp_path}: {expected}"
