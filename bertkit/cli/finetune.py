"""``bertkit finetune TASK``."""

from __future__ import annotations

from typing import Annotated

import typer

from bertkit.cli import options

app = typer.Typer(help="Fine-tune BERT for a task.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _finetune() -> None:
    pass


@app.command()
def glue(
    output_dir: options.OutputDir,
    task: Annotated[
        str | None, typer.Option(help="A GLUE task, such as sst2: short for its recipe.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Checkpoint to start from: a folder or a Hub id.", show_default=False)
    ] = None,
    data_dir: options.DataDir = None,
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
    resume: options.Resume = False,
    json: options.AsJson = False,
) -> None:
    """Fine-tune on a GLUE task, from the Hub set or GLUE's TSV folder."""
    overrides = options.overrides(
        set_,
        placement,
        train__learning_rate=learning_rate,
        train__num_train_epochs=num_train_epochs,
        train__max_steps=max_steps,
        train__global_train_batch_size=global_train_batch_size,
        data__max_seq_length=max_seq_length,
        train__seed=seed,
        data__max_train_samples=max_train_samples,
        data__max_eval_samples=max_eval_samples,
    )
    name = options.task_recipe("glue", task, recipe)
    from bertkit.progress import is_score
    from bertkit.training.finetune import finetune

    run = finetune(name, output_dir=output_dir, model=model, data_dir=data_dir, overrides=overrides, resume=resume)
    shown = [(key, key.removeprefix("eval_")) for key in run.metrics if key.startswith("eval_") and is_score(key)]
    options.print_results(run.output_dir, run.metrics, shown, json)
