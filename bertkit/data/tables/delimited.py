"""Tables of delimited text, as CSV and TSV: the separator of their columns, quoting, and the lines of faults."""

from __future__ import annotations

import csv
import io
import itertools
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence

from bertkit.data.tables.table import Row, Table, repeated_names, with_names_first
from bertkit.runtime.errors import raise_listed
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.text import iterating, split_lines

COMMA, TAB, SEMICOLON, BAR = ",", "\t", ";", "|"
NAMES = {COMMA: "comma", TAB: "tab", SEMICOLON: "semicolon", BAR: "vertical bar"}
"""Separators of columns, with their names in messages."""

LONGEST_FIELD = 2**31 - 1  # characters; the largest limit that the csv module accepts on every system
_FEW_VALUES = 256  # different values of a column, such as labels, that are kept once
SAMPLED_LINES = 20
_QUOTED = re.compile(r'(?:^|(?<=[,\t;|])) *"(?:[^"]++|"")*+"')  # a field, which may have ends of lines


def find_delimiter(start: str, usual: str) -> str:
    r"""Returns the separator of the columns of a table: that of its header; of several that by which most rows have as
    many fields as the header, then that of the most fields, then the usual one.

    `csv.Sniffer` is not used: its time grows with the square of the text.

    Args:
        start: the header line and some rows.
        usual: separator for the suffix of the file, also for a header without any. A tab is not doubted where the
            header has one: fields of such files are not quoted, and hold commas.

    >>> [find_delimiter(header, COMMA) for header in ("text;label", "text|label", "text", '"a; b",label')]
    [';', '|', ',', ',']
    >>> find_delimiter("id;text, as it was;label\n1;good, and cheap;yes\n2;bad;no\n", COMMA)
    ';'
    """
    lines = split_lines(start)[:SAMPLED_LINES]
    header = _QUOTED.sub("", "\n".join(lines)).partition("\n")[0]
    occurring = [each for each in NAMES if each in header]
    if not occurring or (usual == TAB and TAB in occurring):
        return usual
    csv.field_size_limit(LONGEST_FIELD)

    def fit(delimiter: str) -> tuple[int, int, bool]:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        return widths.count(widths[0]), widths[0], delimiter == usual

    return max(occurring, key=fit)


def delimited_parts(
    pieces: Iterable[str],
    source: str,
    size: int = sys.maxsize,
    *,
    delimiter: str,
    quoting: bool,
    columns: Sequence[str] | None = None,
    may_be_empty: bool = False,
    left_out: list[str] | None = None,
) -> Iterator[Table]:
    r"""Yields a table in parts of ``size`` rows, from text whose first row has the column names.

    Text is unchanged: ``NA``, ``None``, ``null`` and an empty field are text. A column without a name is dropped:
    pandas writes row numbers to such a column. A blank line is skipped, except in a table of one column, where it is an
    empty text. A line ends with CRLF, LF or CR; within quotes these are part of the field.

    Args:
        pieces: pieces of the text, from `bertkit.runtime.reading.text.decode_pieces`.
        source: name of the text in messages.
        size: rows of a part.
        delimiter: one of `NAMES`.
        quoting: True if a field may be quoted as in RFC 4180: it can then contain delimiters, line endings and doubled
            quotes. A quote within a field that does not start with one is a plain character. False: quotes are plain
            characters everywhere, and a row is a line.
        columns: column names of a text without a header row.
        may_be_empty: no text at all and a header without rows give no parts.
        left_out: receives the faults of rows whose number of fields differs from the number of columns, which are
            skipped then; None to refuse them.

    Raises:
        DataError: there is no header or no row, no column has a name, columns share a name, a row has a wrong number of
            fields, or a quoted field does not end; after the parts before the fault. The message lists the first ten
            faults of a part with their lines.

    >>> [table] = delimited_parts(['text,label\n"a, b",1\n'], "x.csv", delimiter=COMMA, quoting=True)
    >>> table.columns
    {'text': ['a, b'], 'label': ['1']}
    """
    faults: list[str] = []
    with iterating(pieces) as remaining:
        lines: Iterator[str] = (line for piece in remaining for line in io.StringIO(piece, newline=""))
        if may_be_empty:
            first = next(lines, None)
            if first is None:
                return
            lines = itertools.chain([first], lines)
        if quoting:
            rows = _read_quoted_rows(lines, delimiter, source, faults)
        else:
            bare = (line.rstrip("\r\n") for line in lines)
            rows = ((number, line.split(delimiter) if line else []) for number, line in enumerate(bare, 1))
        if columns is None:
            rows = with_names_first(rows, f"{source}, line", width=2)
            line, names = next(rows, (1, []))
            if not names:
                raise_listed(
                    faults or [f"{source}, line 1: empty; expected a header line with the names of the columns"]
                )
            faults += faults_of_names(names, f"{source}, line {line}")
        else:
            names = list(columns)
            faults += faults_of_names(names, f"{source}, the names given for its columns")
        given = counted(len(names), "column name is", "column names are")
        expected = f"the header has {len(names)}" if columns is None else f"{given} given"
        remedy = f"; put quotes around a field that contains a {NAMES[delimiter]}" if quoting else ""
        uneven = faults if left_out is None else left_out
        even = _read_even_rows(rows, len(names), source, (f" where {expected}", f" where {expected}{remedy}"), uneven)
        is_empty = True
        while len((part := _make_columns(itertools.islice(even, size), len(names)))[0]):
            if faults:
                break
            is_empty = False
            starts, fields = part
            values = {name: column for name, column in zip(names, fields, strict=True) if name}
            yield Table(values, source, "", starts)
        if is_empty and not faults and not may_be_empty:
            left = f", but {len(left_out)} with a different number of fields" if left_out else ""
            faults.append(f"{source}: no rows{' after the header' if columns is None else ''}{left}")
    raise_listed(faults)


