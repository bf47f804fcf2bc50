"""Refusals of a push, and the files that it would send; `test_push.py` sends some by HTTP."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from transformers import DistilBertConfig, DistilBertForSequenceClassification

import bertkit
from bertkit.features.sharing import push as push_module
from bertkit.features.sharing import push_files
from bertkit.features.sharing.model_card import model_card, recorded_card
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.runtime.errors import CheckpointError, HubError, RecipeError
from bertkit.runtime.files import write_json
from bertkit.tasks.registry import load_recipe

from .conftest import FACTS


def test_a_card_that_is_not_utf8_is_not_pushed(checkpoint, tmp_path):
    run = shutil.copytree(checkpoint, tmp_path / "run")
    (run / "README.md").write_bytes("---\nlicense: m\xedt\n---\n\nMine.\n".encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"README\.md: not UTF-8 at byte 14; convert it, then push again"):
        bertkit.push(run, "ada/film", dry_run=True)


def test_the_card_of_pre_training_is_complete(checkpoint, tmp_path):
    run = shutil.copytree(checkpoint, tmp_path / "run")
    recipe = load_recipe("bert-mini", {"data.corpus": ["x.txt"], "data.vocab_size": 90})
    changes = {"head": "BertForPreTraining", "pipeline_tag": "fill-mask", "recipe": recipe.to_dict(), "dataset": None}
    facts = replace(FACTS, **changes)
    recipe.save(run / "recipe.yaml", "Resolved from bert-mini")
    write_json(run / "run.json", {"finished": True, **recorded_card(facts)})
    (run / "README.md").write_text(model_card(facts))
    planned = bertkit.push(run, "ada/film", license="mit", language="en", dry_run=True)
    assert not [note for note in planned.notes if "card" in note]
    about = yaml.safe_load(planned.card.split("---\n")[1])
    assert (about["license"], about["language"]) == ("mit", ["en"])
    assert "PATH_OR_HUB_ID" not in planned.card
    assert "    128: 0.9" in planned.card


def test_a_checkpoint_of_no_run_has_no_card(checkpoint):
    planned = bertkit.push(checkpoint, "ada/film", dry_run=True)
    [note] = planned.notes
    assert note.startswith(f"no model card: {checkpoint} contains no finished run")
    assert "README.md" not in planned.files
    ignored = "--license and --language: in no model card, since none was generated"
    assert bertkit.push(checkpoint, "ada/film", license="mit", language="en", dry_run=True).notes == (note, ignored)


def test_a_card_that_is_not_generated_keeps_its_licence(checkpoint, tmp_path):
    run = shutil.copytree(checkpoint, tmp_path / "run")
    (run / "README.md").write_text("---\nlicense: apache-2.0\n---\n\nMine.\n")
    planned = bertkit.push(run, "ada/film", license="mit", dry_run=True)
    assert "license: apache-2.0" in planned.card
    assert planned.notes == ("--license: in no model card, since none was generated",)


def test_a_head_of_another_package_is_pushed_with_any_encoder(checkpoint, tmp_path, monkeypatch):
    size = {"vocab_size": 200, "dim": 16, "n_heads": 2, "n_layers": 1, "hidden_dim": 16}
    DistilBertForSequenceClassification(DistilBertConfig(**size)).save_pretrained(tmp_path)
    load_tokenizer(str(checkpoint)).save_pretrained(tmp_path)
    with pytest.raises(RecipeError, match="'distilbert', whose classes are not part of bertkit; give --as bert"):
        bertkit.push(tmp_path, "ada/film", as_="bertkit", dry_run=True)
    monkeypatch.setattr(push_files, "own_head", lambda config, name: DistilBertForSequenceClassification)
    assert "model.safetensors" in bertkit.push(tmp_path, "ada/film", dry_run=True).files


def test_a_dry_run_pushes_nothing_and_needs_no_login(monkeypatch, checkpoint):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr(push_module, "_upload", None)
    planned = bertkit.push(checkpoint, "mails", dry_run=True)
    assert {"config.json", "model.safetensors"} <= planned.files.keys()
    assert planned.files["model.safetensors"] > 1000
    missing = [sentence.partition(":")[0] for sentence in planned.missing]
    assert missing == ["the owner in the name", "a token of the Hub"]
    assert "nothing is pushed" in str(planned)
    assert "missing: the owner in the name: give OWNER/mails" in str(planned)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "token")
    planned = bertkit.push(checkpoint, "ada/mails", dry_run=True, space="ada/try-mails")
    assert not planned.missing
    [owner] = bertkit.push(checkpoint, "ada/mails", dry_run=True, space="try-mails").missing
    assert owner.startswith("the owner in the name: give OWNER/try-mails")
    assert "note: a push also writes README.md, app.py, requirements.txt to the Space ada/try-mails" in str(planned)


@pytest.mark.parametrize("content", ["{", "[1]", "7", '{"card": 5}', '{"card": {"metrics": {}, "recipe": "a: 1"}}'])
def test_a_damaged_record_is_named(checkpoint, tmp_path, content):
    run = tmp_path / "run"
    shutil.copytree(checkpoint, run)
    (run / "run.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"run\.json: damaged .*; restore it from a copy of the run"):
        bertkit.push(run, "ada/mails", dry_run=True)


def test_without_a_login_nothing_is_begun(monkeypatch, checkpoint):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(HubError, match=r"^mails: the name has no owner; give OWNER/mails\. Also you are not logged in"):
        bertkit.push(checkpoint, "mails")
    with pytest.raises(HubError, match=r"^ada/x: you are not logged in; [^\n]*$"):
        bertkit.finetune("sst2", model=str(checkpoint), output_dir=checkpoint / "new", push_to_hub="ada/x")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "token")
    monkeypatch.setattr("huggingface_hub.HfApi.whoami", lambda self: Path("nowhere").read_text())
    with pytest.raises(HubError, match=r"ada/x: a push would fail: the connection failed \("):
        bertkit.finetune("sst2", model=str(checkpoint), output_dir=checkpoint / "new", push_to_hub="ada/x")
    assert not (checkpoint / "new").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a/b/c", {}, "a/b/c: not a valid repository name; expected owner/name"),
        ("ada/x", {"license": "My License"}, "license: expected a licence identifier of the Hub"),
        ("ada/x", {"language": ["English"]}, "language: expected ISO 639 codes"),
        ("ada/x", {"as_": "onnx"}, "--as onnx: expected bert or bertkit"),
    ],
)
def test_wrong_arguments_are_refused(name, options, message, checkpoint):
    with pytest.raises(RecipeError, match=re.escape(message)):
        bertkit.push(checkpoint, name, **options)


def test_a_space_shows_the_branch_main(checkpoint):
    with pytest.raises(RecipeError, match="--space ada/x: its page loads the branch main; remove --revision"):
        bertkit.push(checkpoint, "ada/film", revision="v1", space="ada/x")
