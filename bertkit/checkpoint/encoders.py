"""Properties of encoder families: supported families, model class of each head, and model inputs.

A family is a transformers model type, such as ``roberta``. BERT is bertkit's implementation; other encoders are built
by transformers' Auto classes.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING

from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

BERT = ("bertkit", "bert")
"""Model types that bertkit's BERT implements."""

MOST_LAYERS = 1000
"""Largest number of layers of a new model or a checkpoint; more are slips, or faults of a file."""

FROM_CODE: set[str] = set()
"""Model types that `bertkit.checkpoint.remote_code` has registered with the Auto classes."""

_LEAST_TOKENS = 3  # [CLS], a token of text, [SEP]
# RoBERTa numbers positions from padding_idx + 1, and these families share its code.
_POSITIONS_AFTER_PADDING = frozenset(
    "camembert data2vec-text esm ibert longformer luke mpnet roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl "
    "xmod".split()
)


def config_class(model_type: str | None, name: str) -> type[PreTrainedConfig]:
    """Returns the configuration class of an encoder: ``BertConfig`` for BERT, transformers' class for other families.

    Args:
        model_type: model type in the checkpoint's ``config.json``.
        name: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: the family is unknown to transformers, or is not an encoder.
    """
    if model_type in BERT:
        from bertkit.model.configuration_bert import BertConfig

        return BertConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if model_type not in CONFIG_MAPPING:
        raise CheckpointError(
            f"{name}: a checkpoint of type {model_type!r}, which transformers does not support; code in a checkpoint "
            "is not executed, unless --trust-remote-code (trust_remote_code=True) is given"
        )
    # Masked language models read both sides of every token; a configuration does not tell that of itself (GPT-2's says
    # is_decoder=False).
    if model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES and model_type not in FROM_CODE:
        raise _no_encoder(
            name, f"a checkpoint of type {model_type!r}, for which transformers has no masked language model"
        )
    return CONFIG_MAPPING[model_type]


def check_encoder(config: PreTrainedConfig, name: str) -> None:
    """Checks that a configuration describes an encoder with a maximum input length.

    Raises:
        CheckpointError: it does not; the message has ``name`` and the reason.
    """
    for field in ("is_encoder_decoder", "is_decoder"):
        if getattr(config, field, False):
            raise _no_encoder(name, f"a checkpoint of type {config.model_type!r} with {field}=True")
    layers = getattr(config, "num_hidden_layers", 1)
    if isinstance(layers, int) and layers > MOST_LAYERS:  # building them would take all memory, or hours
        raise CheckpointError(
            f"{name}: config.json has num_hidden_layers={layers}; expected at most {MOST_LAYERS}; get a complete copy "
            "of the checkpoint"
        )
    if getattr(config, "max_position_embeddings", None) is None:
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, whose config.json has no max_position_embeddings, "
            "so the maximum input length is unknown; give another encoder"
        )
    if longest_input(config) < _LEAST_TOKENS:
        raise CheckpointError(
            f"{name}: config.json leaves room for inputs of {longest_input(config)} tokens "
            f"(max_position_embeddings={config.max_position_embeddings}); expected at least {_LEAST_TOKENS}"
        )


def _no_encoder(name: str, what: str) -> CheckpointError:
    return CheckpointError(f"{name}: {what}; expected an encoder such as BERT, RoBERTa, DeBERTa or ModernBERT")


def head_class(head: str, config: PreTrainedConfig, name: str) -> type[PreTrainedModel]:
    """Returns the model class with a head: bertkit's for BERT, the one of the matching Auto class for other families.

    Args:
        head: name of a class in ``bertkit.model.modeling_bert``, such as ``BertForSequenceClassification``.
        config: configuration of the encoder.
        name: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: transformers has no such head for the family, or its model takes no attention mask.
    """
    from transformers.models.auto import modeling_auto

    from bertkit.model import modeling_bert

    if config.model_type in BERT:
        return getattr(modeling_bert, head)
    # The last match: AutoModel instead of AutoModelForTextEncoding, which few families have.
    auto_class = [auto for auto, model in modeling_bert.AUTO_CLASSES.items() if model.__name__ == head][-1]
    network = getattr(modeling_auto, auto_class)._model_mapping.get(type(config), None)
    if network is None:
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, for which transformers has no {auto_class}; "
            "give another encoder"
        )
    if "attention_mask" not in inspect.signature(network.forward).parameters:  # FNet has no masks
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, which takes no attention mask, so predictions "
            "would depend on the padding; give another encoder"
        )
    return network


