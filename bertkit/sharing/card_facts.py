"""The facts of a run that its model card is written from, as ``run.json`` keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bertkit.recipe.yaml_files import parse_value, to_yaml

ADDRESS = "PATH_OR_HUB_ID"
"""Placeholder for the address of a checkpoint that has none yet."""


@dataclass(frozen=True)
class CardReport:
    """Parts of the report of a run that its model card shows.

    Attributes:
        figure: path of the main figure in the run directory; empty for none.
        alt: its text alternative.
        table: rows of the table of scores by class, the headings first; empty for none.
    """

    figure: str = ""
    alt: str = ""
    table: Sequence[Sequence[str | int | float | None]] = ()


@dataclass(frozen=True)
class CardFacts:
    """Content of a model card.

    Attributes:
        title: the model's name.
        head: class name, such as ``BertForSequenceClassification``.
        auto_class: the Auto class that loads it.
        pipeline_tag: the Hub's name of the task.
        task: sentences about the training, in Markdown; names in it have to be escaped by `bertkit.sharing.markdown`.
        data: split → description of its source, plain text as all of the following.
        metrics: results on held-out data, ``eval_…``.
        main_metrics: the keys of ``metrics`` that the card shows and lists in its ``model-index``; losses in nats.
        other_metrics: the keys of ``metrics`` for other validation sets; the card shows them too.
        truncation: split → description of the inputs that ``max_seq_length`` cut.
        recipe: the blocks of the resolved recipe; the card shows only the last part of paths.
        seed: seed of the run.
        base_model: Hub id of the checkpoint that was fine-tuned; ``None`` for a path or a new model.
        dataset: Hub id, configuration and split of ``metrics``, or ``None``.
        training_sets: Hub ids of the data sets that the model was trained on.
        family: transformers' model type; BERT is loaded by bertkit's classes, every other family by transformers' own.
        mask_token: mask of the tokenizer, for the example of a pre-trained model.
        note: a warning at the top of the card (such as: the data are made up), in Markdown.
        license, language: as in `bertkit.recipe.hub.HubSettings`.
        versions: versions of the packages used in training.
        steps: number of training steps, if known.
        address: Hub id of the checkpoint.
        is_stock: whether transformers' own classes load the checkpoint, whatever its family.
        report: what to show of ``report.html``; ``None`` if there is no report.
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
    training_sets: tuple[str, ...] = ()
    family: str = "bertkit"
    mask_token: str = "[MASK]"
    note: str = ""
    license: str | None = None
    language: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    steps: int | None = None
    address: str = ADDRESS
    is_stock: bool = False
    report: CardReport | None = None

    @property
    def is_own(self) -> bool:
        """Returns whether bertkit's classes load the checkpoint, and not transformers' own."""
        return self.family == "bertkit" and not self.is_stock

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON, which `from_dict` reads.

        The recipe is YAML, since JSON has no keys other than strings.
        """
        return {**asdict(self), "recipe": to_yaml(dict(self.recipe))}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> CardFacts:
        """Builds the facts from the value of `to_dict`; accepts the lists that JSON makes of tuples."""
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if name in known
        }
        recipe, report = values["recipe"], values.get("report")
        values["report"] = CardReport(**report) if report else None
        return cls(**{**values, "recipe": parse_value(recipe) if isinstance(recipe, str) else recipe})
