"""bertkit: pre-train, fine-tune, evaluate and use BERT on today's Hugging Face libraries.

Importing it is cheap and registers its models with transformers' Auto classes, see `bertkit.model.registration`. The
public names below are imported when they are first used.
"""

from __future__ import annotations

import gc
import sys
import warnings
from contextlib import redirect_stdout
from importlib import import_module
from types import ModuleType
from typing import Any

from .model.registration import install as _install_registration

__version__ = "0.3.0"

# tqdm warns at import in notebooks without ipywidgets, where it shows its bars as text.
warnings.filterwarnings("ignore", message="IProgress not found")

# Public name -> where it lives. Nothing here may be imported at once: torch and transformers take seconds.
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
    "ablations": "bertkit.features.grids.ablations:ablations",
    "build_corpus": "bertkit.training.runs.corpus:build_corpus",
    "check": "bertkit.features.checks.check:check",
    "check_grid": "bertkit.features.checks.grids:check_grid",
    "choose": "bertkit.features.choosing.choose:choose",
    "compare": "bertkit.features.grids.compare:compare",
    "copy_recipe": "bertkit.recipe.files:copy_recipe",
    "demo": "bertkit.features.serving.demo:demo",
    "distill": "bertkit.training.runs.distill:distill",
    "embed": "bertkit.inference.vector_files:embed_texts",
    "embed_folder": "bertkit.features.scaling.folders:embed_folder",
    "ensemble": "bertkit.features.grids.ensemble:ensemble",
    "environment": "bertkit.runtime.placement.environment:environment",
    "evaluate": "bertkit.inference.evaluation:evaluate",
    "explain": "bertkit.features.explain.explain:explain",
    "export": "bertkit.features.sharing.export:export",
    "extend_tokenizer": "bertkit.features.adaptation.extend:extend_tokenizer",
    "find_recipe": "bertkit.recipe.files:find_recipe",
    "finetune": "bertkit.training.runs.finetune:finetune",
    "finetune_glue": "bertkit.features.grids.glue:finetune_glue",
    "finetune_glue_grid": "bertkit.features.grids.glue:finetune_glue_grid",
    "finetune_grid": "bertkit.features.grids.grid:finetune_grid",
    "join_corpus": "bertkit.training.runs.corpus:join_corpus",
    "list_recipes": "bertkit.recipe.files:list_recipes",
    "load": "bertkit.inference.loaded:load",
    "load_recipe": "bertkit.tasks.registry:load_recipe",
    "metrics": "bertkit.metrics",
    "mine_negatives": "bertkit.inference.negatives:mine_negatives",
    "predict": "bertkit.inference.files:predict_stream",
    "predict_folder": "bertkit.features.scaling.folders:predict_folder",
    "pretrain": "bertkit.training.runs.pretrain:pretrain",
    "push": "bertkit.features.sharing.push:push",
    "quickstart": "bertkit.features.tour.quickstart:quickstart",
    "recipe_schema": "bertkit.tasks.registry:recipe_schema",
    "report": "bertkit.features.reporting.report:report",
    "report_grid": "bertkit.features.grids.page:report_grid",
    "reproduce": "bertkit.features.reproducing.reproduce:reproduce",
    "runs": "bertkit.training.runs.listing:runs",
    "serve": "bertkit.features.serving.server:serve",
    "swap_tokenizer": "bertkit.features.adaptation.swap:swap_tokenizer",
    "train_tokenizer": "bertkit.training.runs.corpus:train_tokenizer_on",
    "validate_recipes": "bertkit.tasks.registry:validate_recipes",
    "verify_corpus": "bertkit.training.runs.corpus:verify_corpus",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(_imported(module), attribute) if attribute else _imported(module)
    globals()[name] = value  # found directly from now on
    return value


def _imported(module: str) -> ModuleType:
    # Garbage collections meanwhile would examine a million living objects again and again, for a tenth of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        # transformers prints a line at its import if WANDB_MODE is offline; stdout is for results.
        with redirect_stdout(sys.stderr):
            return import_module(module)
    finally:
        if was_enabled:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)


_install_registration()
