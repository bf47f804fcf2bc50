"""The model card, ``README.md`` of a run directory, written from the facts that the run recorded: metadata and text.

The keys of the metadata are those of the Hub (https://huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.features.sharing.card_facts import CardFacts, CardReport
from bertkit.features.sharing.kinds import ADDRESS
from bertkit.recipe.files import to_yaml, without_paths
from bertkit.recipe.settings import ANY_DATA
from bertkit.runtime.errors import CheckpointError
from bertkit.runtime.files import read_json
from bertkit.runtime.markdown import code, code_block, escape, table
from bertkit.runtime.progress import METRIC_NAMES

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_BERT = """@inproceedings{devlin2019bert,
  title={{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author={Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle={Proceedings of NAACL-HLT},
  year={2019}
}"""
# Metrics of the Hub by our name, where it is another one; those that the Hub does not know are not listed.
_OF_HUB = {"pearson": "pearsonr"}
_OF_HUB |= {f"overall_{name}": name for name in ("accuracy", "f1", "precision", "recall")}
_KNOWN = {"accuracy", "f1", "precision", "recall", "matthews_correlation", "pearsonr", "spearmanr", "exact_match"}
_KNOWN |= {"mae", "mse", "roc_auc"}
_REGISTERS = "import bertkit  # registers the model with the Auto classes; without it pass trust_remote_code=True\n"


def recorded_facts(checkpoint: Path) -> CardFacts | None:
    """Loads the card facts of the run in a folder; ``None`` if there is no finished run; CheckpointError if its record
    is damaged."""
    card = _record(checkpoint).get("card")
    return None if card is None else CardFacts.from_dict(card)


def main_metric(checkpoint: Path) -> str | None:
    """Returns the name of the score by which a run compared its checkpoints, without ``eval_``; None if unknown."""
    return _record(checkpoint).get("main_metric")


def recorded_card(facts: CardFacts) -> dict[str, Any]:
    """Returns the values of ``run.json`` that `recorded_facts` and `is_as_recorded` read."""
    return {"card": facts.to_dict(), "card_sha256": _digest(model_card(facts))}


def is_as_recorded(checkpoint: Path, card: str) -> bool:
    """Returns whether a card has not been changed since the run wrote it, with this or another version of bertkit."""
    return bool(_record(checkpoint).get("card_sha256") == _digest(card))


def _record(checkpoint: Path) -> dict[str, Any]:
    file = checkpoint / "run.json"
    try:
        return dict(read_json(file))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{file}: damaged ({error}); restore it from a copy of the run") from error


def _digest(card: str) -> str:
    return hashlib.sha256(card.encode()).hexdigest()


def model_card(facts: CardFacts) -> str:
    """Returns the text of the card: metadata as YAML between two lines of dashes, then Markdown."""
    return f"---\n{_metadata(facts)}\n---\n\n{_text(facts)}"


def _metadata(facts: CardFacts) -> str:
    """Returns the metadata as YAML."""
    from huggingface_hub import ModelCardData

    metrics = [name for name in map(hub_metric, facts.main_metrics) if name in _KNOWN]
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
        eval_results=_hub_results(facts) or None,
        widget=_widget(facts) or None,
    )
    return metadata.to_yaml()


def _widget(facts: CardFacts) -> list[dict[str, str]]:
    """Returns the example inputs of the widget on the model page; none of them is from the data of the run.

    They are those of ``hub.widget``. A masked language model of English, or of no language in particular, has an
    example with the mask of its tokenizer otherwise.
    """
    examples = facts.recipe.get("hub", {}).get("widget") or []
    if examples or facts.pipeline_tag != "fill-mask":
        return [dict(example) for example in examples]
    is_english = not facts.language or "en" in facts.language
    return [{"text": f"The capital of France is {facts.mask_token}."}] if is_english else []


def hub_metric(key: str) -> str:
    """Returns the Hub's name of a metric, such as ``pearsonr`` for ``eval_pearson``."""
    name = key.removeprefix("eval_")
    return _OF_HUB.get(name, name)


def _hub_results(facts: CardFacts) -> list[EvalResult]:
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
        if math.isfinite(facts.metrics[key])
    ]


def _text(facts: CardFacts) -> str:
    """Returns the card below its metadata."""
    imports = f"from transformers import AutoTokenizer\n\nfrom {facts.module} import {facts.auto_class}"
    if facts.module == "transformers":
        imports = f"from transformers import {facts.auto_class}, AutoTokenizer"
    sources = "\n".join(f"- {escape(split)}: {escape(source)}" for split, source in facts.data.items())
    data = facts.recipe.get("data", {})
    rows = "On held-out data"
    if data.get("folds") and data.get("fold") is None:
        rows = f"On all training rows, each scored by one of {data['folds']} models that had not seen it"
    verdict = "".join(f"- {escape(sentence)}\n" for sentence in facts.verdict)
    limits = "Inputs are limited to the number of positions in `config.json` (`max_position_embeddings`).\n"
    if cuts := "\n".join(f"- {escape(split)}: {escape(cut)}" for split, cut in facts.truncation.items()):
        limits = f"Inputs longer than the training length are cut; in training:\n\n{cuts}\n"
    recipe = without_paths(facts.recipe)
    citations = [_BERT]
    if "hub" in recipe:  # the citations of these data are in a section of their own
        recipe["hub"] = {key: value for key, value in recipe["hub"].items() if key != "citations"}
        of_card = (ANY_DATA, facts.dataset[0] if facts.dataset else None)
        known = facts.recipe["hub"].get("citations", {})
        citations += [entries.strip() for name, entries in known.items() if name in of_card]
    return f"""# {escape(facts.title)}

{facts.note}{chr(10) * 2 if facts.note else ""}{facts.task}

## Load it

```python
{_REGISTERS if facts.is_own else ""}{imports}

model = {facts.auto_class}.from_pretrained("{facts.address}")
tokenizer = AutoTokenizer.from_pretrained("{facts.address}")
```

The model class is {code(facts.head)}.
{_use(facts)}
## Training

{_training(facts)}

## Data

{sources}

## Scores

{rows}, one run with seed {facts.seed}:

{verdict}{chr(10) if verdict else ""}{_scores(facts)}
{_report(facts.report)}
## Limits

{limits}
A language model reproduces errors and biases of its training data; evaluate it on your own data before you use it.

## Recipe

`bertkit` repeats the run with this recipe, which is also saved next to the weights as `recipe.yaml`:

{code_block(to_yaml(recipe).strip(), "yaml")}

## Citation

{code_block((chr(10) * 2).join(citations), "bibtex")}
"""


def _scores(facts: CardFacts) -> str:
    rows = []
    for key in dict.fromkeys((*facts.main_metrics, *facts.other_metrics)):
        name, value = key.removeprefix("eval_"), facts.metrics[key]
        shown = f"{value:.4f}" if math.isfinite(value) else "undefined"
        rows.append((escape(METRIC_NAMES.get(name, name)), shown, escape(facts.units.get(key, ""))))
    if not facts.units:
        return table(("metric", "value"), [row[:2] for row in rows])
    return table(("metric", "value", "over"), rows)


def _report(report: CardReport | None) -> str:
    """Returns the main figure and the scores by class, with a link to the whole report."""
    if report is None:
        return ""
    figure = f"\n![{escape(report.alt)}]({report.figure})\n" if report.figure else ""
    table_of_classes = ""
    if report.table:
        heading, *rows = [
            [f"{cell:.4f}" if isinstance(cell, float) else "–" if cell is None else escape(str(cell)) for cell in row]
            for row in report.table
        ]
        table_of_classes = f"\n{table(heading, rows)}\n"
    return f"{figure}{table_of_classes}\nCurves, errors and all other figures: [report.html](report.html).\n"


def _use(facts: CardFacts) -> str:
    """Returns the section with the line that runs the model in bertkit."""
    if facts.recipe["task"]["kind"] == "pretraining":
        use = f'fill_mask("The capital of France is {facts.mask_token}.")'
        if facts.pipeline_tag != "fill-mask":
            use = 'embed(["The capital of France is Paris."])'
        return f"""
```python
import bertkit

bertkit.load("{facts.address}").{use}
```
"""
    if facts.example:
        return f"""
{code_block((_REGISTERS if facts.is_own else "") + facts.example.replace(ADDRESS, facts.address), "python")}
"""
    return f"""
With bertkit, which includes the encoding and decoding of the task: `bertkit predict {facts.address} "TEXT"`.
"""


def _training(facts: CardFacts) -> str:
    train = facts.recipe["train"]
    length = f"{facts.steps} steps" if facts.steps is not None else f"{train.get('num_train_epochs', 3.0):g} epochs"
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    batch, rate = train["global_train_batch_size"], train.get("learning_rate", 5e-5)
    return (
        f"{length} of {batch} inputs, peak learning rate {rate:g}, seed {facts.seed}"
        f"{f', with {versions}' if versions else ''}. The recipe below contains all settings."
    )
