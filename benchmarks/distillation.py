"""A student of few layers on SST-2, with and without a teacher: dev accuracy over seeds, and the speed of prediction.

    python benchmarks/distillation.py --model CHECKPOINT --data-dir GLUE --output-dir OUT [--seeds 42 43 44]
        [--layers 0,3] [--alpha 0.9] [--temperature 4] [--epochs 3] [--learning-rate 1e-4]
        [--teacher RUN | --teacher-learning-rate 5e-5] [--limit N]

The teacher is CHECKPOINT fine-tuned with bertkit's recipe of SST-2, unless --teacher gives one. Every student starts
from the same layers of CHECKPOINT, not of the teacher, and has the same recipe, data and seeds; only the weight of the
teacher differs: 0, which is plain fine-tuning, or --alpha. The training set is that of SST-2; nothing is added to it.
Repeating the command continues where it was stopped. Each run prints one JSON line; the summary follows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import bertkit

ROUNDS = 5  # timed predictions of the whole dev set, teacher and student in turns


def run_once(folder: Path, start: Any) -> float:
    """Runs or resumes a run unless it is finished; returns its accuracy in per cent."""
    record = folder / "run.json"
    if not (record.is_file() and json.loads(record.read_text()).get("finished")):
        start(output_dir=folder, resume=(folder / "recipe.yaml").is_file())
    results = json.loads((folder / "all_results.json").read_text())
    print(
        json.dumps({"run": folder.name, **{name: results[name] for name in ("eval_accuracy", "train_runtime")}}),
        flush=True,
    )
    return 100 * float(results["eval_accuracy"])


def seconds(predictor: Any, texts: list[str]) -> float:
    begun = time.perf_counter()
    predictor.predict(texts)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--teacher")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--layers", default="0,3")
    parser.add_argument("--alpha", type=float, default=0.9)
    parser.add_argument("--temperature", type=float, default=4.0)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="of the students")
    parser.add_argument("--teacher-learning-rate", type=float, default=5e-5)
    parser.add_argument("--limit", type=int, help="training examples, the first ones")
    args = parser.parse_args()
    common = {
        "train.num_train_epochs": args.epochs,
        "train.eval_strategy": "no",
        "train.report": False,
        "data.data_dir": str(args.data_dir),
        **({} if args.limit is None else {"data.max_train_samples": args.limit}),
    }
    teacher = args.teacher
    if teacher is None:
        teacher = str(args.output_dir / "teacher")
        changes = {**common, "train.learning_rate": args.teacher_learning_rate}
        run_once(Path(teacher), lambda **where: bertkit.finetune("sst2", model=args.model, overrides=changes, **where))
    layers = [int(layer) for layer in args.layers.split(",")]
    scores: dict[float, list[float]] = {0.0: [], args.alpha: []}
    for seed in args.seeds:
        for alpha, found in scores.items():
            changes = {
                **common,
                "train.learning_rate": args.learning_rate,
                "model.keep_layers": layers,
                "train.seed": seed,
            }

            def start(alpha: float = alpha, changes: dict[str, Any] = changes, **where: Any) -> None:
                bertkit.distill(
                    teacher,
                    args.model,
                    recipe="sst2",
                    alpha=alpha,
                    temperature=args.temperature,
                    overrides=changes,
                    **where,
                )

            found.append(run_once(args.output_dir / f"alpha-{alpha:g}-seed-{seed}", start))
    plain, taught = scores[0.0], scores[args.alpha]
    for name, found in (("without a teacher", plain), (f"with the teacher, α {args.alpha:g}", taught)):
        spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
        print(f"{name}: accuracy {statistics.mean(found):.2f}{spread} over {len(found)} seeds")
    gains = [with_it - without for with_it, without in zip(taught, plain, strict=True)]
    print(f"difference: {statistics.mean(gains):+.2f} points (by seed: {', '.join(f'{gain:+.2f}' for gain in gains)})")
    predictors = [
        bertkit.load(place) for place in (teacher, args.output_dir / f"alpha-{args.alpha:g}-seed-{args.seeds[0]}")
    ]
    lines = (args.data_dir / "SST-2" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.rpartition("\t")[0] for line in lines]
    for predictor in predictors:
        predictor.predict(texts[:64])
    times = [[seconds(predictor, texts) for predictor in predictors] for _ in range(ROUNDS)]
    slow, fast = (statistics.median(each) for each in zip(*times, strict=True))
    accuracy = 100 * bertkit.evaluate(teacher, data_dir=args.data_dir).metrics["eval_accuracy"]
    print(f"teacher: accuracy {accuracy:.2f}")
    print(
        f"prediction of {len(texts)} sentences: teacher {slow:.2f} s, student {fast:.2f} s: "
        f"{slow / fast:.1f} times as fast"
    )


if __name__ == "__main__":
    main()
