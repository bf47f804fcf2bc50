"""Families of encoders: which are supported, their heads, inputs and labels, and architectures for new weights.

A family is a transformers model type, such as ``roberta``. BERT is bertkit's implementation; other encoders are built
by transformers' Auto classes.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bertkit.runtime.errors import CheckpointError, RecipeError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

BERT = ("bertkit", "bert")
"""Model types that bertkit's BERT implements."""

MODEL_TYPE = "model_type"
"""Key of the ``model`` block that names the architecture of new weights, as in ``config.json``; BERT without it."""

MOST_LAYERS = 1000
"""Largest number of layers of a new model or a checkpoint; more are slips, or faults of a file."""

FROM_CODE: set[str] = set()
"""Model types that `bertkit.model.checkpoint.remote` has registered with the Auto classes."""

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
            f"{name}: num_hidden_layers={layers}; expected at most {MOST_LAYERS}; correct it, or get a complete copy "
            "of the checkpoint"
        )
    if getattr(config, "max_position_embeddings", None) is None:
        raise CheckpointError(
            f"{name}: an encoder of type {config.model_type!r} without max_position_embeddings, so the maximum input "
            "length is unknown; give another encoder"
        )
    if longest_input(config) < _LEAST_TOKENS:
        raise CheckpointError(
            f"{name}: max_position_embeddings={config.max_position_embeddings} leaves room for inputs of "
            f"{longest_input(config)} tokens; expected at least {_LEAST_TOKENS}"
        )


def _no_encoder(name: str, what: str) -> CheckpointError:
    return CheckpointError(f"{name}: {what}; expected an encoder such as BERT, RoBERTa, DeBERTa or ModernBERT")


def head_class(head: str | type[PreTrainedModel], config: PreTrainedConfig, name: str) -> type[PreTrainedModel]:
    """Returns the model class with a head: bertkit's for BERT, the one of the matching Auto class for other families.

    Args:
        head: name of a class in ``bertkit.model.modeling_bert``, such as ``BertForSequenceClassification``; or a class
            of another package, which is returned.
        config: configuration of the encoder.
        name: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: transformers has no such head for the family, or its model takes no attention mask; or the
            class is for another family.
    """
    if isinstance(head, type):
        if not isinstance(config, head.config_class):
            raise CheckpointError(
                f"{name}: a checkpoint of type {config.model_type!r}, and {head.__name__} is a head of "
                f"{head.config_class.model_type!r}; give another encoder"
            )
        return head
    from transformers.models.auto import modeling_auto

    from bertkit.model import modeling_bert

    if config.model_type in BERT:
        return getattr(modeling_bert, head)
    auto = auto_class(head)
    network = getattr(modeling_auto, auto)._model_mapping.get(type(config), None)
    if network is None:
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, for which transformers has no {auto}; "
            "give another encoder"
        )
    if "attention_mask" not in inspect.signature(network.forward).parameters:  # FNet has no masks
        raise CheckpointError(
            f"{name}: a checkpoint of type {config.model_type!r}, which takes no attention mask, so predictions "
            "would depend on the padding; give another encoder"
        )
    return network


def auto_class(head: str | type[PreTrainedModel]) -> str:
    """Returns the name of the class that loads a head, as of `head_class`: an Auto class, or that of another package.

    >>> auto_class("BertForMaskedLM"), auto_class("BertModel")
    ('AutoModelForMaskedLM', 'AutoModel')
    """
    if isinstance(head, type):
        return head.__name__
    from bertkit.model.modeling_bert import AUTO_CLASSES

    # The last match: AutoModel instead of AutoModelForTextEncoding, which few families have.
    return [auto for auto, model in AUTO_CLASSES.items() if model.__name__ == head][-1]


