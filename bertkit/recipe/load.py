"""Loading of recipes: found by name, overridden by key, validated as a whole.

A recipe is a YAML file with six blocks. ``task``, ``model``, ``data`` and ``train`` can change the results of a run;
``placement`` and ``hub`` do not. ``task.kind`` names the task, whose settings dataclasses define the keys of the blocks
``task`` and ``data``; the caller passes the registry of tasks. ``model`` has the fields of ``BertConfig`` and
``name_or_path`` (the source of the weights), for fine-tuning also the keys of `bertkit.recipe.tuning`, for new weights
``model_type`` (another architecture of transformers, with the fields of its configuration). ``train`` has
the fields of ``transformers.TrainingArguments``, with ``global_train_batch_size`` instead of the per-device keys and
``report`` (whether the run leaves ``report.html``, which changes no number), and for fine-tuning
``early_stopping_patience`` (the number of evaluations without a better score after which it ends), ``class_weights``,
``layer_lr_decay`` and ``distill`` (`bertkit.recipe.distillation`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.checkpoint.pretraining import MODEL_TYPE
from bertkit.errors import RecipeError, listed, shown
from bertkit.files import write_whole
from bertkit.placement.resolve import PlacementSettings
from bertkit.recipe.check import BLOCKS, Checker, Tasks, blocks_of
from bertkit.recipe.find import find_recipe, list_recipes
from bertkit.recipe.hub import HubSettings
from bertkit.recipe.text_values import typed
from bertkit.recipe.yaml_files import read_recipe_file, to_yaml

_ACCELERATE_KEY = "distributed_type"  # present in every file of `accelerate config`


@dataclass(frozen=True)
class Recipe:
    """Validated settings of one run; built by `load_recipe`.

    Attributes:
        name: name or file that it was loaded from, for messages and the model card.
        kind: name of the task.
        task: ``TaskSettings`` of the module of the task.
        data: ``DataSettings`` of the module of the task.
        model: ``BertConfig`` fields, and ``name_or_path``, the source of the weights; or ``model_type`` of new weights,
            and the fields of its configuration.
        train: ``TrainingArguments`` fields and ``global_train_batch_size`` (sequences per optimizer step).
        placement: devices, precision, per-device batch size.
        hub: licence, language and other values for the model card and the Hub.
    """

    name: str
    kind: str
    task: Any
    data: Any
    model: dict[str, Any]
    train: dict[str, Any]
    placement: PlacementSettings
    hub: HubSettings

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns the six blocks as plain data, which ``load_recipe`` accepts."""
        return {
            "task": {"kind": self.kind, **dataclasses.asdict(self.task)},
            "model": dict(self.model),
            "data": dataclasses.asdict(self.data),
            "train": dict(self.train),
            "placement": dataclasses.asdict(self.placement),
            "hub": dataclasses.asdict(self.hub),
        }

    def save(self, path: Path, heading: str) -> None:
        """Writes the resolved recipe as YAML, with ``heading`` as a comment in the first line."""
        write_whole(path, f"# {heading}\n{to_yaml(self.to_dict())}")


