"""Lines → paragraphs of documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.documents import DocumentForm, Paragraph, file_paragraphs, row_paragraphs
from bertkit.runtime.errors import RecipeError


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
