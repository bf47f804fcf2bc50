"""Benefit of a pre-training: SST-2 from its checkpoint, and from new weights of the same shape and tokenizer.

    python benchmarks/pretraining_pays.py CHECKPOINT --data-dir GLUE_FOLDER [--seeds 42 43 44] [--learning-rate 1e-4]
                                          [--dropout 0.1] [--max-train-samples N]

Both sides are fine-tuned alike: one epoch, batch 32, a learning rate of the grid that Turc et al. (2019,
arXiv:1908.08962) tried on small BERTs, and BERT's dropout, also where the pre-training went without. Prints one JSON
line for each run, and one at the end: dev accuracy by seed, mean and standard deviation of each side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from bertkit import finetune
from bertkit.checkpoint.load import new_weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--num-train-epochs", type=float, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--max-train-samples", type=int, help="only the first so many labelled examples")
    options = parser.parse_args()
    scores: dict[str, list[float]] = {"pretrained": [], "from_scratch": []}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in options.seeds:
            scratch = new_weights(options.checkpoint, Path(temporary) / f"new-{seed}", seed)
            for side, model in (("pretrained", options.checkpoint), ("from_scratch", str(scratch))):
                run = finetune(
                    "finetune/glue/sst2",
                    model=model,
                    data_dir=options.data_dir,
                    output_dir=Path(temporary) / f"{side}-{seed}",
                    overrides={
                        "train.seed": seed,
                        "train.learning_rate": options.learning_rate,
                        "train.num_train_epochs": options.num_train_epochs,
                        "train.save_strategy": "no",
                        "model.hidden_dropout_prob": options.dropout,
                        "model.attention_probs_dropout_prob": options.dropout,
                        "data.max_train_samples": options.max_train_samples,
                    },
                )
                scores[side].append(round(run.metrics["eval_accuracy"], 4))
                print(json.dumps({"side": side, "seed": seed, "accuracy": scores[side][-1]}), flush=True)
    summary = {
        side: {
            "accuracy": dict(zip(map(str, options.seeds), values, strict=True)),
            "mean": round(statistics.mean(values), 4),
            "sd": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        }
        for side, values in scores.items()
    }
    settings = {
        "learning_rate": options.learning_rate,
        "num_train_epochs": options.num_train_epochs,
        "dropout": options.dropout,
        "max_train_samples": options.max_train_samples,
    }
    print(json.dumps({**settings, **summary}))


if __name__ == "__main__":
    main()
