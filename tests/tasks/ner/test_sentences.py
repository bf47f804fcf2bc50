"""Sentences: words, sentences and documents of column files; columns of tables; refusals with their places."""

from __future__ import annotations

import gzip
import os
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.tables import Table
from bertkit.runtime.errors import DataError
from bertkit.tasks.ner.sentences import document_ids, is_of_words, read_conll, write_conll
from bertkit.tasks.ner.word_rows import sentences_of_words
from tests.tasks.conftest import json_lines


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
    # A mark may only part documents.
    assert conll("a O\n\n-DOCSTART- O\n\nb O\n").columns["document_id"] == [0, 1]


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


FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


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


@pytest.mark.real
def test_published_sets_have_their_published_sizes(real_data):
    folder = real_data / "ner"
    sizes = {"wnut17/train.conll": (3394, 62730), "wnut17/dev.conll": (1009, 15733), "wnut17/test.conll": (1287, 23394)}
    sizes |= {"conll2000-chunking/train.txt": (8936, 211727), "conll2000-chunking/test.txt": (2012, 47377)}
    for name, (sentences, words) in sizes.items():
        table = read_conll(folder / name)
        assert (len(table), sum(map(len, table.columns["1"]))) == (sentences, words)
        assert "document_id" not in table.columns
        if name.startswith("wnut17"):  # hash signs of real text stay words
            assert read_conll(folder / name, "#").columns == table.columns
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


# ---- columns of tables ----------------------------------------------------------------------------------------------


TAGGED = json_lines(id=[1], tokens=[["a", "b"]], pos_tags=[["DT", "NN"]], ner_tags=[["O", "B-X"]])
THREE = "-DOCSTART-\n\na DT O\nb NN B-X\n"
KAGGLE = "Sentence #,Word,Tag\nSentence: 1,In,O\n,New,B-LOC\n,York,I-LOC\nSentence: 2,Hi,O\n"
NUMBERED = "sentence_id,word,tag\n7,In,O\n7,New,B-LOC\n7,York,I-LOC\n8,Hi,O\n"


