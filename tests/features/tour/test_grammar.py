"""The made-up text: the same for the same seed, and with the two regularities that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.features.tour import grammar
from bertkit.features.tour.quickstart import write_data
from bertkit.runtime.errors import OutputError

DOCUMENTS = grammar.generate_documents(200, seed=1)


def test_the_seed_decides():
    assert grammar.generate_documents(200, seed=1) == DOCUMENTS
    assert grammar.generate_documents(200, seed=2) != DOCUMENTS


def test_labels_are_balanced_and_true():
    kind, unkind = grammar.KIND[:3], grammar.UNKIND[:3]
    rows = grammar.generate_labelled(40, 3, (kind, unkind))
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
    assert all((seen, tested))
    assert not seen & tested
    with pytest.raises(OutputError, match="/proc/none/text: cannot be written"):
        write_data(Path("/proc/none/text"), tmp_path / "other")
