"""``bertkit choose``: its tables, its JSON, and the command at its end."""

from __future__ import annotations

import json
import shlex


def test_tables_fit_a_terminal_and_the_command_runs(bertkit, checkpoint, fine_tuned, table, tmp_path):
    done = bertkit("choose", "--models", checkpoint, fine_tuned("film"), "--train-file", table)
    assert done.code == 0, done.err
    tables, said = done.out.rsplit("\n\n", 1)
    assert max(map(len, tables.splitlines())) <= 80
    assert "pseudo-perplexity" in tables
    lines = said.splitlines()
    assert lines[0].startswith("No pseudo-perplexity of film: ")
    assert lines[1].startswith(("Best by accuracy: ", "checkpoint0 and film have the same accuracy"))
    words = shlex.split(lines[-1])
    assert words[:5] == ["bertkit", "finetune", "classification", "--train-file", str(table)]
    assert words[-2:] == ["--output-dir", "OUT"]
    checked = bertkit(*words[1:-1], tmp_path / "out", "--check", "--max-seq-length", 16)
    assert checked.code == 0, checked.out + checked.err


def test_json_is_one_object(bertkit, checkpoint, table):
    done = bertkit("choose", "--models", checkpoint, "--train-file", table, "--label-column", "label", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["candidates"][0]["frozen"]["layers"] == 2
    assert "--label-column label" in result["command"]


def test_wrong_input_is_one_message(bertkit, checkpoint, table):
    for arguments, message in (
        ((), "Missing option '--models'"),
        (("--models", checkpoint, "nothing-here/", "--train-file", table), "nothing-here"),
    ):
        bertkit("choose", *arguments).refuses(message)
