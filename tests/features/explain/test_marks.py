"""Words that end with a combining mark: a tokenizer that strips accents drops it, and a page may not."""

from __future__ import annotations

import unicodedata

import pytest

from bertkit import explain

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
