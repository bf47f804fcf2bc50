"""A pre-training step, bertkit beside transformers' Trainer: the same books, encoder, batch and precision.

    python benchmarks/pretraining_speed.py pairs --corpus BOOKS --tokenizer DIR [--models tiny mini 6x384 base large]
                                                 [--lengths 128 512] [--precisions no bf16] [--batch-size 32]
    python benchmarks/pretraining_speed.py mlm --corpus BOOKS [--models roberta-small modernbert-small albert-small]
                                               [--accumulation 4] [--vocab-size 50265]
    both: [--steps 12] [--rounds 3] [--device cpu|cuda|auto]; `pairs` also [--losses 25 --learning-rate 5e-4]

``pairs`` is BERT, masked LM and next sentence: ``stock`` is transformers' BertForPreTraining, on pairs by the same
rules that are tokenized and cut before the clock starts. ``mlm`` is masked LM with the model of a recipe and a
tokenizer trained on the books; transformers gets the texts in the two ways of the example script ``run_mlm.py``:
``grouped`` joins all texts and cuts them into blocks without padding, ``padded`` takes a paragraph as an input and pads
it to the longest of its batch. Both mask anew for each batch, by ``DataCollatorForLanguageModeling``, with the defaults
of ``TrainingArguments``. bertkit: the command, on a corpus that it has tokenized before; drawing is in its time.

Seconds are the median of a run's steps, without the first three, in which memory is taken and kernels are made, and the
median of the rounds, each side in a process of its own, by turns; memory is the most that the process had resident.
Tokens are counted without padding. ``rate``, of pairs, is the share of the matrix products' rate that the machine shows
on its own in the same precision, by the products that bertkit's tokens need, with the head at the masked positions
alone. With ``--losses N`` the runs are long ones, with a learning rate that decays without warm-up and no weight decay,
and each side gives the mean of its losses since N steps before. One JSON line for each model, length and precision.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import Any

import plain_pretraining_data as plain
from by_turns import (
    DEVICES,
    SIZES,
    by_turns,
    device_of,
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
from pretraining_data import book_files, one_by_one, sentences_of

SIDES = {"pairs": ("stock", "bertkit"), "mlm": ("grouped", "padded", "bertkit")}
MODELS = {"pairs": ["tiny", "mini", "6x384"], "mlm": ["roberta-small", "modernbert-small", "albert-small"]}
PREDICTED = {128: 20, 512: 77}
BOOKS, WARM_UP = 3, 3  # the first files of the corpus; steps


def pairs(args: argparse.Namespace, tokenizer: Any, count: int) -> list[dict[str, Any]]:
    """Inputs of pairs, unmasked, and ``next_sentence_label``."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    encode = one_by_one(tokenizer)
    documents = [[encode(text) for text in sentences_of(file)] for file in book_files(args.corpus)[:BOOKS]]
    rules, random = plain.Rules(max_seq_length=args.length), Random(42)
    rows: list[dict[str, Any]] = []
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    while len(rows) < count:
        for number in range(len(documents)):
            for a, b, is_random_next in plain.pairs_of(documents, number, rules, random):
                types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
                row = {"input_ids": [cls, *a, sep, *b, sep], "token_type_ids": types}
                rows.append({**row, "next_sentence_label": int(is_random_next)})
    random.shuffle(rows)
    return rows[:count]


def blocks(args: argparse.Namespace, tokenizer: Any, count: int) -> list[dict[str, Any]]:
    """Unmasked inputs of one of the two ways of run_mlm, from the paragraphs that bertkit reads too."""
    from bertkit.data.corpus.documents import DocumentForm
    from bertkit.data.corpus.sources import find_sources

    sources = find_sources(list(map(str, book_files(args.corpus)[:BOOKS])))
    texts = [paragraph.text for source in sources for paragraph in source.paragraphs(DocumentForm())]
    if args.side == "padded":
        rows = [tokenizer(text, truncation=True, max_length=args.length)["input_ids"] for text in texts[:count]]
    else:
        ids = list(chain.from_iterable(tokenizer(texts)["input_ids"]))
        rows = [ids[start : start + args.length] for start in range(0, len(ids) - args.length, args.length)]
    while len(rows) < count:
        rows += rows[: count - len(rows)]
    return [{"input_ids": row} for row in rows[:count]]


