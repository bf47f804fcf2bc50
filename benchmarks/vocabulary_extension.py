"""A checkpoint with the words of a technical text beside the same one without: pieces and loss per word.

    python benchmarks/vocabulary_extension.py --model CHECKPOINT --general TEXT [--head-steps 80] [--steps 40]
                                              [--add 2000] [--seeds 42 43 44] [--device cpu|cuda|auto]

The technical text is that of scikit-learn's docstrings, which every installation has. A checkpoint without a masked-LM
head, such as one of sentence-transformers, first gets one: ``--head-steps`` of pre-training on a general text, the same
for both sides. Then both are pre-trained on the technical text for ``--steps`` of equally many tokens. The loss is the
mean negative log-probability of a word in nats, all of its pieces masked, on the same words of this text, so that it
can be compared between vocabularies. Each seed is that of all its trainings; the words stay the same. The result of a
seed is a JSON line on stderr, and the last line is the summary: means and ranges over the seeds.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from by_turns import DEVICES, note_round, placement_of

BATCH, LENGTH, WORDS, SEED = 16, 64, 500, 7
_SHORTEST = 200  # characters


def docstrings(package: str) -> Iterator[str]:
    """Yields the docstrings of an installed package, without code."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    for file in sorted(Path(spec.origin).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) >= _SHORTEST:
                    yield text


def trained(model: Path | str, corpus: Path, steps: int, folder: Path, seed: int, args: argparse.Namespace) -> Path:
    """Continues the pre-training of a checkpoint without sentence pairs; returns the new checkpoint."""
    import bertkit

    if steps == 0:
        return Path(model)
    overrides = {
        "task.pair_objective": "none",
        "data.max_seq_length": LENGTH,
        "data.validation_fraction": 0.0,
        "train.max_steps": steps,
        "train.global_train_batch_size": BATCH,
        "train.learning_rate": args.learning_rate,
        "train.save_strategy": "no",
        "train.report": False,
        "train.seed": seed,
        **placement_of(args.device),
    }
    bertkit.pretrain(model=str(model), corpus=[corpus], output_dir=folder, overrides=overrides)
    return folder


def loss_per_word(checkpoint: Path, words: list[Any]) -> float:
    """Mean negative log-probability of words by a checkpoint, in nats."""
    import numpy as np

    import bertkit
    from bertkit.features.choosing.wording import log_probabilities

    return round(float(-np.nanmean(log_probabilities(words, bertkit.load(checkpoint).mask_filler))), 3)


def of_seed(seed: int, technical: Path, words: list[Any], args: argparse.Namespace) -> dict[str, Any]:
    """Pieces per word of both sides, and their losses per word before and after the training on the technical text."""
    import bertkit

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        plain = trained(args.model, args.general, args.head_steps, place / "plain", seed, args)
        extension = bertkit.extend_tokenizer(plain, [technical], place / "extended", add=args.add)
        result: dict[str, Any] = {"added": len(extension.pieces), "length": round(extension.effect.change, 4)}
        for side, start in (("plain", plain), ("extended", place / "extended")):
            usage = extension.before if side == "plain" else extension.after
            end = trained(start, technical, args.steps, place / f"{side}-trained", seed, args)
            result[side] = {
                "pieces_per_word": round(usage.pieces_per_word, 3),
                "loss_per_word": [loss_per_word(each, words) for each in (start, end)],
            }
    return result


def summary_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of the first seed, with means and ranges of the losses of all."""
    summary = results[0]
    for side in ("plain", "extended"):
        losses = list(zip(*(each[side]["loss_per_word"] for each in results), strict=True))
        summary[side]["loss_per_word"] = [round(statistics.mean(each), 2) for each in losses]
        summary[side]["ranges"] = [[round(min(each), 2), round(max(each), 2)] for each in losses]
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--general", type=Path, required=True, help="text for a missing masked-LM head")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--head-steps", type=int, default=80)
    parser.add_argument("--add", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--device", choices=DEVICES, default="auto")
    args = parser.parse_args()

    from bertkit.features.choosing.wording import draw_words

    texts = [" ".join(text.split()) for text in docstrings("sklearn")]
    words = draw_words([[text] for text in texts], WORDS, SEED)
    with tempfile.TemporaryDirectory() as folder:
        technical = Path(folder) / "technical.jsonl"
        technical.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        results = []
        for number, seed in enumerate(args.seeds):
            results.append(of_seed(seed, technical, words, args))
            note_round(number + 1, f"seed {seed}", results[-1])
    print(json.dumps({**summary_of(results), "seeds": args.seeds, "tokens": args.steps * BATCH * LENGTH}))


if __name__ == "__main__":
    main()
