"""A training step on a CPU with a speed-up and without it, alternating in one process.

    python benchmarks/cpu_speed_ups.py [--steps 60] [--warm-up 10] [--seed 42]

The speed-ups are dropout from few random bits, and micro-batches of similar length. A step is forward pass, backward
pass, clipping of gradients and fused AdamW, on random tokens. Each step is timed twice on the same batch, with the
speed-up and without it, with two copies of the model; which comes first alternates. Freed memory is kept in both; the
second speed-up is timed with fast dropout. ``ratio`` is the median of the paired ratios, seconds with the speed-up
divided by seconds without it. One JSON line for each case; the last line is the machine.

Shapes: fine-tuning on sentences (6 × 384, 32 inputs of 8 to 32 tokens, one length for each batch); pre-training
(4 × 256, 32 inputs of 128 tokens, 20 masked); pre-training on short documents (4 × 256, four micro-batches of 8 inputs,
64 to 512 tokens padded to 512, 60 masked).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import NamedTuple

import torch
from by_turns import machine, shape_of
from torch import Tensor, nn

from bertkit import BertConfig, BertForPreTraining, BertForSequenceClassification
from bertkit.training.cpu import group_by_length, keep_freed_memory
from bertkit.training.cpu.dropout import fast_dropout

VOCAB_SIZE, BATCH_SIZE = 30522, 32
Batch = dict[str, Tensor]


def sentences(random: Random) -> list[Batch]:
    """A batch of fine-tuning: B inputs of one length, 8 to 32 tokens, and a class for each."""
    length = random.randint(8, 32)
    batch = {
        "input_ids": torch.randint(VOCAB_SIZE, (BATCH_SIZE, length)),
        "attention_mask": torch.ones(BATCH_SIZE, length, dtype=torch.int64),
        "labels": torch.randint(2, (BATCH_SIZE,)),
    }
    return [batch]


def pairs(random: Random) -> list[Batch]:
    """A batch of pre-training: B inputs of 128 tokens, P masked positions in each, and both objectives' labels."""
    return [_pairs(BATCH_SIZE, 128, 20, [128] * BATCH_SIZE)]


def short_documents(random: Random) -> list[Batch]:
    """Four micro-batches of pre-training, whose inputs have 64 to 512 tokens and are padded to 512."""
    return [_pairs(8, 512, 60, [random.randint(64, 512) for _ in range(8)]) for _ in range(4)]


def _pairs(size: int, length: int, predicted: int, lengths: list[int]) -> Batch:
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    return {
        "input_ids": torch.randint(VOCAB_SIZE, (size, length)) * mask,
        "attention_mask": mask.long(),
        "masked_positions": torch.rand(size, min(lengths)).argsort(dim=1)[:, :predicted],
        "labels": torch.randint(VOCAB_SIZE, (size, predicted)),
        "next_sentence_label": torch.randint(2, (size,)),
    }


class Case(NamedTuple):
    """Training that is timed: the speed-up, the model size, the head, the batches and the precision."""

    speed_up: str
    name: str
    size: str
    head: type[nn.Module]
    batches: Callable[[Random], list[Batch]]
    precision: str


CASES = (
    Case("dropout", "fine-tuning", "6x384", BertForSequenceClassification, sentences, "bf16"),
    Case("dropout", "pre-training", "mini", BertForPreTraining, pairs, "bf16"),
    Case("dropout", "pre-training", "mini", BertForPreTraining, pairs, "no"),
    Case("similar lengths", "pre-training on short documents", "mini", BertForPreTraining, short_documents, "bf16"),
)


def stepper(case: Case, is_fast: bool, contexts: ExitStack) -> Callable[[list[Batch]], float]:
    """Returns a function that makes a training step on micro-batches and returns its seconds.

    Args:
        case: what is trained.
        is_fast: with the speed-up.
        contexts: keeps the speed-ups of the model until the end of the measurement.
    """
    model = case.head(BertConfig(vocab_size=VOCAB_SIZE, **shape_of(case.size))).train()
    if is_fast or case.speed_up != "dropout":
        contexts.enter_context(fast_dropout(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def seconds(batches: list[Batch]) -> float:
        started = time.perf_counter()
        if is_fast and case.speed_up == "similar lengths":
            batches = group_by_length(batches)
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bf16"):
                loss = model(**batch).loss
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - started

    return seconds


def paired_steps(case: Case, steps: int, warm_up: int, seed: int) -> tuple[list[float], list[float]]:
    """Returns the seconds of each step with the speed-up and without it, in pairs; the first pairs are left out."""
    torch.manual_seed(seed)
    random = Random(seed)
    found: dict[bool, list[float]] = {True: [], False: []}
    with ExitStack() as contexts:
        step = {is_fast: stepper(case, is_fast, contexts) for is_fast in (True, False)}
        for number in range(warm_up + steps):
            batches = case.batches(random)
            for is_fast in (True, False) if number % 2 else (False, True):
                found[is_fast].append(step[is_fast](batches))
    return found[True][warm_up:], found[False][warm_up:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    keep_freed_memory()
    for case in CASES:
        fast, plain = paired_steps(case, args.steps, args.warm_up, args.seed)
        ratio = statistics.median(one / other for one, other in zip(fast, plain, strict=True))
        result = {"speed_up": case.speed_up, "case": case.name, "size": case.size, "precision": case.precision}
        result["ratio"] = round(ratio, 4)
        seconds = {"with": statistics.median(fast), "without": statistics.median(plain)}
        print(json.dumps({**result, **{name: round(value, 4) for name, value in seconds.items()}}))
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
