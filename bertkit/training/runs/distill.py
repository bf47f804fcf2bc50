"""``bertkit distill``: the fine-tuning or pre-training of a student with a teacher, and its recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from bertkit.inference.networks import refuse_ensemble
from bertkit.model.checkpoint.encoders import MASKED_LM_HEADS, MODEL_TYPE, saved_head
from bertkit.model.checkpoint.load import load_config
from bertkit.recipe.files import absolute, list_recipes
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import DISTILL, Objective
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.options import several
from bertkit.runtime.progress import say
from bertkit.tasks.base import Task
from bertkit.tasks.checkpoints import task_of_checkpoint
from bertkit.tasks.registry import load_recipe
from bertkit.tasks.splits import FineTuningData
from bertkit.tasks.usual_recipes import default_recipe
from bertkit.training.runs.finetune import finetune
from bertkit.training.runs.pretrain import pretrain
from bertkit.training.runs.record import Run

_SIZES = "pretrain/"
_LIMITS = ("max_train_samples", "max_eval_samples")  # of the teacher's run, not of its data


def distill(
    teacher: str | Path,
    student: str | Path | None = None,
    *,
    output_dir: str | Path,
    student_layers: Sequence[int] | None = None,
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    corpus: str | Path | Sequence[str | Path] | None = None,
    objective: Objective | None = None,
    alpha: float | None = None,
    temperature: float | None = None,
    hidden: float | None = None,
    teacher_layer: int | None = None,
    relation_heads: int | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Run:
    """Trains a student on the outputs of a teacher and on labels (Hinton et al. 2015).

    The student is fine-tuned for the task of the teacher; with ``corpus`` it is pre-trained. The loss is
    ``(1 - alpha) · labels + alpha · taught``, see `bertkit.recipe.settings.DistillationSettings`. The
    teacher runs on each batch. The result is a run directory as `finetune` or `pretrain` writes it.

    Args:
        teacher: the fine-tuned checkpoint, or the pre-trained one, a run directory, a folder or a Hub id.
        student: checkpoint to start from; or the size of a new model, such as ``bert-mini``, which has new weights and
            the tokenizer of the teacher.
        output_dir: the run directory; new or empty unless ``resume``.
        student_layers: numbers of the teacher's layers that the student starts from, from 0, instead of ``student``.
        recipe: recipe of the student's run; by default the usual recipe of the teacher's task, with the labels and
            columns that the teacher records, and the data of its run if it is a run directory. With ``corpus`` it is
            that of the student's size, or ``pretrain/continue``, without sentence pairs.
        corpus: text to pre-train the student on, as for `pretrain`.
        objective, alpha, temperature, hidden, teacher_layer, relation_heads: as in `DistillationSettings`; ``None`` for
            the values of the recipe or the defaults.
        data_dir, overrides, resume, push_to_hub, callbacks: as for `finetune` and `pretrain`.

    Returns:
        The run, with its directory and all results.

    Raises:
        HubError: the upload failed; the run is complete, and the message has the command to retry.
        SystemExit: a signal came; the last line says how to continue.
        BertkitError: the arguments, the teacher, the student or the data are invalid; nothing is written, unless the
            fault shows only during the training.

    Examples:
        ```python
        run = bertkit.distill("my-reviews", student_layers=[0], output_dir="small")
        run.metrics["eval_accuracy"]
        ```
    """
    resolved = distillation_recipe(
        teacher,
        student,
        student_layers,
        recipe,
        corpus,
        data_dir,
        overrides,
        objective=objective,
        alpha=alpha,
        temperature=temperature,
        hidden=hidden,
        teacher_layer=teacher_layer,
        relation_heads=relation_heads,
    )
    run = finetune if isinstance(resolved.data, FineTuningData) else pretrain
    return run(resolved, output_dir=output_dir, resume=resume, push_to_hub=push_to_hub, callbacks=callbacks)


def distillation_recipe(
    teacher: str | Path,
    student: str | Path | None = None,
    student_layers: Sequence[int] | None = None,
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    corpus: str | Path | Sequence[str | Path] | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    **losses: Any,
) -> Recipe:
    """Returns the recipe of a run of `distill`, from its arguments.

    Args:
        teacher, student, student_layers, recipe, corpus, data_dir, overrides: as for `distill`.
        losses: fields of `DistillationSettings`; ``None`` for the values of the recipe or the defaults.

    Raises:
        CheckpointError: the teacher cannot be read, or does not say what it was fine-tuned for.
        RecipeError: an argument is invalid.
    """
    name, given = absolute(teacher), dict(overrides or {})
    refuse_ensemble(name)
    if student is not None and student_layers is not None:
        raise RecipeError("give either --student or --student-layers, which takes the student from the teacher")
    has_student = recipe is not None or "model.name_or_path" in given
    if data_dir is not None:
        given["data.data_dir"] = str(data_dir)
    if corpus is not None:
        given["data.corpus"] = list(map(str, several(corpus)))
    base: str | Path | Mapping[str, Any] | Recipe
    if recipe is not None:
        base, values = recipe, dict[str, Any]()
    elif corpus is not None:
        base, values = _size(student) or "pretrain/continue", {"task.pair_objective": "none"}
    else:
        config = load_config(name, any_encoder=True)
        if saved_head(config) in MASKED_LM_HEADS:
            raise RecipeError(
                f"--teacher {name}: is a masked language model, which teaches in pre-training: give --corpus; for "
                "fine-tuning, give a fine-tuned checkpoint"
            )
        task = task_of_checkpoint(config, name)
        base, values = default_recipe(task), _of_teacher(name, task, given)
    distillation = {"teacher": name, **{key: value for key, value in losses.items() if value is not None}}
    values |= {f"train.{DISTILL}.{key}": value for key, value in distillation.items()}
    resolved = load_recipe(base, {**values, **_of_student(name, student, student_layers, has_student), **given})
    settings = resolved.distillation
    assert settings is not None
    resolved = dataclasses.replace(resolved, train={**resolved.train, DISTILL: settings.to_dict()})
    return resolved if isinstance(resolved.data, FineTuningData) else _with_tokenizer(resolved, name)


def _with_tokenizer(recipe: Recipe, teacher: str) -> Recipe:
    """Returns the recipe of a pre-training, with the tokenizer of the teacher for new weights without another one."""
    data, model = recipe.data, recipe.model
    if model.get("name_or_path") is not None or data.tokenizer is not None or data.vocab_size is not None:
        return recipe
    # Logits of both models have the same number of pieces, which may be larger than that of the tokenizer.
    size = load_config(teacher, any_encoder=True).vocab_size
    return dataclasses.replace(
        recipe, data=dataclasses.replace(data, tokenizer=teacher), model={"vocab_size": size, **model}
    )


def _of_teacher(name: str, task: Task, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns recipe values by dotted key: task, columns and labels of the teacher, and the data of its run."""
    from bertkit.training.distillation.losses import distilled

    settings = dataclasses.asdict(distilled(task).unfitted().settings)
    values = {f"task.{key}": value for key, value in settings.items() if key != "metrics"}  # which it does not store
    data: dict[str, Any] = {key: getattr(task.data, key) for key in task.data.stored}
    ran = Path(name) / "recipe.yaml"
    has_seen_all = False
    if ran.is_file():
        found = load_recipe(ran)
        if found.kind == task.kind:
            data = {key: value for key, value in dataclasses.asdict(found.data).items() if key not in _LIMITS}
            has_seen_all = found.data.scores_all_rows
    chosen = {key.removeprefix("data.") for key, value in given.items() if value is not None}
    files = set(type(task.data).paths)
    hub = {key for key in data if key.startswith("dataset_") or key.endswith("_split")}
    if has_seen_all:
        data["folds"] = 0
        if not any(key in chosen for key in files | hub if not key.startswith("test_")):
            say(
                f"warning: {name} was trained on all rows, also on those that are held out to score the student, "
                "so the scores are too high; give others with --validation-file"
            )
    left_out = (files if chosen & hub else set()) | (hub if chosen & files else set())
    return values | {f"data.{key}": value for key, value in data.items() if key not in left_out}


