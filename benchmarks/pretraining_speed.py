"""A pre-training step, bertkit beside transformers' Trainer: the same books, encoder, batch and precision.

    python benchmarks/pretraining_speed.py pairs --corpus BOOKS --tokenizer DIR [--models tiny mini 6x384 base large]
                                                 [--lengths 128 512] [--precisions no bf16] [--batch-size 32]
                                                 [--steps 12] [--rounds 3]

``pairs`` is masked LM and next sentence: ``stock`` is transformers' BertForPreTraining, on pairs by the same rules that
are tokenized and cut before the clock starts, masked anew for each batch by ``DataCollatorForLanguageModeling``, with
the defaults of ``TrainingArguments``. bertkit: the command, on a corpus that it has tokenized before; drawing is in its
time.

Seconds are the median of a run's steps, without the first three, in which memory is taken and kernels are made, and the
median of the rounds, each side in a process of its own, by turns; memory is the most that the process had resident.
Tokens are counted without padding. ``rate`` is the share of the matrix products' rate that the machine shows on its own
in the same precision, by the products that bertkit's tokens need, with the head at the masked positions alone. One JSON
line for each model, length and precision.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import plain_pretraining_data as plain
from by_turns import (
    SIZES,
    by_turns,
    machine,
    measured,
    of_layers,
    placement_of,
    rate_alone,
    report,
    rounded,
    shape_of,
    step_clock,
)

SIDES = ("stock", "bertkit")
MODELS = ["tiny", "mini", "6x384"]
PREDICTED = {128: 20, 512: 77}
BOOKS, WARM_UP = 3, 3  # the first files of the corpus; steps


def book_files(corpus: list[Path]) -> list[Path]:
    """The first ``.txt`` files of those named, and of those of the folders named."""
    files = [file for path in corpus for file in (sorted(path.glob("*.txt")) if path.is_dir() else [path])]
    return files[:BOOKS]


def sentences_of(file: Path) -> list[str]:
    """The sentences of a book whose paragraphs are parted by blank lines, by bertkit's own rules."""
    from bertkit.data.corpus.sentences import split_sentences

    text = "\n".join(map(str.strip, file.read_text(encoding="utf-8-sig").split("\n")))
    paragraphs = (" ".join(paragraph.split("\n")).strip() for paragraph in text.split("\n\n"))
    return [sentence for paragraph in paragraphs if paragraph for sentence in split_sentences(paragraph)]


def pairs(args: argparse.Namespace, tokenizer: Any, count: int) -> list[dict[str, Any]]:
    """Inputs of pairs, unmasked, and ``next_sentence_label``."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True  # a "[MASK]" in the text is text
    documents = [
        [backend.encode(text, add_special_tokens=False).ids for text in sentences_of(file)]
        for file in book_files(args.corpus)
    ]
    random = Random(42)
    rows: list[dict[str, Any]] = []
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    while len(rows) < count:
        for number in range(len(documents)):
            for a, b, is_random_next in plain.pairs_of(documents, number, args.length, random):
                types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
                row = {"input_ids": [cls, *a, sep, *b, sep], "token_type_ids": types}
                rows.append({**row, "next_sentence_label": int(is_random_next)})
    random.shuffle(rows)
    return rows[:count]


def stock(args: argparse.Namespace) -> None:
    """Trains plain transformers in this process."""
    import transformers
    from datasets import Dataset

    tokenizer = transformers.AutoTokenizer.from_pretrained(args.tokenizer)
    transformers.set_seed(args.seed)
    rows = pairs(args, tokenizer, args.steps * args.batch_size)
    config = transformers.BertConfig(vocab_size=len(tokenizer), **shape_of(args.model))
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = transformers.Trainer(
            model=transformers.BertForPreTraining(config),
            args=transformers.TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=args.batch_size,
                max_steps=args.steps,
                bf16=args.precision == "bf16",
                logging_steps=args.steps,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=args.device == "cpu",
                torch_compile_backend=args.compiler,
                seed=args.seed,
            ),
            train_dataset=Dataset.from_list(rows),
            data_collator=transformers.DataCollatorForLanguageModeling(tokenizer),
        )
        trainer.train()


def bertkit(args: argparse.Namespace) -> None:
    """Trains as bertkit's command does, in this process."""
    import bertkit

    overrides: dict[str, Any] = {
        "data.tokenizer": args.tokenizer,
        "data.max_seq_length": args.length,
        "data.validation_fraction": 0.0,
        "train.global_train_batch_size": args.batch_size,
        "train.max_steps": args.steps,
        "train.save_strategy": "no",
        "train.logging_steps": args.steps,
        "train.report": False,
        "train.seed": args.seed,
        "placement.mixed_precision": args.precision,
        **placement_of(args.device),
        "data.phases": {args.length: 1.0},
        "model.hidden_dropout_prob": 0.1,
        "model.attention_probs_dropout_prob": 0.1,
        **{f"model.{name}": value for name, value in shape_of(args.model).items()},
        **args.overrides,
    }
    with tempfile.TemporaryDirectory() as folder:
        corpus = list(map(str, book_files(args.corpus)))
        bertkit.pretrain("bert-mini", corpus=corpus, output_dir=Path(folder) / "run", overrides=overrides)


