"""The loss of pre-training, bertkit beside transformers' BertForPreTraining and Trainer, as it falls.

    python benchmarks/pretraining_curve.py --corpus BOOKS --tokenizer DIR [--size mini] [--length 128]
                                           [--precision bf16] [--batch-size 32] [--steps 300] [--every 25]
                                           [--learning-rate 5e-4] [--seeds 42]

Sizes, pairs and masks are those of `pretraining_speed`: the same rules, but other draws on each side, as are initial
weights and dropout. Both: a learning rate that decays linearly without warm-up, AdamW without weight decay. Each run
prints one JSON line: the losses, masked LM and next sentence together, each the mean of the steps since the one before.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from by_turns import machine
from pretraining_speed import PREDICTED, SIDES, SIZES
from transformers import TrainerCallback, TrainerState, trainer


def loss_log() -> dict[int, float]:
    """Has every Trainer of this process from here on note its losses, by the step."""
    losses: dict[int, float] = {}

    class Log(TrainerCallback):
        def on_log(self, args: Any, state: TrainerState, *_: Any, logs: Any = None, **__: Any) -> None:
            if "loss" in logs:
                losses[state.global_step] = round(float(logs["loss"]), 4)

    trainer.DEFAULT_CALLBACKS.append(Log)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--size", choices=SIZES, default="mini")
    parser.add_argument("--length", type=int, choices=PREDICTED, default=128)
    parser.add_argument("--precision", choices=["no", "bf16"], default="bf16")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    args = parser.parse_args()
    args.sizes, args.lengths, args.precisions = [args.size], [args.length], [args.precision]
    args.dropout, args.device = 0.1, "cpu"
    same = {"learning_rate": args.learning_rate, "warmup_steps": 0, "weight_decay": 0.0, "adam_epsilon": 1e-8}
    losses = loss_log()
    for seed in args.seeds:
        for side in SIDES if args.side == "both" else [args.side]:
            losses.clear()
            SIDES[side](args, **same, seed=seed, logging_steps=args.every)
            print(json.dumps({"side": side, "seed": seed, "losses": losses, **machine()}), flush=True)


if __name__ == "__main__":
    main()
