"""Construction of transformers' ``TrainingArguments`` from a recipe and a placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from bertkit.errors import RecipeError
from bertkit.placement.resolve import Placement
from bertkit.recipe.check import OWN_TRAIN_KEYS
from bertkit.recipe.load import Recipe


def training_arguments(recipe: Recipe, placement: Placement, output_dir: Path, **fixed: Any) -> TrainingArguments:
    """Returns the complete arguments of a run; they are not changed afterwards.

    Args:
        recipe: source of the ``train`` block.
        placement: placement of the run.
        output_dir: run directory.
        fixed: values determined by the kind of run and its data; they take precedence over the recipe.

    Raises:
        RecipeError: transformers rejects a value or a combination of values.
    """
    if recipe.train.get("train_sampling_strategy") == "batch_rebalance":
        raise RecipeError(
            f"recipe {recipe.name}: train.train_sampling_strategy: batch_rebalance makes other batches of every "
            "placement; use group_by_length"
        )
    values = {key: value for key, value in recipe.train.items() if key not in OWN_TRAIN_KEYS}
    if placement.device == "xla" and values.get("optim", "adamw_torch_fused") == "adamw_torch_fused":
        values["optim"] = "adamw_torch"  # the same AdamW; the fused kernel does not support XLA
    try:
        arguments = TrainingArguments(
            output_dir=str(output_dir),
            **{**values, **placement.training_arguments(), **fixed},
            disable_tqdm=True,  # `Progress` reports instead
        )
        for reporter in get_reporting_integration_callbacks(arguments.report_to):
            reporter()  # raises an error if the reporter is not installed
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        raise RecipeError(f"recipe {recipe.name}: train: {error}") from error
    # The rest has no argument of its own. The precision would be a launcher's; and on XLA accelerate's is not wanted,
    # see `Placement.training_arguments`.
    arguments.mixed_precision = "no" if placement.autocast_on_xla else placement.mixed_precision
    if placement.strategy == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy

        # accelerate's policy would cast the weights; here autocast sets the precision.
        arguments.fsdp_plugin_args["mixed_precision_policy"] = MixedPrecisionPolicy()
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # `place` selects the first GPU; otherwise transformers would use DataParallel
    return arguments
