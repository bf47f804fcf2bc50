"""The facts that the model card of a run is written from, as ``run.json`` keeps them, and how a run collects them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from transformers import PreTrainedConfig

from bertkit.features.sharing.kinds import ADDRESS, shared
from bertkit.metrics.pretraining import score_names
from bertkit.model.checkpoint.encoders import BERT, auto_class, head_class
from bertkit.recipe.files import parse_value, to_yaml, without_paths
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import KEEP, LORA, LoraSettings
from bertkit.runtime.markdown import code, escape, table
from bertkit.runtime.progress import counted, is_score
from bertkit.tasks.base import Task, truncation_hint
from bertkit.tasks.splits import Split, Truncation, hub_dataset

if TYPE_CHECKING:
    from bertkit.training.initialization import Initialization
    from bertkit.training.runs.listeners import EndOfRun

_TOKEN_TASKS = {"masked_lm": "masked LM", "next_token": "prediction of the next token (left to right)"}
_PAIR_TASKS = {"nsp": " and next sentence prediction", "sop": " and sentence order prediction", "none": ""}


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

    def paragraphs(self) -> list[str]:
        """Returns the paragraphs of the card, in Markdown."""
        paragraphs = [f"![{escape(self.alt)}]({self.figure})"] if self.figure else []
        if self.table:
            heading, *cells = [
                [
                    f"{cell:.4f}" if isinstance(cell, float) else "–" if cell is None else escape(str(cell))
                    for cell in row
                ]
                for row in self.table
            ]
            paragraphs.append(table(heading, cells))
        return [*paragraphs, "Curves, errors and all other figures: [report.html](report.html)."]


@dataclass(frozen=True)
class CardFacts:
    """Content of a model card.

    Attributes:
        title: the model's name.
        head: class name, such as ``BertForSequenceClassification``.
        auto_class: the class that loads it: an Auto class, or a head of another package.
        pipeline_tag: the Hub's name of the task.
        task: sentences about the training, in Markdown; names in it have to be escaped by `bertkit.runtime.markdown`.
        data: split → description of its source, plain text.
        metrics: results on held-out data, ``eval_…``, and of simple models ``baseline_…``; NaN where a score is
            undefined.
        main_metrics: the keys of ``metrics`` that the card shows, of which ``model-index`` has the results; losses in
            nats.
        other_metrics: the keys of ``metrics`` for other validation sets; the card shows them too.
        truncation: split → description of the inputs that ``max_seq_length`` cut, plain text.
        recipe: the blocks of the resolved recipe; the card shows only the last part of paths.
        seed: seed of the run.
        base_model: Hub id of the checkpoint that was fine-tuned; ``None`` for a path or a new model.
        dataset: Hub id, configuration and split of ``metrics``, or ``None``.
        training_sets: Hub ids of the data sets that the model was trained on.
        family: transformers' model type; BERT is loaded by bertkit's classes, every other family by transformers' own.
        mask_token: mask of the tokenizer, for the example of a pre-trained model.
        note: a warning at the top of the card (such as: the data are made up), in Markdown.
        license, language: as in `bertkit.recipe.settings.HubSettings`.
        versions: versions of the packages used in training.
        steps: number of training steps, if known.
        address: Hub id of the checkpoint.
        module: the module of ``auto_class``.
        is_stock: whether transformers' own classes load the checkpoint, whatever its family.
        report: what to show of ``report.html``; ``None`` if there is no report.
        verdict: what the scores say, a sentence each, plain text.
        units: key of ``metrics`` → what it is a score of, such as ``10 queries``; plain text.
        example: Python that uses the checkpoint, with ``ADDRESS`` in place of its name; empty for `bertkit predict`.
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
    module: str = "transformers"
    is_stock: bool = False
    report: CardReport | None = None
    example: str = ""
    verdict: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Returns whether bertkit's classes load the checkpoint, and not transformers' own."""
        return self.family == "bertkit" and not self.is_stock

    @property
    def covers_whole_split(self) -> bool:
        """Returns whether the scores are those of a whole split of a Hub data set, which is not the training set."""
        if self.dataset is None:
            return False
        split, data = self.dataset[2], self.recipe.get("data", {})
        is_part = data.get("max_eval_samples") is not None or bool(data.get("folds"))
        is_expression = "[" in split or "+" in split  # validation[:10%], test+train
        # Without a validation set, a part of the training split is held out, and recorded by the name of that split.
        return not is_part and not is_expression and split not in ("train", data.get("train_split"))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON, which `from_dict` reads.

        The recipe is YAML, since JSON has no keys other than strings.
        """
        return {**asdict(self), "recipe": to_yaml(dict(self.recipe))}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> CardFacts:
        """Builds the facts from the value of `to_dict`, also from JSON, where scores that are undefined are null."""
        metrics = {key: math.nan if value is None else value for key, value in record["metrics"].items()}
        values = {**record, "metrics": metrics, "recipe": parse_value(record["recipe"])}
        return TypeAdapter(cls).validate_python(values)


