"""Cases of one family: each is a function of seed, family and number, is judged by the rule, and can be repeated."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from . import rule
from .running import Outcome, Stop

if TYPE_CHECKING:
    from .materials import Materials

T = TypeVar("T")
LEAST, CASES = 8, 10  # cases of a family, however slow the machine, and however fast if no time is given
LIMIT = 60.0  # seconds of a command
Attack = Callable[["Case"], None]


@dataclass
class Case:
    """One hostile case: randomness, a folder of its own, and the commands that were run.

    Attributes:
        number: of the case.
        first: place of case 0; places go through the kinds of a family in turn, so the cases of a few seeds reach all.
        rng: its randomness.
        folder: a new folder; commands run in ``work``.
        made: checkpoints and data that are whole.
        outcomes: of the commands so far.
        faults: what broke the rule.
    """

    number: int
    first: int
    rng: Random
    folder: Path
    made: Materials
    outcomes: list[Outcome] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def work(self) -> Path:
        """The working directory of the commands."""
        (self.folder / "work").mkdir(exist_ok=True)
        return self.folder / "work"

    @property
    def place(self) -> int:
        """Where the case stands among those of this seed and of the seeds before."""
        return self.first + self.number

    def turn(self, kinds: Sequence[T], every: int = 1) -> T:
        """The kind whose turn it is: one after another, each for ``every`` cases."""
        return kinds[self.place // every % len(kinds)]

    def run(
        self,
        *arguments: object,
        limit: float = LIMIT,
        allowed: Sequence[str] = (),
        names: Sequence[object] = (),
        must: str | None = None,
        answer: Callable[[Outcome], str | None] | None = None,
        codes: Sequence[int] = (0, 2),
        **conditions: Any,
    ) -> Outcome:
        """Runs a command under ``conditions`` (see `Runner.run`) and judges it by the rule (see `rule.faults`)."""
        before = set(self.folder.rglob("*"))
        outcome = self.made.runner.run(*arguments, folder=self.folder, limit=limit, **conditions)
        self.outcomes.append(outcome)
        self.faults += rule.faults(outcome, names=list(map(str, names)), must=must, answer=answer, codes=codes)
        if not outcome.late and outcome.code >= 0:
            self.faults += rule.left_over(self.folder, before, allowed)
        return outcome

    def check(self, right: bool, fault: str) -> None:
        """Adds a fault unless ``right``."""
        if not right:
            self.faults.append(fault)

    def kill(self, *arguments: object, stop: Stop | None, limit: float = LIMIT, **conditions: Any) -> Outcome:
        """Runs a command whose words and files are not judged, such as one that a signal stops."""
        outcome = self.made.runner.run(*arguments, folder=self.folder, limit=limit, stop=stop, **conditions)
        self.outcomes.append(outcome)
        return outcome


@dataclass
class Campaign:
    """Runs the cases of a family until its time is used or ``most`` are run; see the options in ``conftest.py``."""

    seed: int
    seconds: float
    most: float
    only: int | None
    folder: Path
    made: Materials
    record: Callable[[str, object], None]

    def run(self, family: str, attack: Attack) -> None:
        """Runs the cases and fails with every distinct fault and how to repeat it."""
        cases = refused = answered = 0
        faulty: dict[str, list[Case]] = {}
        self.made.prepare()
        until = time.monotonic() + self.seconds
        while not cases or (self.only is None and (cases < LEAST or (cases < self.most and time.monotonic() < until))):
            case = self._case(family, cases if self.only is None else self.only)
            attack(case)
            cases += 1
            refused += any(outcome.code == 2 for outcome in case.outcomes)
            answered += bool(case.outcomes) and case.outcomes[-1].code == 0
            for fault in dict.fromkeys(case.faults):
                faulty.setdefault(_kind(fault), []).append(case)
            if self.only is not None:
                print("\n".join(_story(case)))  # pytest -rP shows it
            elif not case.faults:
                shutil.rmtree(case.folder, ignore_errors=True)
        wrong = len({case.number for group in faulty.values() for case in group})
        self.record("hostile", [family, cases, answered, refused, wrong, len(faulty)])
        if faulty:
            pytest.fail(self._report(family, cases, faulty), pytrace=False)

    def _case(self, family: str, number: int) -> Case:
        folder = self.folder / f"{family}-{number}"
        folder.mkdir(parents=True)
        return Case(number, self.seed * CASES, Random(f"{self.seed}:{family}:{number}"), folder, self.made)

    def _report(self, family: str, cases: int, faulty: dict[str, list[Case]]) -> str:
        lines = [f"{family}: {len(faulty)} distinct faults in {cases} cases"]
        for fault, group in sorted(faulty.items(), key=lambda item: -len(item[1])):
            full = next(each for each in group[0].faults if _kind(each) == fault)
            numbers = ", ".join(str(case.number) for case in group[:12]) + (", …" if len(group) > 12 else "")
            lines += [f"\n* {_printable(full)}", f"  {len(group)} cases: {numbers}; the first:", *_story(group[0])]
            again = f"--hostile-seed {self.seed} --hostile-case {family}:{group[0].number}"
            lines.append(f"  pytest -m hostile tests/hostile {again}")
        return "\n".join(lines)


def _kind(fault: str) -> str:
    """Returns the part of a message that repeats for the same fault: up to a semicolon, without paths and numbers."""
    return re.sub(r"\d+", "N", re.sub(r"/\S+", "…", fault.partition(";")[0].partition(" (")[0]))[:160]


def _story(case: Case) -> list[str]:
    """Describes a case: its damage, its command and its outcome."""
    lines = [f"  {case.note}; files: {case.folder}"]
    for outcome in case.outcomes:
        ending = " | ".join(outcome.err.strip().splitlines()[-3:])[-400:]
        lines.append(
            f"  $ bertkit {_shortened(outcome.command)}  → {outcome.code} in {outcome.seconds:.1f} s: {ending}"
        )
    return [_printable(line) for line in lines]


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _shortened(command: str) -> str:
    return command if len(command) < 300 else f"{command[:60]} … {command[-220:]}"
