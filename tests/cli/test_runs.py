"""``bertkit runs``: the forms of its table."""

from __future__ import annotations

import csv
import io


def test_runs_have_many_forms(bertkit, tmp_path):
    (tmp_path / "my_run").mkdir()
    (tmp_path / "my_run" / "recipe.yaml").write_text("task: {kind: glue, name: rte}\n")
    (tmp_path / "my_run" / "run.json").write_text("{}")
    [row] = csv.DictReader(io.StringIO(bertkit("runs", tmp_path, "--format", "csv").out))
    assert (row["folder"], row["state"], row["task"]) == (str(tmp_path / "my_run"), "interrupted", "rte")
    assert r"my\_run & interrupted" in bertkit("runs", tmp_path, "--format", "latex").out
    bertkit("runs", tmp_path, "--json", "--format", "csv").refuses("--json and --format csv")
