"""Facts of a fine-tuning on a whole split of a Hub data set, which the tests change."""

from __future__ import annotations

from typing import Any

from bertkit.features.sharing.card_facts import CardFacts
from bertkit.tasks.registry import load_recipe

# The beginning of a program of somebody who has not installed bertkit.
WITHOUT_BERTKIT = """
import json, re, sys
sys.modules["bertkit"] = None
"""
FACTS = CardFacts(
    title="BERT fine-tuned on sst2",
    head="BertForSequenceClassification",
    auto_class="AutoModelForSequenceClassification",
    pipeline_tag="text-classification",
    task="BERT, fine-tuned.",
    data={"train": "nyu-mll/glue (sst2), 67349 examples"},
    metrics={"eval_accuracy": 0.91234567, "eval_pearson": 0.5, "eval_loss": 0.3, "eval_runtime": 5.0},
    main_metrics=("eval_accuracy", "eval_pearson"),
    recipe=load_recipe("sst2", {"data.data_dir": "/home/ada/GLUE"}).to_dict(),
    seed=7,
    truncation={"train": "3 of 9 inputs cut"},
    base_model="google-bert/bert-base-uncased",
    dataset=("nyu-mll/glue", "sst2", "validation"),
    training_sets=("nyu-mll/glue",),
    note="Beware.",
    versions={"bertkit": "0.2.0"},
)


def with_data(**data: Any) -> dict[str, Any]:
    """The recipe of these facts with other values of ``data``."""
    return {**FACTS.recipe, "data": {**FACTS.recipe["data"], **data}}
