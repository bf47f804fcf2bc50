"""Words that end with a combining mark: a tokenizer that strips accents drops it, and nothing that is shown may."""

from __future__ import annotations

import unicodedata

import pytest

from bertkit import explain, load
from bertkit.tasks.windows import ends_with_marks

COMPOSED = "film\u00e9"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
TEXT = f"{DECOMPOSED} plot, {DECOMPOSED}"


def test_the_last_mark_of_a_word_is_shown(checkpoint, fine_tuned):
    pieces = explain(checkpoint, TEXT).pieces
    assert [word.text for word in pieces.words] == [DECOMPOSED, "plot", ",", DECOMPOSED]
    assert {row["word"] for row in pieces.rows()} == {"", DECOMPOSED, "plot", ","}
    assert [word.text for word in explain(checkpoint, TEXT).masked.words] == [word.text for word in pieces.words]
    assert DECOMPOSED in explain(fine_tuned("film"), TEXT).html()


@pytest.mark.parametrize("word", [COMPOSED, DECOMPOSED, COMPOSED.upper()])
def test_a_word_is_found_in_both_forms(checkpoint, tmp_path, word):
    texts = [
        f"a {COMPOSED}",
        f"the {DECOMPOSED} is bad",
        f"{DECOMPOSED.capitalize()} or plot",
        f"good {COMPOSED}",
        "film",
    ]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    assert explain(checkpoint, word=word, texts=tmp_path / "texts.txt").vectors.shape[1] == 4


def test_offsets_of_tokens_and_entities_include_marks(checkpoint, fine_tuned):
    [tokens] = load(checkpoint).embed([TEXT], pooling="none")
    assert "".join(TEXT[start:end] for start, end in tokens.offsets) == TEXT.replace(" ", "")
    [answer] = load(fine_tuned("answers")).predict(question="what", context=DECOMPOSED)
    assert answer["answer"] == DECOMPOSED
    [found] = load(fine_tuned("entities")).predict([TEXT])
    for entity in found["entities"]:
        assert not unicodedata.combining((TEXT + " ")[entity["end"]])


def test_marks_of_the_next_token_are_its_own():
    assert ends_with_marks("e\u0301\u0327x", [(0, 1), (1, 3), (3, 4)]) == [1, 3, 4]
    assert ends_with_marks("a \u0301", [(0, 1)]) == [1]
    assert ends_with_marks("a\u200b", [(0, 1)]) == [1]
    assert ends_with_marks("a\u200b", [(0, 1)], also="Cf") == [2]
