"""The model card: ``README.md`` of a run directory, filled in from what the run recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertkit.progress import METRIC_NAMES
from bertkit.recipe_files import to_yaml

_REGISTERS = "import bertkit  # registers the model with the Auto classes; without it pass trust_remote_code=True\n"

_CITATION = """@inproceedings{devlin2019bert,
  title={{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author={Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle={Proceedings of NAACL-HLT},
  year={2019}
}"""


@dataclass(frozen=True)
class CardFacts:
    """What a card is filled with.

    Attributes:
        title: the model's name.
        head: class name, such as ``BertForSequenceClassification``.
        auto_class: the Auto class that loads it.
        pipeline_tag: the Hub's word for what it does.
        task: what was trained, in words.
        data: what it was trained on, in words: split → source.
        metrics: results on held-out data, ``eval_…``.
        main_metrics: the keys of ``metrics`` that the card shows, and that go into its ``model-index``; losses in nats.
        other_metrics: keys of ``metrics`` that belong to other validation sets; the card shows them too.
        truncation: split → what ``max_seq_length`` cut, in words.
        recipe: the blocks of the resolved recipe; paths are reduced to their last part.
        seed: of the run.
        base_model: what it was fine-tuned from, a Hub id; ``None`` for a path or a new model.
        dataset: Hub id, configuration and split that ``metrics`` belong to, or ``None``.
        family: transformers' model type; BERT is bertkit's own and needs it to be loaded, every other is not.
        note: a sentence that must not be missed (such as: the data are made up).
    """

    title: str
    head: str
    auto_class: str
    pipeline_tag: str
    task: str
    data: Mapping[str, str]
    metrics: Mapping[str, float]
    main_metrics: tuple[str, ...]
    recipe: Mapping[str, Any]
    seed: int
    other_metrics: tuple[str, ...] = ()
    truncation: Mapping[str, str] = field(default_factory=dict)
    base_model: str | None = None
    dataset: tuple[str, str, str] | None = None
    family: str = "bertkit"
    note: str = ""

    @property
    def is_own(self) -> bool:
        """Whether bertkit's classes load the checkpoint, and not transformers' own."""
        return self.family == "bertkit"


def without_paths(value: Any) -> Any:
    """Plain data with every path of this machine reduced to its last part, for what may be shared.

    >>> without_paths({"data": {"corpus": ["/home/ada/books"], "hub": "nyu-mll/glue"}, "seed": 1})
    {'data': {'corpus': ['…/books'], 'hub': 'nyu-mll/glue'}, 'seed': 1}
    """
    if isinstance(value, Mapping):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return value


def write_model_card(path: Path, facts: CardFacts) -> None:
    """Writes the card."""
    from huggingface_hub import ModelCardData

    metadata = ModelCardData(
        library_name="transformers",
        tags=["bert" if facts.is_own else facts.family, "bertkit"],
        pipeline_tag=facts.pipeline_tag,
        base_model=facts.base_model,
        datasets=[facts.dataset[0]] if facts.dataset else None,
        metrics=[key.removeprefix("eval_") for key in facts.main_metrics] if facts.dataset else None,
        model_name=facts.title,
        eval_results=_results(facts),
    )
    path.write_text(f"---\n{metadata.to_yaml()}\n---\n\n{_text(facts)}", encoding="utf-8")


def _results(facts: CardFacts) -> list[Any] | None:
    """``model-index`` entries; the Hub wants a data set that it knows, so there are none for local files."""
    from huggingface_hub import EvalResult

    if facts.dataset is None:
        return None
    dataset, config, split = facts.dataset
    return [
        EvalResult(
            task_type=facts.pipeline_tag,
            dataset_type=dataset,
            dataset_name=f"{dataset} {config}",
            dataset_config=config,
            dataset_split=split,
            metric_type=key.removeprefix("eval_"),
            metric_value=round(facts.metrics[key], 4),
        )
        for key in facts.main_metrics
    ]


def _text(facts: CardFacts) -> str:
    scores = "\n".join(
        f"| {METRIC_NAMES.get(key.removeprefix('eval_'), key.removeprefix('eval_'))} | {facts.metrics[key]:.4f} |"
        for key in (*facts.main_metrics, *facts.other_metrics)
    )
    sources = "\n".join(f"- {split}: {source}" for split, source in facts.data.items())
    cuts = "\n".join(f"- {split}: {cut}" for split, cut in facts.truncation.items())
    limits = (
        f"Inputs longer than the training length are cut; in training that was:\n\n{cuts}\n"
        if cuts
        else "Inputs are limited to the positions that `config.json` names (`max_position_embeddings`).\n"
    )
    return f"""# {facts.title}

{facts.note}{chr(10) * 2 if facts.note else ""}{facts.task}

## Load it

```python
{_REGISTERS if facts.is_own else ""}from transformers import {facts.auto_class}, AutoTokenizer

model = {facts.auto_class}.from_pretrained("PATH_OR_HUB_ID")
tokenizer = AutoTokenizer.from_pretrained("PATH_OR_HUB_ID")
```

The model class is `{facts.head}`.

## Data

{sources}

## Scores

On held-out data, one run with seed {facts.seed}:

| metric | value |
| --- | --- |
{scores}

## Limits

{limits}
A language model repeats what its training texts say, errors and prejudices included; check it on your own data
before you rely on it.

## Recipe

`bertkit` repeats the run from this recipe, which also lies beside the weights as `recipe.yaml`:

```yaml
{to_yaml(without_paths(facts.recipe)).strip()}
```

## Citation

```bibtex
{_CITATION}
```
"""
