"""CSV and TSV: every text comes back as it was written; every fault has its line."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.reading.text import decode_pieces
from bertkit.tables import Table
from bertkit.tables.table_files import COMMA, TAB, delimited_parts


def read(text: str, delimiter: str = COMMA, quoting: bool | None = None, block: int = 1 << 20, **options) -> Table:
    data = text.encode()
    blocks = [data[start : start + block] for start in range(0, len(data), block)]
    quoting = delimiter == COMMA if quoting is None else quoting
    pieces = decode_pieces(blocks, "x")
    (table,) = delimited_parts(pieces, "x", delimiter=delimiter, quoting=quoting, **options)
    return table


def rows(table: Table) -> list[tuple[str, ...]]:
    return list(zip(*table.columns.values(), strict=True))


def refusal(text: str, delimiter: str = COMMA, **options) -> str:
    with pytest.raises(DataError) as caught:
        read(text, delimiter, **options)
    return str(caught.value)


# ---- CSV -------------------------------------------------------------------------------------------------------------


def test_csv_by_eye():
    table = read('text,label\nplain, \n"a, ""b""",1\n\n"two\nlines",0\n')
    assert table.columns == {"text": ["plain", 'a, "b"', "two\nlines"], "label": [" ", "1", "0"]}
    assert list(table.lines) == [2, 3, 5]
    assert table.place(2) == "x, line 5"
    assert (table.skipped, table.class_names) == (0, {})


def test_words_for_nothing_are_words():
    words = ["NA", "None", "null", "nan", "N/A", "", "True", "007", " "]
    table = read("word,n\n" + "".join(f"{word},1\n" for word in words))
    assert table.column("word") == words


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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_ending(end):
    table = read(f'text,label{end}"a{end}b",1{end}c,0')
    assert rows(table) == [(f"a{end}b", "1"), ("c", "0")]
    assert list(table.lines) == [2, 4]


def test_quote_within_an_unquoted_field_is_plain():
    assert rows(read('text,label\n5" of rain, 2" of snow\n')) == [('5" of rain', ' 2" of snow')]


def test_texts_of_megabytes():
    long = 'word, "quoted"\n' * 200_000
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["text", "label"], [long, "1"], ["after", "0"]])
    table = read(stream.getvalue())
    assert rows(table) == [(long, "1"), ("after", "0")]
    assert list(table.lines) == [2, 200_003]


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
    assert refusal(text).startswith(expected)
    assert refusal(text).endswith("); close it, and double the quotes within it")


def test_a_single_column_needs_no_delimiter():
    assert read('text\na; b\n"c, d"\n').columns == {"text": ["a; b", "c, d"]}
    assert read('"text, as it was"\na\n').columns == {"text, as it was": ["a"]}


# ---- TSV -------------------------------------------------------------------------------------------------------------


def test_tsv_by_eye():
    table = read('sentence\tlabel\r\na "half quote\t1\r\n\r\n"b""\t0', TAB)
    assert table.columns == {"sentence": ['a "half quote', '"b""'], "label": ["1", "0"]}
    assert list(table.lines) == [2, 4]


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


def test_blank_line_is_a_row_of_one_column():
    assert read("text\na\n\nb\n", TAB).column("text") == ["a", "", "b"]
    assert read("text\na\n\nb\n").column("text") == ["a", "", "b"]
    table = read("text\tlabel\n\na\t1\n\n\n", TAB)
    assert rows(table) == [("a", "1")]
    assert list(table.lines) == [3]


def test_names_for_a_file_without_a_header():
    names = ["source", "label", "star", "sentence"]
    table = read("gj04\t1\t\tOur friends won't buy this.\ngj04\t0\t*\tThem won't.\n", TAB, columns=names)
    assert list(table.columns) == names
    assert table.column("label") == ["1", "0"]
    assert list(table.lines) == [1, 2]
    assert refusal("a\tb\n", TAB, columns=names) == "x, line 1: 2 fields where 4 column names are given"


def test_ragged_rows_are_skipped_only_when_asked():
    text = "a\tb\n1\t2\n3\n4\t5\t6\n\n7\t8\n"
    table = read(text, TAB, skip_ragged=True)
    assert rows(table) == [("1", "2"), ("7", "8")]
    assert (table.skipped, list(table.lines)) == (2, [2, 6])
    assert refusal(text, TAB).splitlines()[1:] == [
        "  - x, line 3: 1 field where the header has 2",
        "  - x, line 4: 3 fields where the header has 2",
    ]
    assert refusal("a\tb\n1\n", TAB, skip_ragged=True) == (
        "x: no rows after the header, but 1 with a different number of fields"
    )


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "delimiter", "options", "expected"),
    [
        ("text;label\na, b;1\n", COMMA, {}, "x, line 1: no comma in the header 'text;label'; if ';' separates its "
         "columns, save it with commas"),
        ("text\tlabel\n", COMMA, {}, "x, line 1: no comma in the header 'text\\tlabel'; if tabs separate its columns, "
         "name the file .tsv"),
        ("text,label\n", TAB, {}, "x, line 1: no tab in the header 'text,label'; if commas separate its columns, name "
         "the file .csv"),
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
    assert refusal(text, delimiter, **options) == expected


def test_a_column_without_a_name_is_left_out():
    """As pandas writes the numbers of rows."""
    assert read(",text,label\n0,good,1\n1,bad,0\n").columns == {"text": ["good", "bad"], "label": ["1", "0"]}


def test_faults_are_collected_and_at_most_ten_shown():
    shown = refusal("a,,a\n" + "1,2\n" * 20)
    assert shown.splitlines()[:3] == [
        "21 faults:",
        "  - x, line 1: 2 columns are named 'a'; expected one of each name",
        "  - x, line 2: 2 fields where the header has 3",
    ]
    assert shown.endswith("… and 11 more")
    assert len(shown.splitlines()) == 12


@pytest.mark.parametrize("delimiter", [COMMA, TAB])
def test_invalid_bytes_are_named_by_their_offset(delimiter):
    assert refusal(f"a{delimiter}b\n1{delimiter}\0\n", delimiter).startswith("x: NUL byte at byte offset 6: ")
