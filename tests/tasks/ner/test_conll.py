"""Files of columns: what is a word, what parts sentences and documents, and what is refused."""

from __future__ import annotations

import gzip
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.tasks.ner.conll import read_conll, write_conll


@pytest.fixture
def conll(tmp_path):
    """Reads a text, or bytes, as a file ``x.conll``."""

    def read(content):
        path = tmp_path / "x.conll"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_conll(path)

    return read


def message(conll, content, folder):
    with pytest.raises(DataError) as caught:
        conll(content)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (
            "EU B-ORG\nrejects O\n\nPeter B-PER\n",
            {"1": [["EU", "rejects"], ["Peter"]], "2": [["B-ORG", "O"], ["B-PER"]]},
        ),
        ("a NN B-NP\nb VB B-VP", {"1": [["a", "b"]], "2": [["NN", "VB"]], "3": [["B-NP", "B-VP"]]}),
        ("New York\tB-LOC\n", {"1": [["New York"]], "2": [["B-LOC"]]}),  # where a tab parts, a space does not
        ("a   O\nb  O \n", {"1": [["a", "b"]], "2": [["O", "O"]]}),
        ("a\tO\r\n\t\r\nb\tO\r\n", {"1": [["a"], ["b"]], "2": [["O"], ["O"]]}),  # as in WNUT 17: a blank line is a tab
        ("\n \n\n# O\n#1 O\n\n\n", {"1": [["#", "#1"]], "2": [["O", "O"]]}),
        ("a\u00a0b O\n\u3000c O\n", {"1": [["a\u00a0b", "\u3000c"]], "2": [["O", "O"]]}),  # only ASCII spaces part
        ("\tO\nb\tO\n", {"1": [["", "b"]], "2": [["O", "O"]]}),
        ("alone\nwords\n", {"1": [["alone", "words"]]}),
    ],
)
def test_columns_and_sentences(conll, text, columns):
    assert conll(text).columns == columns


def test_docstart_parts_documents_and_is_no_word(conll):
    table = conll("-DOCSTART- -X- O O\n\na b c O\n\nd e f O\n-DOCSTART-\ng h i O\n")
    assert table.columns["1"] == [["a"], ["d"], ["g"]]
    assert table.columns["document_id"] == [0, 0, 1]
    assert list(table.lines) == [3, 5, 7]


def test_packed_and_marked_files_are_the_same(conll, tmp_path):
    path = tmp_path / "x.conll.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfa O\n"))
    assert read_conll(path).columns == conll("a O\n").columns == {"1": [["a"]], "2": [["O"]]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a O\nb\nc O\nd x O\n", "2 faults:\n  - x.conll, line 2: 1 column where most lines have 2: 'b' …\n"
         "  - x.conll, line 4: 3 columns where most lines have 2: 'd' …"),
        ("# sent_id = 1\na\tO\nb\tO\n", "x.conll, line 1: 4 columns where most lines have 2: '#' …"),
        ("\n\n", "x.conll: no words; expected one word per line, with its tag in the last column"),
        ("-DOCSTART- O\n", "x.conll: no words"),
        ("a O\nCafé O\n".encode("latin-1"), "x.conll: not UTF-8 at byte offset 7"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(conll, tmp_path, content, expected):
    assert message(conll, content, tmp_path).startswith(expected)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"none\.conll: cannot be read"):
        read_conll(tmp_path / "none.conll")


FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@settings(deadline=None)
@given(
    sentences=st.lists(st.lists(st.tuples(FIELDS, st.sampled_from(["O", "B-A"])), min_size=1, max_size=4), min_size=1)
)
def test_what_is_written_can_be_read_and_has_as_many_words(tmp_path_factory, sentences):
    words, tags = ([[pair[side] for pair in sentence] for sentence in sentences] for side in (0, 1))
    path = tmp_path_factory.mktemp("conll") / "x.conll"
    write_conll(path, [words, tags])
    columns = read_conll(path).columns
    assert columns["2"] == tags
    for written, word in zip(chain(*columns["1"]), chain(*words), strict=True):
        assert written == ("".join("_" if character.isspace() else character for character in word) or "_")


def test_conlleval_reads_what_is_written(tmp_path):
    write_conll(tmp_path / "x.conll", [[["a b", ""], ["c"]], [["O", "B-A"], ["O"]], [["O", "O"], ["O"]]])
    assert (tmp_path / "x.conll").read_text() == "a_b O O\n_ B-A O\n\nc O O\n\n"


@pytest.mark.real
def test_published_sets_have_their_published_sizes(real_data):
    folder = real_data / "ner"
    sizes = {"wnut17/train.conll": (3394, 62730), "wnut17/dev.conll": (1009, 15733), "wnut17/test.conll": (1287, 23394)}
    sizes |= {"conll2000-chunking/train.txt": (8936, 211727), "conll2000-chunking/test.txt": (2012, 47377)}
    for name, (sentences, words) in sizes.items():
        table = read_conll(folder / name)
        assert (len(table), sum(map(len, table.columns["1"]))) == (sentences, words)
        assert "document_id" not in table.columns
    assert any("#" in sentence for sentence in read_conll(folder / "wnut17/train.conll").columns["1"])