def _make_columns(rows: Iterable[Row], width: int) -> tuple[array[int], list[list[str]]]:
    """Returns the lines and the columns of rows; equal values of a column, such as labels, are one string if there are
    few of them."""
    lines, columns = array("q"), [[] for _ in range(width)]  # type: ignore[var-annotated]
    known: list[dict[str, str]] = [{} for _ in range(width)]
    for line, fields in rows:
        lines.append(line)
        for column, values, value in zip(columns, known, fields, strict=True):
            known_value = values.setdefault(value, value) if len(values) < _FEW_VALUES else values.get(value, value)
            column.append(known_value)
    return lines, columns


def faults_of_names(names: Sequence[str], place: str) -> list[str]:
    """Returns the faults of the names of columns: all are empty, or one occurs more than once."""
    named = list(filter(None, names))
    return repeated_names(named, place) if named else [f"{place}: none of the columns has a name; add names"]


def _read_even_rows(
    rows: Iterable[Row], width: int, source: str, expected: tuple[str, str], uneven: list[str]
) -> Iterator[Row]:
    """Yields the rows of ``width`` fields; adds the faults of others to ``uneven``, with the ends that ``expected`` has
    for too few fields and for too many.
    """
    for line, fields in rows:
        if not fields and width > 1:
            continue
        fields = fields or [""]
        if len(fields) == width:
            yield line, fields
        else:
            uneven.append(f"{source}, line {line}: {counted(len(fields), 'field')}{expected[len(fields) > width]}")


def _read_quoted_rows(lines: Iterable[str], delimiter: str, source: str, faults: list[str]) -> Iterator[Row]:
    """Yields rows as in RFC 4180 up to the first unterminated quoted field, which is added to ``faults``."""
    # The limit is global to the process: lowering it again could interrupt a reader in another thread.
    csv.field_size_limit(LONGEST_FIELD)
    of_row: list[str] = []

    def read() -> Iterator[str]:
        for line in lines:
            of_row.append(line)
            yield line

    reader = csv.reader(read(), delimiter=delimiter, strict=True)
    begins = 1
    try:
        for fields in reader:
            yield begins, fields
            begins = reader.line_num + 1
            of_row.clear()
    except csv.Error as error:
        # The line where the first field of the row begins that does not end.
        whole_field = re.compile(rf'(?:"(?:[^"]++|"")*+"|[^"{delimiter}][^{delimiter}]*+)?[{delimiter}]')
        text, start = "".join(of_row), 0
        while field := whole_field.match(text, start):
            start = field.end()
        ends = itertools.accumulate(map(len, of_row))
        opening = begins + next(number for number, end in enumerate(ends) if end > start)
        faults.append(
            f"{source}, line {opening}: a field begins with a quote here and does not end with one "
            f"(line {reader.line_num}: {error}); close it, and double the quotes within it"
        )