def card_of(end: EndOfRun) -> CardFacts:
    """Returns the facts that the model card of a finished run shows."""
    if end.task is None:
        assert end.start is not None
        card = pretrained_card(end.recipe, end.record.data["corpus"], end.scores, end.start, end.note)
    else:
        warning = ""
        if end.outcome is not None and end.outcome.collapse:
            warning = f"The model has collapsed: {escape(end.outcome.collapse)} on {end.outcome.scored}."
        note = " ".join(filter(None, (end.note, warning)))
        card = finetuned_card(end.task, end.splits, end.recipe, end.config, end.scores, end.record.truncation, note)
        units = {} if end.outcome is None else {f"eval_{name}": each for name, each in end.outcome.units.items()}
        card = replace(card, verdict=end.record.verdict.sentences, units=units)
    return replace(
        card,
        license=end.recipe.hub.license,
        language=tuple(end.recipe.hub.language),
        versions=end.record.versions(),
        steps=end.steps,
    )


def finetuned_card(
    task: Task,
    splits: Mapping[str, Split],
    recipe: Recipe,
    config: PreTrainedConfig,
    metrics: Mapping[str, float],
    truncation: Mapping[str, Truncation],
    note: str,
) -> CardFacts:
    """Returns the facts that the model card of a fine-tuning shows."""
    encoder = _name_of_encoder(config)
    suffixes = tuple(name.removeprefix("validation") for name in splits if name.startswith("validation_"))
    scores = [key for key in metrics if is_score(key) and not key.startswith("eval_loss")]
    has_own_train_file = getattr(recipe.data, "train_file", None) is not None
    dataset, hint = hub_dataset(task), truncation_hint(task)
    return CardFacts(
        title=f"{encoder} fine-tuned on {task.name}",
        head=head_class(task.head, config, recipe.model.get("name_or_path") or "the new model").__name__,
        auto_class=auto_class(task.head),
        module="transformers" if isinstance(task.head, str) else task.head.__module__,
        pipeline_tag=task.pipeline_tag,
        task=" ".join(_describe_training(task, recipe, encoder)),
        data={
            name: f"{without_paths(split.source)}, {counted(len(split.examples), 'example')}"
            for name, split in splits.items()
        },
        metrics=metrics,
        main_metrics=tuple(key for key in scores if not key.endswith(suffixes)),
        other_metrics=tuple(key for key in scores if key.endswith(suffixes)),
        recipe=recipe.to_dict(),
        seed=recipe.train["seed"],
        truncation={name: f"{cut}; {hint}" if cut.examples else str(cut) for name, cut in truncation.items()},
        base_model=base_model(recipe),
        dataset=dataset,
        training_sets=() if dataset is None or has_own_train_file else dataset[:1],
        family=config.model_type,
        note=note,
        example=shared(task).example(),
    )


def _name_of_encoder(config: PreTrainedConfig) -> str:
    """Returns what titles and sentences call an encoder: BERT, or the model type of another family."""
    return "BERT" if config.model_type in BERT else config.model_type


