"""``bertkit finetune TASK``."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bertkit.cli import options, third_party
from bertkit.errors import RecipeError

app = typer.Typer(help="Fine-tune BERT for a task.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _finetune() -> None:
    pass


@app.command()
def glue(
    output_dir: options.OutputDir,
    task: Annotated[
        str | None,
        typer.Option(
            help="A GLUE task, such as sst2: short for its recipe; or several: rte,mrpc; or all.", show_default=False
        ),
    ] = None,
    model: options.Model = None,
    data_dir: options.DataDir = None,
    long_text: options.LongText = None,
    stride: options.Stride = None,
    pooling: options.Pooling = None,
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
    """Fine-tune on a GLUE task, from the Hub set or GLUE's TSV folder."""
    overrides = options.overrides(locals())
    if task is not None and (task == "all" or "," in task):
        if push_to_hub is not None:
            raise RecipeError(f"--push-to-hub is for one run, and --task {task} is several; use bertkit push")
        _several(task, recipe, json, output_dir=output_dir, model=model, data_dir=data_dir, overrides=overrides)
        return
    name = options.task_recipe("glue", task, recipe)
    _one(name, resume, push_to_hub, json, output_dir=output_dir, model=model, data_dir=data_dir, overrides=overrides)


@app.command()
def classification(
    output_dir: options.OutputDir,
    train_file: options.TrainFile = None,
    validation_file: options.ValidationFile = None,
    test_file: options.TestFile = None,
    dataset_name: options.DatasetName = None,
    dataset_config: options.DatasetConfig = None,
    text_column: options.TextColumns = None,
    label_column: options.LabelColumn = None,
    label_separator: options.LabelSeparator = None,
    problem: Annotated[
        Literal["single_label", "multi_label", "regression"] | None,
        typer.Option(help="What the labels are; without it their form tells.", show_default=False),
    ] = None,
    model: options.Model = None,
    long_text: options.LongText = None,
    stride: options.Stride = None,
    pooling: options.Pooling = None,
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
    """Fine-tune on a table of your own: classes, several classes or a number for a text or a pair."""
    overrides = options.overrides(
        locals(),
        task__text_columns=text_column,
        task__label_column=label_column,
        task__label_separator=label_separator,
        task__problem=problem,
    )
    name = recipe or "finetune/classification"
    _one(name, resume, push_to_hub, json, output_dir=output_dir, model=model, overrides=overrides)


@app.command()
def multiple_choice(
    output_dir: options.OutputDir,
    train_file: options.TrainFile = None,
    validation_file: options.ValidationFile = None,
    test_file: options.TestFile = None,
    dataset_name: options.DatasetName = None,
    dataset_config: options.DatasetConfig = None,
    context_column: Annotated[
        str | None, typer.Option(help="The column of the text to go on from.", show_default=False)
    ] = None,
    ending_column: Annotated[
        list[str] | None,
        typer.Option(help="A column of lists of endings, or one column for each ending.", show_default=False),
    ] = None,
    label_column: options.LabelColumn = None,
    model: options.Model = None,
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
    """Fine-tune on multiple choice: SWAG, or any context with endings."""
    overrides = options.overrides(
        locals(),
        task__context_column=context_column,
        task__ending_columns=ending_column,
        task__label_column=label_column,
    )
    name = recipe or "finetune/multiple-choice"
    _one(name, resume, push_to_hub, json, output_dir=output_dir, model=model, overrides=overrides)


@app.command()
def squad(
    output_dir: options.OutputDir,
    version_2_with_negative: Annotated[
        bool, typer.Option("--version-2-with-negative", help="Questions may have no answer: SQuAD 2.0.")
    ] = False,
    train_file: options.TrainQuestions = None,
    validation_file: options.ValidationQuestions = None,
    dataset_name: options.DatasetName = None,
    dataset_config: options.DatasetConfig = None,
    model: options.Model = None,
    doc_stride: options.DocStride = None,
    max_query_length: options.MaxQueryLength = None,
    max_answer_length: Annotated[
        int | None, typer.Option(help="Tokens of the longest answer; 30 by default.", show_default=False)
    ] = None,
    n_best_size: Annotated[
        int | None, typer.Option(help="Answers to write to nbest_predictions.json; 20 by default.", show_default=False)
    ] = None,
    null_score_diff_threshold: Annotated[
        float | None,
        typer.Option(
            help="How much the score of no answer must be above the best answer's; 0 by default.", show_default=False
        ),
    ] = None,
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
    """Fine-tune on SQuAD 1.1 or 2.0, or on questions of your own: answers are parts of a text."""
    overrides = options.overrides(
        locals(),
        task__version_2_with_negative=version_2_with_negative or None,
        task__max_answer_length=max_answer_length,
        task__n_best_size=n_best_size,
        task__null_score_diff_threshold=null_score_diff_threshold,
    )
    name = recipe or f"finetune/squad/{'v2' if version_2_with_negative else 'v1'}"
    _one(name, resume, push_to_hub, json, output_dir=output_dir, model=model, overrides=overrides)


@app.command()
def ner(
    output_dir: options.OutputDir,
    train_file: Annotated[
        Path | None,
        typer.Option(help="Sentences to train on: columns as in CoNLL, .jsonl or .parquet.", show_default=False),
    ] = None,
    validation_file: options.ValidationFile = None,
    test_file: options.TestFile = None,
    dataset_name: options.DatasetName = None,
    dataset_config: options.DatasetConfig = None,
    token_column: options.TokenColumn = None,
    tag_column: options.TagColumn = None,
    label_all_subwords: Annotated[
        bool | None,
        typer.Option("--label-all-subwords", help="Train all pieces of a word, not the first.", show_default=False),
    ] = None,
    model: options.Model = None,
    stride: options.Stride = None,
    context: options.Context = None,
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
    """Fine-tune on sentences whose words have tags: entities, chunks, parts of speech."""
    overrides = options.overrides(
        locals(),
        task__token_column=token_column,
        task__tag_column=tag_column,
        task__label_all_subwords=label_all_subwords,
    )
    name = recipe or "finetune/ner"
    _one(name, resume, push_to_hub, json, output_dir=output_dir, model=model, overrides=overrides)


def _one(recipe: str, resume: bool, push_to_hub: str | None, as_json: bool, **given: Any) -> None:
    from bertkit.progress import is_score
    from bertkit.training.finetune import finetune

    run = finetune(recipe, resume=resume, push_to_hub=push_to_hub, **given)
    shown = [(key, key.removeprefix("eval_")) for key in run.metrics if key.startswith("eval_") and is_score(key)]
    options.print_results(run.output_dir, run.metrics, shown, as_json)


def _several(tasks: str, recipe: str | None, as_json: bool, **given: Any) -> None:
    """Runs several tasks; repeating the command goes on, so --resume adds nothing."""
    from bertkit.training.glue_suite import finetune_glue, glue_table

    names = options.tasks("glue", tasks, recipe)
    results = finetune_glue(names, **given)
    print(dumps(asdict(results), default=str) if as_json else glue_table(results))


third_party.add_commands(app, _one)
