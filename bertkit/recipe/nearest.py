"""Keys of recipes that an unknown key was probably meant for: by other usual names, by spelling, in other blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

ALIASES = {
    "lr": "train.learning_rate",
    "rate": "train.learning_rate",
    "epochs": "train.num_train_epochs",
    "num_epochs": "train.num_train_epochs",
    "steps": "train.max_steps",
    "batch_size": "train.global_train_batch_size",
    "train_batch_size": "train.global_train_batch_size",
    "bs": "train.global_train_batch_size",
    "wd": "train.weight_decay",
    "warmup": "train.warmup_steps",
    "warmup_ratio": "train.warmup_steps",
    "scheduler": "train.lr_scheduler_type",
    "optimizer": "train.optim",
    "patience": "train.early_stopping_patience",
    "label_smoothing": "train.label_smoothing_factor",
    "tracker": "train.report_to",
    "max_len": "data.max_seq_length",
    "max_length": "data.max_seq_length",
    "seq_len": "data.max_seq_length",
    "train": "data.train_file",
    "validation": "data.validation_file",
    "eval_file": "data.validation_file",
    "dev_file": "data.validation_file",
    "test": "data.test_file",
    "val_split": "data.validation_fraction",
    "dataset": "data.dataset_name",
    "text": "task.text_columns",
    "text_column": "task.text_columns",
    "label": "task.label_column",
    "target": "task.label_column",
    "labels": "task.label_names",
    "classes": "task.label_names",
    "metric": "task.main_metric",
    "checkpoint": "model.name_or_path",
    "model": "model.name_or_path",
    "dropout": "model.hidden_dropout_prob",
    "freeze": "model.freeze_layers",
    "gpu": "placement.device",
    "dtype": "placement.mixed_precision",
    "precision": "placement.mixed_precision",
}
"""Usual names of keys in other tools, in lower case → the key of bertkit."""


def nearest_key(block: str, key: str, keys: Mapping[str, Collection[str]]) -> str | None:
    """Returns the known key, with its block, that is nearest to an unknown one.

    A name in `ALIASES` comes first, then the same key of another block, a similar one of the same block, and a similar
    one of another.

    Args:
        block: block of the unknown key; empty if it was given without one.
        key: the unknown key.
        keys: known keys by block.

    >>> keys = {"task": ["text_columns"], "train": ["learning_rate", "seed"]}
    >>> [nearest_key("train", key, keys) for key in ("lr", "learning_rat", "text_columns", "colour")]
    ['train.learning_rate', 'train.learning_rate', 'task.text_columns', None]
    """
    alias = ALIASES.get(key.lower())
    if alias is not None and alias.partition(".")[2] in keys.get(alias.partition(".")[0], ()):
        return alias
    others = {f"{other}.{name}": name for other, names in keys.items() if other != block for name in names}
    same = next((dotted for dotted, name in others.items() if name == key), None)
    if same is not None:
        return same
    if near := get_close_matches(key, list(keys.get(block, ())), n=1):
        return f"{block}.{near[0]}"
    near = get_close_matches(key, list(others.values()), n=1, cutoff=0.8)
    return next((dotted for dotted, name in others.items() if name in near), None)
