"""Loss of guessing by token frequency on a pre-training run's held-out text, beside the loss of the run.

    python benchmarks/unigram_entropy.py RUN_DIRECTORY

Two losses of a model that knows frequencies alone, in nats a token: ``held_out_unigram_entropy`` knows those of the
held-out text itself, which no model can; ``train_unigram_cross_entropy`` those of the text trained on. [MASK] hides
tokens evenly, so either is the masked LM loss such a model would have. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from bertkit import load_recipe
from bertkit.checkpoint.load import load_tokenizer
from bertkit.corpus.store.frequencies import token_counts, unigram_loss
from bertkit.tasks.pretraining import load_corpus
from bertkit.training.pretraining.pretrain import cache_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    recipe = load_recipe(run / "recipe.yaml")
    tokenizer = load_tokenizer(run)
    seed, objective = recipe.train["seed"], recipe.task.pair_objective
    corpus = load_corpus(recipe.data, tokenizer, seed, cache_folder(), pair_objective=objective)
    if corpus.validation is None or corpus.facts["streamed"]:
        raise SystemExit(f"{run}: a streamed corpus, or one without held-out documents, has nothing to count here")
    train, held_out = (
        token_counts(view, len(tokenizer), most=sys.maxsize) for view in (corpus.train, corpus.validation)
    )
    share = held_out[held_out > 0] / held_out.sum()
    results = json.loads((run / "all_results.json").read_text())
    print(
        json.dumps(
            {
                "held_out_tokens": int(held_out.sum()),
                "held_out_unigram_entropy": round(float(-(share * np.log(share)).sum()), 4),
                "train_unigram_cross_entropy": round(unigram_loss(train, held_out), 4),
                "most_frequent_token": round(float(held_out.max() / held_out.sum()), 4),
                **{key: value for key, value in results.items() if key.startswith("eval_") and "per_second" not in key},
            }
        )
    )


if __name__ == "__main__":
    main()
