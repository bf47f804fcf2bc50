"""Families of encoders in pre-training: architectures for new weights, and heads for sentence pairs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from bertkit.checkpoint.encoders import BERT, own_fields
from bertkit.errors import RecipeError, did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

MODEL_TYPE = "model_type"
"""Key of the ``model`` block that names the architecture of new weights, as in ``config.json``; BERT without it."""

# Pair objective of the pre-training head that transformers has for a family, besides masked LM. BERT's takes both.
_PAIR_OBJECTIVES = {"albert": "sop", "big_bird": "nsp", "ernie": "nsp", "megatron-bert": "nsp", "mobilebert": "nsp"}
_PAIR_NAMES = {"nsp": "next sentence prediction", "sop": "sentence order prediction"}


def new_architecture(model_type: Any) -> type[PreTrainedConfig]:
    """Returns the configuration class of a model with new weights.

    Args:
        model_type: transformers' model type of an encoder with a masked-LM head; None is BERT.

    Raises:
        RecipeError: there is no such encoder.
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
    found = {name: fields.get(name, Any) for name in names}
    return {name: Any if isinstance(kind, str) else kind for name, kind in found.items()}


def check_pair_objective(pair_objective: str, family: str) -> None:
    """Checks that a family has a head for the pair objective of a run.

    Args:
        pair_objective: ``nsp``, ``sop`` or ``none``.
        family: model type of the encoder.

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
