"""Families of encoders: which are some, how long their inputs may be, what they are given, which network is a head."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import BartConfig, DebertaConfig, FNetConfig, FunnelConfig, RobertaConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, model_type_to_module_name
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from bertkit import BertConfig, BertForMultipleChoice
from bertkit.model.checkpoint.encoders import (
    check_encoder,
    config_class,
    head_class,
    longest_input,
    model_inputs,
    own_fields,
)
from bertkit.runtime.errors import CheckpointError


def classifier(config):
    torch.manual_seed(0)
    return head_class("BertForSequenceClassification", config, "here")(config).eval()


def test_the_longest_input_is_exact(encoder):
    model, longest = classifier(encoder), longest_input(encoder)
    assert longest == 40
    with torch.no_grad():
        logits = model(torch.full((1, longest), 7), torch.ones(1, longest, dtype=torch.int64)).logits
    assert logits.isfinite().all()
    if encoder.model_type not in ("modernbert", "deberta", "deberta-v2"):  # rotary and relative positions
        with pytest.raises((IndexError, RuntimeError, ValueError)):
            model(torch.full((1, longest + 1), 7), torch.ones(1, longest + 1, dtype=torch.int64))


def test_families_with_positions_after_padding_are_complete():
    """Those whose source has fairseq's function for it: numbers from padding_idx + 1 on."""
    found, shorter = set(), set()
    for family in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        module = model_type_to_module_name(family)
        package = importlib.util.find_spec(f"transformers.models.{module}")
        source = (
            Path(package.origin).parent / f"modeling_{module.replace('data2vec', 'data2vec_text')}.py"
        ).read_text()
        if "def create_position_ids_from_input_ids(" in source:
            found.add(family)
        config = CONFIG_MAPPING[family]()
        config.max_position_embeddings, config.pad_token_id = 514, 1
        if longest_input(config) == 512:
            shorter.add(family)
    assert shorter == found
    assert {"roberta", "camembert", "xlm-roberta", "mpnet", "longformer"} <= found


def test_segments_are_given_where_they_change_something(encoder):
    given = "token_type_ids" in model_inputs(encoder)
    assert given == (encoder.model_type in ("bertkit", "albert", "electra"))
    if given:
        model, ids = classifier(encoder), torch.tensor([[2, 7, 8, 3]])
        with torch.no_grad():
            one, other = (model(ids, token_type_ids=torch.tensor([[0, 0, part, part]])).logits for part in (0, 1))
        assert not torch.allclose(one, other)


def test_a_bert_of_one_segment_is_given_none():
    assert model_inputs(BertConfig(type_vocab_size=1)) == ("input_ids", "attention_mask")


def test_the_configuration_class_is_that_of_the_family():
    assert config_class("bert", "here") is config_class("bertkit", "here") is BertConfig
    assert config_class("roberta", "here") is RobertaConfig


NO_MASKED_LM = "here: a checkpoint of type '{}', for which transformers has no masked"
OWN_CODE = "type {!r}, which transformers does not support; code .* is not executed"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        *((config_class, [family], NO_MASKED_LM.format(family)) for family in ("gpt2", "t5", "vit", "llama")),
        *((config_class, [family], OWN_CODE.format(family)) for family in ("of-my-own", None)),
        (check_encoder, [RobertaConfig(is_decoder=True)], "type 'roberta' with is_decoder=True; expected an encoder"),
        (check_encoder, [BartConfig()], "type 'bart' with is_encoder_decoder=True"),
        (check_encoder, [FunnelConfig()], "type 'funnel' without max_position_embeddings"),
        (
            check_encoder,
            [RobertaConfig(num_hidden_layers=1_000_000)],
            "num_hidden_layers=1000000; expected at most 1000",
        ),
        (
            head_class,
            ["BertForMultipleChoice", DebertaConfig()],
            "type 'deberta', for which transformers has no AutoModelForMultipleCho",
        ),
        (head_class, ["BertForSequenceClassification", FNetConfig()], "type 'fnet', which takes no attention mask"),
    ],
)
def test_unsupported_encoders_are_refused(function, arguments, message):
    with pytest.raises(CheckpointError, match=message):
        function(*arguments, "here")


def test_bert_is_bertkits_and_other_families_are_transformers():
    assert head_class("BertForMultipleChoice", BertConfig(), "here") is BertForMultipleChoice
    assert head_class("BertForMultipleChoice", RobertaConfig(), "here").__module__.startswith("transformers.")
    assert head_class("BertForQuestionAnswering", RobertaConfig(), "here").__name__ == "RobertaForQuestionAnswering"
    assert head_class("BertForTokenClassification", DebertaConfig(), "here").__name__ == "DebertaForTokenClassification"


def test_own_fields_include_aliases():
    fields = own_fields(config_class("distilbert", "here"))
    assert {"dim", "hidden_size", "seq_classif_dropout"} <= fields
    assert not {"hidden_dropout_prob", "num_labels", "dtype", "return_dict"} & fields
