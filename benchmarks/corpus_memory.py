"""Memory and time that it takes to prepare a corpus: text → sentences → tokens on disk → the plan of an epoch.

    python benchmarks/corpus_memory.py [--megabytes 2048] [--num-workers 2] [--form txt|txt.gz|jsonl]

Makes a corpus of one file in a temporary folder (TMPDIR says where; it takes about twice the room of the text): words
of Zipf's law, sentences, paragraphs, documents parted by a separator line, the same for the same seed. Each stage then
runs in a process of its own, which is watched from outside ten times a second: ``resident`` is the RSS of the main
process, ``tree_resident`` the sum over it and its workers, in which pages that they share count several times, and
``tree_proportional`` the sum of their PSS, in which they count once. Pages of mapped files are in all three.
``cpu_seconds`` are those of all its processes. Prints one JSON line; memory is in MiB, a megabyte of text is 10⁶ bytes.
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
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np

SEPARATOR = "=========="
NUM_WORDS, VOCAB_SIZE = 50_000, 8000
DOCUMENTS_AT_ONCE = 100
SECONDS_BETWEEN_LOOKS = 0.1


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
            taken = int(draw.geometric(1 / 19))
            document, sentences = sentences[:taken], sentences[taken:]
            yield [" ".join(document[start : start + 4]) for start in range(0, len(document), 4)]


def write_corpus(file: Path, megabytes: int, seed: int) -> None:
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


def prepare(file: Path, work: Path, num_workers: int) -> dict[str, int]:
    from bertkit.corpus.documents import DocumentForm
    from bertkit.corpus.sources import find_sources
    from bertkit.corpus.store.writer import build_token_store

    store = build_token_store(
        find_sources([file]),
        DocumentForm(document_separator=SEPARATOR),
        load_tokenizer(work),
        cache_dir=work / "cache",
        num_workers=num_workers,
    )
    return {
        "documents": store.num_documents,
        "sentences": store.num_sentences,
        "tokens": store.num_tokens,
        "store_bytes": sum(part.stat().st_size for part in store.folder.iterdir()),
    }


def plan(work: Path) -> dict[str, int]:
    from bertkit.corpus.examples.dataset import PretrainingExamples
    from bertkit.corpus.settings import PretrainingData, Vocabulary
    from bertkit.corpus.store.token_store import TokenStore

    [folder] = (work / "cache").iterdir()
    view = TokenStore.open(folder).whole()
    examples = PretrainingExamples(view, Vocabulary.of(load_tokenizer(work)), PretrainingData(), num_examples=1)
    return {"pairs": examples.examples_per_epoch}


def load_tokenizer(work: Path):
    from transformers import BertTokenizer

    return BertTokenizer.from_pretrained(work / "tokenizer")


def train_tokenizer(work: Path, seed: int) -> None:
    from itertools import islice

    from bertkit.corpus.vocabulary.tokenizer import train_tokenizer

    texts = [text for paragraphs in islice(documents(seed), 1000) for text in paragraphs]
    train_tokenizer(texts, VOCAB_SIZE).save_pretrained(work / "tokenizer")


def watched(stage: str, args: argparse.Namespace, work: Path) -> dict[str, float]:
    """Runs a stage in a process of its own: what it gives, its seconds and its peaks in MiB."""
    command = [sys.executable, __file__, "--stage", stage, "--work", str(work)]
    command += ["--num-workers", str(args.num_workers), "--form", args.form]
    started, used = time.perf_counter(), cpu_seconds()
    peaks = {"resident": 0, "tree_resident": 0, "tree_proportional": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for name, kibibytes in looked_at(process.pid).items():
                peaks[name] = max(peaks[name], kibibytes)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{stage}: exit code {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(cpu_seconds() - used, 1),
        **{f"{name}_mib": round(kibibytes / 1024) for name, kibibytes in peaks.items()},
        **json.loads(output),
    }


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def looked_at(root: int) -> dict[str, int]:
    """KiB of a process and of all below it."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    tree, todo = [], [root]
    while todo:
        tree.append(todo.pop())
        todo += [child for child, parent in parents.items() if parent == tree[-1]]
    fields = {pid: field_values(pid) for pid in tree}
    return {
        "resident": fields[root].get("Rss", 0),
        "tree_resident": sum(values.get("Rss", 0) for values in fields.values()),
        "tree_proportional": sum(values.get("Pss", 0) for values in fields.values()),
    }


def field_values(pid: int) -> dict[str, int]:
    values = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, number, _ = line.split()
            values[name.rstrip(":")] = int(number)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--num-workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--form", choices=["txt", "txt.gz", "jsonl"], default="txt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stage", choices=["prepare", "plan"], help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    name = f"corpus.{args.form}"
    if args.stage == "prepare":
        print(json.dumps(prepare(args.work / name, args.work, args.num_workers)))
        return
    if args.stage == "plan":
        print(json.dumps(plan(args.work)))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_corpus(work / name, args.megabytes, args.seed)
        train_tokenizer(work, args.seed)
        results = {stage: watched(stage, args, work) for stage in ("prepare", "plan")}
        file_bytes = (work / name).stat().st_size
    versions = {name: version(name) for name in ("tokenizers", "pyarrow", "numpy")}
    print(
        json.dumps(
            {
                "megabytes": args.megabytes,
                "form": args.form,
                "file_bytes": file_bytes,
                "num_workers": args.num_workers,
                "cores": len(os.sched_getaffinity(0)),
                **results,
                **versions,
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main()
