"""``bertkit export``."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import typer

from bertkit.cli import options


def export(
    checkpoint: Annotated[str, typer.Argument(help="A run directory, a folder or a Hub id.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    to: Annotated[
        Literal["bert", "onnx"], typer.Option(help="bert: for plain transformers; onnx: for onnxruntime and others.")
    ] = "bert",
    int8: Annotated[bool, typer.Option("--int8", help="Of onnx: int8 matrices, scored before and after.")] = False,
    data_dir: options.DataDir = None,
    validation_file: options.ValidationFile = None,
    train_file: options.TrainFile = None,
    dataset_name: options.DatasetName = None,
    dataset_config: options.DatasetConfig = None,
    max_eval_samples: options.MaxEvalSamples = None,
    json: options.AsJson = False,
) -> None:
    """Write a checkpoint in a form that needs no bertkit, and check that it computes the same."""
    from bertkit.sharing.export import export as export_checkpoint

    result = export_checkpoint(
        checkpoint,
        out,
        to=to,
        int8=int8,
        max_samples=max_eval_samples,
        data_dir=data_dir,
        validation_file=validation_file,
        train_file=train_file,
        dataset_name=dataset_name,
        dataset_config=dataset_config,
    )
    if json:
        print(dumps(asdict(result), default=str))
        return
    print(f"{result.folder}: {result.model_class}; {result.comparison}")
    for name, (before, after) in result.scores.items():
        print(f"{name} {before:.4f}, as int8 {after:.4f}, on {result.examples} examples")
    for note in result.notes:
        print(f"note: {note}")
