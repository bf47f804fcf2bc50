"""Checks of a resumed run: its recipe and its data are those that it was started with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.training.runs.record import recorded
from bertkit.training.schedule import FITS_DATA, FITTED

TRACKING_KEYS = ("report_to", "run_name", "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id")
"""Keys of the ``train`` block that select and name the records of a run; they change no number."""

# Values that a resumed run may change: duration, logging, intermediate checkpoints, the report, and trackers.
_FREE_ON_RESUME = {
    "train.max_steps",
    "train.num_train_epochs",
    "train.logging_steps",
    "train.save_steps",
    "train.save_total_limit",
    "train.eval_steps",
    "train.report",
    *(f"train.{key}" for key in TRACKING_KEYS),
}


def check_same_recipe(recipe: Recipe, earlier: Recipe, output_dir: Path) -> list[str]:
    """Checks that a run is resumed with a recipe that gives the same results.

    Args:
        recipe: that of the call.
        earlier: that in the run directory.
        output_dir: the run directory, for messages.

    Returns:
        Descriptions of the changes that a resumed run may make.

    Raises:
        RecipeError: other values differ; the message names each of them.
    """
    then, now = earlier.to_dict(), recipe.to_dict()
    if now["train"].get(FITS_DATA):  # the data, which are not read yet, give what the recipe lacks
        fitted = {key: then["train"][key] for key in FITTED if key in then["train"]}
        now["train"] = {**fitted, **now["train"], FITS_DATA: then["train"].get(FITS_DATA)}
        if now["data"].get("folds") is None and then["data"].get("fold") is None:
            now["data"]["folds"] = then["data"].get("folds")
    wrong: list[str] = []
    allowed: list[str] = []
    for block in ("task", "model", "data", "train"):
        for key in sorted(then[block].keys() | now[block].keys()):
            before, after = then[block].get(key), now[block].get(key)
            if before != after and not (key == "folds" and not before and not after):  # no folds
                change = f"{block}.{key} was {before!r} and is now {after!r}"
                (allowed if f"{block}.{key}" in _FREE_ON_RESUME else wrong).append(change)
    if wrong:
        raise RecipeError(
            f"--resume: the run in {output_dir} was started with other values: {'; '.join(wrong)}. "
            "Give the same values, or start a new run in another folder"
        )
    return allowed


def check_same_data(output_dir: Path, data: Mapping[str, Any]) -> None:
    """Checks that the data of a resumed run have not changed.

    Args:
        output_dir: the run directory; its ``run.json`` holds the original fingerprints.
        data: current facts of each split or corpus, with its ``fingerprint``.

    Raises:
        DataError: a fingerprint differs, or ``run.json`` is damaged.
    """
    try:
        began = recorded(output_dir).get("data", {})
        changed = [
            name for name, facts in data.items() if facts["fingerprint"] != began.get(name, facts)["fingerprint"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"--resume: {output_dir / 'run.json'} is damaged ({error}); restore it, or remove it to continue without a "
            "comparison of the data"
        ) from error
    if changed:
        raise DataError(
            f"--resume: the data of the run in {output_dir} have changed since it began ({', '.join(changed)}); "
            "restore them, or start a new run in another folder"
        )
