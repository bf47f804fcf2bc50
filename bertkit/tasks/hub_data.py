"""Hub data sets as data of a task: the data set, its configuration, and the split for each use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertkit.errors import DataError
from bertkit.options import option
from bertkit.tasks.splits import FineTuningData


@dataclass(frozen=True, kw_only=True)
class HubData(FineTuningData):
    """A Hub data set."""

    dataset_name: str | None = option("Hub data set, instead of files.", default=None)
    dataset_config: str | None = option("Configuration of the Hub data set.", default=None)
    train_split: str | None = option(
        "Split of the Hub data set to train on, or a part of one, such as `train[:90%]` or `train+extra`; by "
        "default the split of this name, unless another setting names it.",
        default=None,
    )
    validation_split: str | None = option("Split of the Hub data set to evaluate on, or a part of one.", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dataset_config is not None and self.dataset_name is None:
            raise ValueError("dataset_config: is for a Hub data set; give dataset_name, or remove it")
        uses: dict[str, str] = {}
        for use, split in self.given_splits.items():
            if not split.strip():
                raise ValueError(f"{use}_split: expected a split such as train or train[:90%], got {split!r}")
            if split in uses:
                raise ValueError(f"{use}_split: {split} is the {uses[split]}_split too; give another split or part")
            uses[split] = use

    @property
    def given_splits(self) -> dict[str, str]:
        """Split expressions that the settings give, by their use: ``train``, ``validation``, ``test``."""
        by_use = {use: getattr(self, f"{use}_split", None) for use in ("train", "validation", "test")}
        return {use: split for use, split in by_use.items() if split is not None}

    def hub_set(self, use: str) -> tuple[str, str, str] | None:
        """Returns the Hub id, configuration and split for a use such as ``train``; ``None`` for files."""
        if self.dataset_name is None:
            return None
        return self.dataset_name, self.dataset_config or "default", self.given_splits.get(use, use)

    def splits_of(self, known: Sequence[str], uses: Sequence[str]) -> dict[str, str]:
        """Returns use → split expression for the uses that a Hub data set has a split for.

        A use without a setting has the split of the same name, unless another setting names this split or a part of it:
        with ``validation_split`` ``test``, there is no test set.

        Args:
            known: splits of the data set.
            uses: possible uses.
        """
        by_use, named = self.given_splits, self._named_splits()
        return {use: by_use.get(use, use) for use in uses if use in by_use or (use in known and use not in named)}

    def missing(self, hub_id: str, use: str, known: Sequence[str]) -> DataError:
        """Returns the error for a required use that has no split."""
        if use in known:
            return DataError(
                f"{hub_id}: --{self._named_splits()[use]}-split takes the split {use} or a part of it; give "
                f"--{use}-split for the rest, such as '{use}[:90%]' beside '{use}[90%:]'"
            )
        return DataError(
            f"{hub_id}: no split {use!r}; available: {', '.join(map(repr, known)) or 'none'}; give --{use}-split"
        )

    def _named_splits(self) -> dict[str, str]:
        """Returns split → use for the splits that the settings name, whole or in part."""
        by_use = self.given_splits
        return {part.partition("[")[0].strip(): use for use, split in by_use.items() for part in split.split("+")}
