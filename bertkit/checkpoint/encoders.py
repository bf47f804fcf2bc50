"""What differs between families of encoders: which families are encoders, which network a head is, what it is given.

A family is what transformers calls a model type, such as ``roberta``. BERT is bertkit's own; every other encoder is the
network that transformers' Auto classes build.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING

from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

BERT = ("bertkit", "bert")
"""The families that bertkit's own BERT computes."""

# RoBERTa numbers the tokens of a text from padding_idx + 1 on, and these families took that over with its code.
_POSITIONS_AFTER_PADDING = frozenset(
    "camembert data2vec-text esm ibert longformer luke mpnet roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl "
    "xmod".split()
)


def config_class(model_type: str | None, name: str) -> type[PreTrainedConfig]:
    """The class of an encoder's configuration: ``BertConfig`` for BERT, transformers' own for every other family.

    Args:
        model_type: what the checkpoint's ``config.json`` says.
        name: what messages call the checkpoint.

    Raises:
        CheckpointError: transformers does not know the family, or it is none of encoders.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    from bertkit.model.configuration_bert import BertConfig

    if model_type in BERT:
        return BertConfig
    if model_type not in CONFIG_MAPPING:
        raise CheckpointError(
            f"{name}: a checkpoint of type {model_type!r}, which transformers does not know; code that comes with a "
            "checkpoint is not run"
        )
    # Masked language models read both sides of every token; a configuration does not tell that of itself (GPT-2's says
    # is_decoder=False).
    if model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise _no_encoder(name, f"a checkpoint of type {model_type!r}, of which there is no masked language model")
    return CONFIG_MAPPING[model_type]


def check_encoder(config: PreTrainedConfig, name: str) -> None:
    """Refuses configurations that make a decoder of an encoder, or do not say how long an input may be.

    Raises:
        CheckpointError: naming ``name`` and the reason.
    """
    for field in ("is_encoder_decoder", "is_decoder"):
        if getattr(config, field, False):
            raise _no_encoder(name, f"a checkpoint of type {config.model_type!r} with {field}=True")
    if getattr(config, "max_position_embeddings", None) is None:
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, whose config.json has no max_position_embeddings, "
            "so that nobody knows how long its inputs may be; give another encoder"
        )


def _no_encoder(name: str, what: str) -> CheckpointError:
    return CheckpointError(f"{name}: {what}; expected an encoder such as BERT, RoBERTa, DeBERTa or ModernBERT")


def head_class(head: str, config: PreTrainedConfig, name: str) -> type[PreTrainedModel]:
    """The class of the network with a head: bertkit's for BERT, what the matching Auto class builds for other families.

    Args:
        head: name of a class in ``bertkit.model.modeling_bert``, such as ``BertForSequenceClassification``.
        config: of the encoder.
        name: what messages call the checkpoint.

    Raises:
        CheckpointError: transformers has no such head for the family, or its network cannot leave padding out.
    """
    from transformers.models.auto import modeling_auto

    from bertkit.model import modeling_bert

    if config.model_type in BERT:
        return getattr(modeling_bert, head)
    # The last that builds it: AutoModel, and not AutoModelForTextEncoding, which few families have.
    auto_class = [auto for auto, model in modeling_bert.AUTO_CLASSES.items() if model.__name__ == head][-1]
    network = getattr(modeling_auto, auto_class)._model_mapping.get(type(config), None)
    if network is None:
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, for which transformers has no {auto_class}; "
            "give another encoder"
        )
    if "attention_mask" not in inspect.signature(network.forward).parameters:  # FNet: its Fourier transform has none
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, which takes no attention mask, so that predictions "
            "would depend on the padding; give another encoder"
        )
    return network


def head_of(config: PreTrainedConfig, name: str) -> str:
    """The head that a checkpoint was saved with: the name of a class in ``bertkit.model.modeling_bert``.

    Args:
        config: of the checkpoint, whatever its family.
        name: what messages call the checkpoint.

    Raises:
        CheckpointError: its ``config.json`` names no architecture, or one that has no counterpart there.
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
    raise CheckpointError(
        f"{name}: config.json names {saved} as the checkpoint's architecture; expected the encoder alone, or "
        f"with a head as in {', '.join(heads[1:])}"
    )


def own_fields(config: type[PreTrainedConfig]) -> set[str]:
    """The fields that a family declares itself, beside those of every transformers configuration; other names of the
    same fields (``hidden_size`` for DistilBERT's ``dim``) are among them."""
    from transformers import PreTrainedConfig

    of_all = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    return {field.name for field in dataclasses.fields(config)} - of_all | set(config.attribute_map)


def longest_input(config: PreTrainedConfig) -> int:
    """Tokens of the longest input, special tokens among them.

    Where positions are learned, there are no more. Rotary and relative ones (ModernBERT, DeBERTa-v3) can be computed
    for any length: there it is the length that ``max_position_embeddings`` says, and a larger value allows more.
    """
    if config.model_type in _POSITIONS_AFTER_PADDING:
        return config.max_position_embeddings - config.pad_token_id - 1
    return config.max_position_embeddings


def model_inputs(config: PreTrainedConfig) -> tuple[str, ...]:
    """The names of the (B, S) int64 inputs of an encoder: ``input_ids``, ``attention_mask``, and ``token_type_ids``
    where it knows more than one type of segment, which DistilBERT, ModernBERT and published RoBERTas do not."""
    segments = ("token_type_ids",) if getattr(config, "type_vocab_size", 1) > 1 else ()
    return ("input_ids", "attention_mask", *segments)
