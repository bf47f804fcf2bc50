"""Form of a table of similar texts, by its columns and labels; a question where a guess may turn the meaning around."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.labels import MOST_WHOLE_NUMBERS, whole_numbers
from bertkit.data.tables.table import to_number
from bertkit.runtime.errors import DataError, quoted

Form = Literal["scored_pairs", "pairs", "triplets", "nli"]

CLOSENESS = {"contradiction": 0, "neutral": 1, "entailment": 2}
"""Labels of NLI in the order of how alike premise and hypothesis are; the numbers are class ids."""

_OF_INFERENCE = ({"premise", "hypothesis"}, {"question", "sentence"})  # the columns of SNLI and MNLI, and of QNLI
_MOST_CLASSES = 4  # three classes, and -1
_NEGATION = re.compile(r"(?:not|non|un|in|ir|dis)[ _-]?(.+)")
_DISTANCE = re.compile(r"(?:.*[ _-])?(?:distances?|dist|dissimilarity|difference|rank)(?:[ _-].*)?", re.IGNORECASE)
# qid, pair_id and pairID, but not "valid"; and a column without a name
_NUMBER_OF_ROW = re.compile(r"(?i:(?:.*[ _-])?(?:[a-z]?id|ids|idx|index|number|row|line|year)\d*)|.*[a-z](?:Id|ID)|")


def form_of(columns: Sequence[str], label: str | None, table: Table) -> Form:
    """Infers the form of a table whose class ids are replaced by the names of the classes, if these are known.

    Raises:
        DataError: the labels can mean that texts are alike or that they are not, so that one has to say what they are.
    """
    if len(columns) > 2:
        return "triplets"
    if label is None:
        refuse_unread_labels(table, columns, "--label-column {0}", "--form pairs if all do")
        return "pairs"
    values = table.columns[label]
    words = words_of(values)
    if not opposites(words) and not words.isdisjoint(CLOSENESS):  # entailment and not_entailment are 1 and 0
        return "nli"
    if question := question_of_numbers(columns, label, table):
        few = len(whole_numbers(values) - {-1}) < 3
        names = "entailment not_entailment" if few else "entailment neutral contradiction"
        raise DataError(
            f"{table.source}: {question}; give their names in the order of the numbers, such as --label-names {names}, "
            "or --form scored_pairs if larger numbers are of texts that are more alike"
        )
    if _DISTANCE.fullmatch(label.strip()):
        raise DataError(
            f"{table.source}: {label!r} may be larger for texts that are less alike; give a column of scores that are "
            "larger for those that are more alike, such as 1 - distance, or --form scored_pairs if these are"
        )
    return "scored_pairs"


def question_of_numbers(columns: Sequence[str], label: str, table: Table) -> str:
    """Returns what is unclear about labels that are a few whole numbers: ids of classes, of which 0 is usually
    entailment, or scores, of which 0 is the lowest; empty if nothing is."""
    numbers = whole_numbers(table.columns[label])
    are_of_inference = {name.strip().casefold() for name in columns} in _OF_INFERENCE
    are_three = numbers - {-1} == {0, 1, 2} and label.strip().casefold() in ("label", "labels", "gold_label")
    if len(numbers) > _MOST_CLASSES or not (are_three or (are_of_inference and numbers)):
        return ""
    listed = ", ".join(map(str, sorted(numbers)))
    return f"{label!r} has the numbers {listed}: classes, of which 0 may be entailment, or scores"


def refuse_unread_labels(table: Table, columns: Sequence[str], *remedies: str) -> None:
    """Raises a DataError if a column that would not be read may say which of the pairs belong together.

    Args:
        table: rows whose texts are all read as belonging together.
        columns: the columns of the texts.
        remedies: what to give if the column, in the place of ``{0}``, says it, and if it does not.
    """
    others = {name: values for name, values in table.columns.items() if name not in columns}
    if labels := [name for name, values in others.items() if _may_be_labels(name, values)]:
        raise DataError(
            f"{table.source}: {quoted(labels)} may say which pairs belong together; give "
            f"{', or '.join(remedies).replace('{0}', shlex.quote(labels[0]))}"
        )


def _may_be_labels(name: str, values: Sequence[Any]) -> bool:
    """Returns whether a column may say how alike texts are: words of classes, a few different numbers, or scores."""
    words = words_of(values)
    if opposites(words) or (words and words <= {*CLOSENESS, "-"}):
        return True
    numbers = {to_number(value) for value in values if not is_missing(value)}
    if any(number != number for number in numbers) or _NUMBER_OF_ROW.fullmatch(name.strip()):
        return False
    are_scores = all(-1 <= number <= 1 for number in numbers)
    return len(numbers) > 1 and (are_scores or len(numbers) <= min(MOST_WHOLE_NUMBERS, len(values) // 2))


def words_of(values: Iterable[Any]) -> set[str]:
    """Returns the different labels, in lower case."""
    return {str(value).strip().casefold() for value in values if not is_missing(value)}


def opposites(words: Iterable[str]) -> Mapping[str, float]:
    """Returns the scores of two classes of which one denies the other, and of true and false; none for others.

    >>> opposites(["entailment", "not_entailment"]), opposites(["unrelated", "related"]), opposites(["good", "bad"])
    ({'entailment': 1.0, 'not_entailment': 0.0}, {'related': 1.0, 'unrelated': 0.0}, {})
    """
    words = {*words}
    if words == {"true", "false"}:
        return {"true": 1.0, "false": 0.0}
    for word in words if len(words) == 2 else ():
        negated = _NEGATION.fullmatch(word)
        if negated and negated[1] in words:
            return {negated[1]: 1.0, word: 0.0}
    return {}
