"""Two commands at the same time, in the same folder, file or cache: none spoils what the other writes."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence

from . import damage, rule
from .campaign import LIMIT, Case
from .running import Outcome, Runner

ROWS = 300


def _at_once(case: Case, first: Sequence[object], second: Sequence[object], seconds: float) -> list[Outcome]:
    """Runs two commands, the second a little later, and judges each."""
    outcomes: dict[int, Outcome] = {}

    def run(number: int, runner: Runner, command: Sequence[object]) -> None:
        time.sleep(number * seconds)
        outcomes[number] = runner.run(*command, folder=case.folder / str(number), limit=LIMIT)

    jobs = [(0, case.made.runner, first), (1, case.made.other_runner, second)]
    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    case.outcomes += [outcomes[0], outcomes[1]]
    for outcome in case.outcomes:
        case.faults += rule.faults(outcome)
    case.faults += rule.left_over(case.work, ())
    return case.outcomes


def attack(case: Case) -> None:
    made, work = case.made, case.work
    kind = case.turn(["finetune", "resume", "pretrain", "export", "predict", "finetune"])
    later = case.rng.choice([0.0, 0.0, case.rng.uniform(0, 1)])
    case.note = f"{kind} twice, the second {later:.2f} s later"
    if kind in ("finetune", "resume"):
        if kind == "resume":
            damage.copy_of(made.broken_run, work / "run")
        command = [*made.ten_steps, "--output-dir", work / "run", *(["--resume"] if kind == "resume" else [])]
        ended = _at_once(case, command, command, later)
        case.check(
            kind == "resume" or [outcome.code for outcome in ended].count(0) == 1, "not exactly one run got through"
        )
        if any(outcome.code == 0 for outcome in ended):
            expected = (made.whole_run / "model.safetensors").read_bytes()
            case.check((work / "run" / "model.safetensors").read_bytes() == expected, "weights of neither run")
    elif kind == "pretrain":
        if case.rng.random() < 0.7:
            shutil.rmtree(made.runner.home / "bertkit")
        commands = [[*made.pretraining(), "--output-dir", work / name] for name in ("one", "two")]
        for outcome, name in zip(_at_once(case, *commands, later), ("one", "two"), strict=True):
            same = (
                outcome.code == 0
                and (work / name / "model.safetensors").read_bytes() == (made.bert / "model.safetensors").read_bytes()
            )
            case.check(same, "a pre-training beside another ends otherwise")
    elif kind == "export":
        command = ["export", made.classifier, work / "out"]
        ended = _at_once(case, command, command, later)
        case.check([outcome.code for outcome in ended].count(0) == 1, "not exactly one export got through")
    else:
        (work / "lines.txt").write_text("the cat sees a dog\n" * ROWS)
        command = ["predict", made.classifier, "--input", work / "lines.txt", "--output", work / "out.jsonl"]
        ended = _at_once(case, command, command, later)
        rows = (work / "out.jsonl").read_text().splitlines() if (work / "out.jsonl").exists() else []
        case.check(len(rows) == ROWS, f"{len(rows)} rows for {ROWS} texts")
        for row in rows:
            rule.valid_json(row)