def _describe_training(task: Task, recipe: Recipe, encoder: str) -> list[str]:
    """Returns sentences in Markdown about start, teacher, trained weights, and windows of long texts."""
    start = about_checkpoint(recipe) or "new weights"
    sentences = [f"{encoder}, fine-tuned for {escape(task.name)} with bertkit, starting from {start}."]
    sentences += about_teacher(recipe)
    if (given := recipe.model.get(LORA)) is not None:
        lora = LoraSettings(**given)
        sentences.append(
            f"Trained with LoRA: adapters of {escape(str(lora))} of the encoder, and the weights above its layers. "
            "The adapters are merged into the weights, so the checkpoint loads without PEFT."
        )
    if (windows := shared(task).window_note()) is not None:
        sentences.append(windows)
    return sentences


def about_checkpoint(recipe: Recipe) -> str | None:
    """Returns the checkpoint of a run in Markdown, with the layers that it keeps; None for new weights."""
    source, layers = recipe.model.get("name_or_path"), recipe.model.get(KEEP)
    if source is None:
        return None
    return code(without_paths(str(source))) + (f", layers {', '.join(map(str, layers))} of it" if layers else "")


def base_model(recipe: Recipe) -> str | None:
    """Returns the checkpoint of a run if it is a name on the Hub; None for a folder and for new weights."""
    source = recipe.model.get("name_or_path")
    if source is None or Path(source).is_absolute() or Path(source).exists():  # the folder may have been removed since
        return None
    return str(source)


def about_teacher(recipe: Recipe) -> list[str]:
    """Returns the sentence in Markdown about the teacher of a run; none without one."""
    settings = recipe.distillation
    if settings is None or not settings.weight:
        return []
    return [f"Distilled from {code(without_paths(settings.teacher))} with {settings}."]


def pretrained_card(
    recipe: Recipe, corpus: Mapping[str, Any], metrics: Mapping[str, float], start: Initialization, note: str
) -> CardFacts:
    """Returns the facts of the model card of a pre-training."""
    pair_objective = recipe.task.pair_objective
    objectives = _TOKEN_TASKS[start.token_objective] + _PAIR_TASKS[pair_objective]
    names = [f"eval_{name}" for name in score_names(pair_objective, start.token_objective)]
    source = recipe.model.get("name_or_path")
    origin = "from scratch" if source is None else f"further from {about_checkpoint(recipe)}"
    if start.layers is not None:
        origin += ","
    settings = recipe.distillation
    fills_masks = start.token_objective == "masked_lm"
    about = about_teacher(recipe)
    if settings is not None and settings.weight == 1:
        objectives = "the outputs of a teacher alone"
        if settings.objective == "minilm":
            fills_masks = False
            about = [*about, "Its masked-LM head was not trained in this run."]
    encoder = _name_of_encoder(start.config)
    size, held_out = "a stream of documents", counted(corpus["held_out_documents"], "document")
    if not corpus["streamed"]:
        whole = [counted(corpus[f"{noun}s"], noun) for noun in ("sentence", "token")]
        size = f"{counted(corpus['train_documents'], 'document')} of a corpus of {' and '.join(whole)}"
    return CardFacts(
        title=f"{encoder} pre-trained with bertkit",
        head=head_class(start.head, start.config, start.name).__name__,
        auto_class=auto_class(start.head),
        pipeline_tag="fill-mask" if fills_masks else "feature-extraction",
        task=" ".join([f"{encoder}, pre-trained {origin} by {objectives}.", *about]),
        data={"train": size, "validation": f"{held_out} of the same corpus, held out"},
        metrics=metrics,
        main_metrics=tuple(name for name in names if name in metrics),
        recipe=recipe.to_dict(),
        seed=recipe.train["seed"],
        base_model=base_model(recipe),
        training_sets=tuple(corpus["revisions"]),  # the sources of the Hub
        family=start.config.model_type,
        mask_token=str(start.tokenizer.mask_token),
        note=note,
    )
