"""Seconds to prepare books and draw epochs of pre-training examples, bertkit beside plain Python of the same rules.

    python benchmarks/pretraining_data.py --corpus BOOKS [--epochs 10] [--seed 42] [--tokenizer DIR] [--num-workers 1]

bertkit: from the books as they are, with an empty cache: sentences, tokens, the store, then every example of the
epochs as tensors, in batches of ``--batch-size`` (32; the recipes of pre-training have 256). The rules in plain Python
(`plain_pretraining_data.py`): from the same sentences already split and in one file, as many passes; each cuts pairs,
masks them, shuffles and pads to lists. ``tokenized_once`` counts tokens by the tokenizers library before the first pass
only, as the released script's ``dupe_factor`` has it, ``in_every_pass`` in all. So splitting, batching and tensors are
counted on bertkit's side only. Each side runs in one process of its own and in one thread, unless ``--num-workers``
(bertkit's, to prepare the books), TOKENIZERS_PARALLELISM or OMP_NUM_THREADS say otherwise. CPU seconds are those of the
process and its children. Without ``--tokenizer`` a vocabulary of 8,000 pieces is learned from the books first, untimed.
Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import plain_pretraining_data as plain
from by_turns import peak_mib

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 8000
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
RULES = plain.Rules()

Timed = tuple[dict[str, dict[str, float]], int, int]
"""Wall and CPU seconds of the parts of a side, the examples that it drew, the tokens of the corpus."""


def book_files(corpus: list[Path]) -> list[Path]:
    """The ``.txt`` files named, and those of the folders named."""
    return [file for path in corpus for file in (sorted(path.glob("*.txt")) if path.is_dir() else [path])]


def sentences_of(file: Path) -> list[str]:
    """The sentences of a book whose paragraphs are parted by blank lines, by bertkit's own rules."""
    from bertkit.data.corpus.sentences import split_sentences

    text = "\n".join(map(str.strip, file.read_text(encoding="utf-8-sig").split("\n")))
    paragraphs = (" ".join(paragraph.split("\n")).strip() for paragraph in text.split("\n\n"))
    return [sentence for paragraph in paragraphs if paragraph for sentence in split_sentences(paragraph)]


def tokenizer_for(files: list[Path], folder: Path | None) -> PreTrainedTokenizerFast:
    """The tokenizer in ``folder``, or an uncased one learned from the books."""
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer
    from bertkit.model.checkpoint.load import load_tokenizer

    if folder is not None:
        return load_tokenizer(folder, for_pretraining=True)
    lines = [line for file in files for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    return train_tokenizer(lines, VOCAB_SIZE)


def one_by_one(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], list[int]]:
    """One sentence → ids, without the layers of transformers around the library that does the work."""
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True  # a "[MASK]" in the text is text
    return lambda sentence: backend.encode(sentence, add_special_tokens=False).ids


@contextmanager
def timed(parts: dict[str, dict[str, float]], part: str) -> Iterator[None]:
    """Adds the seconds of a block, and those of the CPUs, to a part."""
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    yield
    sums = parts.setdefault(part, {"seconds": 0.0, "cpu_seconds": 0.0})
    sums["seconds"] += time.perf_counter() - wall
    sums["cpu_seconds"] += sum(os.times()[:4]) - cpu


