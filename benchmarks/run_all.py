"""Runs the benchmarks whose numbers README and docs quote, and writes them down.

    python benchmarks/run_all.py DATA MODEL [--only NAME ...] [--resume] [--quick] [--output RESULTS.json]
    python benchmarks/run_all.py --render

DATA is a folder with ``glue/SST-2`` and ``text/books``; MODEL is the folder of a BERT of 6 layers, 384 wide.
The rows are in ``rows.py``: each is a script of this folder that runs bertkit beside its peers, by turns, each side in
a process of its own. First a checkpoint is fine-tuned on SST-2, for the rows of prediction and serving.

Results go to ``RESULTS.json`` after each row. From it ``RESULTS.md`` and the marked blocks of README and docs are
written, at the end or with ``--render``. All rows are of one machine and one commit: the rows of another one are
removed, so copy what is worth it from ``RESULTS.md`` to ``HISTORY.md`` first. ``--resume`` keeps the others. A smoke
run, ``--quick``, writes JSON in a temporary folder (or to ``--output``) and no pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import render
from by_turns import machine
from rows import DEFAULT, ROWS, Row

HERE = Path(__file__).parent
ROOT = HERE.parent
CODE = ("bertkit", "recipes", "benchmarks/*.py")  # what decides the numbers


def git(*arguments: str, clone: Path = ROOT) -> str:
    return subprocess.run(["git", "-C", str(clone), *arguments], check=True, capture_output=True, text=True).stdout


def commit() -> str:
    """The last commit that changed what decides the numbers, with ``+`` if there are changes since."""
    return commit_of(ROOT, CODE)


def commit_of(clone: Path, code: Sequence[str]) -> str:
    """The last commit of a clone that changed these paths, with ``+`` if there are changes since."""
    number = git("log", "-1", "--format=%h", "--", *code, clone=clone).strip()
    return number + ("+" if git("status", "--porcelain", "--", *code, clone=clone).strip() else "")


def this_machine() -> dict[str, Any]:
    """The processor and the versions that speed depends on."""
    from bertkit.runtime.placement.processor import cpu_features, processor

    versions = machine()
    gpu = versions.pop("device")
    return {
        "cpu": processor(),
        "features": cpu_features(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "gpu": gpu if gpu != platform.machine() else None,
        "python": platform.python_version(),
        **versions,
    }


def of_rounds(row: Row, stderr: str) -> dict[str, Any]:
    """Sides of a row from the lines of its rounds: each round's quantity, and the medians of all numbers.

    Raises:
        SystemExit: a side gave nothing.
    """
    rounds: dict[str, list[dict[str, float]]] = {}
    for line in stderr.splitlines():
        if line.startswith('{"round": '):
            result = json.loads(line)
            del result["round"]
            rounds.setdefault(result.pop("side"), []).append(result)
    if "bertkit" not in rounds or len(rounds) < 2:
        raise SystemExit(f"{row.command}: no rounds in its output")
    sides = {}
    for side, results in rounds.items():
        medians = {name: round(statistics.median(each[name] for each in results), 4) for name in results[0]}
        sides[side] = {"rounds": [round(each[row.quantity], 4) for each in results], "median": medians[row.quantity]}
        sides[side]["numbers"] = medians
    return {"sides": sides, **compared(row, sides)}


def compared(row: Row, sides: dict[str, Any]) -> dict[str, Any]:
    """Returns the ratio of bertkit's speed to that of each peer, and to the strongest, whose ratio is the least."""
    own = sides["bertkit"]["rounds"]
    ratios: dict[str, float] = {}
    for side, each in sides.items():
        if side != "bertkit" and side not in row.others:
            pairs = zip(own, each["rounds"], strict=True)  # of a round: a machine is slower at one time than at another
            ratios[side] = statistics.median(a / b if row.is_rate else b / a for a, b in pairs)
    strongest = min(ratios, key=lambda side: ratios[side])
    ratios = {side: round(ratio, 2) for side, ratio in ratios.items()}
    return {"ratios": ratios, "strongest": strongest, "ratio": ratios[strongest]}


