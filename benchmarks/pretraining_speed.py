"""A pre-training step, bertkit beside transformers' BertForPreTraining and Trainer: the same pairs, sizes and batch.

    python benchmarks/pretraining_speed.py --corpus BOOKS --tokenizer DIR [--sizes tiny mini 6x384 base]
                                           [--lengths 128 512] [--precisions no bf16] [--batch-size 32] [--steps 12]
                                           [--rounds 3] [--dropout 0.1]

Both train on pairs of the same books by the same rules, masked anew for each batch, with AdamW and a linear schedule.
transformers: ``DataCollatorForLanguageModeling`` and the defaults of ``TrainingArguments``, on pairs that are tokenized
and cut before the clock starts. bertkit: the command, on a corpus that it has tokenized before; drawing of pairs and
masks is in its time. Seconds are the median of a run's steps, without the first three, in which memory is taken and
kernels are made, and the median of the rounds; memory is the most that the process had resident. ``rate`` is the share
of the matrix products' rate that the machine shows on its own in the same precision, by the products that bertkit's
tokens need, with the head at the masked positions alone; tokens are counted without padding. One JSON line for each
size, length and precision.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import plain_pretraining_data as plain
from by_turns import by_turns, machine, measured, report, step_clock
from pretraining_data import book_files, one_by_one, sentences_of
from products import SIZES, device_of, of_layers, rate_alone, shape_of

PREDICTED = {128: 20, 512: 77}
WARM_UP = 3  # steps


def pairs(args: argparse.Namespace, tokenizer: Any, length: int, count: int) -> list[dict[str, Any]]:
    """Inputs of pairs, unmasked, and ``next_sentence_label``."""
    encode = one_by_one(tokenizer)
    documents = [[encode(text) for text in sentences_of(file)] for file in book_files(args.corpus)[:3]]
    rules, random = plain.Rules(max_seq_length=length), Random(42)
    found: list[dict[str, Any]] = []
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    while len(found) < count:
        for number in range(len(documents)):
            for a, b, is_random_next in plain.pairs_of(documents, number, rules, random):
                types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
                row = {"input_ids": [cls, *a, sep, *b, sep], "token_type_ids": types}
                found.append({**row, "next_sentence_label": int(is_random_next)})
    random.shuffle(found)
    return found[:count]


def stock(args: argparse.Namespace, **train: Any) -> None:
    """Trains plain transformers in this process; ``train`` are ``TrainingArguments``."""
    from datasets import Dataset
    from transformers import (
        AutoTokenizer,
        BertConfig,
        BertForPreTraining,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainingArguments,
    )

    [size], [length], [precision] = args.sizes, args.lengths, args.precisions
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    rows = pairs(args, tokenizer, length, args.steps * args.batch_size)
    config = BertConfig(
        vocab_size=len(tokenizer),
        **shape_of(size),
        hidden_dropout_prob=args.dropout,
        attention_probs_dropout_prob=args.dropout,
    )
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=BertForPreTraining(config),
            args=TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=args.batch_size,
                max_steps=args.steps,
                bf16=precision == "bf16",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=args.device == "cpu",
                **{"logging_steps": args.steps, **train},
            ),
            train_dataset=Dataset.from_list(rows),
            data_collator=DataCollatorForLanguageModeling(tokenizer),
        )
        trainer.train()


def bertkit(args: argparse.Namespace, **train: Any) -> None:
    """Trains as bertkit's command does, in this process; ``train`` is for the recipe's block."""
    import bertkit

    [size], [length], [precision] = args.sizes, args.lengths, args.precisions
    overrides: dict[str, Any] = {
        "data.tokenizer": args.tokenizer,
        "data.phases": {length: 1.0},
        "data.max_seq_length": length,
        "data.validation_fraction": 0.0,
        **{f"model.{name}": value for name, value in shape_of(size).items()},
        "model.hidden_dropout_prob": args.dropout,
        "model.attention_probs_dropout_prob": args.dropout,
        "train.global_train_batch_size": args.batch_size,
        "train.max_steps": args.steps,
        "train.save_strategy": "no",
        "train.logging_steps": args.steps,
        "placement.mixed_precision": precision,
        "placement.device": args.device,
        **{f"train.{name}": value for name, value in train.items()},
    }
    with tempfile.TemporaryDirectory() as folder:
        corpus = [str(file) for file in book_files(args.corpus)[:3]]
        bertkit.pretrain("bert-mini", corpus=corpus, output_dir=Path(folder) / "run", overrides=overrides)


SIDES: dict[str, Callable[..., None]] = {"stock": stock, "bertkit": bertkit}


def of_heads(width: int, vocab_size: int, batch: int, length: int) -> float:
    """Multiplications and additions of the heads, forward: tokens at the masked positions, and pairs."""
    masked = batch * PREDICTED[length]
    return 2 * masked * (width**2 + width * vocab_size) + 2 * batch * width**2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["tiny", "mini", "6x384"])
    parser.add_argument("--lengths", nargs="+", type=int, choices=PREDICTED, default=[128, 512])
    parser.add_argument("--precisions", nargs="+", choices=["no", "bf16"], default=["no", "bf16"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--device", choices=["cpu", "auto"], default="cpu")
    parser.add_argument("--side", choices=SIDES, help="this side alone, in this process")
    args = parser.parse_args()
    if args.side is not None:
        steps = step_clock()
        SIDES[args.side](args)
        seconds = statistics.median(end - start for start, end in pairwise(steps.ends[WARM_UP - 1 :]))
        _, lengths = steps.timed(WARM_UP - 1)
        timed, [size] = len(steps.ends) - WARM_UP, args.sizes
        report(seconds=seconds, tokens=sum(lengths) / timed, products=of_layers(*SIZES[size], lengths) / timed)
        return

    from transformers import AutoTokenizer

    device = device_of(args.device)
    vocab_size = len(AutoTokenizer.from_pretrained(args.tokenizer))
    shared = ["--corpus", *map(str, args.corpus), "--tokenizer", args.tokenizer, "--batch-size", str(args.batch_size)]
    shared += ["--dropout", str(args.dropout), "--device", args.device]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HOME"] = home  # the corpus is tokenized once, before the clock starts
        for length in args.lengths:
            measured(
                [
                    __file__,
                    *shared,
                    "--side=bertkit",
                    "--sizes=tiny",
                    f"--lengths={length}",
                    "--precisions=no",
                    "--steps=5",
                ]
            )
            for size in args.sizes:
                for precision in args.precisions:
                    one = [__file__, *shared, "--steps", str(args.steps), "--sizes", size, "--lengths", str(length)]
                    one += ["--precisions", precision]
                    sides = {side: [*one, "--side", side] for side in SIDES}
                    found = by_turns(sides, args.rounds)
                    width = SIZES[size][1]
                    # The backward pass has twice the products of the forward pass.
                    needed = 3 * (
                        found["bertkit"].pop("products") + of_heads(width, vocab_size, args.batch_size, length)
                    )
                    del found["stock"]["products"]
                    rate = rate_alone(precision, device, width, args.batch_size * length)
                    result = {
                        "size": size,
                        "length": length,
                        "precision": precision,
                        "batch_size": args.batch_size,
                        "dropout": args.dropout,
                        **{
                            side: {name: round(value, 4) for name, value in each.items()}
                            for side, each in found.items()
                        },
                        **{
                            f"tokens_a_second_{side}": round(each["tokens"] / each["seconds"])
                            for side, each in found.items()
                        },
                        "times_as_fast": round(found["stock"]["seconds"] / found["bertkit"]["seconds"], 2),
                        "memory": round(found["bertkit"]["peak_mib"] / found["stock"]["peak_mib"], 2),
                        "rate": round(needed / found["bertkit"]["seconds"] / rate, 3),
                        "gflops_alone": round(rate / 1e9, 1),
                        **machine(),
                    }
                    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
