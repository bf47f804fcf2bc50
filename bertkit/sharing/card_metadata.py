"""Metadata of a model card, the YAML at its top: written from the facts of a run, and checked before a push.

The keys are those of the Hub (https://huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError, shown
from bertkit.sharing.card_facts import CardFacts

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

# Metrics of the Hub by our name, where it is another one; those that the Hub does not know are not listed.
_OF_HUB = {"pearson": "pearsonr"}
_OF_HUB |= {f"overall_{name}": name for name in ("accuracy", "f1", "precision", "recall")}
_KNOWN = {"accuracy", "f1", "precision", "recall", "matthews_correlation", "pearsonr", "spearmanr", "exact_match"}
_KNOWN |= {"mae", "mse", "roc_auc"}


def card_metadata(facts: CardFacts) -> str:
    """Returns the metadata as YAML."""
    from huggingface_hub import ModelCardData

    metrics = [_metric(key) for key in facts.main_metrics if _metric(key) in _KNOWN]
    widget = widget_examples(facts)
    metadata = ModelCardData(
        library_name="transformers",
        license=facts.license,
        language=list(facts.language) or None,
        tags=["bert" if facts.family == "bertkit" else facts.family, "bertkit"],
        pipeline_tag=facts.pipeline_tag,
        base_model=facts.base_model,
        base_model_relation="finetune" if facts.base_model else None,
        datasets=list(facts.training_sets) or None,
        metrics=metrics or None,
        model_name=facts.title,
        eval_results=_results(facts) or None,
        **({"widget": widget} if widget else {}),
    )
    return metadata.to_yaml()


def widget_examples(facts: CardFacts) -> list[dict[str, str]]:
    """Returns the example inputs of the widget on the model page; none of them is from the data of the run.

    They are those of ``hub.widget``. A masked language model of English, or of no language in particular, has an
    example with the mask of its tokenizer otherwise.
    """
    given = facts.recipe.get("hub", {}).get("widget") or []
    if given or facts.pipeline_tag != "fill-mask":
        return [dict(example) for example in given]
    is_english = not facts.language or "en" in facts.language
    return [{"text": f"The capital of France is {facts.mask_token}."}] if is_english else []


def covers_whole_split(facts: CardFacts) -> bool:
    """Returns whether the scores are those of a whole split of a Hub data set, which is not the training set."""
    if facts.dataset is None:
        return False
    split, data = facts.dataset[2], facts.recipe.get("data", {})
    is_part = data.get("max_eval_samples") is not None or data.get("folds") is not None
    is_expression = "[" in split or "+" in split  # validation[:10%], test+train
    # Without a validation set, a part of the training split is held out, and the scores are recorded for that split.
    return not is_part and not is_expression and split not in ("train", data.get("train_split"))


def _metric(key: str) -> str:
    name = key.removeprefix("eval_")
    return _OF_HUB.get(name, name)


def _results(facts: CardFacts) -> list[EvalResult]:
    """Returns ``model-index`` entries; none for local files and parts of a split, which the Hub cannot name."""
    from huggingface_hub import EvalResult

    if facts.dataset is None or not covers_whole_split(facts):
        return []
    dataset, config, split = facts.dataset
    return [
        EvalResult(
            task_type=facts.pipeline_tag,
            dataset_type=dataset,
            dataset_name=f"{dataset} {config}",
            dataset_config=config,
            dataset_split=split,
            metric_type=_metric(key),
            metric_value=round(facts.metrics[key], 4),
        )
        for key in facts.main_metrics
    ]


def check_card(card: str, name: str, facts: CardFacts | None) -> list[str]:
    """Checks the metadata of a card that a user has written or edited, as far as that is possible without the Hub.

    Args:
        card: its text.
        name: its path in messages.
        facts: facts of the run; ``None`` without a finished run.

    Returns:
        Warnings.

    Raises:
        CheckpointError: the metadata are no YAML or have results of another form, or a result for the split that the
            run was scored on is not the one that the run recorded; the message has all wrong results.
    """
    import yaml
    from huggingface_hub import ModelCard

    if not has_metadata(card):
        return [f"{name} has no metadata (license, language, results) at its top"]
    try:
        results: list[EvalResult] = ModelCard(card).data.eval_results or []
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(
            f"{name}: its metadata, the lines between --- at the top, are not valid: {reason}; correct them, or remove "
            "the file to push the generated card"
        ) from error
    if faults := _wrong_results(results, facts):
        raise CheckpointError(f"{name}: its metadata are not valid: {'; '.join(faults)}. Correct them, then push again")
    return []


def validate_card(card: str, name: str) -> None:
    """Lets the Hub check the metadata of a card, as a commit does, before a repository is created for it.

    Raises:
        CheckpointError: the Hub does not accept them.
    """
    from huggingface_hub import ModelCard

    if not has_metadata(card):
        return
    try:
        ModelCard(card).validate()
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{name}: its metadata are not valid: {reason}. Correct them, then push again") from error


def has_metadata(card: str) -> bool:
    """Returns whether a card has a block of metadata at its top."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    return REGEX_YAML_BLOCK.search(card) is not None


def _wrong_results(results: Sequence[EvalResult], facts: CardFacts | None) -> list[str]:
    """Compares results for the split that the run was scored on, if it is a whole one, with those that it recorded."""
    faults = []
    for result in results:
        value, name = result.metric_value, result.metric_type
        if not _is_finite(value):
            faults.append(f"model-index: {name}: expected a finite number, got {shown(value)}")
            continue
        if facts is None or not covers_whole_split(facts):
            continue
        if (result.dataset_type, result.dataset_config, result.dataset_split) != facts.dataset:
            continue
        known = {_metric(key): score for key, score in facts.metrics.items() if key.startswith("eval_")}
        if name in known and not _agree(value, known[name]):
            faults.append(f"model-index: {name} is {value:g}, but the run has {known[name]:.4f} (all_results.json)")
    return faults


def _is_finite(value: Any) -> bool:
    """Returns whether a value of YAML is a number that a float can hold.

    >>> _is_finite(0.91), _is_finite(float("nan")), _is_finite(10**400), _is_finite(True)
    (True, False, False, False)
    """
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _agree(value: float, recorded: float) -> bool:
    """Returns whether a value is a recorded one, or it in percent, rounded to the digits that it has.

    >>> _agree(0.91, 0.9123), _agree(91.2, 0.9123), _agree(0.92, 0.9123)
    (True, True, False)
    """
    digits = -int(Decimal(str(value)).as_tuple().exponent)
    for score in (recorded, 100 * recorded):
        places = digits if abs(score) > 1 else max(digits, 2)
        if abs(value - score) <= 0.5 * 10.0**-places + 1e-9:
            return True
    return False
