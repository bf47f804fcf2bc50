"""Paragraph → sentences."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.corpus.documents import read_documents
from bertkit.corpus.sentences import split_sentences

# "|" is where a sentence ends.
EXAMPLES = {
    "full stop": "It rained.| We stayed in.",
    "other marks": "Really?! |Yes! |Well… |No.",
    "closing quote": "“Stop!” |“Why?” she asked.",
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
PIECES += ["。", "？", "」", "我", "ไทย", "है", "।", "é", "\u0301", ","]


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join)))
def test_no_text_is_lost(paragraph):
    sentences = split_sentences(paragraph)
    assert "".join("".join(sentences).split()) == "".join(paragraph.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize(
    ("letter", "longest"), [("我", 250), ("ไ", 250), ("x", 1000)], ids=["chinese", "thai", "latin"]
)
def test_text_without_any_stop_is_cut(letter, longest):
    sentences = split_sentences(letter * 3001)
    assert [len(sentence) for sentence in sentences[:-1]] == [longest] * (3001 // longest)
    assert "".join(sentences) == letter * 3001


def test_long_text_is_cut_at_its_commas_first():
    sentences = split_sentences("我是学生，" * 200)
    assert len(sentences) == 4
    assert all(sentence.endswith("，") and len(sentence) <= 250 for sentence in sentences)


def test_words_stay_whole_where_long_text_is_cut():
    sentences = split_sentences("word " * 1000)
    assert len(sentences) == 5
    assert {word for sentence in sentences for word in sentence.split()} == {"word"}


@pytest.mark.parametrize("unit", [".", ". ", "a", "A. ", "我", ' "'])
def test_time_is_linear(unit):
    """A million characters in a second or so; quadratic time would take minutes."""
    start = time.process_time()
    split_sentences(unit * (1_000_000 // len(unit)))
    assert time.process_time() - start < 20


@pytest.mark.real
def test_a_real_book(real_data):
    [paragraphs] = read_documents(real_data / "text" / "books" / "adventures_of_sherlock_holmes.txt")
    sentences = [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]
    words = sum(len(sentence.split()) for sentence in sentences)
    assert words == sum(len(paragraph.split()) for paragraph in paragraphs)
    assert 12 < words / len(sentences) < 22  # Doyle's sentences have some 15 words
    assert not [sentence for sentence in sentences if sentence.endswith((" Mr.", " Mrs.", " Dr.", " St."))]
