"""Hard negatives: for pairs of texts, other texts that are close to the first one but are not its positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.data.tables import read_table
from bertkit.model.checkpoint.faults import check_folder, reading
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.files import check_new_file, write_csv, write_json_lines
from bertkit.runtime.options import several
from bertkit.runtime.progress import counted, inflected, without_library_bars
from bertkit.tasks.arguments import table_path
from bertkit.tasks.similarity.columns import read_texts, usual_texts
from bertkit.tasks.similarity.forms import refuse_unread_labels

_FORMATS = (".csv", ".jsonl")  # a .tsv has no quotes, so that a text with a tab does not fit
_NEAREST = 50  # texts among which negatives are looked for, at least


@dataclass(frozen=True)
class MinedNegatives:
    """A table of pairs with hard negatives.

    Attributes:
        path: the file.
        pairs: rows of the table of pairs.
        rows: rows of the file; pairs for which fewer negatives were found than asked for are left out, and repeated
            pairs are written once.
    """

    path: Path
    pairs: int
    rows: int


def mine_negatives(
    pairs: str | Path | Any,
    out: str | Path,
    *,
    model: str | Path,
    number: int = 3,
    margin: float = 0.05,
    text_columns: Sequence[str] = (),
    batch_size: int = 32,
) -> MinedNegatives:
    """Writes a table of pairs with hard negatives, for ``finetune similarity`` and ``finetune reranking``.

    The negatives are the positives of other rows whose vectors are nearest to that of the first text, by
    sentence-transformers' ``mine_hard_negatives``. All positives of a text are left out. Only the nearest texts are
    looked at, ten for each negative and at least 50: a pair whose positive is further away than these gets none.

    Args:
        pairs: table with a text and its positive: .csv, .tsv, .jsonl, .parquet or .xlsx; or a table itself, as for
            `bertkit.finetune`.
        out: a new file, .csv or .jsonl, with the columns of both texts and ``negative_1``, ``negative_2``, …
        model: checkpoint whose vectors are compared, of bertkit or sentence-transformers, a folder or a Hub id.
        number: negatives of each pair.
        margin: a text counts as another positive and not as a negative if its cosine is above that of the positive less
            this share of it, in [0, 1). Of several positives of a text the least near one counts. A checkpoint that
            names another similarity of sentence-transformers, such as ``dot``, is compared by that one.
        text_columns: the two columns, in any case; by default those with usual names.
        batch_size: texts that are encoded at once.

    Raises:
        RecipeError: the extra sentence-transformers is not installed, or an argument is out of its range.
        DataError: the table cannot be read, or has too few different positives.
        CheckpointError: the checkpoint cannot be loaded.
        OutputError: the file exists or cannot be written.

    Examples:
        ```python
        bertkit.mine_negatives("pairs.csv", "triplets.csv", model="my-bert", number=1, margin=0)
        ```
    """
    from bertkit.tasks.similarity.losses import check_extra

    check_extra()
    target = Path(out)
    if target.suffix not in _FORMATS:
        raise RecipeError(f"{target}: expected a file with the ending {', '.join(_FORMATS)}")
    if min(number, batch_size) < 1 or not 0 <= margin < 1:
        raise RecipeError(
            f"number {number}, batch_size {batch_size}, margin {margin}: expected a number and a batch_size from 1, "
            "and a margin from 0 to below 1"
        )
    check_new_file(target, str(target))
    table = read_table(str(table_path(pairs, "pairs")))
    columns = list(map(str, several(text_columns))) or usual_texts(list(table.columns), table.source)[:2]
    if not text_columns:
        remedy = f"--text-column {columns[0]} --text-column {columns[1]} if all do"
        refuse_unread_labels(table, columns, "a table of those that do", remedy)
    if len(columns) != 2 or columns[0] == columns[1]:
        raise RecipeError(f"--text-column: expected two, the text and its positive, got {', '.join(columns)}")
    rows = [(row[0], row[1]) for row in read_texts(table.with_names(columns), columns)]
    different = len({positive for _, positive in rows})
    if different <= number:
        raise DataError(
            f"{table.source}: {counted(different, 'different text')} in {columns[1]!r}, too few for "
            f"{counted(number, 'negative')} of each pair; give more pairs, or a smaller --number"
        )
    nearest = min(different - 1, max(10 * number, _NEAREST))
    mined = _mine(rows, str(model), number, margin, nearest, batch_size)
    if not mined:
        remedies = [f"a smaller {flag}" for flag, can in (("--number", number > 1), ("--margin", margin > 0)) if can]
        raise DataError(
            f"{table.source}: no pair has {counted(number, 'text')} that {inflected(number, 'is', 'are')} no positive "
            f"of its first one and further from it than its positive, by a margin of {margin:g}, among the "
            f"{counted(nearest, 'text')} nearest to the first one; give "
            f"{' or '.join([*remedies, 'another --model', 'more pairs'])}"
        )
    names = [*columns, *(f"negative_{place + 1}" for place in range(number))]
    if target.suffix == ".jsonl":
        write_json_lines(target, [dict(zip(names, row, strict=True)) for row in mined])
    else:
        write_csv(target, names, mined)
    return MinedNegatives(target, len(rows), len(mined))


def _mine(
    rows: Sequence[tuple[str, str]], model: str, number: int, margin: float, nearest: int, batch_size: int
) -> list[tuple[str, ...]]:
    """Returns the pairs, each with its negatives among the ``nearest`` texts, the nearest first."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    # The library expects the rows of a query one after another.
    order = {query: place for place, query in enumerate(dict.fromkeys(query for query, _ in rows))}
    unique = sorted(dict.fromkeys(rows), key=lambda row: order[row[0]])
    check_folder(model, "config.json", "modules.json")
    with without_library_bars():
        with reading(model, "model"):
            network: Any = SentenceTransformer(model)
        outcome = mine_hard_negatives(
            Dataset.from_dict({"query": [query for query, _ in unique], "positive": [text for _, text in unique]}),
            network,
            anchor_column_name="query",
            positive_column_name="positive",
            num_negatives=number,
            relative_margin=margin,
            range_max=nearest,
            output_format="n-tuple",
            batch_size=batch_size,
            verbose=False,
        )
    return list(zip(*(outcome[name] for name in outcome.column_names), strict=True))
