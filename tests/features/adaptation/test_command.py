"""``bertkit tokenizer extend`` and ``swap``: what they print."""

from __future__ import annotations

import json


def test_results_are_printed_as_text_and_json(bertkit, checkpoint, tmp_path):
    (tmp_path / "text.txt").write_text("a goodly film; badly awful\n" * 5)
    command = ["tokenizer", "extend", checkpoint, "--corpus", tmp_path / "text.txt", "--output-dir"]
    found = json.loads(bertkit(*command, tmp_path / "new", "--json").out)
    assert {"goodly", "badly"} <= {*found["pieces"]}
    assert found["before"]["words"] == found["after"]["words"] == 25
    assert found["after"]["pieces_per_word"] == 1
    out = bertkit(*command, tmp_path / "other").out
    assert "pieces per word" in out
    assert f"{len(found['pieces'])} pieces added, ids {found['first_id']} to " in out
    command = ["tokenizer", "swap", checkpoint, "--tokenizer", tmp_path / "new", "--output-dir"]
    swapped = json.loads(bertkit(*command, tmp_path / "swapped", "--json").out)
    assert (swapped["copied"], swapped["pieces"]) == (found["first_id"], found["first_id"] + len(found["pieces"]))
    assert f"{swapped['pieces']} pieces: {tmp_path / 'third'}" in bertkit(*command, tmp_path / "third").out
