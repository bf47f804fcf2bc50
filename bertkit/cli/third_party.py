"""``bertkit finetune KIND`` for the tasks of other packages, with the options that every task has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from bertkit.cli import options
from bertkit.tasks.registry import TASKS


def add_commands(app: typer.Typer, finetune: Callable[..., None]) -> None:
    """Adds a command for each task that another installed package registers; imports none of their modules.

    Args:
        app: of ``bertkit finetune``.
        finetune: runs one recipe and prints the results: ``finetune(recipe, resume, push_to_hub, as_json, **given)``.
    """
    for kind, package in TASKS.third_party().items():
        app.command(kind.replace("_", "-"), help=f"Fine-tune for {kind}, a task of the package {package}.")(
            _command(kind, finetune)
        )


def _command(kind: str, finetune: Callable[..., None]) -> Callable[..., None]:
    def command(
        output_dir: options.OutputDir,
        model: options.Model = None,
        data_dir: options.DataDir = None,
        train_file: options.TrainFile = None,
        validation_file: options.ValidationFile = None,
        test_file: options.TestFile = None,
        recipe: options.OptionalRecipe = None,
        set_: options.Set = None,
        learning_rate: options.LearningRate = None,
        num_train_epochs: options.Epochs = None,
        max_steps: options.MaxSteps = None,
        global_train_batch_size: options.GlobalBatch = None,
        max_seq_length: options.MaxSeqLength = None,
        seed: options.Seed = None,
        max_train_samples: options.MaxTrainSamples = None,
        max_eval_samples: options.MaxEvalSamples = None,
        placement: options.Placement = None,
        num_processes: options.NumProcesses = None,
        resume: options.Resume = False,
        push_to_hub: options.PushToHub = None,
        json: options.AsJson = False,
    ) -> None:
        overrides = options.overrides(locals())
        chosen: Any = recipe or TASKS.task(kind).recipe or {"task": {"kind": kind}}
        finetune(
            chosen,
            resume,
            push_to_hub,
            json,
            output_dir=output_dir,
            model=model,
            data_dir=data_dir,
            overrides=overrides,
        )

    return command
