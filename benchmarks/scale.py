"""Time, memory, disk and network of large work, by arithmetic from rates that are measured here.

    python benchmarks/scale.py [--quick]      measures the rates, and writes SCALE.json and docs/guides/scale.md

Rates of this machine: ``corpus_speed.py``, ``resume_speed.py`` and ``memory.py tables``. What no machine here has, the
rates of GPUs, networks and file systems, are figures of their makers or assumptions; the page names each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILE = HERE / "SCALE.json"

GPU_FLOPS = 989e12  # dense bf16 of an H100 SXM: NVIDIA's data sheet of the H100
GPU_SHARE = 0.4  # of it that training reaches: assumed
NETWORK = 50e9  # bytes a second between machines, 400 Gbit/s InfiniBand: assumed
VOCABULARY, BATCH, PREDICTED = 30_522, 256, 0.15
PHASES = ((128, 900_000), (512, 100_000))  # tokens and steps of the paper (§A.2)


def lines_of(script: str, *options: str) -> list[dict[str, Any]]:
    """Runs a benchmark; returns its JSON lines."""
    output = subprocess.run([sys.executable, str(HERE / script), *options], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]


def measure(quick: bool) -> dict[str, Any]:
    """Measures the rates."""
    from run_all import commit, this_machine

    machine = this_machine()
    cores = str(machine["cores"])
    size = ("--megabytes", "8" if quick else "384", "--rounds", "1" if quick else "2")
    builds = lines_of("corpus_speed.py", *size, "--forms", "txt", "--workers", "1", cores)
    resumes = lines_of("resume_speed.py", "--examples", "2000000" if quick else "100000000", "--rounds", "1")
    tables = lines_of(
        "memory.py", "tables", "--forms", "csv", "--lines", *(("2000",) if quick else ("1000000", "4000000")),
        "--commands", *(("predict",) if quick else ("predict", "embed", "evaluate")),
    )  # fmt: skip
    [ratios] = [line["times_as_fast_as_the_first"] for line in builds if "times_as_fast_as_the_first" in line]
    one = min((line for line in builds if line.get("workers") == 1), key=lambda line: line["seconds"])
    return {
        "machine": machine,
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "corpus": {
            "megabytes": one["megabytes"],
            "mb_a_second_and_core": one["mb_a_second"],
            "store_bytes_a_byte": round(one["store_bytes"] / one["megabytes"] / 1e6, 3),
            "tokens_a_byte": round(one["tokens"] / one["megabytes"] / 1e6, 4),
            "times_as_fast": ratios,
        },
        "resume": [line for line in resumes if "step" in line],
        "tables": [line for line in tables if "command" in line],
    }


def duration(seconds: float) -> str:
    if seconds < 5400:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def amount(size: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 1e3:.3g} kB"


def corpus_table(rates: dict[str, Any]) -> list[str]:
    """Time of ``corpus build`` by text and machines."""
    rate = rates["mb_a_second_and_core"] * 1e6
    lines = [
        "| text | machines × cores | `corpus build` | store | read and written a second, by all | limited by |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for size, machines, cores in ((16e9, 1, 8), (16e9, 1, 64), (1e12, 1, 64), (1e12, 16, 64)):
        speed = rate * machines * cores
        moved = speed * (1 + rates["store_bytes_a_byte"])
        limit = "cores" if machines == 1 else "cores, if the shared file system moves that much"
        store = amount(size * rates["store_bytes_a_byte"])
        cells = [amount(size), f"{machines} × {cores}", duration(size / speed), store, amount(moved), limit]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def training_table() -> list[str]:
    """Time, memory and network of the paper's pre-training, by arithmetic."""
    lines = [
        "| model, GPUs | operations | time | weights, gradients, AdamW's moments, by GPU | gradients sent a step |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, layers, hidden, gpus, is_sharded in (
        ("BERT-base", 12, 768, 8, False),
        ("BERT-large", 24, 1024, 64, True),
    ):
        inner = 12 * layers * hidden**2  # weights of the layers
        weights = inner + (VOCABULARY + 512) * hidden
        # Forward and backward: 6 for each weight and token, attention's two products, and the decoder where it is read.
        operations = sum(
            steps * BATCH * tokens
            * (6 * inner + 12 * layers * hidden * tokens + 6 * PREDICTED * hidden * (VOCABULARY + hidden))
            for tokens, steps in PHASES
        )  # fmt: skip
        seconds = operations / (gpus * GPU_FLOPS * GPU_SHARE)
        memory = 16 * weights / (gpus if is_sharded else 1)
        sent = 2 * 4 * weights * (gpus - 1) / gpus  # a ring sends each float32 gradient twice
        spread = f"{amount(memory)}{' (FSDP)' if is_sharded else ''}"
        network = f"{amount(sent)}, {1000 * sent / NETWORK:.0f} ms"
        lines.append(f"| {name}, {gpus} | {operations:.2g} | {duration(seconds)} | {spread} | {network} |")
    return lines