def _of_student(
    teacher: str, student: str | Path | None, layers: Sequence[int] | None, has_student: bool
) -> dict[str, Any]:
    """Returns recipe values by dotted key that say where the student's weights come from."""
    student = None if student is None else str(student)
    if layers is not None:
        return {"model.name_or_path": teacher, "model.keep_layers": list(layers)}
    if student is None:
        if has_student:
            return {}
        raise RecipeError(
            "no student; give --student with a checkpoint or a size such as bert-mini, or --student-layers, such as "
            "0,2,4"
        )
    if (size := _size(student)) is not None:
        model = load_recipe(size).model
        if "hidden_size" not in model or MODEL_TYPE in model:
            raise RecipeError(f"--student {student}: this recipe gives no size of a BERT; give one such as bert-mini")
        return {**{f"model.{key}": value for key, value in model.items()}, "model.name_or_path": None}
    near = get_close_matches(student, _sizes(), n=1, cutoff=0.85)
    if near and not Path(student).exists():
        raise RecipeError(
            f"--student {student}: neither a folder nor a size of a new model; did you mean {near[0]!r}? A Hub id has "
            "the form OWNER/NAME"
        )
    return {"model.name_or_path": student}


def _sizes() -> dict[str, str]:
    """Returns the recipe of each size of a new model, by its name."""
    return {each.removeprefix(_SIZES): each for each in list_recipes() if each.startswith(_SIZES)}


def _size(student: str | Path | None) -> str | None:
    """Returns the recipe of the size that a student names; ``None`` for a checkpoint or no student."""
    return None if student is None or Path(student).exists() else _sizes().get(str(student))