def time_bertkit(files: list[Path], tokenizer: PreTrainedTokenizerFast, args: argparse.Namespace) -> Timed:
    """bertkit's side."""
    from bertkit.data.corpus.examples.dataset import PretrainingExamples, collate
    from bertkit.data.corpus.settings import PretrainingData
    from bertkit.data.corpus.vocabulary.structure import Vocabulary
    from bertkit.tasks.pretraining import DataSettings, load_corpus

    parts: dict[str, dict[str, float]] = {}
    settings, vocabulary = PretrainingData(seed=args.seed), Vocabulary.of(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        with timed(parts, "prepare"):
            data = DataSettings(corpus=[str(file) for file in files], validation_fraction=0.0)
            view = load_corpus(data, tokenizer, 0, Path(folder), num_workers=args.num_workers).train
        # Only to know where the last epoch ends: a run plans its epochs itself, in the time that is taken.
        total = sum(
            len(PretrainingExamples(view, vocabulary, settings, None, fixed_epoch=epoch))
            for epoch in range(args.epochs)
        )
        with timed(parts, "draw"):
            examples = PretrainingExamples(view, vocabulary, settings, total)
            for start in range(0, total, args.batch_size):
                collate(examples.__getitems__(range(start, min(start + args.batch_size, total))))
        return parts, total, view.num_tokens


def time_plain(text: Path, tokenizer: PreTrainedTokenizerFast, epochs: int, seed: int) -> Timed:
    """The side of plain Python."""
    encode, pieces, random = one_by_one(tokenizer), plain.Pieces.of(tokenizer.get_vocab()), Random(seed)
    parts: dict[str, dict[str, float]] = {}
    total = 0
    for number in range(epochs):
        with timed(parts, "tokenize_again" if number else "tokenize"), text.open(encoding="utf-8") as lines:
            documents = plain.documents_of(lines, encode)
        with timed(parts, "make"):
            examples = list(plain.one_pass(documents, RULES, pieces, random))
            random.shuffle(examples)
            for example in examples:
                plain.features(example, RULES, pieces)
        total += len(examples)
    return parts, total, sum(len(sentence) for document in documents for sentence in document)


def by_itself(side: Callable[[], Timed]) -> tuple[Timed, float]:
    """Returns the result of a side in its own process, and its peak resident memory in MiB without workers."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(side).result(), process.submit(peak_mib).result()


def compare(files: list[Path], tokenizer: PreTrainedTokenizerFast, args: argparse.Namespace) -> dict[str, Any]:
    """Both sides over the same books, and how many times as long the plain one takes for an example."""
    (own, own_examples, own_tokens), own_peak = by_itself(partial(time_bertkit, files, tokenizer, args))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "sentences.txt"
        text.write_text("\n\n".join("\n".join(sentences_of(file)) for file in files), encoding="utf-8")
        (other, other_examples, other_tokens), _ = by_itself(
            partial(time_plain, text, tokenizer, args.epochs, args.seed)
        )
        # One pass with one tokenization in memory: as little as there can be.
        _, other_peak = by_itself(partial(time_plain, text, tokenizer, 1, args.seed))
    if own_tokens != other_tokens:
        raise SystemExit(f"the two sides did not read the same text: {own_tokens} and {other_tokens} tokens")
    result: dict[str, Any] = {
        "tokens": own_tokens,
        "bertkit": {"examples": own_examples, "peak_mib": round(own_peak), **own},
        "plain": {"examples": other_examples, "peak_mib": round(other_peak), **other},
    }
    ways = {"tokenized_once": ("tokenize", "make"), "in_every_pass": tuple(other)}
    for kind in ("seconds", "cpu_seconds"):
        total = sum(part[kind] for part in own.values())
        result[kind] = {"bertkit": round(total, 2)}
        for way, parts in ways.items():
            of_way = sum(other[part][kind] for part in parts)
            # A pass in which a document is cut short has more examples.
            ratio = of_way / total * own_examples / other_examples
            result[kind] |= {way: round(of_way, 2), f"{way}_ratio_per_example": round(ratio, 1)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, type=Path, help="text files, or folders that hold some")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--tokenizer", type=Path, default=None, help="folder of a tokenizer")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-workers", type=int, default=1, help="processes of bertkit that prepare the books")
    args = parser.parse_args()
    for variable, value in ONE_THREAD.items():  # before the libraries that read these are imported
        os.environ.setdefault(variable, value)
    files = book_files(args.corpus)
    tokenizer = tokenizer_for(files, args.tokenizer)
    result = compare(files, tokenizer, args)
    where = {name: version(name) for name in ("torch", "tokenizers", "numpy")}
    settings = {name: getattr(args, name) for name in ("epochs", "seed", "batch_size", "num_workers")}
    print(json.dumps({**settings, **result, **where, "python": platform.python_version()}))


if __name__ == "__main__":
    main()