def head_of(config: PreTrainedConfig, name: str) -> str:
    """Returns the head that a checkpoint was saved with, as the name of a class in ``bertkit.model.modeling_bert``.

    It is one that `head_class` turns into the saved class, of several the first in ``AUTO_CLASSES``:
    ``BertForPreTraining`` for ``RobertaForMaskedLM``, since RoBERTa has no other head of pre-training. If there is
    none, it is that of `saved_head`.

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
    """Returns the head of the same kind as the one that a checkpoint was saved with; None if there is none.

    Only the end of the name counts: ``BertForMaskedLM`` for ``RobertaForMaskedLM``, and the name may be that of another
    family, as ``XLMRobertaForTokenClassification`` in a checkpoint of type ``roberta``.
    """
    named = config.architectures
    saved = str(named[0]) if isinstance(named, list) and named else ""
    if saved.endswith("LMHeadModel") or saved == "ElectraForPreTraining":  # the next token; which ones were replaced
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
    if positions_follow_padding(config):
        return config.max_position_embeddings - config.pad_token_id - 1
    return config.max_position_embeddings


def check_positions(max_seq_length: int, config: PreTrainedConfig, name: str) -> None:
    """Checks that inputs do not exceed the positions of a model.

    Raises:
        RecipeError: ``max_seq_length`` exceeds the number of positions.
    """
    longest = longest_input(config)
    if max_seq_length > longest:
        raise RecipeError(
            f"data.max_seq_length: {max_seq_length} tokens, but {name} has {longest} positions; "
            f"set --max-seq-length to at most {longest}"
        )


def positions_follow_padding(config: PreTrainedConfig) -> bool:
    """Returns whether the first position of an encoder is the id of the padding token plus one, as of RoBERTa."""
    return config.model_type in _POSITIONS_AFTER_PADDING


def model_inputs(config: PreTrainedConfig) -> tuple[str, ...]:
    """Returns the names of an encoder's (B, S) int64 inputs.

    These are ``input_ids``, ``attention_mask``, and ``token_type_ids`` if it has more than one segment type, which
    DistilBERT, ModernBERT and the released RoBERTa models do not.
    """
    segments = ("token_type_ids",) if getattr(config, "type_vocab_size", 1) > 1 else ()
    return ("input_ids", "attention_mask", *segments)


def vocabulary_weights(model: PreTrainedModel) -> list[Tensor]:
    """Returns the weights with a row for each id, each once: those of the embeddings, and of an output layer over the
    vocabulary and its bias where a model has one."""
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    weights = [embedding.weight, getattr(output, "weight", None), getattr(output, "bias", None)]
    return list({id(each): each for each in weights if each is not None}.values())


# ---- labels --------------------------------------------------------------------------------------------------------


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Returns the configuration fields for labels in the order of their ids."""
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


# ---- new weights ---------------------------------------------------------------------------------------------------

# Pair objective of the pre-training head that transformers has for a family, besides masked LM. BERT's takes both.
_PAIR_OBJECTIVES = {"albert": "sop", "big_bird": "nsp", "ernie": "nsp", "megatron-bert": "nsp", "mobilebert": "nsp"}
_PAIR_NAMES = {"nsp": "next sentence prediction", "sop": "sentence order prediction"}


def new_architecture(model_type: Any) -> type[PreTrainedConfig]:
    """Returns the configuration class of a model with new weights; RecipeError if there is no such encoder.

    Args:
        model_type: transformers' model type of an encoder with a masked-LM head; None is BERT.
    """
    if model_type is None or model_type in BERT:
        from bertkit.model.configuration_bert import BertConfig

        return BertConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    known = [name for name in sorted(MODEL_FOR_MASKED_LM_MAPPING_NAMES) if name in CONFIG_MAPPING]
    if model_type not in known:
        raise RecipeError(
            f"expected an encoder of transformers with a masked-LM head, such as bert, albert, roberta or modernbert, "
            f"got {model_type!r}{did_you_mean(str(model_type), known)}"
        )
    return CONFIG_MAPPING[model_type]


def field_types(configuration: type[PreTrainedConfig]) -> dict[str, Any]:
    """Returns the types of the fields of an architecture that a recipe can set, by name; ``Any`` where unknown."""
    from bertkit.model.configuration_bert import BertConfig

    fields = {field.name: field.type for field in dataclasses.fields(configuration)}
    # Only the fields that a family declares: labels, dtype and so on are set by task and placement.
    own = set(vars(BertConfig)) & set(fields) if configuration is BertConfig else own_fields(configuration)
    # In the order of the class: the order of a set differs between processes.
    names = [*(name for name in fields if name in own), *sorted(own - set(fields))]
    types = {name: fields.get(name, Any) for name in names}
    return {name: Any if isinstance(kind, str) else kind for name, kind in types.items()}


def check_pair_objective(pair_objective: str, family: str) -> None:
    """Checks that a family has a head for the pair objective of a run.

    Raises:
        RecipeError: it has no such head; the message names the objective to use.
    """
    own = _PAIR_OBJECTIVES.get(family)
    if family in BERT or pair_objective in ("none", own):
        return
    if own is None:
        raise RecipeError(
            f"task.pair_objective: {pair_objective} needs a head for sentence pairs, and {family} has none; give "
            "--pair-objective none"
        )
    raise RecipeError(
        f"task.pair_objective: the head for sentence pairs of {family} is for {_PAIR_NAMES[own]}, not for "
        f"{pair_objective}; give --pair-objective {own} or none"
    )


def bert_tokenizer_class() -> Any:
    """Returns transformers' ``BertTokenizer``, without importing the package ``transformers.models``.

    That package reads the source of all models again, a tenth of the time of a first prediction. A stand-in takes its
    place during the import; later imports get the package.
    """
    import transformers

    package = "transformers.models"
    is_imported = package in sys.modules
    if not is_imported:
        stand_in = sys.modules[package] = ModuleType(package)
        stand_in.__path__ = [str(Path(transformers.__file__).parent / "models")]
    try:
        from transformers.models.bert.tokenization_bert import BertTokenizer
    finally:
        if not is_imported:
            del sys.modules[package]
    return BertTokenizer
