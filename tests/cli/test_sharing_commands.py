"""The commands that share a checkpoint, through their real entry point."""

from __future__ import annotations

import json


def test_export_says_how_close_the_two_forms_are(bertkit, checkpoint, tmp_path):
    done = bertkit("export", checkpoint, tmp_path / "out")
    assert done.code == 0
    assert f"{tmp_path / 'out'}: BertForPreTraining; outputs differ by at most 0.0e+00 (tolerance 1e-04)" in done.out
    again = bertkit("export", checkpoint, tmp_path / "out", "--json")
    assert again.code == 2
    assert "already exists; give a new or an empty folder" in again.err
    as_json = json.loads(bertkit("export", checkpoint, tmp_path / "other", "--to", "bert", "--json").out)
    assert as_json["model_class"] == "BertForPreTraining"
    assert as_json["comparison"]["tolerance"] == 1e-4
