"""The model card, ``README.md`` of a run directory, written from the facts that the run recorded: metadata and text.

The keys of the metadata are those of the Hub (https://huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.features.sharing.card_facts import CardFacts
from bertkit.features.sharing.kinds import ADDRESS
from bertkit.recipe.files import to_yaml, without_paths
from bertkit.recipe.settings import ANY_DATA
from bertkit.runtime.errors import CheckpointError, RecipeError, described
from bertkit.runtime.files import read_json
from bertkit.runtime.markdown import code, code_block, escape, table
from bertkit.runtime.progress import METRIC_NAMES, counted

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_BERT = """@inproceedings{devlin2019bert,
  title={{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author={Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle={Proceedings of NAACL-HLT},
  year={2019}
}"""
# Metrics of the Hub by our name, where it is another one; `metrics` lists only those that the Hub knows.
_OF_HUB = {"pearson": "pearsonr"}
_OF_HUB |= {f"overall_{name}": name for name in ("accuracy", "f1", "precision", "recall")}
_KNOWN = {"accuracy", "f1", "precision", "recall", "matthews_correlation", "pearsonr", "spearmanr", "exact_match"}
_KNOWN |= {"mae", "mse", "roc_auc"}
_REGISTERS = "import bertkit  # registers the model with the Auto classes; without it pass trust_remote_code=True\n"


def recorded_facts(checkpoint: Path) -> CardFacts | None:
    """Loads the card facts of the run in a folder; ``None`` if there is no finished run; CheckpointError if its record
    is damaged."""
    card = _read_record(checkpoint).get("card")
    try:
        return None if card is None else CardFacts.from_dict(card)
    except (ValueError, LookupError, TypeError, AttributeError, RecipeError) as error:
        raise _damaged(checkpoint, error) from error


def main_metric(checkpoint: Path) -> str | None:
    """Returns the name of the score by which a run compared its checkpoints, without ``eval_``; None if unknown."""
    return _read_record(checkpoint).get("main_metric")


def recorded_card(facts: CardFacts) -> dict[str, Any]:
    """Returns the values of ``run.json`` that `recorded_facts` and `is_as_recorded` read."""
    return {"card": facts.to_dict(), "card_sha256": _digest(model_card(facts))}


def is_as_recorded(checkpoint: Path, card: str) -> bool:
    """Returns whether a card has not been changed since the run wrote it, with this or another version of bertkit."""
    return bool(_read_record(checkpoint).get("card_sha256") == _digest(card))


def _read_record(checkpoint: Path) -> dict[str, Any]:
    try:
        return dict(read_json(checkpoint / "run.json"))
    except (ValueError, TypeError) as error:
        raise _damaged(checkpoint, error) from error


def _damaged(checkpoint: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{checkpoint / 'run.json'}: damaged ({described(error, 200)}); restore it from a copy of the run"
    )


def _digest(card: str) -> str:
    return hashlib.sha256(card.encode()).hexdigest()


def model_card(facts: CardFacts) -> str:
    """Returns the text of the card: metadata as YAML between two lines of dashes, then Markdown."""
    paragraphs = [
        f"---\n{_write_metadata(facts)}\n---",
        f"# {escape(facts.title)}",
        facts.note,
        facts.task,
        *_describe_use(facts),
        *_describe_training(facts),
        *_describe_scores(facts),
        *_describe_limits(facts),
        *_describe_recipe(facts),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _write_metadata(facts: CardFacts) -> str:
    """Returns the metadata as YAML."""
    from huggingface_hub import ModelCardData

    metrics = [name for name in map(hub_metric, facts.main_metrics) if name in _KNOWN]
    # Example inputs of the widget on the model page; none of them is from the data of the run.
    widget = [dict(example) for example in facts.recipe.get("hub", {}).get("widget") or []]
    if not widget and facts.pipeline_tag == "fill-mask" and (not facts.language or "en" in facts.language):
        widget = [{"text": f"The capital of France is {facts.mask_token}."}]
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
        eval_results=_list_results(facts) or None,
        widget=widget or None,
    )
    return metadata.to_yaml()


def hub_metric(key: str) -> str:
    """Returns the Hub's name of a metric, such as ``pearsonr`` for ``eval_pearson``."""
    name = key.removeprefix("eval_")
    return _OF_HUB.get(name, name)


def _list_results(facts: CardFacts) -> list[EvalResult]:
    """Returns ``model-index`` entries; none for local files and parts of a split, which the Hub cannot name, nor for
    scores that are undefined."""
    from huggingface_hub import EvalResult

    if facts.dataset is None or not facts.covers_whole_split:
        return []
    dataset, config, split = facts.dataset
    return [
        EvalResult(
            task_type=facts.pipeline_tag,
            dataset_type=dataset,
            dataset_name=f"{dataset} {config}",
            dataset_config=config,
            dataset_split=split,
            metric_type=hub_metric(key),
            metric_value=round(facts.metrics[key], 4),
        )
        for key in facts.main_metrics
        if key.startswith("eval_") and math.isfinite(facts.metrics[key])  # not those of simple models
    ]


def _describe_use(facts: CardFacts) -> list[str]:
    """Returns the paragraphs on how to load the model, with the line that runs it in bertkit."""
    imports = f"from transformers import AutoTokenizer\n\nfrom {facts.module} import {facts.auto_class}"
    if facts.module == "transformers":
        imports = f"from transformers import {facts.auto_class}, AutoTokenizer"
    registers = _REGISTERS if facts.is_own else ""
    load = (
        f'model = {facts.auto_class}.from_pretrained("{facts.address}")\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{facts.address}")'
    )
    if facts.recipe["task"]["kind"] == "pretraining":
        call = f'fill_mask("The capital of France is {facts.mask_token}.")'
        if facts.pipeline_tag != "fill-mask":
            call = 'embed(["The capital of France is Paris."])'
        use = f'```python\nimport bertkit\n\nbertkit.load("{facts.address}").{call}\n```'
    elif facts.example:
        use = code_block(registers + facts.example.replace(ADDRESS, facts.address), "python")
    else:
        use = (
            "With bertkit, which includes the encoding and decoding of the task: "
            f"`bertkit predict {facts.address} --input FILE`."
        )
    loading = f"```python\n{registers}{imports}\n\n{load}\n```"
    return ["## Load it", loading, f"The model class is {code(facts.head)}.", use]


def _describe_training(facts: CardFacts) -> list[str]:
    """Returns the paragraphs on training and data."""
    train = facts.recipe["train"]
    epochs = f"{train.get('num_train_epochs', 3.0):g} epochs"
    length = epochs if facts.steps is None else counted(facts.steps, "step")
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    batch, rate = train["global_train_batch_size"], train.get("learning_rate", 5e-5)
    training = (
        f"{length} of {batch} inputs, peak learning rate {rate:g}, seed {facts.seed}"
        f"{f', with {versions}' if versions else ''}. The recipe below contains all settings."
    )
    sources = "\n".join(f"- {escape(split)}: {escape(source)}" for split, source in facts.data.items())
    return ["## Training", training, "## Data", sources]


def _describe_scores(facts: CardFacts) -> list[str]:
    """Returns the paragraphs on the scores, with the main figure and the scores by class of the report."""
    data = facts.recipe.get("data", {})
    scored = "On held-out data"
    if data.get("folds") and data.get("fold") is None:
        scored = f"On all training rows, each scored by one of {data['folds']} models that had not seen it"
    rows = []
    for key in dict.fromkeys((*facts.main_metrics, *facts.other_metrics)):
        name, value = key.removeprefix("eval_"), facts.metrics[key]
        score = f"{value:.4f}" if math.isfinite(value) else "undefined"
        rows.append((escape(METRIC_NAMES.get(name, name)), score, escape(facts.units.get(key, ""))))
    headings = ("metric", "value", "over") if facts.units else ("metric", "value")
    report = facts.report.paragraphs() if facts.report is not None else []
    if not rows:
        return ["## Scores", "This run has no scores on held-out data.", *report]
    return [
        "## Scores",
        f"{scored}, one run with seed {facts.seed}:",
        "\n".join(f"- {escape(sentence)}" for sentence in facts.verdict),
        table(headings, [row[: len(headings)] for row in rows]),
        *report,
    ]


def _describe_limits(facts: CardFacts) -> list[str]:
    limits = ["One input is limited to the number of positions in `config.json` (`max_position_embeddings`)."]
    if facts.truncation:
        cuts = "\n".join(f"- {escape(split)}: {escape(cut)}" for split, cut in facts.truncation.items())
        limits = ["Inputs that were cut to the training length:", cuts]
    limits.append(
        "A language model reproduces errors and biases of its training data; evaluate it on your own data before you "
        "use it."
    )
    return ["## Limits", *limits]


def _describe_recipe(facts: CardFacts) -> list[str]:
    """Returns the paragraphs with the recipe and the citations."""
    recipe = without_paths(facts.recipe)
    citations = [_BERT]
    if "hub" in recipe:  # the citations of these data are in a section of their own
        recipe["hub"] = {key: value for key, value in recipe["hub"].items() if key != "citations"}
        of_card = (ANY_DATA, facts.dataset[0] if facts.dataset else None)
        known = facts.recipe["hub"].get("citations", {})
        citations += [entries.strip() for name, entries in known.items() if name in of_card]
    return [
        "## Recipe",
        "`bertkit` repeats the run with this recipe, which is also saved next to the weights as `recipe.yaml`:",
        code_block(to_yaml(recipe).strip(), "yaml"),
        "## Citation",
        code_block("\n\n".join(citations), "bibtex"),
    ]