def stock(args: argparse.Namespace) -> None:
    """Trains plain transformers in this process."""
    import transformers
    from datasets import Dataset

    tokenizer = transformers.AutoTokenizer.from_pretrained(args.tokenizer)
    transformers.set_seed(args.seed)
    count = args.steps * args.accumulation * args.batch_size
    share = 0.15
    if args.what == "pairs":
        rows = pairs(args, tokenizer, count)
        config = transformers.BertConfig(vocab_size=len(tokenizer), **shape_of(args.model))
        model: Any = transformers.BertForPreTraining(config)
    else:
        from bertkit.tasks.registry import load_recipe
        from bertkit.training.pretraining.encoders import new_config

        recipe = load_recipe(args.model)
        rows, share = blocks(args, tokenizer, count), recipe.data.mlm_probability
        model = transformers.AutoModelForMaskedLM.from_config(new_config({**recipe.model}, args.model, tokenizer))
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=args.accumulation,
                max_steps=args.steps,
                bf16=args.precision == "bf16",
                logging_steps=args.losses or args.steps,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=args.device == "cpu",
                seed=args.seed,
                **long_run(args),
            ),
            train_dataset=Dataset.from_list(rows),
            data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=share),
        )
        trainer.train()


def long_run(args: argparse.Namespace) -> dict[str, float]:
    """What both sides are given if losses are compared."""
    same = {"learning_rate": args.learning_rate, "warmup_steps": 0, "weight_decay": 0.0, "adam_epsilon": 1e-8}
    return same if args.losses else {}


def bertkit(args: argparse.Namespace) -> None:
    """Trains as bertkit's command does, in this process."""
    import bertkit

    overrides: dict[str, Any] = {
        "data.tokenizer": args.tokenizer,
        "data.max_seq_length": args.length,
        "data.validation_fraction": 0.0,
        "train.global_train_batch_size": args.batch_size * args.accumulation,
        "train.max_steps": args.steps,
        "train.save_strategy": "no",
        "train.logging_steps": args.losses or args.steps,
        "train.report": False,
        "train.seed": args.seed,
        "placement.mixed_precision": args.precision,
        **placement_of(args.device),
        **{f"train.{name}": value for name, value in long_run(args).items()},
    }
    if args.what == "pairs":
        overrides |= {"data.phases": {args.length: 1.0}, "model.hidden_dropout_prob": 0.1}
        overrides |= {f"model.{name}": value for name, value in shape_of(args.model).items()}
        overrides["model.attention_probs_dropout_prob"] = 0.1
    else:
        overrides["task.pair_objective"] = "none"
        overrides["placement.per_device_train_batch_size"] = args.batch_size
    with tempfile.TemporaryDirectory() as folder:
        corpus = [str(file) for file in book_files(args.corpus)[:BOOKS]]
        recipe = "bert-mini" if args.what == "pairs" else args.model
        bertkit.pretrain(recipe, corpus=corpus, output_dir=Path(folder) / "run", overrides=overrides)


def one_side(args: argparse.Namespace) -> None:
    """Trains a side in this process and reports its steps."""
    steps = step_clock()
    (bertkit if args.side == "bertkit" else stock)(args)
    if args.losses:
        print(json.dumps(steps.losses))
        return
    seconds = statistics.median(end - start for start, end in pairwise(steps.ends[WARM_UP - 1 :]))
    _, lengths = steps.timed(WARM_UP - 1)
    count = len(steps.marks) - WARM_UP
    products = of_layers(*SIZES.get(args.model, (0, 0)), lengths, 1 + PREDICTED[args.length]) / count
    report(seconds=seconds, tokens=sum(lengths) / count, products=products)


