"""``bertkit evaluate``."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer

from bertkit.cli import options


def evaluate(
    checkpoint: Annotated[str, typer.Argument(help="A run directory or a Hub id.", show_default=False)],
    data_dir: options.DataDir = None,
    validation_file: options.ValidationFile = None,
    train_file: options.TrainFile = None,
    test_file: options.TestFile = None,
    dataset_name: options.DatasetName = None,
    dataset_config: options.DatasetConfig = None,
    split: Annotated[
        str, typer.Option(help="validation, train, a test with labels, or validation_mm of MNLI.")
    ] = "validation",
    max_seq_length: options.MaxSeqLength = None,
    max_eval_samples: options.MaxEvalSamples = None,
    json: options.AsJson = False,
) -> None:
    """Score a fine-tuned checkpoint on its task's data."""
    from bertkit.inference.predictor import evaluate as evaluate_checkpoint

    result = evaluate_checkpoint(
        checkpoint,
        split=split,
        max_samples=max_eval_samples,
        data_dir=data_dir,
        validation_file=validation_file,
        train_file=train_file,
        test_file=test_file,
        dataset_name=dataset_name,
        dataset_config=dataset_config,
        max_seq_length=max_seq_length,
    )
    if json:
        print(dumps(asdict(result)))
        return
    for name, value in result.metrics.items():
        print(f"{name.removeprefix('eval_')} {value:.4f}")
    print(f"{result.examples} examples of {result.source}")
