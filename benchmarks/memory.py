"""Memory and speed of preparing a corpus, and of ``predict`` and ``embed`` on ever more lines.

    python benchmarks/memory.py corpus [--megabytes 2048] [--num-workers 2] [--form txt|txt.gz|jsonl]
    python benchmarks/memory.py lines [--lines 10000 100000 1000000] [--commands predict embed]

``corpus``: text → sentences → tokens on disk (``prepare``) → the plan of an epoch (``plan``). The corpus is one file in
a temporary folder (TMPDIR says where; it takes about twice the room of the text): words of Zipf's law, sentences,
paragraphs, documents parted by a separator line, the same for the same seed. A megabyte of text is 10⁶ bytes.

``lines``: a tiny classifier with random weights (2 layers of 32) and a file of short lines; predictions go to
``.jsonl``, vectors to ``.parquet``. Start and loading are in the time.

Each stage and command runs in a process of its own, which is watched from outside ten times a second: ``resident`` is
the RSS of the main process, ``private`` that without mapped files and libraries, ``tree_resident`` the sum over it and
its workers, in which pages that they share count several times, and ``tree_proportional`` the sum of their PSS, in
which they count once. Pages of mapped files are in all but ``private``. ``cpu_seconds`` are those of all its processes.
Prints JSON lines; memory is in MiB.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil

SEPARATOR = "=========="
NUM_WORDS, VOCAB_SIZE, DOCUMENTS_AT_ONCE = 50_000, 8000, 100
SECONDS_BETWEEN_LOOKS = 0.1
OUTPUTS = {"predict": "labels.jsonl", "embed": "vectors.parquet"}
WORDS = "a good bad film story the plot is lovely or awful".split()


def documents(seed: int) -> Iterator[list[str]]:
    """Endless documents, each a list of its paragraphs; about 19 sentences of 17 words on average."""
    draw = np.random.default_rng(seed)
    syllables = [
        first + vowel + last for first in "bdfgklmnprstvz" for vowel in "aeiou" for last in ("", "n", "r", "s")
    ]
    lengths = draw.choice([1, 2, 3, 4], NUM_WORDS, p=[0.2, 0.4, 0.3, 0.1])
    words = np.array(["".join(draw.choice(syllables, length)) for length in lengths], object)
    shares = 1 / np.arange(1, NUM_WORDS + 1)
    ends = np.cumsum(shares / shares.sum())
    while True:
        sentence_lengths = draw.integers(3, 32, DOCUMENTS_AT_ONCE * 19)
        ids = np.minimum(np.searchsorted(ends, draw.random(int(sentence_lengths.sum()))), NUM_WORDS - 1)
        drawn = words[ids].tolist()
        starts = (np.cumsum(sentence_lengths) - sentence_lengths).tolist()
        sentences = [
            f"{' '.join(drawn[start : start + length]).capitalize()}."
            for start, length in zip(starts, sentence_lengths.tolist(), strict=True)
        ]
        while sentences:
            count = int(draw.geometric(1 / 19))
            document, sentences = sentences[:count], sentences[count:]
            yield [" ".join(document[start : start + 4]) for start in range(0, len(document), 4)]


def write_corpus(file: Path, megabytes: int, seed: int) -> None:
    """Writes documents until the text has so many megabytes."""
    left = megabytes * 10**6
    with gzip.open(file, "wt", 1) if file.suffix == ".gz" else file.open("w") as stream:
        for paragraphs in documents(seed):
            if file.suffix == ".jsonl":
                text = json.dumps({"text": "\n\n".join(paragraphs)}) + "\n"
            else:
                text = "\n\n".join([*paragraphs, SEPARATOR]) + "\n\n"
            stream.write(text)
            left -= len(text)
            if left <= 0:
                return


def write_lines(file: Path, count: int) -> None:
    """Writes lines of 1 to 12 words, the same for the same number of lines."""
    draw = np.random.default_rng(count)
    with file.open("w") as stream:
        for length in draw.integers(1, 13, count):
            stream.write(" ".join(WORDS[number] for number in draw.integers(len(WORDS), size=length)) + "\n")


def make_tokenizer(folder: Path, seed: int) -> None:
    """Trains a tokenizer on the first documents."""
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer

    texts = [text for paragraphs in islice(documents(seed), 1000) for text in paragraphs]
    train_tokenizer(texts, VOCAB_SIZE).save_pretrained(folder)


def make_classifier(folder: Path) -> None:
    """Saves a classifier of texts with random weights."""
    from bertkit import BertConfig, BertForSequenceClassification
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer
    from bertkit.tasks.base import task_record
    from bertkit.tasks.classification.task import ClassificationTask, DataSettings, TaskSettings

    tokenizer = train_tokenizer([" ".join(WORDS)] * 3, 90, model_max_length=128)
    tokenizer.save_pretrained(folder)
    names = ["bad", "good"]
    settings = TaskSettings(problem="single_label", text_columns=["text"], label_column="label", label_names=names)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **sizes)
    config.bertkit_task = task_record(ClassificationTask(settings, DataSettings(max_seq_length=128)))
    config.id2label = dict(enumerate(names))
    BertForSequenceClassification(config).save_pretrained(folder)


def prepare(work: Path, form: str, num_workers: int) -> dict[str, int]:
    """The first stage, in this process: tokens on disk."""
    from transformers import BertTokenizer

    from bertkit.data.corpus.documents import DocumentForm
    from bertkit.data.corpus.sources import find_sources
    from bertkit.data.corpus.store.writer import build_token_store

    store = build_token_store(
        find_sources([work / f"corpus.{form}"]),
        DocumentForm(document_separator=SEPARATOR),
        BertTokenizer.from_pretrained(work / "tokenizer"),
        cache_dir=work / "cache",
        num_workers=num_workers,
    )
    counts = {name: getattr(store, f"num_{name}") for name in ("documents", "sentences", "tokens")}
    return {**counts, "store_bytes": sum(part.stat().st_size for part in store.folder.iterdir())}


def plan(work: Path) -> dict[str, int]:
    """The second stage, in this process: the pairs of an epoch."""
    from transformers import BertTokenizer

    from bertkit.data.corpus.examples.dataset import PretrainingExamples
    from bertkit.data.corpus.settings import PretrainingData
    from bertkit.data.corpus.store.token_store import TokenStore
    from bertkit.data.corpus.vocabulary.structure import Vocabulary

    [folder] = (work / "cache").iterdir()
    view = TokenStore.open(folder).whole()
    vocabulary = Vocabulary.of(BertTokenizer.from_pretrained(work / "tokenizer"))
    return {"pairs": PretrainingExamples(view, vocabulary, PretrainingData(), num_examples=1).examples_per_epoch}


def watched(arguments: Sequence[str]) -> tuple[dict[str, float], str]:
    """Runs Python in a process of its own: its seconds and its peaks in MiB, and what it prints."""
    started, before = time.perf_counter(), cpu_seconds()
    peaks = {"resident": 0, "private": 0, "tree_resident": 0, "tree_proportional": 0}
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for name, size in memory_of(process.pid).items():
                peaks[name] = max(peaks[name], size)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    seconds = {"seconds": round(time.perf_counter() - started, 1), "cpu_seconds": round(cpu_seconds() - before, 1)}
    return {**seconds, **{f"{name}_mib": round(size / 2**20) for name, size in peaks.items()}}, output


def cpu_seconds() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory_of(root: int) -> dict[str, int]:
    """Bytes of a process and of all below it."""
    sizes = {"resident": 0, "private": 0, "tree_resident": 0, "tree_proportional": 0}
    with suppress(psutil.Error):  # it has ended
        main = psutil.Process(root)
        memory = main.memory_info()
        sizes["resident"], sizes["private"] = memory.rss, memory.rss - memory.shared
        for process in (main, *main.children(recursive=True)):
            with suppress(psutil.Error):
                info = process.memory_full_info()
                sizes["tree_resident"] += info.rss
                sizes["tree_proportional"] += info.pss
    return sizes


def in_own_process(make: object, *arguments: object) -> None:
    """Runs a function elsewhere: what the system counts for a child begins with the peak of the one that starts it."""
    maker = get_context("spawn").Process(target=make, args=arguments)  # type: ignore[arg-type]
    maker.start()
    maker.join()


def measure_corpus(args: argparse.Namespace, work: Path) -> None:
    """Prints a line for a corpus."""
    file = work / f"corpus.{args.form}"
    write_corpus(file, args.megabytes, args.seed)
    in_own_process(make_tokenizer, work / "tokenizer", args.seed)
    shared = [__file__, "corpus", "--work", str(work), "--num-workers", str(args.num_workers), "--form", args.form]
    line = {"megabytes": args.megabytes, "form": args.form, "file_bytes": file.stat().st_size}
    line |= {"num_workers": args.num_workers, "cores": len(os.sched_getaffinity(0))}
    for stage in ("prepare", "plan"):
        peaks, output = watched([*shared, "--stage", stage])
        line[stage] = {**peaks, **json.loads(output)}
    versions = {name: version(name) for name in ("tokenizers", "pyarrow", "numpy")}
    print(json.dumps({**line, **versions, "python": platform.python_version()}))


def measure_lines(args: argparse.Namespace, work: Path) -> None:
    """Prints a line for each number of lines and command."""
    in_own_process(make_classifier, work / "classifier")
    for count in args.lines:
        file = work / "lines.txt"
        in_own_process(write_lines, file, count)
        for command in args.commands:
            output = work / OUTPUTS[command]
            paths = [str(work / "classifier"), "--input", str(file), "--output", str(output)]
            peaks, _ = watched(["-m", "bertkit", command, *paths])
            output.unlink()
            facts = {"form": "txt", "lines": count, "lines_a_second": round(count / peaks["seconds"])}
            print(json.dumps({"command": command, **facts, **peaks}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["corpus", "lines"])
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--num-workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--form", choices=["txt", "txt.gz", "jsonl"], default="txt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--commands", nargs="+", choices=OUTPUTS, default=["predict", "embed"])
    parser.add_argument("--stage", choices=["prepare", "plan"], help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage is not None:
        stage = plan(args.work) if args.stage == "plan" else prepare(args.work, args.form, args.num_workers)
        print(json.dumps(stage))
        return
    with tempfile.TemporaryDirectory() as folder:
        (measure_corpus if args.what == "corpus" else measure_lines)(args, Path(folder))


if __name__ == "__main__":
    main()
