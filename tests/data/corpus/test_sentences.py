"""Paragraph → sentences."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertkit.data.corpus.documents import DocumentForm, file_paragraphs
from bertkit.data.corpus.sentences import RULES_VERSION, OwnSplitter, WholeParagraphs, find_splitter, split_sentences
from bertkit.runtime.errors import DataError, RecipeError

# "|" is where a sentence ends.
EXAMPLES = {
    "full stop": "It rained.| We stayed in.",
    "other marks": "Really?! |Yes! |Well… |No.",
    "closing quote": "“Stop!” |“Why?” she asked.",
    "german quotes": "„Komm!“ |„Wohin?“ |Er ging. |»Nein.« |‚Doch.‘ |Sie schwieg. |›Ja.‹ |»Dr. Weber?« |Gut.",
    "french quotes": "« Viens. » |Il partit. |«\u00a0Où ?\u00a0» |Elle rit. |« Va ! », dit-il. |« Bien. » |Fin.",
    "speech goes on in lower case": '"Stop!" he cried. |"Now."',
    "bracket": "(It did.) |Then it ended.",
    "digit opens": "He left. |12 men stayed.",
    "quote opens": "He left. |'Tis true.",
    "title": "Mr. and Mrs. Smith met Dr. Jones in St. Ives.| All left.",
    "latin": "Birds, e.g. Gulls, i.e. Larus, vs. Terns etc. Were seen.",
    "initials": "J. K. Rowling met J.R.R. Tolkien.| Not so.",
    "pronoun I": "So am I. |He knew.",
    "country": "The U.S. Senate sat.",
    "number": "See No. 7 and Fig. 2 of Jan. 5. |No.| He did not.",
    "decimals": "It is 3.14 or 1,000.5 now. |Good.",
    "list number": "1. Introduction to it.| 2. Method.",
    "year ends": "It was 1912. |Then came war.",
    "ellipsis in lower case": "I thought... maybe not.",
    "domain": "See example.com for more.",
    "chinese": "我是学生。|你呢？|「好！」|他说。",
    "japanese": "東京です。|本当ですか？|はい。",
    "hindi": "यह एक वाक्य है।|यह दूसरा है॥| और।",
    "arabic": "كيف حالك؟ |أنا بخير.| هذا جيد.",
    "urdu": "یہ ایک ہے۔|یہ دو ہے۔",
    "thai": "วันนี้อากาศดี |ฉันไปตลาด",
    "burmese": "သူသွားသည်။ |ကျွန်မ |လာသည်။",
    "khmer": "គាត់ទៅ។ |នាងមក៕| ហើយ",
    "tibetan": "བཀྲ་ཤིས། |བདེ་ལེགས།། |ཡོད། །|མེད",
    "armenian": "Նա գնաց։ |Նա եկավ։",
    "ethiopic": "እሱ ሄደ። |እሷ መጣች፧",
    "hebrew": "הוא הלך. |היא באה.",
    "cyrillic": "Он ушёл. |Она пришла.",
    "no stop": "No full stop at all",
}


@pytest.mark.parametrize("marked", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_examples(marked):
    assert split_sentences(marked.replace("|", "")) == [piece.strip() for piece in marked.split("|")]


@pytest.mark.parametrize("paragraph", ["", " ", "\n\t"])
def test_no_text_no_sentence(paragraph):
    assert split_sentences(paragraph) == []


PIECES = ["Mr.", "U.S.", "J.", "word", "Word", " ", "  ", "\n", "\u3000", ".", "!", "?", "…", '"', "”", "(", ")", "7"]
PIECES += ["“", "»", "«", "。", "？", "」", "我", "ไทย", "है", "।", "é", "\u0301", ","]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join)))
def test_no_text_is_lost(paragraph):
    sentences = split_sentences(paragraph)
    assert "".join("".join(sentences).split()) == "".join(paragraph.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


# Letters, and marks that letters carry, of the scripts that put no space between words.
SPACELESS = {
    "chinese": "我是学生国㐀\U00020000",
    "japanese": "東京ですカタカナー々ｶ",
    "thai": "กขคไเ\u0e31\u0e48",
    "lao": "ກຂຄໄ\u0eb1\u0ec8",
    "khmer": "កខគ\u17b6\u17d2",
    "burmese": "ကခဂ\u102d\u1039",
    "tibetan": "ཀཁག་\u0f71\u0f72",
}


def size(sentence: str) -> int:
    """Characters, each of a script without spaces counted as four."""
    return len(sentence) + 3 * sum(letter in "".join(SPACELESS.values()) or letter in "，、" for letter in sentence)


@pytest.mark.parametrize("letters", SPACELESS.values(), ids=SPACELESS.keys())
def test_scripts_without_spaces_make_no_giant_sentence(letters):
    text = letters * (10_000 // len(letters))
    sentences = split_sentences(text)
    assert "".join(sentences) == text
    assert all(230 <= len(sentence) <= 250 for sentence in sentences[:-1])
    assert len(sentences[-1]) <= 250


MIXED = st.lists(
    st.tuples(st.sampled_from([*"".join(SPACELESS.values()), *"ab7，,、.་ "]), st.integers(1, 600)), max_size=12
).map(lambda runs: "".join(letter * length for letter, length in runs))


@example("我" * 270 + "，" + "x" * 700)
@example("x" * 996 + "我我")
@given(MIXED)
def test_no_sentence_is_longer_than_stated(paragraph):
    for splitter in (split_sentences, WholeParagraphs()):
        sentences = splitter(paragraph)
        assert max(map(size, sentences), default=0) <= 1000
        assert "".join("".join(sentences).split()) == "".join(paragraph.split())


def test_cuts_keep_letters_and_their_marks():
    assert [len(sentence) for sentence in split_sentences("ก\u0e31\u0e48" * 100)] == [249, 51]
    assert [len(sentence) for sentence in split_sentences("\u0e31" * 300)] == [250, 50]  # marks of no letter


def test_long_text_is_cut_at_its_commas_first():
    sentences = split_sentences("我是学生，" * 200)
    assert len(sentences) == 4
    assert all(sentence.endswith("，") and len(sentence) <= 250 for sentence in sentences)


def test_words_stay_whole_where_long_text_is_cut():
    sentences = split_sentences("word " * 1000)
    assert len(sentences) == 5
    assert {word for sentence in sentences for word in sentence.split()} == {"word"}


@pytest.mark.parametrize("unit", [".", ". ", "a", "A. ", "我", ' "', "།  ", "ก\u0e31"])
def test_a_million_characters(unit):
    """They take a second or so; quadratic time would take hours."""
    text = unit * (1_000_000 // len(unit))
    sentences = split_sentences(text)
    assert sum(len("".join(sentence.split())) for sentence in sentences) == len("".join(text.split()))


@pytest.mark.real
def test_a_real_book(real_data):
    book = real_data / "text" / "books" / "adventures_of_sherlock_holmes.txt"
    lines = book.read_text(encoding="utf-8-sig").split("\n")
    paragraphs = [paragraph.text for paragraph in file_paragraphs(lines, DocumentForm())]
    sentences = [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]
    words = sum(len(sentence.split()) for sentence in sentences)
    assert words == sum(len(paragraph.split()) for paragraph in paragraphs)
    assert 12 < words / len(sentences) < 22  # Doyle's sentences have some 15 words
    assert not [sentence for sentence in sentences if sentence.endswith((" Mr.", " Mrs.", " Dr.", " St."))]


OWN = """
import re

