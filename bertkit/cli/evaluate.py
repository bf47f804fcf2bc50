"""``bertkit evaluate``."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.settings import Settings

SETTINGS = (
    "data.data_dir",
    "data.validation_file",
    "data.train_file",
    "data.test_file",
    "data.dataset_name",
    "data.dataset_config",
    "data.max_seq_length",
    "data.max_eval_samples",
)


def evaluate(
    checkpoint: options.Checkpoint,
    settings: Settings,
    split: Annotated[
        str, typer.Option(help="validation, train, a test with labels, or validation_mm of MNLI.")
    ] = "validation",
    json: options.AsJson = False,
) -> None:
    """Score a fine-tuned checkpoint on its task's data."""
    data = settings.block("data")
    result = bertkit.evaluate(checkpoint, split=split, max_samples=data.pop("max_eval_samples", None), **data)
    if json:
        print(dumps(asdict(result)))
        return
    for name, value in result.metrics.items():
        print(f"{name.removeprefix('eval_')} {value:.4f}")
    print(f"{result.examples} examples of {result.source}")