def measure(row: Row, paths: dict[str, str], quick: bool) -> dict[str, Any]:
    """Runs a row; returns what RESULTS.json has of it.

    Raises:
        SystemExit: its script failed; the end of its output is printed.
    """
    words = row.command.split() + (row.quick.split() if quick else [])
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.run(
            [sys.executable, str(HERE / words[0]), *(paths.get(word, word) for word in words[1:])],
            stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **row.environment}, cwd=ROOT,
        )  # fmt: skip
        errors.seek(0)
        stderr = errors.read()
    if process.returncode:
        raise SystemExit(f"{row.command}: exit code {process.returncode}\n{stderr[-3000:]}{process.stdout[-1000:]}")
    lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    variables = "".join(f"{name}={value} " for name, value in row.environment.items())
    result: dict[str, Any] = {
        "command": f"{variables}python benchmarks/{' '.join(words)}",
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "took_s": round(time.perf_counter() - started),
    }
    if not row.quantity:
        return {**result, "lines": lines}
    facts = {name: lines[-1][name] for name in ("rate", "gflops_alone", "same_labels", "windows") if name in lines[-1]}
    return {**result, **of_rounds(row, stderr), "facts": facts}


def checkpoint(work: Path, paths: dict[str, str], quick: bool) -> None:
    """Fine-tunes MODEL on SST-2 as RUN, exported as STOCK, and writes TEXTS, unless they are there."""
    texts = work / "texts.txt"
    lines = Path(paths["GLUE"], "SST-2", "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts.write_text("\n".join(line.rsplit("\t", 1)[0].strip() for line in lines), encoding="utf-8")
    run = work / ("run-quick" if quick else "run")
    stock = run.with_name(f"{run.name}-stock")
    paths |= {"TEXTS": str(texts), "RUN": str(run), "STOCK": str(stock)}
    if stock.exists():
        return
    options = ["--task", "sst2", "--model", paths["MODEL"], "--data-dir", paths["GLUE"], "--output-dir", str(run)]
    options += ["--max-steps", "10" if quick else "600"]
    values = ["train.eval_strategy=no", "train.save_strategy=no", "train.load_best_model_at_end=false"]
    values += ["data.max_train_samples=2000", "data.max_eval_samples=64"] if quick else []
    command = [sys.executable, "-m", "bertkit", "finetune", "glue", *options]
    for value in values:
        command += ["--set", value]
    export = [sys.executable, "-m", "bertkit", "export", str(run), str(stock)]
    for each in (command, export):
        subprocess.run(each, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)


def load(path: Path) -> dict[str, Any]:
    """The results of an earlier run that stay: those of this machine and code."""
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": {}}
    here, code = this_machine(), commit()
    is_kept = results.get("machine") == here and "+" not in code
    return {
        "machine": here,
        "rows": {name: row for name, row in results["rows"].items() if is_kept and row["commit"] == code},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--resume", action="store_true", help="keep rows that were measured with this code")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few steps, numbers that mean nothing")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--work", type=Path, help="folder of the checkpoint that the rows use")
    parser.add_argument("--render", action="store_true", help="only write the pages from RESULTS.json")
    args = parser.parse_args()
    if args.render:
        render.write_pages()
        return
    if args.data is None or args.model is None:
        parser.error("give DATA and MODEL, or --render")
    work = args.work or Path(tempfile.gettempdir()) / f"bertkit-benchmarks-{commit().strip('+')}"
    work.mkdir(parents=True, exist_ok=True)
    output = args.output or (work / "quick.json" if args.quick else render.RESULTS)
    data = args.data.resolve()
    paths = {"GLUE": str(data / "glue"), "BOOKS": str(data / "text" / "books")}
    paths["MODEL"] = str(Path(args.model).resolve())
    results = load(output)
    names = [name for name in args.only or DEFAULT if not (args.resume and name in results["rows"])]
    minutes = len(names) / 2 if args.quick else 2 + sum(ROWS[name].minutes for name in names)
    print(f"{len(names)} rows, about {minutes:.0f} minutes: {' '.join(names)}", flush=True)
    checkpoint(work, paths, args.quick)
    failed = []
    for name in names:
        try:
            results["rows"][name] = measure(ROWS[name], paths, args.quick)
        except SystemExit as error:
            print(f"{name}: FAILED: {error}", file=sys.stderr, flush=True)
            failed.append(name)
            continue
        output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{name}: {results['rows'][name].get('ratio', 'done')}", flush=True)
    if output == render.RESULTS:
        render.write_pages()
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; repeat with --resume")


if __name__ == "__main__":
    main()
