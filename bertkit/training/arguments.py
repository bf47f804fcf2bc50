"""Arguments of a training: ``TrainingArguments`` from a recipe and its placement, and callbacks of a caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainerCallback, TrainingArguments, get_scheduler
from transformers.utils import is_torch_tf32_available

from bertkit.recipe.fields import LOGGING_STEPS
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import OWN_TRAIN_KEYS
from bertkit.runtime.errors import RecipeError, shortened, shown
from bertkit.runtime.placement.resolve import Placement

# The last two are done by listeners of a run, and by `BertkitTrainer`, whose evaluations leave out no example.
_NOT_OF_LIBRARY = {*OWN_TRAIN_KEYS, "report_to", "dataloader_drop_last"}
# Keys that need the best checkpoint, and the value that turns each off.
_OFF = {"early_stopping_patience": "null", "load_best_model_at_end": "false"}


def training_arguments(
    recipe: Recipe, placement: Placement, output_dir: Path, *, reaches_all_weights: bool = True, **fixed: Any
) -> TrainingArguments:
    """Returns the complete arguments of a run.

    Args:
        recipe: source of the ``train`` block.
        placement: placement of the run.
        output_dir: folder for the files of the Trainer.
        reaches_all_weights: the loss has a gradient for every weight, as those of BERT.
        fixed: values determined by the kind of run and its data; they take precedence over the recipe.

    Raises:
        RecipeError: transformers rejects a value or a combination of values.
    """
    values = {key: value for key, value in recipe.train.items() if key not in _NOT_OF_LIBRARY}
    if values["logging_steps"] is None:
        values["logging_steps"] = LOGGING_STEPS  # `Progress` knows the steps of the run
    if placement.device == "xla" and values.get("optim", "adamw_torch_fused") == "adamw_torch_fused":
        values["optim"] = "adamw_torch"  # the same AdamW; the fused kernel does not support XLA
    if values.get("ddp_find_unused_parameters") is None:
        values["ddp_find_unused_parameters"] = not reaches_all_weights
    if has_tf32(recipe, placement):
        values["tf32"] = True
    others = {
        "output_dir": str(output_dir),
        **placement.training_arguments(),
        **fixed,
        "disable_tqdm": True,  # `Progress` reports instead
        "report_to": "none",  # `Tracking` calls the trackers
        "logging_nan_inf_filter": False,  # the filter logs 0 for a loss that is not finite
    }
    if placement.device == "cuda":
        values.setdefault("eval_accumulation_steps", 16)  # outputs of tokens, such as (N, S, C), would fill the memory
    backends: Any = torch.backends
    of_process = backends.fp32_precision
    try:
        arguments = TrainingArguments(**{**values, **others})
    except Exception as error:  # transformers and the libraries below it check values in many ways
        raise RecipeError(f"{_place(recipe, _rejected(values, others))}: {_reason(error)}") from error
    finally:
        backends.fp32_precision = of_process  # the run sets it for its training alone
    # The rest has no argument of its own. transformers takes the precision of accelerate's launcher, if there is one.
    arguments.mixed_precision = "fp16" if arguments.fp16 else "no"
    # Copies from pinned memory do not wait for what the device still has to compute.
    arguments.accelerator_config.non_blocking |= arguments.dataloader_pin_memory
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # `place` selects the first GPU; otherwise transformers would use DataParallel
    return arguments


def best_checkpoint_arguments(recipe: Recipe, metric: str | None = None) -> dict[str, Any]:
    """Returns the Trainer arguments that compare evaluations and keep the best checkpoint, if the recipe requires it.

    The last checkpoint is kept as well, so that the run can be resumed.

    Args:
        recipe: a fine-tuning recipe.
        metric: score by which checkpoints are compared, unless the recipe names another one; larger is better. None
            while the task of the data is not known.

    Raises:
        RecipeError: the recipe does not evaluate during training.
    """
    train = recipe.train
    asked = [name for name in _OFF if train.get(name)]
    if train.get("save_strategy") == "best":
        asked.append("save_strategy")
    if not asked:
        return {}
    strategy = train.get("eval_strategy", "no")
    if strategy == "no":
        raise RecipeError(
            f"train.{asked[0]}: nothing is evaluated during training; set train.eval_strategy to epoch or steps"
        )
    fixed: dict[str, Any] = {}
    if metric is not None and "metric_for_best_model" not in train:
        fixed = {"metric_for_best_model": metric, "greater_is_better": True}
    if asked == ["save_strategy"]:
        return fixed
    fixed["restore_callback_states_from_checkpoint"] = "early_stopping_patience" in asked
    if train.get("load_best_model_at_end") is False:  # the last weights of a run that stops early
        return fixed
    fixed["load_best_model_at_end"] = True
    if train["save_total_limit"] == 1:
        fixed["save_total_limit"] = 2
    if given := [key for key in ("save_strategy", "save_steps") if key in train]:
        saves = train.get("save_strategy", "steps")
        if saves == "no":
            raise RecipeError(
                f"train.save_strategy: no checkpoint is saved, of which the best is kept; set it to {strategy}, or "
                f"train.{asked[0]} to {_OFF[asked[0]]}"
            )
        if saves not in (strategy, "best"):
            raise RecipeError(
                f"train.{given[0]}: checkpoints are saved by {saves} and evaluated by {strategy}, so the best one is "
                f"unknown; set train.eval_strategy to {saves}, or train.{asked[0]} to {_OFF[asked[0]]}"
            )
    else:
        fixed["save_strategy"] = strategy
        fixed["save_steps"] = train.get("eval_steps") or train["logging_steps"] or LOGGING_STEPS
    return fixed


def has_tf32(recipe: Recipe, placement: Placement) -> bool:
    """Returns whether a training in float32 computes products in TF32: on GPUs that have it, unless ``train.tf32`` is
    false."""
    if placement.device != "cuda" or placement.mixed_precision != "no" or recipe.train.get("tf32") is False:
        return False
    return bool(is_torch_tf32_available())


def validate_training_arguments(arguments: TrainingArguments, recipe: Recipe) -> None:
    """Creates what the Trainer creates from the arguments only after the data are read and the directory is written.

    These are the log level, a DataLoader, the compiler, and optimizer and scheduler for a single parameter.

    Raises:
        RecipeError: a value is rejected. The message names the keys of the ``train`` block to change.
    """
    for create, keys in _CREATED.items():
        try:
            create(arguments)
        except Exception as error:  # values are checked by the classes of several packages
            set_keys = [key for key in keys if recipe.train.get(key) is not None]
            raise RecipeError(f"{_place(recipe, set_keys or keys[:1])}: {_reason(error)}") from error


def check_callbacks(callbacks: Any) -> None:
    """Checks that a value is a list or tuple of instances of transformers' ``TrainerCallback``.

    Raises:
        RecipeError: it is not; the message names every wrong entry.
    """
    if not isinstance(callbacks, (list, tuple)):
        raise RecipeError(f"callbacks: expected a list of transformers' TrainerCallbacks, got {shown(callbacks)}")
    wrong = []
    for number, each in enumerate(callbacks, 1):
        if isinstance(each, type) and issubclass(each, TrainerCallback):
            wrong.append(f"entry {number} is the class {each.__name__}, give {each.__name__}(…)")
        elif not isinstance(each, TrainerCallback):
            wrong.append(f"entry {number} is {shown(each)}")
    if wrong:
        raise RecipeError(f"callbacks: expected instances of transformers' TrainerCallback; {', '.join(wrong)}")


def schedule_in_steps(values: Any, steps: int) -> Any:
    """Returns ``lr_scheduler_kwargs`` with a ``num_decay_steps`` below 1, a share of the steps, as a number of steps.

    transformers takes shares for ``warmup_steps`` only.

    >>> schedule_in_steps({"num_decay_steps": 0.1, "decay_type": "1-sqrt"}, 500)
    {'num_decay_steps': 50, 'decay_type': '1-sqrt'}
    """
    share = _decay_share(values)
    return values if share is None else {**values, "num_decay_steps": round(share * steps)}


def check_schedule(recipe: Recipe) -> None:
    """Checks that the schedule of a fine-tuning run has no share of its steps, whose number only the Trainer knows.

    Raises:
        RecipeError: ``num_decay_steps`` is a share.
    """
    share = _decay_share(recipe.train.get("lr_scheduler_kwargs"))
    if share is not None:
        raise RecipeError(
            f"recipe {recipe.name}: train.lr_scheduler_kwargs: num_decay_steps: {share:g} is a share of the steps, "
            "which only pre-training takes; give a number of steps"
        )


def _decay_share(values: Any) -> float | None:
    share = values.get("num_decay_steps") if isinstance(values, dict) else None
    return share if isinstance(share, float) and 0 < share < 1 else None


def _place(recipe: Recipe, keys: Sequence[str]) -> str:
    """Returns the start of a message on some keys of the ``train`` block, or on the block if there are none."""
    return f"recipe {recipe.name}: {', '.join(f'train.{key}' for key in keys) or 'train'}"


def _rejected(values: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a recipe without each of which transformers accepts the values."""
    rejected = []
    for key in values:
        try:
            TrainingArguments(**{**{name: value for name, value in values.items() if name != key}, **others})
        except Exception:  # as above
            continue
        rejected.append(key)
    return rejected


