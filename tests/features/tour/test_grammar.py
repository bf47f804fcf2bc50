"""The made-up text: the same for the same seed, and with the two regularities that it promises."""

from __future__ import annotations

from bertkit.features.tour import grammar
from bertkit.features.tour.quickstart import write_data

DOCUMENTS = grammar.write_documents(200, seed=1)


def test_the_seed_decides():
    assert grammar.write_documents(200, seed=1) == DOCUMENTS
    assert grammar.write_documents(200, seed=2) != DOCUMENTS


def test_a_document_has_one_mood_and_name():
    for document in DOCUMENTS:
        words = set(" ".join(document).split())
        assert bool(words & set(grammar.KIND)) != bool(words & set(grammar.UNKIND))
        assert len(words & set(grammar._NAMES)) == 1
        assert 8 <= len(document) <= 14


def test_both_moods_and_all_topics_occur():
    text = set(" ".join(sentence for document in DOCUMENTS for sentence in document).split())
    assert set(grammar.KIND) | set(grammar.UNKIND) <= text
    for _, things, _, _ in grammar._TOPICS.values():
        assert set(things) & text


def test_labels_are_balanced_and_true():
    kind, unkind = grammar.KIND[:3], grammar.UNKIND[:3]
    rows = grammar.write_labelled(40, 3, (kind, unkind))
    assert sum(label for _, label in rows) == 20
    for text, label in rows:
        words = set(text.split())
        assert bool(words & set(kind)) == (label == 1)
        assert bool(words & set(unkind)) == (label == 0)


def test_no_tested_adjective_was_ever_labelled(tmp_path):
    write_data(tmp_path / "text", tmp_path / "labelled")
    adjectives = set(grammar.KIND) | set(grammar.UNKIND)
    seen, tested = (
        set((tmp_path / "labelled" / f"{name}.tsv").read_text().split()) & adjectives for name in ("train", "dev")
    )
    assert seen
    assert tested
    assert not seen & tested
