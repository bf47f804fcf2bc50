"""``bertkit evaluate``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps

KEYS = (
    "data.data_dir",
    "data.validation_file",
    "data.train_file",
    "data.test_file",
    "data.dataset_name",
    "data.dataset_config",
    "data.train_split",
    "data.validation_split",
    "data.test_split",
    "data.comment_prefix",
    "data.snap",
    "data.offset_unit",
    "data.max_seq_length",
    "data.max_eval_samples",
    "task.metrics",
    "task.text_columns",
    "task.label_column",
    "task.token_column",
    "task.tag_column",
)


def evaluate(
    checkpoint: options.Checkpoint,
    settings: Settings,
    split: Annotated[
        str, typer.Option(help="validation, train, a test set with labels, or validation_mm of MNLI.")
    ] = "validation",
    precision: options.Precision = "auto",
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Score a fine-tuned checkpoint on data of its task. By default these are the data of its run."""
    data = settings.block("data")
    most = data.pop("max_eval_samples", None)
    columns = settings.block("task")
    metrics = columns.pop("metrics", [])
    result = bertkit.evaluate(
        checkpoint,
        split=split,
        max_samples=most,
        columns=columns,
        metrics=metrics,
        precision=precision,
        revision=revision,
        trust_remote_code=trust_remote_code,
        **data,
    )
    if json:
        print_text(dumps(asdict(result)))
        return
    for name, value in result.metrics.items():
        print_text(f"{name.removeprefix('eval_')} {value:.4f}")
    if result.collapse is not None:
        print_text(f"collapsed: {result.collapse}")
    print_text(f"{result.examples} examples of {result.source}")
