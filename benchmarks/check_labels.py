"""Recall and precision of ``--check-labels`` on labels of SST-2 that were flipped on purpose.

    python benchmarks/check_labels.py --model MODEL --data-dir GLUE [--examples N] [--share 0.05] [--seed 0]

The published labels count as right, so an error in them that is found lowers the precision.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from bertkit.data.tables.table import same_texts
from bertkit.features.checks.label_rules import find_suspects, vectors_of
from bertkit.tasks.registry import load_recipe, task_of_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--examples", type=int, help="a random part of the training set; all by default")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    recipe = load_recipe("finetune/glue/sst2", {"data.data_dir": given.data_dir})
    _, splits = task_of_recipe(recipe).load(["train"])
    examples = splits["train"].examples
    rng = np.random.default_rng(given.seed)
    chosen = np.sort(rng.permutation(len(examples))[: given.examples])
    columns = (examples[name][:] for name in ("sentence", "labels"))
    texts, labels = ([column[row] for row in chosen] for column in columns)
    flipped = rng.choice(len(chosen), round(given.share * len(chosen)), replace=False)
    noisy = np.asarray(labels)
    noisy[flipped] = 1 - noisy[flipped]

    started = time.perf_counter()
    vectors = vectors_of(given.model, [texts], 128)
    suspects = [suspect.row for suspect in find_suspects(vectors, noisy, same_texts((text,) for text in texts))]
    found = len(set(suspects) & set(flipped.tolist()))
    best = suspects[: len(flipped)]
    sys.stdout.write(
        f"{len(chosen)} examples, {len(flipped)} flipped, {len(suspects)} suspected, {found} of them flipped: "
        f"recall {found / len(flipped):.3f}, precision {found / max(len(suspects), 1):.3f}; among the "
        f"{len(best)} most suspicious {len(set(best) & set(flipped.tolist())) / max(len(best), 1):.3f}; "
        f"{time.perf_counter() - started:.0f} s\n"
    )


if __name__ == "__main__":
    main()