def memory_by_rows(tables: list[dict[str, Any]], command: str, form: str) -> str:
    """The memory of a command by the rows of its table, with its speed where the machine was quiet.

    Of an evaluation the resident pages of its files on disk are told apart, which the system takes back when it needs
    memory.
    """
    parts = []
    for line in (each for each in tables if (each["command"], each["form"]) == (command, form)):
        speed = f" and {line['lines_a_second']:,} rows a second" if "lines_a_second" in line else ""
        own = f", {line['private_mib']:,} without files" if command == "evaluate" else ""
        other = ", ".join(filter(None, (line.get("commit"), line.get("cpu"))))
        commit = f" (commit {other})" if other else ""
        parts.append(f"{line['lines']:,} rows {line['resident_mib']:,} MiB{own}{speed}{commit}")
    return "; ".join(parts)


def section(scale: dict[str, Any]) -> str:
    """The part of docs/guides/scale.md."""
    machine, corpus = scale["machine"], scale["corpus"]
    most = max(corpus["times_as_fast"], key=int)
    first, last = scale["resume"][0], scale["resume"][-1]
    where = f"{machine['cpu']}, {machine['cores']} cores, commit {scale['commit']}, {scale['date']}"
    speed = f"{corpus['mb_a_second_and_core']} MB/s of text with one worker"
    times = f"{corpus['times_as_fast'][most]} times as fast with {most}, {corpus['megabytes']:.0f} MB of synthetic text"
    bytes_ = f"{corpus['tokens_a_byte']} tokens and {corpus['store_bytes_a_byte']} bytes of the store"
    steps = f"Batch of step {first['step']:,} and of step {last['step']:,}, {last['examples_per_epoch']:,} examples"
    seconds = f"{first['seconds']} and {last['seconds']} s from the start"
    memory = f"{first['peak_mib']:,.0f} and {last['peak_mib']:,.0f} MiB"
    steps_of_paper = f"1,000,000 steps of {BATCH} examples, 90 % of them with 128 tokens"
    assumed = f"that training reaches {GPU_SHARE:.0%} of them and a network of {NETWORK / 1e9:.0f} GB/s are assumptions"
    parts = [
        f"Measured on {where}, by `python benchmarks/scale.py`:",
        "",
        f"- `corpus build`: {speed}, {times}; a byte of text is {bytes_}.",
        f"- {steps} per epoch: {seconds}, {memory}.",
        *(
            f"- `{command}` of `.{form}`, a model of 2 × 32: {memory_by_rows(scale['tables'], command, form)}."
            for command, form in dict.fromkeys((line["command"], line["form"]) for line in scale["tables"])
        ),
        "",
        "From these rates, if the work is divided evenly. **Not tried** at these sizes:",
        "",
        *corpus_table(corpus),
        "",
        f"The paper's pre-training, {steps_of_paper}. Not measured: {GPU_FLOPS / 1e12:.0f} TFLOP/s in bf16 are",
        f"of NVIDIA's data sheet of the H100, {assumed}:",
        "",
        *training_table(),
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run: prints the page's part, writes nothing")
    args = parser.parse_args()
    scale = measure(args.quick)
    if args.quick:
        print(section(scale))
        return
    FILE.write_text(json.dumps(scale, indent=1) + "\n", encoding="utf-8")
    from render import write_pages

    write_pages()


if __name__ == "__main__":
    main()
