"""The commands that share a checkpoint, through their real entry point."""

from __future__ import annotations

import json
import re


def test_export_says_how_close_the_two_forms_are(bertkit, checkpoint, tmp_path):
    done = bertkit("export", checkpoint, tmp_path / "out")
    assert done.code == 0
    said = rf"{tmp_path / 'out'}: BertForPreTraining; outputs differ by at most (\d\.\de[+-]\d\d) \(tolerance 1e-04\)"
    assert float(re.search(said, done.out)[1]) < 1e-5
    bertkit("export", checkpoint, tmp_path / "out", "--json").refuses("already exists; give a new or an empty folder")
    as_json = json.loads(bertkit("export", checkpoint, tmp_path / "other", "--to", "bert", "--json").out)
    assert as_json["model_class"] == "BertForPreTraining"
    assert as_json["comparison"]["tolerance"] == 1e-4


def test_push_without_a_login_names_the_remedy(bertkit, checkpoint, monkeypatch):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    done = bertkit("push", checkpoint, "ada/film", "--private", "--license", "mit", "--as", "bertkit")
    assert (done.code, done.out) == (2, "")
    assert "ada/film: you are not logged in; run `hf auth login`, or set HF_TOKEN" in done.err
    assert done.err.endswith(f"bertkit push {checkpoint} ada/film --private --as bertkit --license mit\n")


def test_several_tasks_are_not_pushed_to_one_repository(bertkit, tmp_path):
    done = bertkit(
        "finetune", "glue", "--task", "rte,mrpc", "--output-dir", tmp_path / "out", "--push-to-hub", "ada/film"
    )
    done.refuses("--push-to-hub is for one run, and --task rte,mrpc names several; use bertkit push")
    assert not (tmp_path / "out").exists()
