"""Pooling of the vectors of tokens, as checkpoints in the form of sentence-transformers record it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from bertkit.model.checkpoint.faults import reading
from bertkit.model.checkpoint.load import longest_of_tokenizer
from bertkit.runtime.errors import CheckpointError

Pooling = Literal["cls", "mean", "max"]

MODES = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
"""Pooling → its key in ``1_Pooling/config.json``."""

_OTHER_MODES = ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


@dataclass(frozen=True)
class SentencePooling:
    """Pooling of the vectors of tokens to one vector of a text.

    Attributes:
        pooling: as for `bertkit embed`.
        normalize: whether the vector is divided by its length.
        max_seq_length: tokens of a text that are read; ``None`` if not given.
    """

    pooling: Pooling = "mean"
    normalize: bool = False
    max_seq_length: int | None = None


def recorded_pooling(checkpoint: str) -> SentencePooling:
    """Reads the pooling of a checkpoint in the form of sentence-transformers; the mean for all others.

    Raises:
        CheckpointError: the checkpoint has steps or a pooling that bertkit does not compute.
    """
    modules = _read(checkpoint, "modules.json")
    if modules is None:
        return SentencePooling()
    with reading(checkpoint, "modules.json"):
        kinds = [str(each["type"]).rpartition(".")[2] for each in modules]
        places = {kind: str(each["path"]) for kind, each in zip(kinds, modules, strict=True)}
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise CheckpointError(
            f"{checkpoint}: modules.json has the steps {', '.join(kinds)}; bertkit computes Transformer, Pooling and "
            "Normalize; use the checkpoint with sentence-transformers as it is, or give --pooling"
        )
    config = _read(checkpoint, f"{places['Pooling']}/config.json") or {}
    mode_name = config.get("pooling_mode")
    poolings = [mode_name] if isinstance(mode_name, str) else [name for name, mode in MODES.items() if config.get(mode)]
    others = [mode for mode in _OTHER_MODES if config.get(f"pooling_mode_{mode}")]
    if len(poolings) != 1 or poolings[0] not in MODES or others:
        raise CheckpointError(
            f"{checkpoint}: its pooling is {', '.join(map(str, [*poolings, *others])) or 'none'}; expected one of "
            f"{', '.join(MODES)}; use the checkpoint with sentence-transformers as it is, or give --pooling"
        )
    limits = _read(checkpoint, "sentence_bert_config.json") or {}
    longest = limits.get("max_seq_length") or longest_of_tokenizer(checkpoint)  # from version 6 on it is there
    return SentencePooling(cast(Pooling, poolings[0]), "Normalize" in kinds, longest)


def _read(checkpoint: str, file: str) -> Any:
    """Returns the content of a JSON file of a checkpoint; ``None`` if it has no such file."""
    from transformers.utils import cached_file

    with reading(checkpoint, file):
        path = cached_file(
            checkpoint, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
        )
        return None if path is None else json.loads(Path(path).read_bytes())
