"""Combining marks at the end of a word: a tokenizer that strips accents drops them, and no offset of a result may."""

from __future__ import annotations

import unicodedata

from bertkit import load
from bertkit.tasks.windows import ends_with_marks

DECOMPOSED = "filme\u0301"
TEXT = f"{DECOMPOSED} plot, {DECOMPOSED}"


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