def head_of(config: PreTrainedConfig, name: str) -> str:
    """Returns the head that a checkpoint was saved with, as the name of a class in ``bertkit.model.modeling_bert``.

    Args:
        config: configuration of the checkpoint, of any family.
        name: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: its ``config.json`` names no architecture, or one without a counterpart there.
    """
    from bertkit.model.modeling_bert import AUTO_CLASSES

    saved = (config.architectures or ["nothing"])[0]
    heads = [model.__name__ for model in dict.fromkeys(AUTO_CLASSES.values())]
    for head in heads:
        try:
            if head_class(head, config, name).__name__ == saved:
                return head
        except CheckpointError:  # the family has no such head
            continue
    named = saved_head(config)
    if named is not None:
        head_class(named, config, name)
        return named
    raise CheckpointError(
        f"{name}: the architecture in config.json is {saved}; expected an encoder without a head, or with "
        f"the head of {', '.join(heads[1:])}"
    )


# Ends of the names of transformers' classes, and the bertkit class of the same head.
_HEADS = {
    "ForSequenceClassification": "BertForSequenceClassification",
    "ForTokenClassification": "BertForTokenClassification",
    "ForQuestionAnswering": "BertForQuestionAnswering",
    "ForMaskedLM": "BertForMaskedLM",
    "ForPreTraining": "BertForPreTraining",
    "ForMultipleChoice": "BertForMultipleChoice",
    "ForNextSentencePrediction": "BertForNextSentencePrediction",
    "Model": "BertModel",
}


MASKED_LM_HEADS = ("BertForMaskedLM", "BertForPreTraining")
"""Heads with logits over the vocabulary, by the names that `saved_head` returns."""


def saved_head(config: PreTrainedConfig) -> str | None:
    """Returns the head that a checkpoint was saved with as `head_of`, from its name alone; None for another one.

    The name may be that of another family: ``XLMRobertaForTokenClassification`` in a checkpoint of type ``roberta``.
    """
    named = config.architectures
    saved = str(named[0]) if isinstance(named, list) and named else ""
    if saved.endswith("LMHeadModel"):  # it predicts the next token
        return None
    return next((head for end, head in _HEADS.items() if saved.endswith(end)), None)


def own_fields(config: type[PreTrainedConfig]) -> set[str]:
    """Returns the fields that a family declares in addition to those of every transformers configuration, including
    aliases (``hidden_size`` for DistilBERT's ``dim``)."""
    from transformers import PreTrainedConfig

    of_all = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    return {field.name for field in dataclasses.fields(config)} - of_all | set(config.attribute_map)


def longest_input(config: PreTrainedConfig) -> int:
    """Returns the maximum number of tokens of an input, special tokens included.

    With learned positions this is a hard limit. Rotary and relative positions (ModernBERT, DeBERTa-v3) can be computed
    for any length: the limit is then ``max_position_embeddings``, and can be raised by a larger value.
    """
    if config.model_type in _POSITIONS_AFTER_PADDING:
        return config.max_position_embeddings - config.pad_token_id - 1
    return config.max_position_embeddings


def model_inputs(config: PreTrainedConfig) -> tuple[str, ...]:
    """Returns the names of an encoder's (B, S) int64 inputs.

    These are ``input_ids``, ``attention_mask``, and ``token_type_ids`` if it has more than one segment type, which
    DistilBERT, ModernBERT and the released RoBERTa models do not.
    """
    segments = ("token_type_ids",) if getattr(config, "type_vocab_size", 1) > 1 else ()
    return ("input_ids", "attention_mask", *segments)
