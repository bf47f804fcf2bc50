"""`bertkit.choose`: checkpoints beside each other on your texts, without training one of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bertkit.features.choosing.conclusions import conclude
from bertkit.features.choosing.data import SEED, Labelled, read_labelled, read_texts, recipe_name
from bertkit.features.choosing.measuring import measure
from bertkit.features.choosing.result import Choice, short_names
from bertkit.features.choosing.wording import draw_words
from bertkit.inference.evaluation import learned_from
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.model.checkpoint.load import load_config
from bertkit.model.checkpoint.remote import at_revision
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.files import check_new_file, write_whole
from bertkit.runtime.options import several
from bertkit.runtime.placement.inference import inference_device
from bertkit.runtime.progress import counted, say
from bertkit.tasks.arguments import with_settings

_WORDS = 200  # that are masked
_BATCH = 32
_FOLDS = 5


def choose(
    models: str | Path | Sequence[str | Path],
    *,
    task: str | None = None,
    texts: str | Path | None = None,
    examples: int = 1000,
    folds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    device: Literal["auto", "cpu"] = "auto",
    trust_remote_code: bool = False,
    **settings: Any,
) -> Choice:
    """Compares checkpoints to start from, without training one of them.

    With labels each checkpoint is scored by linear heads on its frozen vectors, cross-validated, on the best of its
    layers. With labels and without: how its tokenizer cuts the words, how well it predicts masked ones, its size and
    its speed.

    Args:
        models: folders or Hub ids.
        task: task of the labelled data: ``classification``, the default, ``ner``, or a GLUE task such as ``sst2``.
        texts: in place of labelled data: a text file or a folder of them, as for pre-training, whose paragraphs are the
            texts.
        examples: number of examples, or of texts, that are drawn.
        folds: number of folds of the cross-validation, by default 5; only for labelled data.
        overrides: recipe values by dotted key, such as ``{"data.data_dir": "glue"}``.
        output: a new HTML file to write: the result as one page with drawings.
        device: ``auto`` or ``cpu``.
        trust_remote_code: run the code that the checkpoints bring.
        settings: recipe values by key without the block, as for `bertkit.finetune`: ``train_file``, a labelled table,
            ``text_columns``, ….

    Raises:
        RecipeError: the arguments do not go together, frozen vectors cannot be scored on the task, or a checkpoint was
            trained on the examples.
        DataError: the data cannot be read, or are too few.
        CheckpointError: a checkpoint cannot be loaded.
        OutputError: the file exists or cannot be written.

    Examples:
        ```python
        choice = bertkit.choose(["my-bert", "bert-2"], train_file="reviews.csv")
        choice.best, choice.candidates[0].frozen.by_layer
        ```
    """
    named = list(map(str, several(models)))
    values = with_settings(recipe_name(task or "classification"), overrides, settings)
    _check_arguments(named, texts, {"--task": task, "--folds": folds}, values)
    task, folds = task or "classification", _FOLDS if folds is None else folds
    if texts is not None and examples < 1:
        raise RecipeError(f"examples {examples}: expected at least 1")
    if texts is None and (folds < 2 or examples < folds):
        raise RecipeError(f"{examples} examples in {folds} folds: expected two folds or more, and as many examples")
    target = None if output is None else Path(output)
    if target is not None:
        check_new_file(target, f"--output {target}")
    places = [at_revision(model, None, trust_remote_code) for model in named]
    for place in places:
        load_config(place, any_encoder=True)  # reports a wrong name before anything is computed
    labelled: Labelled | None = None
    rows: Sequence[tuple[str, ...]]
    copies: list[str] = []
    if texts is not None:
        rows, source = read_texts(texts, examples), str(texts)
        # Masked words alone need neither several documents nor pairs of sentences, and every encoder can learn them.
        command = ["pretrain", "--corpus", source, "--pair-objective", "none"]
    else:
        labelled = read_labelled(task, values, examples, folds)
        rows, source, copies, command = labelled.texts(), labelled.source, labelled.copies, labelled.command
        if trained := [model for model in named if learned_from(model, labelled.split)]:
            raise RecipeError(
                f"--models: {trained[0]} was trained on {source}, so its score would be too high; leave it out, or "
                "give rows that it has not seen"
            )
    words = draw_words(rows, _WORDS, SEED)
    if not words:
        raise DataError(f"{source}: no word with a letter or a digit; give texts")
    every = []
    for place, model, name in zip(places, named, short_names(named), strict=True):
        say(f"{name}: {counted(len(rows), 'text' if labelled is None else 'example', form=',')} of {source}")
        every.append(measure(LoadedCheckpoint(place, device, _BATCH, {}), model, name, rows, words, labelled))
    metric = every[0].metric
    concluded = conclude(every, metric, labelled is not None and len(rows) < len(labelled.split.examples))
    leading = concluded.leading or concluded.candidates[0]
    if labelled is not None:
        length, longest = labelled.task.task.data.max_seq_length, leading.wording.longest
        if "data.max_seq_length" in values or length > longest:  # a training refuses more than the checkpoint reads
            command = [*command, "--max-seq-length", str(min(length, longest))]
    choice = Choice(
        concluded.candidates,
        metric,
        len(rows),
        source,
        None if labelled is None else folds,
        concluded.words,
        inference_device(device),
        None if concluded.best is None else concluded.best.name,
        [*concluded.sentences, *copies],
        shlex.join(["bertkit", *command, "--model", leading.model, "--output-dir", "OUT"]),
    )
    if target is not None:
        write_whole(target, choice.html())
    return choice


def _check_arguments(
    models: Sequence[str], texts: str | Path | None, of_labels: Mapping[str, object], values: Mapping[str, Any]
) -> None:
    """Checks the arguments; RecipeError if they do not go together."""
    if not models:
        raise RecipeError("choose: no checkpoint; give two or more with --models")
    places = [str(Path(model).resolve()) if Path(model).is_dir() else model for model in models]
    if twice := [model for model, place in zip(models, places, strict=True) if places.count(place) > 1]:
        raise RecipeError(f"--models: {twice[0]} is given twice; give each checkpoint once")
    unread = [key for key in values if not key.startswith(("task.", "data."))]
    if unread:
        raise RecipeError(f"choose trains nothing, so {', '.join(unread)} changes nothing; remove it")
    named = [*(name for name, value in of_labels.items() if value is not None), *values]
    if texts is not None and named:
        raise RecipeError(f"--texts has no labels, and {', '.join(named)} is for labelled data; give only one of them")
    sources = [key for key in values if key.startswith("data.") and key.endswith(("_file", "_dir", "dataset_name"))]
    if texts is None and not sources:
        raise RecipeError("choose: no data; give --train-file, --data-dir or --dataset-name, or --texts without labels")
