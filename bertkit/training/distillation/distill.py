"""``bertkit distill``: the fine-tuning of a student with a teacher, and its recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from bertkit.checkpoint.load import load_config
from bertkit.checkpoint.pretraining import MODEL_TYPE
from bertkit.errors import RecipeError
from bertkit.inference.ensemble import refuse_ensemble
from bertkit.recipe.distillation import DISTILL, distillation_settings
from bertkit.recipe.find import list_recipes
from bertkit.recipe.load import Recipe
from bertkit.tasks.base import Task
from bertkit.tasks.construction import task_of_checkpoint
from bertkit.tasks.registry import load_recipe
from bertkit.training.finetune import finetune
from bertkit.training.run_directory import Run, absolute

_SIZES = "pretrain/"
_LIMITS = ("max_train_samples", "max_eval_samples")  # of the teacher's run, not of its data


def distill(
    teacher: str | Path,
    student: str | Path | None = None,
    *,
    output_dir: str | Path,
    student_layers: Sequence[int] | None = None,
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    alpha: float | None = None,
    temperature: float | None = None,
    hidden: float | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Run:
    """Fine-tunes a student on the outputs of a fine-tuned teacher and on labels (Hinton et al. 2015).

    The loss is ``(1 - alpha) · labels + alpha · (soft + hidden · cosine)``, see
    `bertkit.recipe.distillation.DistillationSettings`. The outputs of the teacher are computed once and kept on disk.
    The result is a run directory as `finetune` writes it.

    Args:
        teacher: the fine-tuned checkpoint, a run directory, a folder or a Hub id.
        student: checkpoint to start from; or the size of a new model, such as ``bert-mini``, which has new weights and
            the tokenizer of the teacher.
        output_dir: the run directory; new or empty unless ``resume``.
        student_layers: numbers of the teacher's layers that the student starts from, from 0, instead of ``student``.
        recipe: recipe of the student's run; by default the usual recipe of the teacher's task, with the labels and
            columns that the teacher records, and the data of its run if it is a run directory.
        alpha, temperature, hidden: as in `DistillationSettings`; ``None`` for the values of the recipe or the defaults.
        data_dir, overrides, resume, push_to_hub, callbacks: as for `finetune`.

    Raises:
        BertkitError: the arguments, the teacher, the student or the data are invalid; nothing has been written then but
            outputs of the teacher.
    """
    resolved = distillation_recipe(
        teacher, student, student_layers, recipe, alpha, temperature, hidden, data_dir, overrides
    )
    return finetune(resolved, output_dir=output_dir, resume=resume, push_to_hub=push_to_hub, callbacks=callbacks)


def distillation_recipe(
    teacher: str | Path,
    student: str | Path | None = None,
    student_layers: Sequence[int] | None = None,
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    alpha: float | None = None,
    temperature: float | None = None,
    hidden: float | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Recipe:
    """Returns the recipe of a run of `distill`, from its arguments.

    Raises:
        CheckpointError: the teacher cannot be read, or does not say what it was fine-tuned for.
        RecipeError: an argument is invalid.
    """
    name, given = absolute(teacher), dict(overrides or {})
    has_student = recipe is not None or "model.name_or_path" in given
    if data_dir is not None:
        given["data.data_dir"] = str(data_dir)
    values: dict[str, Any] = {}
    if recipe is None:
        refuse_ensemble(name)
        task = task_of_checkpoint(load_config(name, any_encoder=True), name)
        recipe, values = task.usual_recipe, _of_teacher(name, task, given)
    weights = {"alpha": alpha, "temperature": temperature, "hidden": hidden}
    distilled = {"teacher": name, **{key: value for key, value in weights.items() if value is not None}}
    values |= {f"train.{DISTILL}.{key}": value for key, value in distilled.items()}
    resolved = load_recipe(recipe, {**values, **_of_student(name, student, student_layers, has_student), **given})
    settings = distillation_settings(resolved.train)
    assert settings is not None
    # All values, so that recipe.yaml says with which ones the run was made.
    return dataclasses.replace(resolved, train={**resolved.train, DISTILL: dataclasses.asdict(settings)})


def _of_teacher(name: str, task: Task, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns recipe values by dotted key: task, columns and labels of the teacher, and the data of its run.

    Args:
        name: name of the teacher.
        task: its task.
        given: values that the caller sets; data of another kind than theirs are left out.
    """
    values = {f"task.{key}": value for key, value in dataclasses.asdict(task.unfitted().task).items()}
    data: dict[str, Any] = {key: getattr(task.data, key) for key in task.data.stored}
    ran = Path(name) / "recipe.yaml"
    if ran.is_file():
        found = load_recipe(ran)
        if found.kind == task.kind:
            data = {key: value for key, value in dataclasses.asdict(found.data).items() if key not in _LIMITS}
    chosen = {key.removeprefix("data.") for key, value in given.items() if value is not None}
    files = set(type(task.data).paths)
    hub = {key for key in data if key.startswith("dataset_") or key.endswith("_split")}
    left_out = (files if chosen & hub else set()) | (hub if chosen & files else set())
    return values | {f"data.{key}": value for key, value in data.items() if key not in left_out}


def _of_student(
    teacher: str, student: str | Path | None, layers: Sequence[int] | None, has_student: bool
) -> dict[str, Any]:
    """Returns recipe values by dotted key that say where the student's weights come from.

    Args:
        teacher: name of the teacher.
        student, layers: as for `distill`.
        has_student: the recipe has a student if neither is given.

    Raises:
        RecipeError: none or several sources are given, or the student is neither a checkpoint nor a size.
    """
    student = None if student is None else str(student)
    if student is not None and layers is not None:
        raise RecipeError("give either --student or --student-layers, which takes the student from the teacher")
    if layers is not None:
        return {"model.name_or_path": teacher, "model.keep_layers": list(layers)}
    if student is None:
        if has_student:
            return {}
        raise RecipeError(
            "no student; give --student with a checkpoint or a size such as bert-mini, or --student-layers, such as "
            "0,2,4"
        )
    sizes = {each.removeprefix(_SIZES): each for each in list_recipes() if each.startswith(_SIZES)}
    if not Path(student).exists() and student in sizes:
        model = load_recipe(sizes[student]).model
        if "hidden_size" not in model or MODEL_TYPE in model:
            raise RecipeError(f"--student {student}: this recipe gives no size of a BERT; give one such as bert-mini")
        return {**{f"model.{key}": value for key, value in model.items()}, "model.name_or_path": None}
    near = get_close_matches(student, sizes, n=1, cutoff=0.85)
    if near and not Path(student).exists():
        raise RecipeError(
            f"--student {student}: neither a folder nor a size of a new model; did you mean {near[0]!r}? A Hub id has "
            "the form OWNER/NAME"
        )
    return {"model.name_or_path": student}
