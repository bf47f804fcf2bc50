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


def test_fill_mask_prints_probability_token_and_text(bertkit, checkpoint):
    done = bertkit("fill-mask", checkpoint, "The [MASK] is lovely", "--top-k", 2)
    assert done.code == 0
    probability, token, text = done.out.splitlines()[0].split("\t")
    assert 0 < float(probability) < 1
    assert text == f"The {token} is lovely" or token.startswith("##")
    as_json = bertkit("fill-mask", checkpoint, "The [MASK] is lovely", "--top-k", 2, "--json")
    [[[first, second]]] = json.loads(as_json.out)
    assert first["token"] == token
    assert first["probability"] >= second["probability"]


def test_embed_describes_the_file_it_writes(bertkit, checkpoint, tmp_path):
    done = bertkit("embed", checkpoint, "a film", "the plot", "--output", tmp_path / "x.npz", "--layers", "-1,-2")
    assert (done.code, done.out) == (0, f"2 texts, 64 numbers each: {tmp_path / 'x.npz'}\n")
    wrong = bertkit("embed", checkpoint, "a film", "--output", tmp_path / "y.npz", "--layers", "last")
    wrong.refuses("--layers last: expected whole numbers separated by commas, such as -1,-2")


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
