"""Settings of sentence similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit import metrics
from bertkit.runtime.options import check_different, check_ranges, option, setting
from bertkit.tasks.similarity.forms import Form


@dataclass(frozen=True, kw_only=True)
class TaskSettings(metrics.MetricSettings):
    """Columns of the tables, and the loss. Columns that are not set are derived from the training data and stored in
    the checkpoint."""

    name: str = setting("Name of the task in results.", default="similarity")
    form: Form | None = option(
        "`scored_pairs` have a number or two classes, `pairs` belong together, `triplets` also have texts that do not "
        "belong to the first one, `nli` has entailment, neutral and contradiction. By default inferred from the "
        "columns.",
        default=None,
    )
    text_columns: list[str] = option(
        "Columns of the texts of a row: two, or the first one, its positive and its negatives; by default those with "
        "usual names.",
        factory=list,
        flag="--text-column",
    )
    label_column: str | None = option(
        "Column of the score of a pair, or of its label in NLI; by default one with a usual name.", default=None
    )
    label_names: list[str] = option(
        "Names of the classes 0, 1, … of labels that are numbers; in SNLI `entailment neutral contradiction`.",
        factory=list,
        flag="--label-names",
    )
    pooling: Literal["mean", "cls", "max"] = option(
        "Vector of a text: the mean of its tokens, that of [CLS], or the maximum.", default="mean", rare=True
    )
    scale: float = setting("Factor of the cosines in the losses of pairs, triplets and scores.", default=20.0, gt=0)
    mini_batch_size: int | None = option(
        "Texts of a column whose activations are in memory at once in the loss of pairs and triplets, which is then "
        "computed twice (GradCache); by default all of a batch.",
        default=None,
        ge=1,
        rare=True,
    )
    matryoshka_dims: list[int] = option(
        "Also train the first numbers of a vector, of these lengths, so that it can be cut to them.",
        factory=list,
        flag="--matryoshka-dim",
        rare=True,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_different("label_names", self.label_names)
        if self.mini_batch_size and self.form in ("scored_pairs", "nli"):
            raise ValueError("mini_batch_size: is for pairs and triplets; remove it")
        if self.matryoshka_dims and self.form == "nli":
            raise ValueError("matryoshka_dims: not for NLI, whose loss reads whole vectors; remove them")
        if any(size < 1 for size in self.matryoshka_dims):
            raise ValueError(f"matryoshka_dims: expected numbers from 1, got {min(self.matryoshka_dims)}")
