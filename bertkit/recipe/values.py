"""Values that no setting of a recipe can have, and the ranges of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from bertkit.checkpoint.encoders import MOST_LAYERS
from bertkit.errors import shown

_SEEDS = 2**32  # the limit of numpy


class Range(NamedTuple):
    """Range of a number.

    Attributes:
        least, most: the limits.
        without: a limit that is not in the range itself.
        unless: a value outside of the range that is accepted too.
    """

    least: float
    most: float = math.inf
    without: float | None = None
    unless: float | None = None

    def __contains__(self, number: object) -> bool:
        assert isinstance(number, int | float)
        return number == self.unless or (self.least <= number <= self.most and number != self.without)

    def __str__(self) -> str:
        if self.most == math.inf or self.without == self.least:
            least = f"{'more than' if self.without == self.least else 'at least'} {self.least:g}"
            return least if self.most == math.inf else f"{least}, at most {self.most:.12g}"
        without = "" if self.without is None else f", without {self.without:g}"
        return f"{self.least:.12g} to {self.most:.12g}{without}"


_POSITIVE, _NOT_NEGATIVE, _SHARE, _SEED = Range(0, without=0), Range(0), Range(0, 1, without=1), Range(0, _SEEDS - 1)
# Larger numbers are slips, and would take all memory or time before anything refuses them.
_COUNT, _SIZE, _WORKERS = Range(1), Range(1, 2**20), Range(1, 1024)

RANGES: dict[str, Range] = {
    "train.global_train_batch_size": _SIZE,
    "train.num_train_epochs": Range(0, 1e6, without=0),
    "train.max_steps": Range(0, without=0, unless=-1),
    "train.early_stopping_patience": _POSITIVE,
    "train.seed": _SEED,
    "train.data_seed": _SEED,
    "train.learning_rate": Range(0, 1e6, without=0),  # larger steps exceed float32 after a few
    "train.warmup_steps": _NOT_NEGATIVE,
    "train.weight_decay": Range(0, 1e3),
    "train.adam_beta1": _SHARE,
    "train.adam_beta2": _SHARE,
    "train.adam_epsilon": _POSITIVE,  # at 0 a weight without gradient becomes 0/0
    "train.max_grad_norm": _NOT_NEGATIVE,  # 0 does not clip
    "train.label_smoothing_factor": _SHARE,
    "train.layer_lr_decay": Range(0, 1, without=0),
    "model.freeze_layers": _NOT_NEGATIVE,
    "model.reinit_layers": _NOT_NEGATIVE,
    "train.neftune_noise_alpha": Range(0, 1000),
    "train.logging_steps": _NOT_NEGATIVE,
    "train.eval_steps": _NOT_NEGATIVE,
    "train.eval_delay": _NOT_NEGATIVE,
    "train.eval_accumulation_steps": _COUNT,
    "train.save_steps": _NOT_NEGATIVE,
    "train.save_total_limit": _COUNT,  # transformers keeps all checkpoints at 0; here null does
    "train.torch_empty_cache_steps": _COUNT,
    "train.dataloader_prefetch_factor": _WORKERS,
    "train.ddp_bucket_cap_mb": _WORKERS,
    "train.ddp_timeout": Range(1, 2**31 - 1),  # seconds; torch counts nanoseconds in 64 bits
    "placement.num_processes": _WORKERS,
    "placement.per_device_train_batch_size": _SIZE,
    "placement.per_device_eval_batch_size": _SIZE,
    "placement.dataloader_num_workers": Range(0, 1024),
    "placement.preprocessing_num_workers": _WORKERS,
    "model.vocab_size": _SIZE,
    "model.hidden_size": _SIZE,
    "model.num_hidden_layers": Range(1, MOST_LAYERS),
    "model.intermediate_size": _SIZE,
    "model.max_position_embeddings": _SIZE,
    "model.type_vocab_size": _SIZE,
    "model.feature_lstm_size": _SIZE,
    "data.max_seq_length": _SIZE,
    "data.max_predictions_per_seq": _SIZE,
    "data.split_seed": _NOT_NEGATIVE,
}
"""Ranges of numbers of a recipe by dotted key; a setting without one is checked by its dataclass alone."""


def fault_of_value(value: Any) -> str | None:
    """Returns what is wrong with a value whatever its setting, or None.

    A number is finite and fits 64 bits; text has no NUL and no half of a surrogate pair, which files cannot hold.

    >>> fault_of_value({"betas": [0.9, float("nan")]})
    'expected finite numbers, got nan'
    >>> fault_of_value([0.9, 10, "text", None, True])
    """
    if isinstance(value, Mapping):
        return next(filter(None, map(fault_of_value, [*value.keys(), *value.values()])), None)
    if isinstance(value, list | tuple):
        return next(filter(None, map(fault_of_value, value)), None)
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected finite numbers, got {value}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"expected numbers of at most 64 bits, got {shown(value)}"
    if isinstance(value, str):
        wrong = next((sign for sign in value if sign == "\0" or "\ud800" <= sign <= "\udfff"), None)
        if wrong is not None:
            return f"{shown(value)} holds \\u{ord(wrong):04x}, which is no character of a text"
    return None