def _create_dataloader(arguments: TrainingArguments) -> None:
    DataLoader(
        TensorDataset(torch.zeros(1)),
        num_workers=arguments.dataloader_num_workers,
        persistent_workers=arguments.dataloader_persistent_workers,
        prefetch_factor=arguments.dataloader_prefetch_factor,
        multiprocessing_context=arguments.dataloader_multiprocessing_context,
    )


def _create_compiled_module(arguments: TrainingArguments) -> None:
    if arguments.torch_compile:
        from bertkit.training.compiled import check_compiler

        check_compiler(arguments)


def _create_optimizer(arguments: TrainingArguments) -> torch.optim.Optimizer:
    """Creates the optimizer of a run for one parameter; AdamW stands in for those that need the layers of a model."""
    # Some optimizers are for GPUs only.
    parameter = torch.nn.Parameter(torch.ones(2, 2, device=arguments.device if arguments.n_gpu else "cpu"))
    try:
        kind, values = Trainer.get_optimizer_cls_and_kwargs(arguments)
    except ValueError:
        if arguments.optim_target_modules is None and "lomo" not in arguments.optim:
            raise
        kind, values = torch.optim.AdamW, {"lr": arguments.learning_rate}
    parameter.grad = torch.ones_like(parameter)
    optimizer: torch.optim.Optimizer = kind([parameter], **values)
    optimizer.step()
    return optimizer


