"""Names of the trackers of a run, and the check that they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from bertkit.errors import RecipeError, did_you_mean
from bertkit.recipe.load import Recipe

KEYS = ("report_to", "run_name", "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id")
"""Keys of the ``train`` block that select and name the records of a run; they change no number."""

_EXTRAS = ("tensorboard", "trackio")
# Modules and packages whose names differ from those of their trackers.
_MODULES = {"azure_ml": "azureml", "flyte": "flytekit"}
_PACKAGES = {"azure_ml": "azureml-core", "comet_ml": "comet-ml", "flyte": "flytekit"}


def trackers_of(train: Mapping[str, Any]) -> list[str]:
    """Returns the names of the trackers that a ``train`` block selects, each once.

    >>> trackers_of({"report_to": "none"}), trackers_of({"report_to": ["wandb", "trackio", "wandb"]})
    ([], ['wandb', 'trackio'])
    """
    given = train.get("report_to")
    names = [given] if isinstance(given, str) else list(given or [])
    if names == ["all"]:
        from transformers.integrations import get_available_reporting_integrations

        names = get_available_reporting_integrations()
    return [name for name in dict.fromkeys(names) if name != "none"]


def check_trackers(recipe: Recipe) -> None:
    """Checks that the trackers of a recipe exist and are installed.

    Raises:
        RecipeError: one does not; the message says how to install it.
    """
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    known, place = sorted(INTEGRATION_TO_CALLBACK), f"recipe {recipe.name}: train.report_to"
    for name in trackers_of(recipe.train):
        if name not in INTEGRATION_TO_CALLBACK:
            raise RecipeError(
                f"{place}: unknown tracker {name!r}; expected {', '.join(known)}, all or none"
                f"{did_you_mean(name, known)}"
            )
        modules = ("tensorboard", "tensorboardX") if name == "tensorboard" else (_MODULES.get(name, name),)
        if not any(map(find_spec, modules)):
            package = f"'bertkit[{name}]'" if name in _EXTRAS else _PACKAGES.get(name, name)
            raise RecipeError(f"{place}: {name} is not installed: pip install {package}")
