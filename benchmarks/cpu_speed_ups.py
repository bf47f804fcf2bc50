"""A training step on a CPU with a speed-up and without it, by turns in one process: dropout from few random bits.

    python benchmarks/cpu_speed_ups.py [--steps 60] [--warm-up 10] [--seed 42]

A step is forward pass, backward pass, clipping of gradients and fused AdamW, on random tokens without padding. Each
step is timed twice on the same batch, with torch's dropout and with bertkit's; which comes first alternates. Freed
memory is kept in both. ``ratio`` is the median of the paired ratios, seconds with the speed-up divided by seconds
without it. The shapes are those of fine-tuning on sentences (6 × 384, 32 inputs of 8 to 32 tokens, one length for each
batch) and of pre-training (4 × 256, 32 inputs of 128 tokens, 20 masked). One JSON line for each; the last line is the
machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import NamedTuple

import torch
from by_turns import machine
from products import shape_of
from torch import Tensor, nn

from bertkit import BertConfig, BertForPreTraining, BertForSequenceClassification
from bertkit.training.cpu.dropout import fast_dropout
from bertkit.training.cpu.malloc import keep_freed_memory

VOCAB_SIZE, BATCH_SIZE, PREDICTED = 30522, 32, 20
Batch = dict[str, Tensor]


def sentences(random: Random) -> Batch:
    """A batch of fine-tuning: B inputs of one length, 8 to 32 tokens, and a class for each."""
    length = random.randint(8, 32)
    return {
        "input_ids": torch.randint(VOCAB_SIZE, (BATCH_SIZE, length)),
        "attention_mask": torch.ones(BATCH_SIZE, length, dtype=torch.int64),
        "labels": torch.randint(2, (BATCH_SIZE,)),
    }


def pairs(random: Random) -> Batch:
    """A batch of pre-training: B inputs of 128 tokens, P masked positions in each, and both objectives' labels."""
    return {
        "input_ids": torch.randint(VOCAB_SIZE, (BATCH_SIZE, 128)),
        "attention_mask": torch.ones(BATCH_SIZE, 128, dtype=torch.int64),
        "masked_positions": torch.rand(BATCH_SIZE, 128).argsort(dim=1)[:, :PREDICTED],
        "labels": torch.randint(VOCAB_SIZE, (BATCH_SIZE, PREDICTED)),
        "next_sentence_label": torch.randint(2, (BATCH_SIZE,)),
    }


class Case(NamedTuple):
    """What is trained, and how."""

    name: str
    size: str
    head: type[nn.Module]
    batch: Callable[[Random], Batch]
    precision: str


CASES = (
    Case("fine-tuning", "6x384", BertForSequenceClassification, sentences, "bf16"),
    Case("pre-training", "mini", BertForPreTraining, pairs, "bf16"),
    Case("pre-training", "mini", BertForPreTraining, pairs, "no"),
)


def paired_steps(case: Case, steps: int, warm_up: int, seed: int) -> tuple[list[float], list[float]]:
    """Returns the seconds of each step with the speed-up and without it, in pairs; the first pairs are left out."""
    torch.manual_seed(seed)
    random = Random(seed)
    model = case.head(BertConfig(vocab_size=VOCAB_SIZE, **shape_of(case.size))).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def seconds(batch: Batch, is_fast: bool) -> float:
        with fast_dropout(model) if is_fast else nullcontext():
            started = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bf16"):
                loss = model(**batch).loss
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return time.perf_counter() - started

    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(warm_up + steps):
        batch = case.batch(random)
        for is_fast in (True, False) if number % 2 else (False, True):
            found[is_fast].append(seconds(batch, is_fast))
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
        result = {"case": case.name, "size": case.size, "precision": case.precision, "ratio": round(ratio, 4)}
        seconds = {"with": statistics.median(fast), "without": statistics.median(plain)}
        print(json.dumps({**result, **{name: round(value, 4) for name, value in seconds.items()}}))
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