def _create_scheduler(arguments: TrainingArguments) -> None:
    steps = arguments.max_steps if arguments.max_steps > 0 else max(1_000, 10 * int(arguments.warmup_steps))
    get_scheduler(
        arguments.lr_scheduler_type,
        optimizer=_create_optimizer(arguments),
        num_warmup_steps=arguments.get_warmup_steps(steps),
        num_training_steps=steps,
        scheduler_specific_kwargs=schedule_in_steps(arguments.lr_scheduler_kwargs, steps),
    )


_CREATED: dict[Callable[[TrainingArguments], object], tuple[str, ...]] = {
    TrainingArguments.get_process_log_level: ("log_level", "log_level_replica"),
    _create_dataloader: (
        "dataloader_persistent_workers",
        "dataloader_prefetch_factor",
        "dataloader_multiprocessing_context",
    ),
    _create_compiled_module: ("torch_compile", "torch_compile_backend", "torch_compile_mode"),
    _create_optimizer: ("optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon"),
    _create_scheduler: ("lr_scheduler_type", "lr_scheduler_kwargs"),
}
"""Functions that create objects of libraries, whose classes check values → the keys of these values."""


def _reason(error: Exception) -> str:
    """Returns the message of a library's error in at most 500 characters; the type as well if it says little."""
    text = shortened(" ".join(str(error).split()), 500)
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
