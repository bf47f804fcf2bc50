"""An interrupted run whose files are damaged: --resume ends with the weights of the whole run, or names the file."""

from __future__ import annotations

import shutil

from . import damage
from .campaign import Case

OF_THE_RUN = ("recipe.yaml", "run.json")


def attack(case: Case) -> None:
    made = case.made
    expected = (made.whole_run / "model.safetensors").read_bytes()
    run = damage.copy_of(made.broken_run, case.work / "run")
    newest = run / "checkpoint-6"
    level = case.turn(["newest", "newest", "all but the oldest", "run", "every"])
    files = sorted(path.name for path in newest.iterdir() if path.is_file())
    file = case.rng.choice([name for name in OF_THE_RUN if (run / name).exists()] if level == "run" else files)
    kinds = damage.JSON_FILE if file.endswith(".json") else damage.ANY_FILE
    kind = case.rng.choice([*kinds, _of_another_step, _with_another_entry])
    if level == "run":
        kind = case.rng.choice(kinds)
    places = {"newest": [newest], "all but the oldest": [newest, run / "checkpoint-4"], "run": [run]}
    places = places.get(level, sorted(run.glob("checkpoint-*")))
    for place in places:
        kind(place / file, case.rng)
    case.note = f"{kind.__name__} {file} of {level}"
    must = "answer" if level in ("newest", "all but the oldest") else None
    command = [*made.ten_steps, "--output-dir", run, "--resume"]
    outcome = case.run(*command, names=["checkpoint-", file], must=must)
    if outcome.code == 0:
        same = (run / "model.safetensors").read_bytes() == expected
        case.check(same, f"other weights than those of the whole run; {case.note}")
        steps = sum(path.name == "checkpoint-10" for path in run.iterdir())
        case.check(steps == 1, "no checkpoint of the last step")


def _of_another_step(path, rng) -> None:
    """Replaces a file by the one of another checkpoint."""
    other = path.parent.with_name("checkpoint-4" if path.parent.name != "checkpoint-4" else "checkpoint-2") / path.name
    shutil.copy(other, path)


def _with_another_entry(path, rng) -> None:
    """Changes one value, where the file is JSON; else flips a bit."""
    damage.hostile_entry(path, rng) if path.suffix == ".json" else damage.flipped(path, rng)
