"""Speed on one GPU beside transformers and sentence-transformers, in three ways; ``scripts/gpu_campaign.sh`` runs them.

    python benchmarks/gpu.py plain|joined|compiled --data DATA --model CHECKPOINT --output GPU.json
                             [--commit NUMBER] [--seconds 200] [--rounds 1] [--small]

DATA has ``glue/SST-2`` and ``text/books``; CHECKPOINT is a BERT with its tokenizer, in which the rows named by a size
have random weights. ``compiled``: both sides by torch.compile; ``joined``: bertkit alone, without padding. In bf16,
predictions in fp16. A way is one process, so that nothing is imported twice; its sides take turns.

A speed is that of the second half of a run's steps, in tokens without padding: the data of fine-tuning are twice the
same, so that kernels for their lengths are there. ``rate`` is the share of the matrix products' rate that the card
shows on its own, as in ``pretraining_speed.py``; ``first_step`` is the time from the call of a side, imports included
for the first one, to the end of its first step. Each result is in the file once it is measured, and no row begins after
``--seconds``.
``--small`` runs all of this on a CPU, at sizes whose numbers mean nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import finetuning_speed
import pretraining_speed
from by_turns import SIZES, machine, of_layers, rate_alone, shape_of, step_clock

WAYS = ("plain", "joined", "compiled")

Result = dict[str, float]
Side = Callable[[], Result]


def clocked(train: Callable[[], None], model: str, read: int, heads: float, args: argparse.Namespace) -> Result:
    """Trains, and returns the speed of the second half of the steps.

    Args:
        train: trains by a Trainer in this process.
        model: name of its size.
        read: tokens of a sequence whose output is read.
        heads: multiplications and additions of the heads for a sequence, forward.
        args: the arguments of this script.
    """
    import torch
    from transformers import trainer

    torch._dynamo.reset()
    started = time.perf_counter()
    steps = step_clock()
    first: list[float] = []

    class FirstStep(trainer.DEFAULT_CALLBACKS[-1]):  # type: ignore[misc, name-defined]
        def on_step_end(self, arguments: Any, *others: Any, **kwargs: Any) -> None:
            super().on_step_end(arguments, *others, **kwargs)
            if not first:
                if args.device == "cuda":
                    torch.cuda.synchronize()
                first.append(time.perf_counter() - started)

    trainer.DEFAULT_CALLBACKS[-1] = FirstStep
    try:
        train()
    finally:
        trainer.DEFAULT_CALLBACKS.pop()
    half = len(steps.marks) // 2
    seconds, lengths = steps.timed(half)
    count = len(steps.marks) - 1 - half
    products = 3 * (of_layers(*SIZES[model], lengths, read) + heads * len(lengths))  # the backward pass has two thirds
    step = statistics.median(end - start for start, end in pairwise(steps.ends[half:]))
    rate = rate_alone("bf16", args.device, SIZES[model][1], sum(lengths) // count)
    speed = {"step": step, "tokens_a_second": sum(lengths) / seconds, "rate": products / seconds / rate}
    return {**speed, "first_step": first[0]}


def pretraining(args: argparse.Namespace, length: int) -> dict[str, Side]:
    """The sides of a step of pre-training."""
    model, predicted = ("tiny" if args.small else "base"), pretraining_speed.PREDICTED[length]
    width, vocabulary = SIZES[model][1], len(tokenizer_of(args.model))
    heads = 2 * (predicted * (width**2 + width * vocabulary) + width**2)
    of_side = SimpleNamespace(
        corpus=[args.data / "text" / "books"], tokenizer=str(args.model), model=model, length=length, precision="bf16",
        batch_size=4 if args.small else 64, steps=6 if args.small else 40, seed=42, device=args.device,
        compiler=args.compiler, overrides=args.overrides,
    )  # fmt: skip
    sides = {"stock": pretraining_speed.stock, "bertkit": pretraining_speed.bertkit}
    return {
        side: lambda train=train: clocked(lambda: train(of_side), model, 1 + predicted, heads, args)  # type: ignore[misc]
        for side, train in sides.items()
    }


def finetuning(args: argparse.Namespace, size: str, work: Path) -> dict[str, Side]:
    """The sides of a fine-tuning on SST-2, twice on the same sentences."""
    model = "tiny" if args.small else size
    of_side = SimpleNamespace(
        model=str(checkpoint(args, model, work)), data_dir=args.data / "glue", count=64 if args.small else 3_200,
        batch_size=4 if args.small else 32, mixed_precision="bf16", device=args.device, side="stock",
        compiler=args.compiler, overrides={**args.overrides, "train.num_train_epochs": 2, "train.report": False},
        epochs=2,
    )  # fmt: skip
    sides = {"stock": finetuning_speed.stock, "bertkit": finetuning_speed.bertkit}
    return {
        side: lambda train=train: clocked(lambda: train(of_side), model, 1, 0.0, args)  # type: ignore[misc]
        for side, train in sides.items()
    }


def scores(args: argparse.Namespace, work: Path) -> dict[str, Side]:
    """The accuracy on SST-2's dev set of a run of bertkit, which a way must not change beyond what a seed does."""

    def own() -> Result:
        run = work / f"scores-{time.perf_counter_ns()}"
        values = {**args.overrides, "data.max_seq_length": 64, "data.max_eval_samples": 64 if args.small else None}
        of_side = SimpleNamespace(
            model=str(args.model), data_dir=args.data / "glue", count=64 if args.small else 20_000, batch_size=32,
            mixed_precision="bf16", device=args.device, overrides=values,
        )  # fmt: skip
        finetuning_speed.bertkit(of_side, run)
        return {"accuracy": json.loads((run / "eval_results.json").read_text())["eval_accuracy"]}

    return {"bertkit": own}