def one_side(args: argparse.Namespace) -> None:
    """Trains a side in this process and reports its steps."""
    steps = step_clock()
    (bertkit if args.side == "bertkit" else stock)(args)
    seconds = statistics.median(end - start for start, end in pairwise(steps.ends[WARM_UP - 1 :]))
    _, lengths = steps.timed(WARM_UP - 1)
    count = len(steps.marks) - WARM_UP
    products = of_layers(*SIZES[args.model], lengths, 1 + PREDICTED[args.length]) / count
    report(seconds=seconds, tokens=sum(lengths) / count, products=products)


def compare(args: argparse.Namespace, of_model: list[str], vocab_size: int) -> dict[str, Any]:
    """Runs both sides by turns; returns their results and the ratios."""
    results = by_turns({side: [*of_model, "--side", side] for side in SIDES}, args.rounds)
    for each in results.values():
        each["tokens_a_second"] = each["tokens"] / each["seconds"]
    products = [each.pop("products") for each in results.values()][-1]
    own, other = results["bertkit"], results["stock"]
    width = SIZES[args.model][1]
    heads = 2 * args.batch_size * (PREDICTED[args.length] * (width**2 + width * vocab_size) + width**2)
    rate = rate_alone(args.precision, args.device, width, args.batch_size * args.length)
    ratios = {
        "times_stock": round(own["tokens_a_second"] / other["tokens_a_second"], 2),
        "memory_stock": round(own["peak_mib"] / other["peak_mib"], 2),
        "times_as_fast": round(other["seconds"] / own["seconds"], 2),
        "rate": round(3 * (products + heads) / own["seconds"] / rate, 3),  # the backward pass has two thirds of them
        "gflops_alone": round(rate / 1e9, 1),
    }
    return {**rounded(results, 4), **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pairs"])
    parser.add_argument("--corpus", nargs="+", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--models", nargs="+", choices=SIZES, default=MODELS)
    parser.add_argument("--lengths", nargs="+", type=int, choices=PREDICTED, default=[128])
    parser.add_argument("--precisions", nargs="+", choices=["no", "bf16"], default=["no", "bf16"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--side", help="this side alone, in this process")
    parser.set_defaults(device="cpu", compiler=None, overrides={})  # of `gpu.py`
    args = parser.parse_args()
    if args.side is not None:
        [args.model], [args.length], [args.precision] = args.models, args.lengths, args.precisions
        one_side(args)
        return

    from transformers import AutoTokenizer

    shared = [__file__, args.what, "--corpus", *map(str, args.corpus), "--tokenizer", args.tokenizer]
    shared += ["--batch-size", str(args.batch_size), "--seed", str(args.seed)]
    vocab_size = len(AutoTokenizer.from_pretrained(args.tokenizer))
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HOME"] = home  # the corpus is tokenized once, before the clock starts
        for model, length in product(args.models, args.lengths):
            of_model = [*shared, "--models", model, "--lengths", str(length)]
            measured([*of_model, "--side=bertkit", "--precisions=no", "--steps=5"])
            for precision in args.precisions:
                args.model, args.length, args.precision = model, length, precision
                one = [*of_model, "--precisions", precision, "--steps", str(args.steps)]
                case = {"model": model, "length": length, "precision": precision, "batch_size": args.batch_size}
                print(json.dumps({**case, **compare(args, one, vocab_size), **machine()}), flush=True)


if __name__ == "__main__":
    main()
