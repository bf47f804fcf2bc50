"""The vocabularies of both merge scores, side by side, on text that neither was trained on.

    python benchmarks/merge_scores.py --corpus BOOKS [--vocab-size 8000] [--held-out 2] [--min-frequency 50 10 2]

Of the files of the corpus, the last ones are held out; the tokenizers are trained on the others: by frequency, by
likelihood with the bound that falls, and by likelihood with each fixed bound given. Prints one JSON line. Of every
vocabulary: its pieces, the wall seconds of its training (reading included), pieces per held-out word (a word is what
BERT's pre-tokenizer parts: punctuation too), the share of those words that are one piece, the share that are [UNK], the
share of its pieces that the vocabulary by frequency has as well, and its five longest pieces.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib.metadata import version
from typing import Any

from bertkit.corpus.sources import Source, TextLines, find_sources
from bertkit.corpus.vocabulary.likelihood import count_words
from bertkit.corpus.vocabulary.tokenizer import MergeScore, train_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="PATH")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--held-out", type=int, default=2, help="files")
    parser.add_argument("--min-frequency", type=int, nargs="*", default=[])
    parser.add_argument("--cased", action="store_true")
    given = parser.parse_args()
    sources = find_sources(given.corpus)
    training, held_out = sources[: -given.held_out], sources[-given.held_out :]
    if not training or not held_out:
        parser.error(f"{len(sources)} files, of which {given.held_out} are held out: none is left on one side")
    words = count_words(TextLines(held_out), lowercase=not given.cased)
    train_tokenizer(["imports are not timed"], 100)
    forms: dict[str, tuple[MergeScore, int | None]] = {"frequency": ("frequency", None)}
    forms["likelihood"] = ("likelihood", None)
    forms |= {f"likelihood, at least {bound}": ("likelihood", bound) for bound in given.min_frequency}
    vocabularies = {name: measured(training, words, given, *form) for name, form in forms.items()}
    by_frequency = vocabularies["frequency"]["vocabulary"]
    for results in vocabularies.values():
        vocabulary = results.pop("vocabulary")
        results["shared_with_frequency"] = round(len(vocabulary & by_frequency) / len(vocabulary), 4)
    corpus = {
        "training_files": len(training),
        "held_out": [source.name.rsplit("/", 1)[-1] for source in held_out],
        "held_out_words": sum(words.values()),
        "vocab_size": given.vocab_size,
    }
    versions = {"python": platform.python_version(), "tokenizers": version("tokenizers")}
    print(json.dumps({**corpus, "vocabularies": vocabularies, **versions}, ensure_ascii=False))


def measured(
    training: list[Source],
    words: dict[str, int],
    given: argparse.Namespace,
    merge_score: MergeScore,
    min_frequency: int | None,
) -> dict[str, Any]:
    """One row: trained on ``training``, measured on ``words``, which were counted in the text held out."""
    started = time.perf_counter()
    tokenizer = train_tokenizer(
        TextLines(training),
        given.vocab_size,
        lowercase=not given.cased,
        merge_score=merge_score,
        min_frequency=min_frequency,
    )
    seconds = time.perf_counter() - started
    total = sum(words.values())
    pieces = whole = unknown = 0
    for word, count in words.items():
        cut = tokenizer.tokenize(word)
        pieces += count * len(cut)
        unknown += count * (cut == [tokenizer.unk_token])
        whole += count * (len(cut) == 1 and cut != [tokenizer.unk_token])
    vocabulary = set(tokenizer.get_vocab())
    return {
        "pieces": len(vocabulary),
        "seconds": round(seconds, 1),
        "pieces_per_word": round(pieces / total, 4),
        "words_of_one_piece": round(whole / total, 4),
        "unknown_words": round(unknown / total, 6),
        "longest": sorted(vocabulary, key=lambda piece: (-len(piece.removeprefix("##")), piece))[:5],
        "vocabulary": vocabulary,
    }


if __name__ == "__main__":
    main()