@pytest.mark.parametrize(
    ("files", "words", "tags"),
    [
        ({"train_jsonl": TAGGED}, ["a b"], ["O B-X"]),
        ({"train_jsonl": TAGGED, "tag_column": "pos_tags"}, ["a b"], ["DT NN"]),
        ({"train_jsonl": json_lines(words=[["a", "b"]], pos_tags=[["DT", "NN"]])}, ["a b"], ["DT NN"]),
        ({"train_conll": THREE}, ["a b"], ["O B-X"]),
        ({"train_conll": THREE, "tag_column": 2}, ["a b"], ["DT NN"]),
        ({"train_conll": THREE, "tag_column": "2"}, ["a b"], ["DT NN"]),
        ({"train_csv": KAGGLE}, ["In New York", "Hi"], ["O B-LOC I-LOC", "O"]),
        ({"train_csv": NUMBERED}, ["In New York", "Hi"], ["O B-LOC I-LOC", "O"]),
        ({"train_tsv": NUMBERED.replace(",", "\t")}, ["In New York", "Hi"], ["O B-LOC I-LOC", "O"]),
        (
            {"train_jsonl": json_lines(sentence_id=[0, 0, 1], word=["a", "b", "c"], tag=["B-X", "O", "O"])},
            ["a b", "c"],
            ["B-X O", "O"],
        ),
        (
            {"train_jsonl": json_lines(sentence_id=[1, 1], tokens=[["a"], ["b"]], tags=[["B-X"], ["O"]])},  # of lists
            ["a", "b"],
            ["B-X", "O"],
        ),
    ],
)
def test_columns_are_found_by_name_or_place(task, files, words, tags):
    found, splits = task(**files).load(["train"])
    examples = splits["train"].examples
    assert [" ".join(row) for row in examples["tokens"]] == words
    assert [" ".join(found.settings.label_names[label] for label in row) for row in examples["labels"]] == tags
    if len(words) == 2 and "train_jsonl" not in files:
        assert splits["train"].place(1) == "line 5"  # the first word of the second sentence


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"train_jsonl": json_lines(tokens=[["a"]], body=["a"]), "tag_column": "ner_tag"},
            "train.jsonl: --tag-column: no column 'ner_tag'; available: 'tokens', 'body'",
        ),
        (
            {"train_jsonl": json_lines(tokens=[["a"]], body=["a"])},
            "train.jsonl: none of its columns (tokens, body) is named",
        ),
        (
            {"train_conll": THREE, "tag_column": 4},
            "train.conll: --tag-column 4: expected the number of a column, 1 to 3",
        ),
        (
            {"train_conll": "a\nb\n"},
            "train.conll: one column; expected two or more, separated by spaces or tabs, with ",
        ),
        (
            {"train_conll": "Oslo,B-LOC\n.,O\n"},
            "train.conll: one column; expected two or more, separated by spaces or tabs, with the tags in the last; a "
            "comma seems to separate them: write a tab",
        ),
        ({"train_csv": "a,O\nb,O\n"}, "train.csv: a field of a CSV, TSV or Excel file cannot hold a list of words"),
        ({"train_jsonl": TAGGED, "context": "document"}, "train.jsonl: no column 'document_id'"),
        (
            {"train_jsonl": json_lines(tokens=["b c", [], ["d", 5, ""], None], ner_tags=[["O"]] * 4)},
            "4 faults:\n"
            "  - train.jsonl, line 1: tokens is 'b c'; expected a list of words\n"
            "  - train.jsonl, line 2: tokens contains no words; remove the row\n"
            "  - train.jsonl, line 3, word 2: 5 in tokens; expected text\n"
            "  - train.jsonl, line 4: tokens is None; expected a list of words",
        ),
        (
            {"train_jsonl": json_lines(tokens=[["a", "b"]] * 4, ner_tags=[["O"], "O O", ["O", ""], [0, None]])},
            "5 faults:\n"
            "  - train.jsonl, line 1: 1 tag for 2 words\n"
            "  - train.jsonl, line 2: ner_tags is 'O O'; expected a list of tags\n"
            "  - train.jsonl, line 3, word 2: no tag\n"
            "  - train.jsonl, line 4, word 1: ner_tags contains the id 0, whose name is unknown; write the names of "
            "the tags\n"
            "  - train.jsonl, line 4, word 2: no tag",
        ),
    ],
)
def test_tables_without_words_and_tags_are_refused(task, refusal, files, expected):
    assert refusal(task(**files)).startswith(expected)


@pytest.mark.parametrize("missing", ["", " ", None, float("nan")])
def test_words_without_a_number_stay_in_their_sentence(missing):
    words = {"sentence": ["1", missing, missing, "2"], "word": ["in", "New", "York", "Hi"]}
    found = sentences_of_words(Table(words, "x.parquet", ""))
    assert found is not None
    assert found.columns["word"] == [["in", "New", "York"], ["Hi"]]


def test_a_document_that_numbers_its_sentences_anew_begins_one():
    words = {"sentence_id": [0, 0, 0, 1], "word": ["in", "Oslo", "Hi", "a"], "document_id": ["x", None, "y", "y"]}
    found = sentences_of_words(Table(words, "x.csv", ""))
    assert found is not None
    assert found.columns["word"] == [["in", "Oslo"], ["Hi"], ["a"]]
    assert document_ids(found) == ["x", "y", "y"]


@pytest.mark.parametrize("missing", ["", None])
def test_a_document_that_is_given_once_has_all_sentences_up_to_the_next(missing):
    words = {"document_id": ["x", missing, "y"], "sentence_id": [1, 2, 1], "word": ["a", "b", "c"]}
    found = sentences_of_words(Table(words, "x.csv", ""))
    assert found is not None
    assert document_ids(found) == ["x", "x", "y"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_read_for_its_header(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    assert not is_of_words(tmp_path / "x.csv")
