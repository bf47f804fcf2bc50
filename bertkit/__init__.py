"""bertkit: pre-train, fine-tune, evaluate and use BERT on today's Hugging Face libraries.

Importing it is cheap and registers its models with transformers' Auto classes, see `bertkit.model.registration`. The
public names below are imported when they are first used.
"""

from __future__ import annotations

import gc
import sys
import warnings
from contextlib import ExitStack, redirect_stdout
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any

from .model.registration import install as _install_registration
from .runtime.earlier_names import install as _install_earlier_names
from .runtime.features import declared as _declared
from .runtime.features import features as _features
from .runtime.version import __version__ as __version__

# tqdm warns at import in notebooks without ipywidgets, where it shows its bars as text.
warnings.filterwarnings("ignore", message="IProgress not found")

# Public name -> where it lives; the names of features are in their folders. Nothing here may be imported at once: torch
# and transformers take seconds.
_PUBLIC = {
    "BertConfig": "bertkit.model.configuration_bert:BertConfig",
    "BertForMaskedLM": "bertkit.model.modeling_bert:BertForMaskedLM",
    "BertForMultipleChoice": "bertkit.model.modeling_bert:BertForMultipleChoice",
    "BertForNextSentencePrediction": "bertkit.model.modeling_bert:BertForNextSentencePrediction",
    "BertForPreTraining": "bertkit.model.modeling_bert:BertForPreTraining",
    "BertForQuestionAnswering": "bertkit.model.modeling_bert:BertForQuestionAnswering",
    "BertForSequenceClassification": "bertkit.model.modeling_bert:BertForSequenceClassification",
    "BertForTokenClassification": "bertkit.model.modeling_bert:BertForTokenClassification",
    "BertModel": "bertkit.model.modeling_bert:BertModel",
    "BertkitError": "bertkit.runtime.errors:BertkitError",
    "build_corpus": "bertkit.training.runs.corpus:build_corpus",
    "copy_recipe": "bertkit.recipe.files:copy_recipe",
    "distill": "bertkit.training.runs.distill:distill",
    "embed": "bertkit.inference.vector_files:embed_texts",
    "environment": "bertkit.runtime.placement.environment:environment",
    "evaluate": "bertkit.inference.evaluation:evaluate",
    "find_recipe": "bertkit.recipe.files:find_recipe",
    "finetune": "bertkit.training.runs.finetune:finetune",
    "join_corpus": "bertkit.training.runs.corpus:join_corpus",
    "list_recipes": "bertkit.recipe.files:list_recipes",
    "load": "bertkit.inference.loaded:load",
    "load_recipe": "bertkit.tasks.registry:load_recipe",
    "metrics": "bertkit.metrics",
    "mine_negatives": "bertkit.inference.negatives:mine_negatives",
    "predict": "bertkit.inference.files:predict_stream",
    "pretrain": "bertkit.training.runs.pretrain:pretrain",
    "recipe_schema": "bertkit.tasks.registry:recipe_schema",
    "runs": "bertkit.training.runs.listing:runs",
    "train_tokenizer": "bertkit.training.runs.corpus:train_tokenizer_on",
    "validate_recipes": "bertkit.tasks.registry:validate_recipes",
    "verify_corpus": "bertkit.training.runs.corpus:verify_corpus",
}


_REDIRECTING = Lock()


def _places() -> dict[str, str]:
    """Returns the place of every public name."""
    of_features = {
        name: f"bertkit.features.{feature}.{place}"
        for feature, names in _declared("PUBLIC")
        for name, place in names.items()
    }
    of_two = {
        name: f"bertkit.features.{feature}.{place}"
        for feature, others in _declared("PUBLIC_WITH")
        for other, names in others.items()
        if other in _features()
        for name, place in names.items()
    }
    return {**_PUBLIC, **of_features, **of_two}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *sorted(_places())]
    place = None if name.startswith("_") else _PUBLIC.get(name) or _places().get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = place.partition(":")
    value = getattr(_imported(module), attribute) if attribute else _imported(module)
    globals()[name] = value  # found directly from now on
    return value


def _imported(module: str) -> ModuleType:
    # Garbage collection would take a tenth of the time, since it examines a million living objects again and again.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        # transformers prints a line at its import if WANDB_MODE is offline; stdout is for results.
        with ExitStack() as stack:
            with _REDIRECTING:  # by one thread at a time: a second one would put back the redirected stdout
                if sys.stdout is not sys.stderr:
                    stack.enter_context(redirect_stdout(sys.stderr))
            return import_module(module)
    finally:
        if was_enabled:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(["__version__", *_places()])


_install_earlier_names()
_install_registration()
