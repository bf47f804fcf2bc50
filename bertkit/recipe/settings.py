"""Settings of the blocks ``model``, ``train`` and ``hub``, which are the same for all tasks.

``model`` and ``train`` also have the keys of transformers' configurations and of its `TrainingArguments`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bertkit.runtime.options import check_ranges, option, setting

KEEP, LORA, DISTILL = "keep_layers", "lora", "distill"
HEAD, PAIRS, CONTRAST, HEAD_RATE = "head", "pair_steps", "contrast_steps", "head_learning_rate"
WARM_START = HEAD, PAIRS, CONTRAST, HEAD_RATE
"""Keys of the ``train`` block on the head of a classifier and what precedes its training."""
Objective = Literal["distilbert", "minilm"]
Form = Literal["bert", "bertkit"]

# ---- model ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoraSettings:
    """Value of ``model.lora``: low-rank adapters (Hu et al. 2022, arXiv:2106.09685) of PEFT."""

    r: int = setting("Rank of the adapters.", default=16, ge=1, le=4096)
    alpha: float | None = setting(
        "The adapters are scaled by `alpha / r`; `null` is twice the rank.", default=None, gt=0
    )
    dropout: float = setting("Dropout rate of the input of the adapters.", default=0.0, ge=0, lt=1)
    targets: list[str] = setting(
        "Names of the dense layers that have adapters, such as `query` and `value`; all dense layers of the "
        "encoder's layers if empty.",
        factory=list,
    )
    save: Literal["merged", "adapter"] = setting(
        "`merged` saves the model with merged weights only; `adapter` also saves the adapters in PEFT's format,"
        " in the folder `adapter`.",
        default="merged",
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def effective_alpha(self) -> float:
        """Value of ``alpha``, with its default."""
        return 2 * self.r if self.alpha is None else self.alpha

    def __str__(self) -> str:
        dropout = f", dropout {self.dropout:g}" if self.dropout else ""
        where = f"the dense layers {', '.join(self.targets)}" if self.targets else "all dense layers"
        return f"rank {self.r}, α {self.effective_alpha:g}{dropout}, on {where}"


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """Keys of the ``model`` block that are not fields of the configuration."""

    name_or_path: str | None = setting(
        "Checkpoint to start from: a folder or a Hub id. Without it, the weights are new.", default=None
    )
    freeze_layers: int = setting(
        "Number of layers of the encoder, the lowest first, that are not trained.", default=0, ge=0
    )
    freeze_embeddings: bool = setting("Whether the embeddings are not trained.", default=False)
    reinit_layers: int = setting(
        "Number of layers of the encoder, the highest first, that start with new weights.", default=0, ge=0
    )
    keep_layers: list[int] | None = setting(
        "Layers of the encoder to keep, numbered from 0; the others are removed.", default=None
    )
    lora: LoraSettings | None = setting(
        "Train low-rank adapters of PEFT instead of the encoder's weights.", default=None
    )


KEYS = tuple(each.name for each in dataclasses.fields(TuningSettings) if each.name != "name_or_path")
"""Keys of the ``model`` block that select the weights that fine-tuning changes."""


# ---- train ---------------------------------------------------------------------------------------------------------

_USUAL_ALPHA: dict[Objective, float] = {"distilbert": 0.5, "minilm": 1.0}
_TEMPERATURE = 2.0


@dataclass(frozen=True)
class DistillationSettings:
    """Knowledge distillation (Hinton et al. 2015, arXiv:1503.02531), in fine-tuning and in pre-training.

    The loss of the student is ``(1 - alpha) · labels + alpha · taught``: ``labels`` is the loss of a run without a
    teacher. With ``distilbert``, ``taught`` is ``soft + hidden · cosine``: ``soft`` compares the outputs with those of
    the teacher, ``cosine`` the last hidden states (Sanh et al. 2019, arXiv:1910.01108). With ``minilm``, which is for
    pre-training, it compares the relations of queries, of keys and of values (Wang et al. 2021, arXiv:2012.15828).
    """

    teacher: str = setting(
        "The checkpoint to learn from, a folder or a Hub id: a fine-tuned one, or in pre-training one with a "
        "masked-LM head, which `minilm` does not need."
    )
    objective: Objective = setting("The teacher's part of the loss: `distilbert` or `minilm`.", default="distilbert")
    alpha: float | None = setting(
        "Weight of the teacher's part of the loss, 0 to 1; the labels have the rest, and 1 needs none. `null` is "
        "0.5 with `distilbert` and 1 with `minilm`.",
        default=None,
        ge=0,
        le=1,
    )
    temperature: float = setting(
        "Divides the logits of teacher and student in `soft`, which is multiplied by its square, so that its "
        "gradients keep their size. Does not apply to regression.",
        default=_TEMPERATURE,
        gt=0,
        rare=True,
    )
    hidden: float = setting(
        "Weight of `cosine`, 1 minus the cosine of the last hidden states of each token; needs a teacher of the"
        " same hidden size.",
        default=0.0,
        ge=0,
        rare=True,
    )
    teacher_layer: int | None = setting(
        "With `minilm`, layer of the teacher whose relations are compared, from 0; `null` is the last.",
        default=None,
        ge=0,
        rare=True,
    )
    relation_heads: int | None = setting(
        "With `minilm`, number of heads into which queries, keys and values of both models are divided; `null` "
        "is the number of attention heads of the student.",
        default=None,
        ge=1,
        rare=True,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        others: dict[str, float | None] = {"temperature": _TEMPERATURE, "hidden": 0.0}
        if self.objective == "distilbert":
            others = {"teacher_layer": None, "relation_heads": None}
        for name, usual in others.items():
            if getattr(self, name) != usual:
                raise ValueError(f"{name}: has no effect with the objective {self.objective}; remove it")

    @property
    def weight(self) -> float:
        """Weight of the teacher's part of the loss: ``alpha``, or its default."""
        return _USUAL_ALPHA[self.objective] if self.alpha is None else self.alpha

    def to_dict(self) -> dict[str, Any]:
        """Returns all values, with the default of ``alpha``, so that a recipe says which ones a run had."""
        return {**dataclasses.asdict(self), "alpha": self.weight}

    def __str__(self) -> str:
        if self.objective == "minilm":
            return f"relations of queries, keys and values (MiniLMv2), α {self.weight:g}"
        hidden = f", cosine of hidden states {self.hidden:g}" if self.hidden else ""
        return f"α {self.weight:g}, temperature {self.temperature:g}{hidden}"


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Keys of the ``train`` block that bertkit adds to `TrainingArguments` of transformers."""

    global_train_batch_size: int = option(
        "Sequences per optimizer step, over all processes and accumulation.", default=32, ge=1, le=2**20
    )
    early_stopping_patience: int | None = setting(
        "Number of evaluations, with neither a better score nor a lower loss, after which the run ends.",
        default=None,
        gt=0,
    )
    fit_schedule: bool = setting(
        "Whether the learning rate, the number of epochs and the choice to keep the best one, where the recipe does not"
        " say, follow the numbers of examples and the size of the encoder; for fine-tuning.",
        default=False,
    )
    class_weights: str | dict[Any, Any] | None = option(
        "Loss for imbalanced classes: balanced, focal, or a weight for each label.", default=None
    )
    layer_lr_decay: float | None = setting(
        "Factor of the learning rate from each layer to the one below it.", default=None, gt=0, le=1
    )
    head: Literal["probe", "random"] | None = option(
        "Start of the head: `probe`, a linear model fitted to the vectors of the encoder before training; or `random` "
        "weights.",
        default=None,
        rare=True,
    )
    pair_steps: int | None = setting(
        "Steps before all others that teach a model of pairs how its two texts compare when each is read apart.",
        default=None,
        ge=0,
        le=100_000,
    )
    contrast_steps: int | None = setting(
        "Steps before the probe that draw rows that share a class or a label together, and others apart.",
        default=None,
        ge=0,
        le=100_000,
    )
    head_learning_rate: float | None = setting(
        "Peak learning rate of the last layer of the head; `null` is that of the run, or follows the data.",
        default=None,
        gt=0,
        le=1e6,
    )
    vocabulary_steps: int = setting(
        "In pre-training, optimizer steps at the start that change the rows of the vocabulary alone, such as new ones.",
        default=0,
        ge=0,
    )
    distill: DistillationSettings | None = setting("Teacher of the run, and the weights of its losses.", default=None)
    report: bool = setting(
        "Whether the run leaves report.html; changes no number. Of the runs of a grid only the best does by default.",
        default=True,
    )


@dataclass(frozen=True, kw_only=True)
class OptionsOfTransformers:
    """Fields of `TrainingArguments`, whose import takes seconds, that commands have options for, or that mean more."""

    learning_rate: float = option("Peak learning rate.", gt=0, le=1e6)  # larger steps exceed float32 after a few
    num_train_epochs: float = option("Passes over the training data.", gt=0, le=1e6)
    max_steps: int = option("Optimizer steps; takes precedence over epochs.", gt=0)
    seed: int = option("Random seed of weights, order, masks and dropout.", ge=0, le=2**32 - 1)  # numpy's limit
    report_to: list[str] = option(
        "Write losses, scores and figures to trackio, wandb, tensorboard, mlflow or another tracker; changes no "
        "number.",
        metavar="NAME",
        panel="Output",
        rare=True,
    )
    run_name: str | None = option(
        "Name of the run, or of the group of runs, in the trackers; the folder's by default.",
        metavar="NAME",
        panel="Output",
        rare=True,
    )
    torch_compile: bool = setting(
        "Compile the layers of the encoder, once for all of them and for each of few lengths of inputs, instead of the "
        "whole model.",
        default=False,
    )


OWN_TRAIN_KEYS = tuple(each.name for each in dataclasses.fields(TrainSettings))
"""Keys of the ``train`` block that are not fields of ``TrainingArguments``."""


# ---- epochs of a fine-tuning ---------------------------------------------------------------------------------------

_FEWEST_STEPS, _MOST_EPOCHS = 150, 50  # that few examples are trained for
_SOME_STEPS, _SOME_EPOCHS = 300, 10  # that more examples are trained for at least, whichever is less
_FEWEST_EPOCHS = 3
_LONGEST = 4  # times the usual epochs: two doublings


def usual_epochs(steps_of_epoch: int) -> int:
    """Returns the number of epochs that suits a training set, by the optimizer steps of one epoch.

    As many as make 150 steps, at most 50; at least 10, or as many as make 300 steps if these are fewer; at least 3.
    Runs, checks and what is proposed after a run take it from here.

    >>> [usual_epochs(steps) for steps in (1, 22, 94, 5_000)]
    [50, 10, 4, 3]
    """
    few, some = (math.ceil(wanted / steps_of_epoch) for wanted in (_FEWEST_STEPS, _SOME_STEPS))
    return max(min(few, _MOST_EPOCHS), min(some, _SOME_EPOCHS), _FEWEST_EPOCHS)


def most_epochs(steps_of_epoch: int) -> int:
    """Returns the number of epochs up to which more are proposed after a run, and above which a check warns.

    More than the usual ones are not always worse: Mosbach et al. 2021 (arXiv:2006.04884) train 20 epochs on a few
    thousand examples, for which BERT §A.3 takes 2 to 4.
    """
    return _LONGEST * usual_epochs(steps_of_epoch)


def has_steps(train: Mapping[str, Any]) -> bool:
    """Returns whether the block ``train`` has the number of steps, whatever its epochs and its batch; -1 is none."""
    return (train.get("max_steps") or 0) > 0


# ---- hub -----------------------------------------------------------------------------------------------------------

ANY_DATA = "any"
"""Key of ``citations`` for entries that do not depend on the data."""

WIDGET_KEYS = ("text", "context", "example_title")
"""Keys of an example in ``widget``."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_BIBTEX_ENTRY = re.compile(r"@\w+\s*\{\s*[^\s,{}]+\s*,")


@dataclass(frozen=True, kw_only=True)
class HubSettings:
    """Settings of the ``hub`` block; they do not change results of a run. ``--push-to-hub`` names the repository."""

    license: str | None = setting(
        "Licence identifier of the Hub, such as `apache-2.0`; `null` omits it from the model card.", default=None
    )
    language: list[str] = setting(
        "Languages of the texts as ISO 639 codes, such as `en`; an empty list omits them from the model card.",
        factory=list,
    )
    private: bool = setting(
        "Create a new repository as private; otherwise the default of the Hub or the organisation applies, "
        "which is public unless the organisation changed it. Existing repositories are not changed.",
        default=False,
    )
    revision: str | None = setting("Branch to push to, created if missing; `null` for `main`.", default=None)
    form: Form = setting(
        "`bert`, which plain transformers loads, or `bertkit`, which includes its own code.", default="bert"
    )
    report: bool = setting(
        "Push `report.html` and its figures with a run; they show texts of the scored rows.", default=True
    )
    widget: list[dict[str, str]] = setting(
        "Example inputs of the widget on the model page, each a mapping with `text`, for question answering "
        "also `context`, and optionally `example_title`. bertkit takes none from the data.",
        factory=list,
    )
    benchmark_task: str | None = setting(
        "A task in the `eval.yaml` of the scored Hub data set, if that is a benchmark of the Hub; a push then "
        "writes the main score of the run to `.eval_results`. `null` writes none.",
        default=None,
    )
    citations: dict[str, str] = setting(
        "BibTeX entries for the model card, in addition to that of the BERT paper. The key is the Hub id of a "
        "data set, whose entries are cited with its scores, or `any` for entries that are always cited.",
        factory=dict,
    )

    def __post_init__(self) -> None:
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", self.license):
            raise ValueError(f"license: expected a licence identifier of the Hub, such as mit, got {self.license!r}")
        for code in self.language:
            if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", code):
                raise ValueError(f"language: expected ISO 639 codes such as en or de, got {code!r}")
        for example in self.widget:
            if unknown := sorted(set(example) - set(WIDGET_KEYS)):
                raise ValueError(f"widget: expected the keys {', '.join(WIDGET_KEYS)}, got {unknown[0]!r}")
            if not example.get("text", "").strip():
                raise ValueError(f"widget: expected a text in every example, got {example!r}")
        for key, what in (("revision", "name of a branch"), ("benchmark_task", "id of a task in eval.yaml")):
            if (value := getattr(self, key)) is not None and not value.strip():
                raise ValueError(f"{key}: expected the {what}, got an empty text")
        for name, entries in self.citations.items():
            if name != ANY_DATA and not _HUB_ID.fullmatch(name):
                raise ValueError(f"citations: expected the Hub id of a data set, or {ANY_DATA}, got the key {name!r}")
            if not _BIBTEX_ENTRY.match(entries.strip()) or entries.count("{") != entries.count("}"):
                raise ValueError(
                    f"citations: expected BibTeX entries for {name}, such as @misc{{key, title={{…}}}}, got {entries!r}"
                )
