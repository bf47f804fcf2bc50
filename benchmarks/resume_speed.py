"""Time and memory from the start of a process to a batch of pre-training, early and late in a long run.

    python benchmarks/resume_speed.py [--examples 100000000] [--steps 900 900000] [--rounds 2] [--objective nsp]

The corpus is a manifest whose parts are links to a few files of about a million examples together: documents of 8 to
120 sentences of 5 to 45 tokens, drawn from a fixed seed. Each measurement runs in a process of its own: it opens the
store, chooses the held-out documents, plans, and reads the batch of a step, 256 examples of 128 tokens. One JSON line
for each; seconds are without the imports, memory is the peak of the process, of which Python and the libraries take
``start_mib``; pages of the parts, which the system can drop, are counted. The last line is the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import numpy as np
from by_turns import machine, measured, peak_mib, report

BATCH_SIZE, EXAMPLES_OF_FILES = 256, 1_000_000
SENTENCES, TOKENS = (8, 120), (5, 45)
TOKENS_OF_AN_EXAMPLE = 97  # of nsp: a random segment leaves the rest of its chunk to the next example


def tokenizer() -> object:
    """A vocabulary of 30,000 numbered words."""
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{number}" for number in range(30_000))]
    return BertTokenizer(vocab={word: number for number, word in enumerate(words)})


def write_corpus(folder: Path, examples: int) -> None:
    """Writes a store whose parts are links to one file."""
    from bertkit.data.corpus.store.encoding import EncodedBatch, SentenceEncoder
    from bertkit.data.corpus.store.parts import write_manifest, write_parts
    from bertkit.data.corpus.store.token_store import FORMAT

    rng = np.random.default_rng(0)

    def batches() -> Generator[EncodedBatch]:
        tokens = 0
        while tokens < TOKENS_OF_AN_EXAMPLE * EXAMPLES_OF_FILES:
            of_documents = rng.integers(*SENTENCES, size=100)
            lengths = rng.integers(*TOKENS, size=of_documents.sum())
            documents = np.repeat(np.arange(1, 101), of_documents)
            yield EncodedBatch(rng.integers(5, 30_000, size=lengths.sum(), dtype=np.uint16), lengths, documents, 100, 0)
            tokens += int(lengths.sum())

    written = write_parts(batches(), np.uint16, folder)
    parts = list(written)
    for copy in range(1, max(1, round(examples / EXAMPLES_OF_FILES))):
        for part in written:
            name = f"part-{copy:06}-{part['name'][-9:]}"
            os.link(folder / part["name"], folder / name)
            parts.append({**part, "name": name})
    digest = SentenceEncoder(tokenizer(), None).tokenizer_digest  # type: ignore[arg-type]
    write_manifest(folder, {"format": FORMAT, "tokenizer": digest}, parts)


def read_batch(folder: Path, step: int, objective: str) -> None:
    """Reads the batch of a step, in this process; prints what it took."""
    from bertkit.data.corpus.examples.dataset import PretrainingExamples
    from bertkit.data.corpus.settings import PretrainingData
    from bertkit.data.corpus.store.token_store import TokenStore
    from bertkit.data.corpus.vocabulary.structure import Vocabulary
    from bertkit.tasks.pretraining import DataSettings, load_corpus

    words = tokenizer()
    start = peak_mib()
    began = time.perf_counter()
    store = TokenStore.open(folder)
    corpora = load_corpus(
        DataSettings(corpus=[str(folder)]),
        words,
        42,
        folder,
        store=store,
        pair_objective=objective,  # type: ignore[arg-type]
    )
    data = PretrainingData(pair_objective=objective)  # type: ignore[arg-type]
    run = PretrainingExamples(corpora.train, Vocabulary.of(words), data, (step + 1) * BATCH_SIZE)  # type: ignore[arg-type]
    batch = run.__getitems__(range(step * BATCH_SIZE, (step + 1) * BATCH_SIZE))
    first = time.perf_counter() - began
    began = time.perf_counter()
    run.__getitems__(range((step - 1) * BATCH_SIZE, step * BATCH_SIZE))
    report(
        seconds=round(first, 2),
        next_batch_ms=round(1000 * (time.perf_counter() - began), 1),
        start_mib=round(start),
        epoch=step * BATCH_SIZE // run.examples_per_epoch,
        examples_per_epoch=run.examples_per_epoch,
        tokens=int(batch["attention_mask"].sum()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000_000)
    parser.add_argument("--steps", type=int, nargs="+", default=[900, 900_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--objective", choices=["nsp", "sop", "none"], default="nsp")
    parser.add_argument("--folder", type=Path, help="of a store of an earlier call, for one measurement")
    args = parser.parse_args()
    if args.folder is not None:
        read_batch(args.folder, args.steps[0], args.objective)
        return
    with tempfile.TemporaryDirectory() as work:
        write_corpus(Path(work), args.examples)
        for _ in range(args.rounds):
            for step in args.steps:
                options = ["--folder", work, "--steps", str(step), "--objective", args.objective]
                print(json.dumps({"step": step, **measured([__file__, *options])}), flush=True)
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
