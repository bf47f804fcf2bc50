"""Files of columns: what is a word, what parts sentences and documents, and what is refused."""

from __future__ import annotations

import gzip
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.tasks.ner.sentences import read_conll, write_conll


@pytest.fixture
def conll(tmp_path):
    """Reads a text, or bytes, as a file ``x.conll``."""

    def read(content, comment_prefix=None, name="x.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_conll(path, comment_prefix)

    return read


def message(conll, content, folder, *given):
    with pytest.raises(DataError) as caught:
        conll(content, *given)
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
def test_written_columns_round_trip(tmp_path_factory, sentences):
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


# ---- comments and token numbers -------------------------------------------------------------------------------------

UNIVERSAL = """# sent_id = 1
# text = I don't see a b c d e f
1	I	PRON	O
2-3	don't	_	_
2	do	AUX	O
3	n't	PART	O
3.1	ever	ADV	O
4	see	VERB	B-X

# newpar
# a comment of as many fields
1-2	im	_	_
1	in	ADP	O
2	dem	DET	B-X

"""


@pytest.mark.parametrize(("prefix", "name"), [("#", "x.conll"), (None, "x.conllu"), (None, "x.conllup")])
def test_universal_dependencies(conll, prefix, name):
    table = conll(UNIVERSAL, prefix, name)
    assert table.numbered
    assert table.columns["2"] == [["I", "do", "n't", "see"], ["in", "dem"]]
    assert table.columns["4"] == [["O", "O", "O", "B-X"], ["O", "B-X"]]
    lines = UNIVERSAL.splitlines()
    for row, words in enumerate(table.columns["2"]):
        assert [lines[line - 1].split("\t")[1] for line in table.word_lines[row]] == words


@pytest.mark.parametrize(
    ("text", "prefix", "words"),
    [
        ("# id\na O\n# O\n\n# B-X\nb B-X\n", "#", [["a", "#"], ["#", "b"]]),  # a # with a tag is a word
        ("#\tO\nso\tO\n\n# a comment\nb\tO\n", "#", [["#", "so"], ["b"]]),
        ("# id x\tdomain=en\na _ _ O\nb _ _ O\n", "#", [["a", "b"]]),  # MultiCoNER: a tab in comments only
        ("%% 1\na O\n% O\n%%\tO\n", "%%", [["a", "%", "%%"]]),
        ("#only\n\n# comments\n\na O\n", "#", [["a"]]),
        ("# O\na O\n", None, [["#", "a"]]),
    ],
)
def test_what_is_a_comment(conll, text, prefix, words):
    assert conll(text, prefix).columns["1"] == words


@pytest.mark.parametrize(
    ("text", "numbered"),
    [
        ("1 a O\n2 b O\n\n1 c O\n", True),
        ("1 a O\n\n1 b O\n", False),  # one word each: no row of numbers
        ("1 a O\n2 b O\n\n2 c O\n", False),
        ("1\n2\n", False),
        ("1 a O\n3 b O\n", False),
    ],
)
def test_token_numbers_count_the_words_of_every_sentence(conll, text, numbered):
    assert conll(text).numbered == numbered


def test_comments_are_proposed_where_lines_look_like_them(conll, tmp_path):
    refused = message(conll, UNIVERSAL, tmp_path)
    assert refused.splitlines()[:2] == ["3 faults:", "  - x.conll, line 2: 12 columns where most lines have 4: '#' …"]
    assert refused.splitlines()[-1] == (
        "if lines that begin with '#' are comments, give --comment-prefix '#', or name the file .conllu"
    )
    one = message(conll, "% one two\na O\nb O\n", tmp_path)
    assert one == (
        "x.conll, line 1: 3 columns where most lines have 2: '%' …; if lines that begin with '%' are comments, give "
        "--comment-prefix '%'"
    )
    within = message(conll, "a O\n# b O\nc O\n", tmp_path)  # within a sentence it is no comment
    assert within == "x.conll, line 2: 3 columns where most lines have 2: '#' …"
    assert message(conll, "a O\n# b O\nc O\n", tmp_path, "#") == within
    assert "comments" not in message(conll, "a O\nb\nc O\n", tmp_path)
    assert message(conll, "# a\n# b\n", tmp_path, "#") == (
        "x.conll: no words; expected one word per line, with its tag in the last column"
    )


@pytest.mark.real
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_hash_signs_of_real_text_stay_words(real_data, split):
    path = real_data / "ner" / "wnut17" / f"{split}.conll"
    assert read_conll(path, "#").columns == read_conll(path).columns
