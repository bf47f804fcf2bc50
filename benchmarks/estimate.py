"""The time that a check estimates, and that of the run itself, for six recipes.

    python benchmarks/estimate.py --model CHECKPOINT --data-dir DATA [--recipes sst2 mrpc ner squad choice pretrain]
                                  [--minutes 2] [--threads 1]

DATA has GLUE's folders in ``glue``, WNUT-17 in ``ner/wnut17``, SQuAD 1.1's files in ``squad`` and books as text in
``text/books``. Each recipe keeps its evaluations, checkpoints, report and card; only its steps are fewer: a first check
finds how many fill the minutes. Then ``check`` and the run are processes of their own, one after the other. ``choice``
is a table made of SST-2: of four sentences of unequal length, which is the positive one?

Prints one JSON line for each recipe. ``estimated`` are the seconds of the check's plan, ``measured`` those of the whole
command, ``factor`` the larger divided by the smaller. ``remaining`` is the same for the time left in the run's own
lines, in the first one after a fifth of the steps, beside the seconds until the last step.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RECIPES = ("sst2", "mrpc", "ner", "squad", "choice", "pretrain")
STEP = re.compile(r"step (\d+)/(\d+)(?:.* (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)? left$)?")
FEW_STEPS = 100  # of the check that finds how many steps fill the minutes


def words(name: str, args: argparse.Namespace, folder: Path) -> list[str]:
    """Returns the words of the command of a recipe, without the number of steps."""
    data, model = args.data_dir, ["--model", args.model]
    if name in ("sst2", "mrpc"):
        return ["finetune", "glue", "--task", name, "--data-dir", f"{data}/glue", *model]
    if name == "ner":
        files = [f"--{split}-file={data}/ner/wnut17/{file}.conll" for split, file in NER_FILES.items()]
        return ["finetune", "ner", *files, *model]
    if name == "squad":
        [train] = sorted((data / "squad").glob("train-v1.1*.json"))
        files = ["--train-file", str(train), "--validation-file", f"{data}/squad/dev-v1.1.json"]
        return ["finetune", "squad", *files, "--max-eval-samples", "500", *model]
    if name == "choice":
        files = [f"--{split}-file={choices(data, folder, split)}" for split in ("train", "validation")]
        return ["finetune", "multiple-choice", *files, *model]
    corpus = ["--corpus", f"{data}/text/books", "--vocab-size", "8000"]
    settings = ["eval_strategy=steps", "eval_steps=0.25", "global_train_batch_size=32"]
    return ["pretrain", "--recipe", "bert-mini", *corpus, *(f"--set=train.{each}" for each in settings)]


NER_FILES = {"train": "train", "validation": "dev", "test": "test"}


def choices(data: Path, folder: Path, split: str) -> Path:
    """Writes questions with four sentences of SST-2, of which one is positive; returns the file."""
    file, source = folder / f"{split}.csv", "train" if split == "train" else "dev"
    if file.exists():
        return file
    lines = (data / "glue" / "SST-2" / f"{source}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    by_label: dict[str, list[str]] = {"0": [], "1": []}
    for line in lines:
        text, label = line.rsplit("\t", 1)
        by_label[label].append(text.strip())
    negative = iter(by_label["0"])
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sent1", "sent2", *(f"ending{number}" for number in range(4)), "label"])
        for row, (positive, *others) in enumerate(zip(by_label["1"], negative, negative, negative, strict=False)):
            endings = [*others[: row % 4], positive, *others[row % 4 :]]
            writer.writerow(["Which review is good?", "This one:", *endings, row % 4])
    return file


def plan(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Returns the plan of a check.

    Raises:
        SystemExit: the check found errors.
    """
    process = subprocess.run([*command, "--check", "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(command)}\n{process.stdout}")
    numbers: dict[str, Any] = json.loads(process.stdout)["plan"]
    return numbers


def run(command: list[str], environment: dict[str, str]) -> tuple[float, tuple[float, float] | None]:
    """Runs a command; returns its seconds, those that it said were left after a fifth of the steps, and those it took.

    Raises:
        SystemExit: it failed.
    """
    begun, said, last = time.perf_counter(), None, 0.0
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if (match := STEP.search(line.rstrip())) is None:
            continue
        last = time.perf_counter()
        step, steps, *left = (int(each or 0) for each in match.groups())
        if said is None and steps / 5 <= step < steps and line.rstrip().endswith(" left"):
            said = 3600.0 * left[0] + 60 * left[1] + left[2], last
    if process.wait():
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - begun, None if said is None else (said[0], last - said[1])


def row(name: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Checks and runs a recipe; returns its line."""
    caches = {"HF_HOME": str(folder / "hf"), "OMP_NUM_THREADS": str(args.threads)}
    environment = {**os.environ, **caches}
    base = [sys.executable, "-m", "bertkit", *words(name, args, folder), "--output-dir", str(folder / name)]
    first = plan([*base, "--max-steps", str(FEW_STEPS)], environment)
    if first["seconds"] is None:
        return {"recipe": name, "unknown": first["seconds_unknown"]}
    steps = max(FEW_STEPS // 2, round(FEW_STEPS * 60 * args.minutes / first["seconds"]))
    command = [*base, "--max-steps", str(steps)]
    checked = plan(command, environment)
    seconds, remaining = run(command, environment)
    result = {"recipe": name, "steps": steps, "estimated": checked["seconds"], "measured": round(seconds, 1)}
    result["factor"] = checked["seconds"] and factor(checked["seconds"], seconds)
    if remaining is not None:
        result["remaining"] = {"estimated": remaining[0], "measured": round(remaining[1], 1)}
        result["remaining"]["factor"] = factor(*remaining)
    return result


def factor(one: float, other: float) -> float:
    """Returns the larger of two numbers divided by the smaller."""
    return round(max(one, other) / max(min(one, other), 1e-9), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="checkpoint to fine-tune")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=RECIPES)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    for name in args.recipes:
        with tempfile.TemporaryDirectory(prefix="bertkit-estimate-") as folder:
            print(json.dumps(row(name, args, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
