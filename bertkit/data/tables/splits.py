"""Splits: those of Hub data sets, and rows that two splits share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.data.reading.hub_sets import find_set, load_set, rows_of_split, split_names
from bertkit.data.tables.table import ROWS_AT_ONCE, Table, text_key
from bertkit.data.tables.table_files import whole
from bertkit.data.tables.typed_rows import batches_parts
from bertkit.runtime.errors import DataError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    from datasets import DatasetBuilder

_BATCH_ROWS = 1024


def hub_splits(hub_id: str, config: str | None) -> list[str]:
    """Returns the split names of a data set on the Hub, in its own order, without downloading data.

    Raises:
        DataError: the data set is not available, neither from the Hub nor from the cache; it does not have the
            configuration; or its name is that of a local file or folder.
    """
    return split_names(_find_set(hub_id, config, None))


def load_hub_table(hub_id: str, config: str | None, split: str) -> Table:
    """Loads one split of a data set on the Hub; downloads it unless it is in the cache.

    Class labels remain ids; ``class_names`` of the table has their names. The fingerprint is the start of a SHA-256 of
    commit, configuration and split.

    Args:
        hub_id: ``owner/name``.
        config: one of its configurations; None if it has only one, or a default.
        split: one of `hub_splits`, or an expression such as ``train[:10%]``.

    Raises:
        DataError: as `hub_splits`; or the data set does not have the split (the message lists those it has); or the
            split has no rows, or a row that cannot be read.
    """
    builder = _find_set(hub_id, config, split)
    rows = load_set(builder, hub_id, split, column=None, streaming=False)
    read_as = [builder.hash, builder.config.name, split]
    fingerprint = "sha256:" + hashlib.sha256(dumps(read_as).encode()).hexdigest()[:16]
    source = f"{hub_id} ({split if config is None else f'{config}, {split}'})"
    parts = batches_parts(rows.with_format("arrow").iter(_BATCH_ROWS), source, ROWS_AT_ONCE)
    return replace(whole(parts), fingerprint=fingerprint)


def check_disjoint(hub_id: str, config: str | None, splits: Mapping[str, str]) -> None:
    """Checks that no row of a data set is in two of several splits, which have been loaded.

    Args:
        hub_id, config: as for `load_hub_table`.
        splits: use, such as ``train`` → expression of the split.

    Raises:
        DataError: two splits have rows in common; scores on rows that a model was trained on say nothing.
    """
    builder = _find_set(hub_id, config, None)
    rows = {use: rows_of_split(builder, split) for use, split in splits.items()}
    for one, other in combinations(rows, 2):
        shared = sum(
            max(0, min(end, last) - max(start, first))
            for name, start, end in rows[one]
            for of, first, last in rows[other]
            if name == of
        )
        if shared:
            raise DataError(
                f"{hub_id}: {counted(shared, 'row is', 'rows are')} in the {one} set ({splits[one]}) and in the "
                f"{other} set ({splits[other]}); give parts without common rows, such as 'train[:90%]' and "
                f"'train[90%:]', with --{one}-split and --{other}-split"
            )


def _find_set(hub_id: str, config: str | None, split: str | None) -> DatasetBuilder:
    # For a folder, the library would cache rows by file name and not detect changes.
    if Path(hub_id).exists():
        raise DataError(
            f"{hub_id}: expected the id of a Hub data set, but this is a local file or folder; give its files, "
            "such as --train-file 'data/train-*.parquet', or run in another folder to use the Hub data set"
        )
    return find_set(hub_id, config, split)


def find_repeated(train: Sequence[Iterable[str]], validation: Sequence[Sequence[str]]) -> list[int]:
    """Returns the indices of the rows of a validation set whose texts are also in the training set.

    Args:
        train: columns of texts, which are iterated once and not kept.
        validation: the same columns of the validation set.
    """
    keys = list(map(text_key, zip(*validation, strict=True)))
    shared = set(keys).intersection(map(text_key, zip(*train, strict=True)))
    return [row for row, key in enumerate(keys) if key in shared]
