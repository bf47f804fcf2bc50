"""Seconds to prepare books and draw epochs of pre-training examples, bertkit beside plain Python of the same rules.

    python benchmarks/pretraining_data.py --corpus BOOKS [--epochs 10] [--seed 42] [--tokenizer DIR]
    python benchmarks/pretraining_data.py --corpus BOOKS --step

bertkit: from the books as they are, with an empty cache: sentences, tokens, the store, then every example of the
epochs as tensors, in batches of ``--batch-size`` (32; the recipes of pre-training have 256).

Plain: `plain_pretraining_data.py`, from the same sentences already split and in one file, as many passes; each
tokenizes, cuts pairs, masks them, shuffles and pads to lists. So splitting, batching and tensors are counted on
bertkit's side only. Three ways to count the passes are given:

- ``plain_python``: in every pass, tokens by plain Python too, as a run of the released script has them;
- ``fast_tokenizer``: in every pass, tokens by the tokenizers library, one sentence at a time;
- ``tokenized_once``: by that library, before the first pass only, as the script's ``dupe_factor`` has it.

A document is a file, and a pass in which a document is cut short has more examples; so the ratios are also given for
one example.

With ``--step``: the milliseconds to draw a batch (planning of the epoch included, all in the process that trains)
beside forward, backward and AdamW of bert-tiny on this machine's CPU, for 32 and for 256 sequences of 128 tokens.

Each side runs in one process of its own and in one thread, unless ``--num-workers`` (bertkit's, to prepare the books),
TOKENIZERS_PARALLELISM or OMP_NUM_THREADS say otherwise. CPU seconds are those of the process and its children; on a
machine that does other work they are the ones to read. Prints one JSON line. Without ``--tokenizer`` a vocabulary of
8,000 pieces is learned from the books first, untimed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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

    from bertkit.corpus.store.token_store import StoreView

Timed = tuple["Stopwatch", int, int]
"""The times of the parts of a side, the examples that it drew, the tokens of the corpus."""

WAYS = ("fast_tokenizer", "plain_tokenizer")
VOCAB_SIZE = 8000
KINDS = ("seconds", "cpu_seconds")
STEP_BATCH_SIZES = (32, 256)
STEPS, WARM_UP_STEPS = 30, 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class Stopwatch:
    """Wall and CPU seconds of named parts, added up where a part runs several times."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, float]] = {}

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), cpu_seconds()
        yield
        sums = self.parts.setdefault(part, dict.fromkeys(KINDS, 0.0))
        sums["seconds"] += time.perf_counter() - wall
        sums["cpu_seconds"] += cpu_seconds() - cpu

    def total(self, kind: str, *parts: str) -> float:
        """Returns the seconds of the named parts that ran, of all parts if none is named."""
        return sum(seconds[kind] for part, seconds in self.parts.items() if not parts or part in parts)

    def rounded(self) -> dict[str, dict[str, float]]:
        return {part: {kind: round(seconds[kind], 2) for kind in KINDS} for part, seconds in self.parts.items()}


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its ended children."""
    return sum(os.times()[:4])


def set_one_thread() -> None:
    """Before the libraries that read these variables are imported."""
    for variable, value in ONE_THREAD.items():
        os.environ.setdefault(variable, value)


def book_files(corpus: list[Path]) -> list[Path]:
    """The ``.txt`` files named, and those of the folders named."""
    return [file for path in corpus for file in (sorted(path.glob("*.txt")) if path.is_dir() else [path])]


def sentences_of(file: Path) -> list[str]:
    """The sentences of a book whose paragraphs are parted by blank lines, by bertkit's own rules."""
    from bertkit.corpus.sentences import split_sentences

    text = "\n".join(map(str.strip, file.read_text(encoding="utf-8-sig").split("\n")))
    paragraphs = (" ".join(paragraph.split("\n")).strip() for paragraph in text.split("\n\n"))
    return [sentence for paragraph in paragraphs if paragraph for sentence in split_sentences(paragraph)]


def tokenizer_for(files: list[Path], folder: Path | None) -> PreTrainedTokenizerFast:
    """The tokenizer in ``folder``, or an uncased one learned from the books."""
    from bertkit.checkpoint.load import load_tokenizer
    from bertkit.corpus.vocabulary.tokenizer import train_tokenizer

    if folder is not None:
        return load_tokenizer(folder, for_pretraining=True)
    lines = [line for file in files for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    return train_tokenizer(lines, VOCAB_SIZE)


def one_by_one(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], list[int]]:
    """One sentence → ids, without the layers of transformers around the library that does the work."""
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True  # a "[MASK]" in the text is text
    return lambda sentence: backend.encode(sentence, add_special_tokens=False).ids


