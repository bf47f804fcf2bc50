"""Files → documents → paragraphs."""

from __future__ import annotations

import pytest

from bertkit.corpus.documents import DocumentForm, TextLines, find_text_files, read_documents, read_text
from bertkit.errors import DataError, RecipeError


def written(folder, data: bytes, name: str = "text.txt"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


class TestReadText:
    @pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_every_line_ending_with_and_without_mark(self, tmp_path, ending, mark):
        data = mark + ending.join(["Piña".encode(), b"", "二".encode()])
        assert read_text(written(tmp_path, data)) == "Piña\n\n二"

    def test_empty_file_is_empty_text(self, tmp_path):
        assert read_text(written(tmp_path, b"")) == ""

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
        assert "iconv -f latin1 -t utf-8" in str(caught.value)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
    def test_utf16_is_named(self, tmp_path, encoding):
        with pytest.raises(DataError, match=r"UTF-16.*iconv -f utf-16 -t utf-8"):
            read_text(written(tmp_path, "plain".encode(encoding)))

    def test_nul_byte_is_named_by_its_offset_in_the_file(self, tmp_path):
        with pytest.raises(DataError, match=r"NUL byte at byte offset 5"):
            read_text(written(tmp_path, b"\xef\xbb\xbfab\0"))

    def test_missing_file(self, tmp_path):
        with pytest.raises(DataError, match=r"absent\.txt: cannot be read: No such file"):
            read_text(tmp_path / "absent.txt")


class TestFindTextFiles:
    def test_folders_are_walked_in_the_order_of_names(self, tmp_path):
        for name in ("b.txt", "a/z.txt", "a/B.TXT", "c/d/e.txt", "a.txt", "note.md", ".hidden.txt", "__MACOSX/._a.txt"):
            written(tmp_path, b"x", name)
        found = [file.relative_to(tmp_path).as_posix() for file in find_text_files([tmp_path])]
        assert found == ["a/B.TXT", "a/z.txt", "a.txt", "b.txt", "c/d/e.txt"]

    def test_given_order_is_kept_and_a_file_counts_once(self, tmp_path, caplog):
        b, a = written(tmp_path, b"x", "b.txt"), written(tmp_path, b"x", "a.txt")
        assert find_text_files([b, tmp_path, str(a)]) == [b, a]
        assert "given more than once" in caplog.text

    def test_all_faults_in_one_message(self, tmp_path):
        (tmp_path / "empty").mkdir()
        packed, other = written(tmp_path, b"x", "wiki.txt.gz"), written(tmp_path, b"x", "notes.md")
        with pytest.raises(DataError) as caught:
            find_text_files([tmp_path / "absent", tmp_path / "empty", packed, other])
        message = str(caught.value)
        assert message.startswith("4 faults:")
        assert f"{tmp_path / 'absent'}: no such file or folder" in message
        assert f"{tmp_path / 'empty'}: no .txt file" in message
        assert f"{packed}: .gz is not supported yet" in message
        assert f"{other}: .md is not supported" in message

    def test_nothing_given(self):
        with pytest.raises(DataError, match="no text files were given"):
            find_text_files([])


class TestReadDocuments:
    TEXT = b"\n\nOne is\nhard-wrapped.\n  \nTwo.\n\n\n= Title =\nThree.\n\nFour.\n\n"

    @pytest.mark.parametrize(
        ("form", "documents"),
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
    def test_forms(self, tmp_path, form, documents):
        assert list(read_documents(written(tmp_path, self.TEXT), form)) == documents

    def test_the_separator_must_match_the_whole_line(self, tmp_path):
        file = written(tmp_path, b"a\n---\nb --- c\n")
        assert list(read_documents(file, DocumentForm(document_separator="-+"))) == [["a"], ["b --- c"]]

    @pytest.mark.parametrize("data", [b"", b" \n\t\r\n\n", b"\xef\xbb\xbf\n"])
    def test_a_file_without_text_has_no_document(self, tmp_path, data):
        assert list(read_documents(written(tmp_path, data))) == []

    @pytest.mark.parametrize("separator", ["(", "*", " "])
    def test_bad_separator(self, separator):
        with pytest.raises(RecipeError, match=r"document_separator: .* expected 'blank-line' or a regular expression"):
            DocumentForm(document_separator=separator)


def test_text_lines_can_be_read_twice(tmp_path):
    lines = TextLines([written(tmp_path, b" a b \r\n\r\nc", "1.txt"), written(tmp_path, b"d", "2.txt")])
    assert list(lines) == list(lines) == ["a b", "c", "d"]