MARK = ";"
TABLE = [1]

def split_at_semicolons(paragraph):
    return [part for part in re.split(MARK, paragraph) if part]

def pairs(paragraph):
    return tuple(paragraph)

def numbers(paragraph):
    return ["a", len(paragraph)]

def fails(paragraph):
    return [paragraph[1_000_000]]

def of_two(paragraph, language):
    return [paragraph]
"""


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


def test_splitters_by_name():
    assert find_splitter() is find_splitter("rules") is split_sentences
    paragraph = " He rose. He left. "
    assert find_splitter("rules")(paragraph) == ["He rose.", "He left."]
    assert find_splitter("none")(paragraph) == ["He rose. He left."]
    assert find_splitter("none")(" ") == []
    assert find_splitter("none").version == RULES_VERSION


@pytest.mark.parametrize(
    ("name", "sentences"),
    [("textwrap:wrap", ["a;b; c."]), ("own.py:split_at_semicolons", ["a", "b", " c."])],
)
def test_functions_of_modules_and_files(own, monkeypatch, name, sentences):
    monkeypatch.chdir(own.parent)
    splitter = find_splitter(name)
    monkeypatch.chdir("/")
    assert splitter("a;b; c.") == pickle.loads(pickle.dumps(splitter))("a;b; c.") == sentences


def test_it_is_loaded_anew_in_another_process(own):
    pickled = pickle.dumps(find_splitter(f"{own}:split_at_semicolons"))
    program = f"import pickle; print(pickle.loads({pickled!r})('a;b'))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "['a', 'b']\n", done.stderr


def test_the_version_is_that_of_function_and_file(own):
    def version(function: str) -> str:
        return OwnSplitter(f"{own}:{function}").version

    first = version("split_at_semicolons")
    assert version("split_at_semicolons") == first != version("pairs")
    own.write_text(OWN.replace('MARK = ";"', 'MARK = ","'))  # not in the function itself
    assert version("split_at_semicolons") != first
    assert find_splitter(f"{own}:split_at_semicolons")("a;b,c") == ["a;b", "c"]
    own.write_text(OWN)
    assert version("split_at_semicolons") == first


def test_the_version_is_of_the_defining_file(own, monkeypatch):
    monkeypatch.syspath_prepend(own.parent)
    (own.parent / "front_of_own.py").write_text("from own import split_at_semicolons\n")
    first = OwnSplitter("front_of_own:split_at_semicolons").version
    own.write_text(OWN + "# changed\n")
    assert OwnSplitter("front_of_own:split_at_semicolons").version != first
    assert OwnSplitter("builtins:list").version


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("pairs", "returned tuple, not a list of str"),
        ("numbers", "returned a list with 12, not of str only"),
        ("fails", "line 17: IndexError: string index out of range"),
        ("of_two", "own.py:of_two failed: TypeError: of_two() missing 1 required positional argument"),
    ],
)
def test_what_a_function_returns_is_checked(own, function, fault):
    splitter = find_splitter(f"{own}:{function}")
    with pytest.raises(DataError) as error:
        splitter("A paragraph.")
    assert all(part in str(error.value) for part in (f"own.py:{function}", fault, "starts with 'A paragraph.'"))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("rule", r"'rule' is unknown; .*; did you mean 'rules'\?"),
        ("own.py", "expected rules, none, module:function or path/to/file.py:function"),
        (":split", "is unknown"),
        ("own.py:", "is unknown"),
        ("no_such_module:split", "there is no module no_such_module; install it"),
        ("json.deep:split", r"there is no module json\.deep; install it"),
        ("nowhere/own.py:split", "nowhere/own.py cannot be read: No such file"),
        ("own\0.py:split", "cannot be read: .*null"),
        ("own.py:split_at_semicolon", "it has no function split_at_semicolon; did you mean 'split_at_semicolons'"),
        ("own.py:TABLE", r"expected a function, got list: \[1\]"),
        ("broken.py:split", r"cannot be imported: SyntaxError: .*broken\.py, line 1"),
        ("asks.py:split", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("asks_for_more:split", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_wrong_name(own, monkeypatch, name, fault):
    monkeypatch.chdir(own.parent)
    monkeypatch.syspath_prepend(own.parent)
    Path("broken.py").write_text("def split(:\n")
    for file in ("asks.py", "asks_for_more.py"):
        Path(file).write_text("import no_such_module\n")
    with pytest.raises(RecipeError, match=f"sentence_splitter: .*{fault}"):
        find_splitter(name)