def load_recipe(
    source: str | Path | Mapping[str, Any] | Recipe, overrides: Mapping[str, Any] | None, tasks: Tasks
) -> Recipe:
    """Loads a recipe, applies overrides and checks it.

    Args:
        source: a name (``finetune/glue/sst2``), a YAML file, the blocks as a mapping, or a recipe.
        overrides: values by dotted key, such as ``{"train.learning_rate": 3e-5, "model.lora.r": 8}``; they take
            precedence over ``source``. A `Text` gets the type of its field.
        tasks: registry of the tasks that ``task.kind`` can name.

    Raises:
        RecipeError: the recipe does not exist or is invalid. One message lists all faults, each with its file and line
            or its override.
    """
    places: dict[str, str] = {}
    given: dict[str, Any]
    if isinstance(source, Recipe):
        name, given = source.name, source.to_dict()
    elif isinstance(source, Mapping):
        name, given = "(a mapping)", dict(source)
    else:
        name = str(source)
        given, places = read_recipe_file(find_recipe(source))
    faults: list[str] = []
    blocks = blocks_of(given, places, faults)
    overrides = dict(overrides or {})
    if "train.num_train_epochs" in overrides and "train.max_steps" not in overrides:
        blocks["train"].pop("max_steps", None)  # else max_steps would take precedence in transformers
    for dotted, value in overrides.items():
        block, _, key = dotted.partition(".")
        if block not in BLOCKS or not key:
            faults.append(f"--set {dotted}: expected block.key with a block of {', '.join(BLOCKS)}")
            continue
        key, _, part = key.partition(".")
        places[dotted] = f"(override) {dotted}"
        if part:  # of a value that is a mapping, such as model.lora.r
            whole = blocks[block].get(key)
            if not isinstance(whole, Mapping):
                whole, places[f"{block}.{key}"] = {}, places[dotted]
            value = {**whole, part: value}
        blocks[block][key] = value
    for block, key in (("task", "kind"), ("model", "name_or_path"), ("model", MODEL_TYPE)):  # the other types depend on
        if key in blocks[block]:
            blocks[block][key] = typed(blocks[block][key], str | None)
    checker = Checker(blocks, places, faults)
    kind = blocks["task"].pop("kind", None)
    settings = checker.task_settings(kind, tasks)
    recipe = Recipe(
        name,
        kind if isinstance(kind, str) else "",
        task=settings and checker.settings("task", settings[0]),
        data=settings and checker.settings("data", settings[1]),
        model=checker.model(),
        train=checker.train(),
        placement=checker.settings("placement", PlacementSettings),
        hub=checker.hub(settings and tasks.pipeline_tag(kind)),
    )
    if faults:
        raise RecipeError(f"recipe {name}: {listed(faults)}")
    return recipe


def load_placement(source: str | Path) -> dict[str, Any]:
    """Loads the values of a placement: a recipe file that has only a ``placement`` block.

    Args:
        source: a name (``cpu``, for ``recipes/placement/cpu.yaml``) or a file.

    Raises:
        RecipeError: the placement does not exist, has another block or an invalid value, or is a file of ``accelerate
            config``.
    """
    is_file = Path(source).suffix in (".yaml", ".yml")
    known = [name.removeprefix("placement/") for name in list_recipes() if name.startswith("placement/")]
    if not is_file and "/" not in str(source) and source not in known:
        raise RecipeError(f"--placement {shown(str(source))}: expected {', '.join(known)}, or a file")
    path = find_recipe(source if is_file or "/" in str(source) else f"placement/{source}")
    blocks, places = read_recipe_file(path)
    if _ACCELERATE_KEY in blocks:
        raise RecipeError(
            f"placement {source}: this is a configuration file of accelerate; run "
            f"accelerate launch --config_file {path} -m bertkit …, without --placement"
        )
    if set(blocks) != {"placement"}:
        raise RecipeError(f"placement {source}: expected one block, placement, in {path}; got {shown(list(blocks))}")
    faults: list[str] = []
    checker = Checker(blocks_of(blocks, places, faults), places, faults)
    checker.settings("placement", PlacementSettings)
    if faults:
        raise RecipeError(f"placement {source}: {listed(faults)}")
    return checker.blocks["placement"]


def validate_recipes(files: Sequence[Path], tasks: Tasks, more: Callable[[Recipe], None] | None = None) -> None:
    """Checks several recipe files.

    Args:
        files: names or files of recipes and placements.
        tasks: registry of the tasks.
        more: further check of each recipe without other faults; raises a RecipeError.

    Raises:
        RecipeError: a file is invalid; the message lists the faults of all files.
    """
    faults = []
    for file in files:
        try:
            blocks, _ = read_recipe_file(find_recipe(file))
            is_placement = set(blocks) == {"placement"} or _ACCELERATE_KEY in blocks
            if is_placement:
                load_placement(file)
                continue
            recipe = load_recipe(file, None, tasks)
            if more is not None:
                more(recipe)
        except RecipeError as error:
            faults.append(str(error))
    if faults:
        raise RecipeError(listed(faults))
