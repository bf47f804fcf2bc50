"""The rule for every hostile case: a right answer with exit code 0, or one message with exit code 2; nothing left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from .running import Outcome

LONGEST_MESSAGE = 4_000  # characters
HALF_WRITTEN = re.compile(r"\.partial$|^\.unfinished-|^\.?tmp|\.tmp$|\.incomplete$")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
FRAME = re.compile(r'File "[^"]*/(bertkit/[^"]+)", line \d+,? in (\S+)')


def faults(
    outcome: Outcome,
    *,
    names: Iterable[str] = (),
    must: str | None = None,
    answer: Callable[[Outcome], str | None] | None = None,
    codes: Collection[int] = (0, 2),
) -> list[str]:
    """Returns what breaks the rule; each entry begins with words that are the same for the same fault.

    Args:
        outcome: of the command.
        names: the culprit; a message has to hold one of them.
        must: ``"refuse"`` or ``"answer"`` where the generator knows which is right.
        answer: returns what is wrong with an answer, or None.
        codes: exit codes that are right.
    """
    found = []
    if outcome.late:
        return [f"too late: no end after {outcome.seconds:.0f} s; {_deepest(outcome.err)}"]
    if "Traceback (most recent call last)" in outcome.err + outcome.out:
        return [f"traceback: {_deepest(outcome.err)}"]
    if outcome.code not in codes:
        found.append(f"exit code {outcome.code}, expected {' or '.join(map(str, codes))}")
    if outcome.orphans:
        found.append("processes outlive the command")
    if outcome.code == 2:
        found += _of_a_message(outcome, list(names))
    if must == "refuse" and outcome.code == 0:
        found.append("accepted what is to be refused")
    if must == "answer" and outcome.code == 2:
        found.append(f"refused what is to be answered; {outcome.message[:300]}")
    if outcome.code == 0 and answer and (wrong := answer(outcome)):
        found.append(f"wrong answer: {wrong}")
    if CONTROL.search(outcome.err):
        found.append("control characters on stderr")
    return found


def _of_a_message(outcome: Outcome, names: list[str]) -> list[str]:
    found = []
    of_usage = outcome.err.startswith("Usage: ")
    if (messages := outcome.err.count("bertkit: error: ")) != 1 and not (of_usage and messages == 0):
        found.append(f"exit code 2 with {messages} messages")
    if len(outcome.message) >= LONGEST_MESSAGE:
        found.append(f"a message of {len(outcome.message)} characters")
    if names and not any(name in outcome.message for name in names):
        found.append(f"the message names none of the culprits; {', '.join(names)}: {outcome.message[:300]}")
    return found


def _deepest(err: str) -> str:
    """The exception of a traceback and the last frame of bertkit in it: what tells one fault from another."""
    last = [
        line for line in err.splitlines() if re.match(r"[A-Za-z_.]+(Error|Exception|Exit|Interrupt|Iteration)\b", line)
    ]
    frames = FRAME.findall(err)
    deepest = 0 if "most recent call first" in err else -1
    where = " in ".join(reversed(frames[deepest])) if frames else "no frame of bertkit"
    return f"{last[-1].partition(':')[0] if last else 'no exception'}, {where}"


def left_over(folder: Path, before: Collection[Path], allowed: Collection[str] = ()) -> list[str]:
    """Returns faults for half-written and temporary files in ``folder`` that are not in ``before``."""
    temporary = folder / "tmp"
    new = [path for path in folder.rglob("*") if path not in before and path.name not in allowed and path != temporary]
    half = [path for path in new if HALF_WRITTEN.search(path.name) or path.parent == temporary]
    half = [path for path in half if not path.name.startswith("torchinductor_")]  # torch's cache, for all processes
    half += [path for path in new if path.name == "recipe.yaml" and not path.stat().st_size]
    return [f"left behind: {_pattern(path.name)} ({path.relative_to(folder)})" for path in half]


def _pattern(name: str) -> str:
    return re.sub(r"[0-9a-f]{8,}|\d+", "…", name)


def not_json(outcome: Outcome) -> str | None:
    """Returns the faults of an answer that must be JSON."""
    try:
        valid_json(outcome.out)
    except ValueError as error:
        return f"not JSON: {error}"
    return None


def valid_json(text: str) -> Any:
    """Parses JSON as the standard has it: without NaN and Infinity.

    Raises:
        ValueError: the text is not that.
    """

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)
