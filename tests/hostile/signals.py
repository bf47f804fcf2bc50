"""SIGKILL, SIGTERM, SIGUSR1 and SIGINT at random moments of a training; then --resume, to the same bytes."""

from __future__ import annotations

import signal

from .campaign import Case
from .running import Outcome, Stop

MOMENTS = "recipe.yaml checkpoint-* checkpoint-4/* checkpoint-8/trainer_state.json model.safetensors run.json".split()
CODES = {signal.SIGTERM: 143, signal.SIGUSR1: 143, signal.SIGINT: 130}
MOST_STOPS = 3


def attack(case: Case) -> None:
    made, run = case.made, case.work / "run"
    expected = (made.whole_run / "model.safetensors").read_bytes()
    number = case.turn([signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGKILL, signal.SIGINT])
    case.note = number.name
    command, resume = [*made.ten_steps, "--output-dir", run], []
    for _ in range(case.rng.randint(1, MOST_STOPS)):
        if case.rng.random() < 0.5:
            stop = Stop(number, seconds=case.rng.uniform(0, 3))
        else:
            stop = Stop(number, folder=run, pattern=case.rng.choice(MOMENTS))
        outcome = case.kill(*command, *resume, stop=stop)
        case.note += f" at {stop.pattern or f'{stop.seconds:.2f} s'}"
        _judge(case, outcome, number)
        resume = ["--resume"] if (run / "recipe.yaml").exists() else []
        if outcome.code == 0:
            break
    outcome = case.run(*command, *resume, must="answer")
    if outcome.code == 0:
        same = (run / "model.safetensors").read_bytes() == expected
        case.check(same, f"other weights than those of the run that nothing disturbed; {case.note}")


def _judge(case: Case, outcome: Outcome, number: signal.Signals) -> None:
    """Checks the output of an interrupted run: how to continue, without a traceback; nothing after SIGKILL."""
    case.check(not outcome.late, f"no end after {number.name}")
    case.check(not outcome.orphans, f"processes outlive {number.name}")
    case.check("Traceback" not in outcome.err, f"traceback after {number.name}")
    if number in CODES and outcome.stopped:
        has_trained = (
            ": step " in outcome.err
        )  # before the first step there is nothing to save: the signal may just end it
        codes = (0, CODES[number], *([] if has_trained else [-number]))
        case.check(outcome.code in codes, f"exit code {outcome.code} after {number.name}, not {CODES[number]}")
        said = "--resume" in outcome.err
        case.check(said or not outcome.code or not has_trained, f"no word of --resume after {number.name}")
