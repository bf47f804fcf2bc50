"""Selection of the best checkpoint by the task's main metric, and early stopping.

Of checkpoints with equal values of the metric the one with the lower loss is kept: see `BertkitTrainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerState

from bertkit.errors import RecipeError
from bertkit.recipe.load import Recipe

_OFF = {"early_stopping_patience": "null", "load_best_model_at_end": "false"}


def best_checkpoint_arguments(recipe: Recipe) -> dict[str, Any]:
    """Returns the Trainer arguments that keep the best checkpoint, if the recipe requires it.

    The last checkpoint is kept as well, so that the run can be resumed.

    Raises:
        RecipeError: the recipe does not evaluate during training.
    """
    train, asked = recipe.train, _asked(recipe)
    if not asked:
        return {}
    strategy = train.get("eval_strategy", "no")
    if strategy == "no":
        raise RecipeError(
            f"train.{asked[0]}: nothing is evaluated during training; set train.eval_strategy to epoch or steps"
        )
    if asked == ["save_strategy"]:
        return {}
    fixed: dict[str, Any] = {"load_best_model_at_end": True}
    if train["save_total_limit"] == 1:
        fixed["save_total_limit"] = 2
    if given := [key for key in ("save_strategy", "save_steps") if key in train]:
        saves = train.get("save_strategy", "steps")
        if saves not in (strategy, "best"):
            raise RecipeError(
                f"train.{given[0]}: checkpoints are saved by {saves} and evaluated by {strategy}, so the best one is "
                f"unknown; set train.eval_strategy to {saves}, or train.{asked[0]} to {_OFF[asked[0]]}"
            )
    else:
        fixed |= {"save_strategy": strategy, "save_steps": train.get("eval_steps") or train["logging_steps"]}
    return fixed | {"restore_callback_states_from_checkpoint": "early_stopping_patience" in asked}


def comparison_arguments(metric: str, recipe: Recipe) -> dict[str, Any]:
    """Returns the Trainer arguments that compare checkpoints by a metric; larger is better.

    The result is empty if the recipe names another metric, or if no best checkpoint is kept.
    """
    if "metric_for_best_model" in recipe.train or not _asked(recipe):
        return {}
    return {"metric_for_best_model": metric, "greater_is_better": True}


def kept_step(trainer: Trainer) -> str | None:
    """Returns a line that says which step's weights the trainer has at its end; None if they are those of the last."""
    state, arguments = trainer.state, trainer.args
    best = state.best_global_step
    if not arguments.load_best_model_at_end or not best or best == state.global_step:
        return None
    metric = (arguments.metric_for_best_model or "loss").removeprefix("eval_")
    values = [entry.get(f"eval_{metric}") for entry in state.log_history if "eval_loss" in entry]
    criterion = f"{metric}, of equal ones by loss" if values.count(state.best_metric) > 1 else metric
    return f"kept: step {best}, the best of {len(values)} evaluations by {criterion}; the scores are those of this step"


def is_better_of_equals(metrics: Mapping[str, float], state: TrainerState, metric_for_best_model: str | None) -> bool:
    """Returns whether an evaluation has the best value of the metric and a lower loss than the best evaluation."""
    name = f"eval_{(metric_for_best_model or '').removeprefix('eval_')}"
    best = [each for each in state.log_history if each["step"] == state.best_global_step and "eval_loss" in each]
    if not best or "eval_loss" not in metrics or metrics.get(name) != state.best_metric:
        return False
    return bool(metrics["eval_loss"] < best[-1]["eval_loss"])


def _asked(recipe: Recipe) -> list[str]:
    """Returns the keys of the ``train`` block that require the best checkpoint."""
    asked = [name for name in ("early_stopping_patience", "load_best_model_at_end") if recipe.train.get(name)]
    return [*asked, "save_strategy"] if recipe.train.get("save_strategy") == "best" else asked


def early_stopping(recipe: Recipe) -> list[TrainerCallback]:
    """Returns the callback for early stopping, if the recipe requires it."""
    patience = recipe.train.get("early_stopping_patience")
    return [] if patience is None else [EarlyStoppingCallback(patience)]
