"""Finds, checks, and downloads or streams Hub data sets, with error messages that state a remedy."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from bertkit.data.reading.row_files import GIVE_TEXT_COLUMN, missing_column
from bertkit.runtime.errors import DataError, did_you_mean, quoted
from bertkit.runtime.reading.hub import near_local_name, one_attempt
from bertkit.runtime.reading.paths import file_kind

if TYPE_CHECKING:
    from datasets import Dataset, DatasetBuilder, IterableDataset

_HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def may_be_hub_id(name: str) -> bool:
    """Returns whether a name that is not a local file or folder has the form of a Hub id.

    >>> [may_be_hub_id(name) for name in ("wikimedia/wikipedia", "imdb", "./texts", "a/b/c", "text.jsonl.gz", "*.md")]
    [True, True, False, False, False, False]
    """
    return _HUB_ID.fullmatch(name) is not None and file_kind(name) is None


def find_set(hub_id: str, config: str | None, split: str | None) -> DatasetBuilder:
    """Returns the builder of a data set without downloading data; its ``hash`` is the commit on the Hub.

    Args:
        hub_id: ``owner/name``.
        config: one of its configurations; None if it has only one, or a default.
        split: a split such as ``train``, or an expression of ``datasets``, such as ``train[:1%]`` or ``train+test``;
            None skips the check of the split.

    Raises:
        DataError: the data set is not available, neither from the Hub nor from the cache; it does not have the
            configuration or split, and the message lists those it has; or the expression is not valid.
    """
    import datasets

    try:
        with one_attempt():
            builder = datasets.load_dataset_builder(hub_id, config)
        if builder.repo_id is None:  # "text", "json" and others are the library's loaders for local files
            raise FileNotFoundError(f"{hub_id!r} is not a Hub id")
    except Exception as error:  # the libraries raise OSError, ValueError, RuntimeError, HTTP errors and others here
        configs: list[str] = []
        if isinstance(error, ValueError):
            with suppress(Exception), one_attempt():  # an error of this call would say less
                configs = datasets.get_dataset_config_names(hub_id)
        if len(configs) > 1 and config is None:
            raise DataError(f"{hub_id}: has several configurations, give one of them: {quoted(configs)}") from error
        if configs and config is not None and config not in configs:
            near = did_you_mean(config, configs)
            raise DataError(f"{hub_id}: no configuration {config!r}; available: {quoted(configs)}{near}") from error
        raise DataError(
            f"{hub_id}: neither a local file or folder nor a data set that is available from the Hub "
            f"({_shorten_error(error)}); give files, folders, or a Hub id such as wikimedia/wikipedia with access to "
            f"the Hub{near_local_name(hub_id)}"
        ) from error
    if split is None:
        return builder
    try:
        datasets.ReadInstruction.from_spec(split)
    except ValueError as error:
        raise DataError(
            f"{hub_id}: split {split!r}: expected the name of a split, a part of one such as train[:90%] or "
            f"train[1000:2000], or several joined with + ({_shorten_error(error)})"
        ) from error
    splits = split_names(builder)
    for name in (part.partition("[")[0].strip() for part in split.split("+")):
        if splits and name not in splits and split != "all":  # which no part of an expression may be
            raise DataError(f"{hub_id}: no split {name!r}; available: {quoted(splits)}{did_you_mean(name, splits)}")
    return builder


def split_names(builder: DatasetBuilder) -> list[str]:
    """Returns the split names of a data set, in its own order; empty if they are unknown before the data is read."""
    return list(map(str, builder.config.data_files or builder.info.splits or ()))


def rows_of_split(builder: DatasetBuilder, split: str) -> list[tuple[str, int, int]]:
    """Returns the name, first row and end (exclusive) of each part of a split expression, after `load_set`."""
    import datasets

    lengths = {str(name): info.num_examples for name, info in (builder.info.splits or {}).items()}
    if split == "all":
        return [(name, 0, length) for name, length in lengths.items()]
    parts = datasets.ReadInstruction.from_spec(split).to_absolute(lengths)
    return [(part.splitname, part.from_, part.to) for part in parts]


def load_set(
    builder: DatasetBuilder, hub_id: str, split: str, column: str | None, streaming: bool
) -> Dataset | IterableDataset:
    """Loads the rows of a split: streams them, or downloads them unless they are in the cache.

    Args:
        builder: from `find_set`.
        hub_id: name of the data set in messages.
        split: as for `find_set`.
        column: the only column to keep; None for all columns.
        streaming: stream the rows over the network in every pass.

    Raises:
        DataError: the data is not available or cannot be read, the split expression is invalid, or the column does not
            exist; the message lists the existing columns.
    """
    if streaming and "[" in split:
        raise DataError(
            f"{hub_id}: {split!r} is a part of a split, which cannot be streamed; "
            f"stream the whole split, or remove --streaming"
        )
    try:
        if streaming:
            rows = builder.as_streaming_dataset(split=split)
        else:
            builder.download_and_prepare()
            rows = builder.as_dataset(split=split)
        if column is None:
            return rows
        columns = rows.column_names
        if columns is None:  # unknown for a streamed data set until its first row is read
            columns = list(next(iter(rows), {}))
        if column in columns:
            return rows.select_columns([column])
    except Exception as error:  # any type, as in find_set
        if "corresponds to no data" in str(error):
            raise DataError(f"{hub_id} ({split}): no rows; give a larger part") from error
        raise unreadable(hub_id, error) from error
    raise DataError(f"{hub_id}: {missing_column(column, columns, GIVE_TEXT_COLUMN)}")


def unreadable(hub_id: str, error: Exception) -> DataError:
    """Returns the error for a data set whose rows are not available."""
    return DataError(f"{hub_id}: cannot be read from the Hub or the cache ({_shorten_error(error)})")


def _shorten_error(error: Exception) -> str:
    """Returns the first line of an error message, or that of the cause of a DatasetGenerationError."""
    cause = error.__cause__ if type(error).__name__ == "DatasetGenerationError" and error.__cause__ else error
    return (str(cause).strip() or type(cause).__name__).split("\n")[0]
