"""Bytes → lines → paragraphs of documents."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertkit.data.corpus.documents import DocumentForm, Paragraph, file_paragraphs, row_paragraphs
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.reading.text import decode_lines, decode_text, read_text


def written(folder, data: bytes, name: str = "text.txt"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def in_blocks(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


class TestReadText:
    @pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_every_line_ending_with_and_without_mark(self, tmp_path, ending, mark):
        data = mark + ending.join(["Piña".encode(), b"", "二".encode()])
        assert read_text(written(tmp_path, data)) == "Piña\n\n二"

    @pytest.mark.parametrize(
        ("data", "offset"),
        [
            (b"caf\xe9 au lait", 3),
            (b"\xef\xbb\xbfcaf\xe9", 6),
            (b"cut off \xe4\xba", 8),
            (b"line\r\nline\r\n\xff", 12),
        ],
    )
    def test_other_encodings_are_refused_by_name_and_offset(self, tmp_path, data, offset):
        file = written(tmp_path, data)
        with pytest.raises(DataError, match=rf"not UTF-8 at byte offset {offset} ") as caught:
            read_text(file)
        assert str(file) in str(caught.value)
        assert "if you know its encoding: iconv -f ENCODING -t utf-8 OLD > NEW" in str(caught.value)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_the_encoding_of_a_mark_is_named(self, tmp_path, encoding):
        message = f"its mark is that of {encoding.upper()}: convert it: iconv -f {encoding} -t utf-8"
        with pytest.raises(DataError, match=message):
            read_text(written(tmp_path, "plain".encode(encoding)))

    def test_a_text_without_a_mark_is_not_guessed(self, tmp_path):
        with pytest.raises(DataError, match=r"NUL byte at byte offset 1: .* UTF-16 or UTF-32; .*iconv -f ENCODING"):
            read_text(written(tmp_path, "plain".encode("utf-16-le")))

    def test_nul_bytes_have_an_offset(self, tmp_path):
        with pytest.raises(DataError, match=r"NUL byte at byte offset 5"):
            read_text(written(tmp_path, b"\xef\xbb\xbfab\0"))


class TestDecodeLines:
    @given(st.text(st.sampled_from("aé二😀 \r\n\ufeff"), max_size=40), st.integers(1, 9))
    @example("a\r\nb\rc\n\n\r\r\n", 1)
    @example("\ufeffa\r", 2)
    def test_the_size_of_the_blocks_changes_nothing(self, text, size):
        data = text.encode()
        lines = re.split("\r\n|\r|\n", text.removeprefix("\ufeff"))
        assert list(decode_lines(in_blocks(data, size), "x")) == lines
        assert decode_text(data, "x") == "\n".join(lines)

    @given(st.binary(max_size=30).map(lambda data: data.replace(b"\0", b"\n")), st.integers(1, 9))
    @example(b"ab\xe4\xba\n", 3)
    @example(b"a\nb\n\xff\n\xff", 2)
    def test_offsets_do_not_depend_on_blocks(self, data, size):
        try:
            data.decode()
        except UnicodeDecodeError as error:
            with pytest.raises(DataError, match=rf"not UTF-8 at byte offset {error.start}[ :]"):
                list(decode_lines(in_blocks(data, size), "x"))
        else:
            list(decode_lines(in_blocks(data, size), "x"))

    def test_a_nul_byte_in_a_later_block(self):
        with pytest.raises(DataError, match="x: NUL byte at byte offset 7"):
            list(decode_lines([b"\xef\xbb\xbfa\n", b"b\n\0\n"], "x"))


def documents(paragraphs):
    """Lists of the texts of each document."""
    found = []
    for paragraph in paragraphs:
        if paragraph.starts_document:
            found.append([])
        found[-1].append(paragraph.text)
    return found


class TestFileParagraphs:
    TEXT = "\n\nOne is\nhard-wrapped.\n  \nTwo.\n\n\n= Title =\nThree.\n\nFour.\n\n"

    @pytest.mark.parametrize(
        ("form", "expected"),
        [
            (DocumentForm(), [["One is hard-wrapped.", "Two.", "= Title = Three.", "Four."]]),
            (
                DocumentForm(document_separator="blank-line"),
                [["One is hard-wrapped."], ["Two."], ["= Title = Three."], ["Four."]],
            ),
            (
                DocumentForm(document_separator="= .* ="),
                [["One is hard-wrapped.", "Two."], ["Three.", "Four."]],
            ),
            (
                DocumentForm(sentence_per_line=True),
                [["One is", "hard-wrapped."], ["Two."], ["= Title =", "Three."], ["Four."]],
            ),
            (
                DocumentForm(sentence_per_line=True, document_separator="= .* ="),
                [["One is", "hard-wrapped.", "Two."], ["Three.", "Four."]],
            ),
        ],
    )
    def test_forms(self, form, expected):
        assert documents(file_paragraphs(self.TEXT.split("\n"), form)) == expected

    def test_the_separator_must_match_the_whole_line(self):
        lines = ["a", "---", "b --- c", ""]
        assert documents(file_paragraphs(lines, DocumentForm(document_separator="-+"))) == [["a"], ["b --- c"]]

    @pytest.mark.parametrize("lines", [[], [""], [" ", "\t", "", ""]])
    @pytest.mark.parametrize("form", [DocumentForm(), DocumentForm(sentence_per_line=True)])
    def test_lines_without_text_have_no_document(self, lines, form):
        assert list(file_paragraphs(lines, form)) == []

    @given(
        st.lists(st.sampled_from(["", " ", "a", " b ", "---"]), max_size=12),
        st.booleans(),
        st.sampled_from([None, "blank-line", "-+", "|-+"]),
    )
    def test_paragraphs_hold_all_text(self, lines, per_line, separator):
        form = DocumentForm(sentence_per_line=per_line, document_separator=separator)
        found = list(file_paragraphs(lines, form))
        words = [line.strip() for line in lines if line.strip() and not form.parts_documents(line.strip())]
        assert " ".join(paragraph.text for paragraph in found) == " ".join(words)
        assert all(paragraph.text for paragraph in found)
        assert not found or found[0].starts_document

    @pytest.mark.parametrize("separator", ["(", "*", " ", f"-{{{10**30}}}", "(" * 5_000])
    def test_bad_separator(self, separator):
        with pytest.raises(RecipeError, match=r"document_separator: .* expected 'blank-line' or a regular expression"):
            DocumentForm(document_separator=separator)


class TestRowParagraphs:
    TEXT = "One is\r\nhard-wrapped.\r\n\r\n= Title =\rTwo.\n"

    @pytest.mark.parametrize("separator", [None, "blank-line", "= .* ="])
    def test_a_row_is_one_document(self, separator):
        form = DocumentForm(document_separator=separator)
        assert documents(row_paragraphs(self.TEXT, form)) == [["One is hard-wrapped.", "= Title = Two."]]

    def test_a_sentence_per_line(self):
        form = DocumentForm(sentence_per_line=True)
        assert documents(row_paragraphs(self.TEXT, form)) == [["One is", "hard-wrapped.", "= Title =", "Two."]]


def test_long_runs_of_lines_are_cut(monkeypatch):
    monkeypatch.setattr("bertkit.data.corpus.documents._LONGEST_PARAGRAPH", 20)
    read = []

    def lines():
        for number in range(100):
            read.append(number)
            yield f"line {number:03}"  # 8 characters

    paragraphs = file_paragraphs(lines(), DocumentForm())
    assert next(paragraphs) == Paragraph("line 000 line 001 line 002", starts_document=True)
    assert len(read) == 3
    rest = list(paragraphs)
    assert not any(paragraph.starts_document for paragraph in rest)
    assert " ".join(paragraph.text for paragraph in rest).split() == " ".join(lines()).split()[6:]