def compare(args: argparse.Namespace, of_model: list[str], vocab_size: int) -> dict[str, Any]:
    """Runs all sides by turns; returns their results and the ratios."""
    sides = {side: [*of_model, "--side", side] for side in SIDES[args.what]}
    if args.losses:
        return {"losses": {side: measured(arguments) for side, arguments in sides.items()}}
    results = by_turns(sides, args.rounds)
    for each in results.values():
        each["tokens_a_second"] = each["tokens"] / each["seconds"]
    products = [each.pop("products") for each in results.values()][-1]
    own = results["bertkit"]
    ratios: dict[str, Any] = {}
    for side in SIDES[args.what][:-1]:
        ratios[f"times_{side}"] = round(own["tokens_a_second"] / results[side]["tokens_a_second"], 2)
        ratios[f"memory_{side}"] = round(own["peak_mib"] / results[side]["peak_mib"], 2)
    if args.what == "pairs":
        width = SIZES[args.model][1]
        masked = args.accumulation * args.batch_size * PREDICTED[args.length]
        heads = 2 * masked * (width**2 + width * vocab_size) + 2 * args.accumulation * args.batch_size * width**2
        rate = rate_alone(args.precision, device_of(args.device), width, args.batch_size * args.length)
        # The backward pass has twice the products of the forward pass.
        ratios["times_as_fast"] = round(results["stock"]["seconds"] / own["seconds"], 2)
        ratios["rate"] = round(3 * (products + heads) / own["seconds"] / rate, 3)
        ratios["gflops_alone"] = round(rate / 1e9, 1)
    return {**rounded(results, 4), **ratios}


def train_tokenizer(args: argparse.Namespace, recipe: str, folder: Path) -> str:
    """Trains the tokenizer of a recipe on the books; returns its folder."""
    from bertkit.tasks.registry import load_recipe
    from bertkit.training.runs.corpus import train_tokenizer_on

    kind = load_recipe(recipe).data.tokenizer_type
    train_tokenizer_on(book_files(args.corpus), args.vocab_size, folder, tokenizer_type=kind)
    return str(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SIDES)
    parser.add_argument("--corpus", nargs="+", type=Path, required=True)
    parser.add_argument("--tokenizer", help="of pairs")
    parser.add_argument("--models", nargs="+", help="sizes; of mlm, recipes")
    parser.add_argument("--lengths", nargs="+", type=int, choices=PREDICTED, default=[128])
    parser.add_argument("--precisions", nargs="+", choices=["no", "bf16"], default=["no", "bf16"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches of all sides in a step")
    parser.add_argument("--vocab-size", type=int, default=50265, help="of mlm; the default is RoBERTa's")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--losses", type=int, help="compare losses, the mean of so many steps")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="of --losses")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--side", help="this side alone, in this process")
    args = parser.parse_args()
    if args.what == "pairs" and args.tokenizer is None:
        parser.error("pairs needs --tokenizer")
    if args.side is not None:
        [args.model], [args.length], [args.precision] = args.models, args.lengths, args.precisions
        one_side(args)
        return

    from transformers import AutoTokenizer

    names = ("batch_size", "accumulation", "learning_rate", "seed", "device")
    shared = [__file__, args.what, "--corpus", *map(str, args.corpus)]
    shared += [part for name in names for part in (f"--{name.replace('_', '-')}", str(getattr(args, name)))]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HOME"] = home  # the corpus is tokenized once, before the clock starts
        for model in args.models or MODELS[args.what]:
            tokenizer = args.tokenizer or train_tokenizer(args, model, Path(home) / f"tokenizer-{model}")
            vocab_size = len(AutoTokenizer.from_pretrained(tokenizer))
            for length in args.lengths:
                of_model = [*shared, "--tokenizer", tokenizer, "--models", model, "--lengths", str(length)]
                measured([*of_model, "--side=bertkit", "--precisions=no", "--steps=5"])
                for precision in args.precisions:
                    args.model, args.length, args.precision = model, length, precision
                    one = [*of_model, "--precisions", precision, "--steps", str(args.steps)]
                    one += ["--losses", str(args.losses)] if args.losses else []
                    case = {name: getattr(args, name) for name in ("model", "length", "precision", *names[:2])}
                    print(json.dumps({**case, **compare(args, one, vocab_size), **machine()}), flush=True)


if __name__ == "__main__":
    main()
