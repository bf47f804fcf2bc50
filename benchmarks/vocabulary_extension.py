"""A checkpoint with the words of a technical text beside the same one without: pieces and loss per word.

    python benchmarks/vocabulary_extension.py --model CHECKPOINT --general TEXT [--head-steps 80] [--steps 40]
                                              [--add 2000] [--device cpu|cuda|auto]

The technical text is that of scikit-learn's docstrings, which every installation has. A checkpoint without a masked-LM
head, such as one of sentence-transformers, first gets one: ``--head-steps`` of pre-training on a general text, the same
for both sides. Then both are pre-trained on the technical text for ``--steps`` of equally many tokens. The loss is the
mean negative log-probability of a word in nats, all of its pieces masked, on the same words of this text, so that it
can be compared between vocabularies. The last line is the summary as JSON.
"""

from __future__ import annotations

import argparse
import ast
import json
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from by_turns import DEVICES, placement_of

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


def trained(model: Path | str, corpus: Path, steps: int, folder: Path, args: argparse.Namespace) -> Path:
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
        **placement_of(args.device),
    }
    bertkit.pretrain(model=str(model), corpus=[corpus], output_dir=folder, overrides=overrides)
    return folder


def loss_per_word(checkpoint: Path, words: list[Any]) -> float:
    """Mean negative log-probability of words by a checkpoint, in nats."""
    import numpy as np

    import bertkit
    from bertkit.choosing.wording import log_probabilities

    return round(float(-np.nanmean(log_probabilities(words, bertkit.load(checkpoint).mask_filler))), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--general", type=Path, required=True, help="text for a missing masked-LM head")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--head-steps", type=int, default=80)
    parser.add_argument("--add", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--device", choices=DEVICES, default="auto")
    args = parser.parse_args()

    import bertkit
    from bertkit.choosing.wording import draw_words

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        texts = [" ".join(text.split()) for text in docstrings("sklearn")]
        technical = place / "technical.jsonl"
        technical.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        words = draw_words([[text] for text in texts], WORDS, SEED)
        plain = trained(args.model, args.general, args.head_steps, place / "plain", args)
        extension = bertkit.extend_tokenizer(plain, [technical], place / "extended", add=args.add)
        summary: dict[str, Any] = {
            "added": len(extension.pieces),
            "tokens": args.steps * BATCH * LENGTH,
            "length": round(extension.effect.change, 4),
        }
        for side, start in (("plain", plain), ("extended", place / "extended")):
            usage = extension.before if side == "plain" else extension.after
            end = trained(start, technical, args.steps, place / f"{side}-trained", args)
            summary[side] = {
                "pieces_per_word": round(usage.pieces_per_word, 3),
                "loss_per_word": [loss_per_word(each, words) for each in (start, end)],
            }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