def tokenizer_of(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def checkpoint(args: argparse.Namespace, size: str, work: Path) -> Path:
    """A stock BERT of a size that classifies, with random weights, and the tokenizer."""
    import transformers

    folder = work / size
    if not folder.exists():
        tokenizer = tokenizer_of(args.model)
        transformers.set_seed(42)
        config = transformers.BertConfig(vocab_size=len(tokenizer), **shape_of(size))
        transformers.BertForSequenceClassification(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def inference(args: argparse.Namespace, work: Path) -> dict[str, dict[str, Side]]:
    """The sides of predictions and of vectors for sentences of SST-2 by a BERT-base, all in half precision."""
    import torch
    import transformers

    import bertkit

    folder = str(checkpoint(args, "tiny" if args.small else "base", work))
    lines = (args.data / "glue" / "SST-2" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.rsplit("\t", 1)[0] for line in lines[: 32 if args.small else 8_192]]
    half = torch.float32 if args.small else torch.float16

    def timed(compute: Callable[[list[str]], Any]) -> Result:
        compute(texts[: len(texts) // 4])
        started = time.perf_counter()
        compute(texts)  # results are on the CPU, so that nothing is left to wait for
        return {"texts_a_second": len(texts) / (time.perf_counter() - started)}

    def own(verb: str) -> Result:
        bert = bertkit.load(folder, device="cpu" if args.small else "auto")
        network: Any = bert.predictor.model if verb == "predict" else bert.embedder.model
        if args.way == "joined" and not args.small:
            network.set_attn_implementation("joined")
        return timed(getattr(bert, verb))

    def pipeline() -> Result:
        classify = transformers.pipeline("text-classification", folder, device=args.device, dtype=half, batch_size=64)
        return timed(lambda given: classify(given, truncation=True))

    def sentence_transformer() -> Result:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(folder, device=args.device, model_kwargs={"dtype": half})
        return timed(lambda given: model.encode(given, batch_size=64))

    return {
        "predict": {"stock": pipeline, "bertkit": lambda: own("predict")},
        "embed": {"stock": sentence_transformer, "bertkit": lambda: own("embed")},
    }


def rows_of(args: argparse.Namespace, work: Path) -> Iterator[tuple[str, dict[str, Side]]]:
    """The rows of a way, the most telling first."""
    yield "pretrain.128", pretraining(args, 128)
    yield "sst2.6x384", finetuning(args, "6x384", work)
    if not args.small:  # they differ in sizes alone
        yield "sst2.base", finetuning(args, "base", work)
        yield "pretrain.512", pretraining(args, 512)
    yield "scores", scores(args, work)
    if args.way != "compiled":  # which is for trainings
        yield from inference(args, work).items()


def write(args: argparse.Namespace, name: str, side: str, result: Result) -> None:
    """Adds a round to the file."""
    facts = {**machine(), "commit": args.commit, "date": datetime.now(UTC).strftime("%Y-%m-%d")}
    results = json.loads(args.output.read_text()) if args.output.exists() else {"rows": {}}
    rounds = results["rows"].setdefault(name, {}).setdefault(f"{side}, {args.way}", [])
    rounds.append({key: float(f"{value:.4g}") for key, value in result.items()})
    args.output.write_text(json.dumps({"machine": facts, "rows": results["rows"]}, indent=1) + "\n")
    print(json.dumps({"row": name, "side": side, "way": args.way, **rounds[-1]}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--commit", help="of this code; by default that of the clone")
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    args.device = "cpu" if args.small else "cuda"
    args.overrides, args.compiler = {}, None
    if args.way == "joined":
        args.overrides = {"placement.attn_implementation": "joined"}
    if args.way == "compiled":
        args.compiler = "aot_eager" if args.small else "inductor"
        args.overrides = {"train.torch_compile": True, "train.torch_compile_backend": args.compiler}
    if args.commit is None:
        words = ["git", "describe", "--always", "--dirty=+"]
        args.commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    started, failed = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for name, sides in rows_of(args, Path(folder)):
            for number in range(args.rounds):
                for side in ("bertkit", "stock"):
                    if side not in sides or (side == "stock" and args.way == "joined"):
                        continue
                    if time.perf_counter() - started > args.seconds:
                        failed.append(f"{name}, {side}, round {number + 1}: no time")
                        continue
                    try:
                        write(args, name, side, sides[side]())
                    except (Exception, SystemExit) as error:  # the other rows are worth their time
                        traceback.print_exc()
                        failed.append(f"{name}, {side}: {error}")
    if failed:
        raise SystemExit("not measured:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
