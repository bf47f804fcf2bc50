"""A step of masked-LM pre-training, bertkit beside run_mlm's way: the same encoder, tokenizer, books and precision.

    python benchmarks/mlm_speed.py --corpus BOOKS [--recipes roberta-small modernbert-small albert-small]
                                   [--length 128] [--batch-size 16] [--accumulation 4] [--vocab-size 50265]
                                   [--precisions no bf16] [--steps 8] [--rounds 3]

transformers: the model of the recipe's configuration, ``DataCollatorForLanguageModeling`` and the defaults of
``TrainingArguments``, on texts that are tokenized and cut before the clock starts, in the two ways of the example
script ``run_mlm.py``: ``grouped`` joins all texts and cuts them into blocks without padding, ``padded`` takes a
paragraph as an input and pads it to the longest of its batch (``--line_by_line``). bertkit: the command, on a corpus
that it has tokenized before; drawing of masks is in its time. The share of masks is that of the recipe for all sides.

Seconds are the median of a run's steps, without the first three, in which memory is taken and kernels are made, and the
median of the rounds, in which the sides take turns; memory is the most that the process had resident. A step has
``--accumulation`` micro-batches on all sides, since such models are trained in large batches. Inputs differ in
length, so speeds are compared in tokens a second, without padding. The vocabulary has the size of RoBERTa's: the larger
it is, the larger is the share of the head in a step, and the gain. One JSON line for each recipe and precision.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from by_turns import by_turns, machine, measured, report, step_clock
from pretraining_data import book_files

WARM_UP = 3  # steps


def paragraphs(args: argparse.Namespace) -> list[str]:
    """Paragraphs of the books that bertkit reads too."""
    from bertkit.corpus.documents import DocumentForm
    from bertkit.corpus.sources import find_sources

    sources = find_sources(list(map(str, book_files(args.corpus)[:3])))
    return [paragraph.text for source in sources for paragraph in source.paragraphs(DocumentForm())]


def inputs_of(args: argparse.Namespace, tokenizer: Any, side: str, count: int) -> list[dict[str, list[int]]]:
    """Unmasked inputs of one of the two ways of run_mlm."""
    texts = paragraphs(args)
    if side == "padded":
        rows = [tokenizer(text, truncation=True, max_length=args.length)["input_ids"] for text in texts[:count]]
    else:
        ids = list(chain.from_iterable(tokenizer(texts)["input_ids"]))
        rows = [ids[start : start + args.length] for start in range(0, len(ids) - args.length, args.length)]
    while len(rows) < count:
        rows += rows[: count - len(rows)]
    return [{"input_ids": row} for row in rows[:count]]


def stock(args: argparse.Namespace, side: str) -> None:
    """Trains plain transformers in this process."""
    from datasets import Dataset
    from transformers import (
        AutoModelForMaskedLM,
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    from bertkit.tasks.registry import load_recipe
    from bertkit.training.pretraining.encoders import new_config

    [name], [precision] = args.recipes, args.precisions
    recipe = load_recipe(name)
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    set_seed(42)
    config = new_config({**recipe.model}, name, tokenizer)
    rows = inputs_of(args, tokenizer, side, args.steps * args.accumulation * args.batch_size)
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForMaskedLM.from_config(config),
            args=TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=args.accumulation,
                max_steps=args.steps,
                bf16=precision == "bf16",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=args.device == "cpu",
                logging_steps=args.steps,
            ),
            train_dataset=Dataset.from_list(rows),
            data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=recipe.data.mlm_probability),
        )
        trainer.train()


def bertkit(args: argparse.Namespace, side: str) -> None:
    """Trains as bertkit's command does, in this process."""
    import bertkit

    [name], [precision] = args.recipes, args.precisions
    overrides: dict[str, Any] = {
        "task.pair_objective": "none",
        "data.tokenizer": args.tokenizer,
        "data.max_seq_length": args.length,
        "data.validation_fraction": 0.0,
        "train.global_train_batch_size": args.batch_size * args.accumulation,
        "placement.per_device_train_batch_size": args.batch_size,
        "train.max_steps": args.steps,
        "train.save_strategy": "no",
        "train.logging_steps": args.steps,
        "train.report": False,
        "placement.mixed_precision": precision,
        "placement.device": args.device,
    }
    with tempfile.TemporaryDirectory() as folder:
        corpus = [str(file) for file in book_files(args.corpus)[:3]]
        bertkit.pretrain(name, corpus=corpus, output_dir=Path(folder) / "run", overrides=overrides)


SIDES = {"grouped": stock, "padded": stock, "bertkit": bertkit}


def train_tokenizer(args: argparse.Namespace, recipe: str, folder: Path) -> None:
    """Trains the tokenizer of a recipe on the books."""
    from bertkit.run.tokenizer import train_tokenizer_on
    from bertkit.tasks.registry import load_recipe

    kind = load_recipe(recipe).data.tokenizer_type
    train_tokenizer_on(book_files(args.corpus), args.vocab_size, folder, tokenizer_type=kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", type=Path, required=True)
    parser.add_argument("--recipes", nargs="+", default=["roberta-small", "modernbert-small", "albert-small"])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulation", type=int, default=4)
    parser.add_argument("--vocab-size", type=int, default=50265)
    parser.add_argument("--precisions", nargs="+", choices=["no", "bf16"], default=["no", "bf16"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=["cpu", "auto"], default="cpu")
    parser.add_argument("--tokenizer", help="of one side")
    parser.add_argument("--side", choices=SIDES, help="this side alone, in this process")
    args = parser.parse_args()
    if args.side is not None:
        steps = step_clock()
        SIDES[args.side](args, args.side)
        seconds = statistics.median(end - start for start, end in pairwise(steps.ends[WARM_UP - 1 :]))
        total, lengths = steps.timed(WARM_UP - 1)
        tokens = sum(lengths) / (len(steps.ends) - WARM_UP)
        report(seconds=seconds, tokens=tokens, tokens_a_second=sum(lengths) / total)
        return

    shared = ["--corpus", *map(str, args.corpus), "--length", str(args.length), "--batch-size", str(args.batch_size)]
    shared += ["--accumulation", str(args.accumulation), "--device", args.device]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HOME"] = home  # the corpus is tokenized once, before the clock starts
        for recipe in args.recipes:
            folder = Path(home) / f"tokenizer-{recipe}"
            train_tokenizer(args, recipe, folder)
            of_recipe = [__file__, *shared, "--recipes", recipe, "--tokenizer", str(folder)]
            measured([*of_recipe, "--side=bertkit", "--precisions=no", "--steps=5"])
            for precision in args.precisions:
                one = [*of_recipe, "--precisions", precision, "--steps", str(args.steps)]
                found = by_turns({side: [*one, "--side", side] for side in SIDES}, args.rounds)
                own = found["bertkit"]
                speeds = {side: each["tokens"] / each["seconds"] for side, each in found.items()}
                result = {
                    "recipe": recipe,
                    "length": args.length,
                    "precision": precision,
                    "batch_size": args.batch_size,
                    "accumulation": args.accumulation,
                    "vocab_size": args.vocab_size,
                    **{side: {name: round(value, 4) for name, value in each.items()} for side, each in found.items()},
                    **{f"times_{side}": round(speeds["bertkit"] / speeds[side], 2) for side in ("grouped", "padded")},
                    **{
                        f"memory_{side}": round(own["peak_mib"] / found[side]["peak_mib"], 2)
                        for side in ("grouped", "padded")
                    },
                    **machine(),
                }
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
