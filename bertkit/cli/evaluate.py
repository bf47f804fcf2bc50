"""``bertkit evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import OF_DATA, Settings
from bertkit.cli.printing import print_result

KEYS = (
    *OF_DATA,
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
    lines = [f"{name.removeprefix('eval_')} {value:.4f}" for name, value in result.metrics.items()]
    lines += [] if result.collapse is None else [f"collapsed: {result.collapse}"]
    print_result(result, [*lines, result.counts], json)
