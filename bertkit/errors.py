"""What can be wrong with what a user gave.

    BertkitError            never raised itself; ``except BertkitError`` catches all of the below
    ├── RecipeError         a recipe, an override or a flag: unknown key, wrong type, impossible value
    ├── DataError           a file or data set: missing, not UTF-8, ragged row, unknown label
    ├── CheckpointError     a model or tokenizer that cannot be loaded for what is asked of it
    ├── PlacementError      a batch, precision or device that this machine cannot give
    ├── OutputError         an output directory or file that is in use or cannot be written
    ├── HubError            an upload that the Hub refuses, or that the connection did not survive
    └── TrainingError       a training that went wrong under its settings: it diverged

The command line prints the message of any of these without a traceback and exits with 2. Everything else is a
fault of bertkit itself and keeps its traceback (exit 1). A message says what was given, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class BertkitError(Exception):
    """Base of every error that the user can mend."""


class RecipeError(BertkitError):
    """A recipe, an override or a flag is wrong."""


class DataError(BertkitError):
    """A file or a data set is wrong."""


class CheckpointError(BertkitError):
    """A model or a tokenizer cannot be loaded, or not for this purpose."""


class PlacementError(BertkitError):
    """What was asked for does not fit the devices at hand."""


class OutputError(BertkitError):
    """The place results should go to is in use or cannot be written."""


class HubError(BertkitError):
    """Something could not be brought to the Hub; what lies here is untouched."""


class TrainingError(BertkitError):
    """A training did not work out under the settings given."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Ends a message about an unknown name: ``"; did you mean 'sst2'?"``, or nothing where no name is near.

    >>> did_you_mean("sst3", ["cola", "sst2"])
    "; did you mean 'sst2'?"
    >>> did_you_mean("translation", ["cola", "sst2"])
    ''
    """
    near = get_close_matches(given, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


@contextmanager
def noted(faults: list[str]) -> Iterator[None]:
    """Adds a DataError that is raised within to ``faults``, so that several can be told together."""
    try:
        yield
    except DataError as error:
        faults.append(str(error))


def raise_all(faults: Sequence[str]) -> None:
    """Raises what was noted, if anything, as one DataError; each fault may be a list already."""
    if faults:
        raise DataError("\n".join(faults))


def raise_listed(faults: Sequence[str]) -> None:
    """Raises the faults of a data file, if there are any, as one DataError that shows the first ten."""
    if faults:
        raise DataError(listed(faults, at_most=10))


def listed(faults: Sequence[str], at_most: int = 20) -> str:
    """One fault as it is; several as a counted, indented list, so that all can be mended in one go.

    >>> print(listed(["a is wrong", "b is wrong", "c is wrong"], at_most=2))
    3 faults:
      - a is wrong
      - b is wrong
      - … and 1 more
    """
    if len(faults) == 1:
        return faults[0]
    shown = [*faults[:at_most], *([f"… and {len(faults) - at_most} more"] if len(faults) > at_most else [])]
    return f"{len(faults)} faults:\n" + "\n".join(f"  - {fault}" for fault in shown)