def load_view(
    files: list[Path],
    tokenizer: PreTrainedTokenizerFast,
    cache_dir: Path,
    *,
    num_workers: int = 1,
    sentence_per_line: bool = False,
) -> StoreView:
    """The documents of the files, all of them to train on."""
    from bertkit.corpus.store.token_store import StoreView
    from bertkit.tasks.pretraining import DataSettings, load_corpus

    corpus = [str(file) for file in files]
    data = DataSettings(corpus=corpus, validation_fraction=0.0, sentence_per_line=sentence_per_line)
    train = load_corpus(data, tokenizer, 0, cache_dir, num_workers=num_workers).train
    assert isinstance(train, StoreView)  # a corpus can be streamed, this one is not
    return train


def time_bertkit(
    files: list[Path],
    tokenizer: PreTrainedTokenizerFast,
    epochs: int,
    seed: int,
    batch_size: int = 32,
    num_workers: int = 1,
) -> Timed:
    """bertkit's side."""
    from bertkit.corpus.examples.dataset import PretrainingExamples, collate
    from bertkit.corpus.settings import PretrainingData, Vocabulary
    from bertkit.tasks.pretraining import load_corpus  # noqa: F401 - imported before the clock starts

    watch = Stopwatch()
    settings, vocabulary = PretrainingData(seed=seed), Vocabulary.of(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        with watch.time("prepare"):
            view = load_view(files, tokenizer, Path(folder), num_workers=num_workers)
        # Only to know where the last epoch ends: a run plans its epochs itself, in the time that is taken.
        total = sum(
            len(PretrainingExamples(view, vocabulary, settings, None, fixed_epoch=epoch)) for epoch in range(epochs)
        )
        with watch.time("draw"):
            examples = PretrainingExamples(view, vocabulary, settings, total)
            for start in range(0, total, batch_size):
                collate(examples.__getitems__(range(start, min(start + batch_size, total))))
        return watch, total, view.num_tokens


def time_plain(
    text: Path, tokenizer: PreTrainedTokenizerFast, passes: int, seed: int, ways: Sequence[str] = WAYS
) -> Timed:
    """The side of plain Python, which gets its tokens in all of these ways."""
    vocabulary = tokenizer.get_vocab()
    encoders: dict[str, Callable[[str], list[int]]] = {
        "fast_tokenizer": one_by_one(tokenizer),
        "plain_tokenizer": plain.Tokenizer(vocabulary),
    }
    pieces, rules, random = plain.Pieces.of(vocabulary), plain.Rules(), Random(seed)
    watch = Stopwatch()
    total = 0
    for number in range(passes):
        corpora = []
        for name in ways:
            encode = encoders[name]
            with watch.time(f"{name}_again" if number else name), text.open(encoding="utf-8") as lines:
                corpora.append(plain.documents_of(lines, encode))
        documents = corpora[0]
        if any(other != documents for other in corpora[1:]):
            raise SystemExit("the plain tokenizer does not give the tokens of the fast one; it is uncased WordPiece")
        with watch.time("make"):
            examples = list(plain.one_pass(documents, rules, pieces, random))
            random.shuffle(examples)
            for example in examples:
                plain.features(example, rules, pieces)
        total += len(examples)
    return watch, total, sum(len(sentence) for document in documents for sentence in document)


def by_itself(side: Callable[[], Timed]) -> tuple[Timed, float]:
    """Returns the result of a side in its own process, and its peak resident memory in MiB without workers."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(side).result(), process.submit(peak_mib).result()


def compare(files: list[Path], tokenizer: PreTrainedTokenizerFast, args: argparse.Namespace) -> dict[str, Any]:
    """Both sides over the same books, and how many times as long the plain one takes."""
    settings = {name: getattr(args, name) for name in ("epochs", "seed", "batch_size", "num_workers")}
    (ours, our_examples, our_tokens), our_peak = by_itself(partial(time_bertkit, files, tokenizer, **settings))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "sentences.txt"
        text.write_text("\n\n".join("\n".join(sentences_of(file)) for file in files), encoding="utf-8")
        plain_side = partial(time_plain, text, tokenizer, args.epochs, args.seed)
        (other, other_examples, other_tokens), _ = by_itself(plain_side)
        # One pass with one tokenization in memory: as little as there can be.
        _, other_peak = by_itself(partial(time_plain, text, tokenizer, 1, args.seed, WAYS[:1]))
    if our_tokens != other_tokens:
        raise SystemExit(f"the two sides did not read the same text: {our_tokens} and {other_tokens} tokens")
    result: dict[str, Any] = {**settings, "tokens": our_tokens}
    result["bertkit"] = {"examples": our_examples, "peak_mib": round(our_peak), **ours.rounded()}
    result["plain"] = {"examples": other_examples, "peak_mib": round(other_peak), **other.rounded()}
    for kind in KINDS:
        mine = ours.total(kind)
        plain_totals = {
            "plain_python": other.total(kind, "plain_tokenizer", "plain_tokenizer_again", "make"),
            "fast_tokenizer": other.total(kind, "fast_tokenizer", "fast_tokenizer_again", "make"),
            "tokenized_once": other.total(kind, "fast_tokenizer", "make"),
        }
        same = our_examples / other_examples
        result[kind] = {"bertkit": round(mine, 2), **{way: round(total, 2) for way, total in plain_totals.items()}}
        result[f"{kind}_ratio"] = {way: round(total / mine, 1) for way, total in plain_totals.items()}
        result[f"{kind}_ratio_per_example"] = {
            way: round(total / mine * same, 1) for way, total in plain_totals.items()
        }
    result["examples_per_second"] = {
        "bertkit": round(our_examples / ours.parts["draw"]["seconds"]),
        "plain": round(other_examples / other.parts["make"]["seconds"]),
    }
    return result


def step_shares(files: list[Path], tokenizer: PreTrainedTokenizerFast, seed: int) -> dict[str, Any]:
    """Milliseconds of CPU to draw a batch and to train on it, and the share of the first in both."""
    import torch

    import bertkit
    from bertkit.corpus.examples.dataset import PretrainingExamples, collate
    from bertkit.corpus.settings import PretrainingData, Vocabulary
    from bertkit.model.configuration_bert import BertConfig
    from bertkit.model.modeling_bert import BertForPreTraining

    recipe = bertkit.load_recipe("pretrain/bert-tiny")
    settings, vocabulary = PretrainingData(seed=seed), Vocabulary.of(tokenizer)
    shares: dict[str, Any] = {"threads": torch.get_num_threads(), "model": "bert-tiny", "vocab_size": len(tokenizer)}
    with tempfile.TemporaryDirectory() as folder:
        view = load_view(files, tokenizer, Path(folder))
        total = len(PretrainingExamples(view, vocabulary, settings, None, fixed_epoch=0))
        for batch_size in STEP_BATCH_SIZES:
            torch.manual_seed(seed)
            model = BertForPreTraining(BertConfig(vocab_size=len(tokenizer), **recipe.model)).train()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-6)
            starts = range(0, total - batch_size + 1, batch_size)
            watch = Stopwatch()
            with watch.time("draw"):
                examples = PretrainingExamples(view, vocabulary, settings, total)
                for start in starts:
                    batch = collate(examples.__getitems__(range(start, start + batch_size)))
            for step in range(WARM_UP_STEPS + STEPS):
                with watch.time("step" if step >= WARM_UP_STEPS else "warm_up"):
                    model(**batch).loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
            draw, train = watch.parts["draw"], watch.parts["step"]
            shares[f"batch_{batch_size}"] = {
                kind: {
                    "draw_ms": round(1000 * draw[kind] / len(starts), 2),
                    "step_ms": round(1000 * train[kind] / STEPS, 2),
                    "share": round(draw[kind] / len(starts) / (draw[kind] / len(starts) + train[kind] / STEPS), 4),
                }
                for kind in KINDS
            }
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, type=Path, help="text files, or folders that hold some")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--tokenizer", type=Path, default=None, help="folder of a tokenizer")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-workers", type=int, default=1, help="processes of bertkit that prepare the books")
    parser.add_argument("--step", action="store_true", help="the share of a training step instead")
    args = parser.parse_args()
    set_one_thread()

    files = book_files(args.corpus)
    tokenizer = tokenizer_for(files, args.tokenizer)
    result = step_shares(files, tokenizer, args.seed) if args.step else compare(files, tokenizer, args)
    where = {name: version(name) for name in ("torch", "tokenizers", "numpy")}
    set_to = {variable: os.environ[variable] for variable in ONE_THREAD}
    print(json.dumps({**result, **set_to, **where, "python": platform.python_version(), "machine": platform.machine()}))


if __name__ == "__main__":
    main()
