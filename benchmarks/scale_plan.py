"""Arithmetic of docs/guides/scale.md: time, storage, memory and network of large corpora and of the paper's schedule.

    python benchmarks/scale_plan.py                                            the tables, in Markdown
    python benchmarks/scale_plan.py --measure BOOKS --tokenizer MODEL          what is measured, as JSON

``--measure`` builds a token store of text files in this process, with one thread, and counts seconds of the processor.
Its figures are the defaults of `Measured`; rates of GPUs and networks are assumptions, in `Assumed`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GIGA = 1e9


@dataclass(frozen=True)
class Measured:
    """Figures of ``--measure`` for nine English books (two cores of an AMD EPYC with AVX-512).

    Attributes:
        tokens_per_core_second: text to token store, with one process.
        bytes_per_word, tokens_per_word, tokens_per_sentence: of the texts, in UTF-8.
    """

    tokens_per_core_second: float = 500_000
    bytes_per_word: float = 5.6
    tokens_per_word: float = 1.31
    tokens_per_sentence: float = 25.4


@dataclass(frozen=True)
class Assumed:
    """Figures that were not measured here.

    Attributes:
        gpu_flops: floating-point operations per second of a GPU in bf16 without sparsity, from the data sheet of an
            NVIDIA H100 SXM.
        share: part of it that training reaches.
        gpus_per_machine: GPUs of a machine.
        bytes_inside, bytes_between: bytes per second that a GPU sends to others of its machine (NVLink), and of other
            machines (a network of 400 Gbit/s for each GPU).
        cores_per_machine: cores of a machine that tokenizes.
    """

    gpu_flops: float = 989e12
    share: float = 0.4
    gpus_per_machine: int = 8
    bytes_inside: float = 450e9
    bytes_between: float = 50e9
    cores_per_machine: int = 64


@dataclass(frozen=True)
class Size:
    """Sizes of a BERT, as in the paper's §3; ``vocabulary`` is that of its released English models."""

    name: str
    layers: int
    hidden: int
    vocabulary: int = 30_522
    positions: int = 512

    @property
    def layer_weights(self) -> int:
        """Weights of the matrices of all layers: four of attention, two of the feed-forward part."""
        return self.layers * 12 * self.hidden**2

    @property
    def weights(self) -> int:
        """All weights, without biases and layer norms, which are less than 1 %."""
        return self.layer_weights + (self.vocabulary + self.positions) * self.hidden

    def training_flops(self, length: int, predicted: float = 0.15) -> float:
        """Returns operations per token of a step, forward and backward, with logits at the predicted positions only."""
        attention = self.layers * 4 * length * self.hidden
        head = predicted * 2 * self.hidden * (self.hidden + self.vocabulary)
        return 3 * (2 * self.layer_weights + attention + head)


BASE, LARGE = Size("base", 12, 768), Size("large", 24, 1024)
PHASES = ((900_000, 128), (100_000, 512))  # steps and tokens of an example; the paper's §A.2
BATCH = 256
_ID = 2  # bytes of a token in a store, uint16
_OFFSET = 8  # bytes of a sentence in a store
_PLAN = 25  # bytes of an example in `bertkit.corpus.examples.pairs`
_ORDER_PEAK = 20  # bytes of an example while `bertkit.corpus.examples.randomness.permutation` sorts
_GRADIENT = 4  # bytes of a gradient in float32


@dataclass(frozen=True)
class Corpus:
    """A corpus by its number of words."""

    name: str
    words: float


def corpora(measured: Measured) -> tuple[Corpus, Corpus]:
    """Returns the paper's corpus, and one of a terabyte of text."""
    return Corpus("Wikipedia and books", 3.3e9), Corpus("1 TB of text", 1e12 / measured.bytes_per_word)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def build_table(measured: Measured, assumed: Assumed) -> str:
    """Returns tokens, storage and hours of building a store."""
    rows = []
    for corpus in corpora(measured):
        tokens = corpus.words * measured.tokens_per_word
        stored = tokens * _ID + tokens / measured.tokens_per_sentence * _OFFSET
        hours = tokens / measured.tokens_per_core_second / 3600
        rows.append([
            corpus.name,
            f"{corpus.words / GIGA:,.1f}",
            f"{corpus.words * measured.bytes_per_word / GIGA:,.0f}",
            f"{tokens / GIGA:,.1f}",
            f"{stored / GIGA:,.0f}",
            f"{hours:,.1f}",
            f"{60 * hours / assumed.cores_per_machine:,.1f}",
            f"{60 * hours / assumed.cores_per_machine / 16:,.1f}",
        ])  # fmt: skip
    cores = assumed.cores_per_machine
    head = ["corpus", "10⁹ words", "text, GB", "10⁹ tokens", "store, GB", "core hours"]
    return table([*head, f"minutes, 1 machine of {cores} cores", "minutes, 16 machines"], rows)


def schedule_table(assumed: Assumed, gpus: Sequence[int] = (8, 64)) -> str:
    """Returns tokens, operations and hours of the paper's million steps."""
    rows = []
    for size in (BASE, LARGE):
        tokens = [steps * BATCH * length for steps, length in PHASES]
        flops = sum(count * size.training_flops(length) for count, (_, length) in zip(tokens, PHASES, strict=True))
        hours = flops / (assumed.gpu_flops * assumed.share) / 3600
        rows.append([
            size.name,
            f"{size.weights / 1e6:,.0f}",
            f"{sum(tokens) / GIGA:,.1f}",
            f"{flops:.1e}",
            *(f"{hours / number:,.1f}" for number in gpus),
        ])  # fmt: skip
    return table(
        ["model", "10⁶ weights", "10⁹ tokens", "operations", *(f"hours, {number} GPUs" for number in gpus)], rows
    )


def network_table(assumed: Assumed, gpus: Sequence[int] = (8, 64)) -> str:
    """Returns what each GPU sends in the first phase: a ring that sums the gradients of a step in float32."""
    length = PHASES[0][1]
    rows = []
    for size in (BASE, LARGE):
        for number in gpus:
            seconds = BATCH * length * size.training_flops(length) / (assumed.gpu_flops * assumed.share * number)
            rate = assumed.bytes_inside if number <= assumed.gpus_per_machine else assumed.bytes_between
            sent = 2 * (number - 1) / number * size.weights * _GRADIENT
            rows.append([
                size.name,
                str(number),
                f"{BATCH / number:g}",
                f"{1000 * seconds:.1f}",
                f"{sent / GIGA:.2f}",
                f"{sent / seconds / GIGA:,.0f}",
                f"{1000 * sent / rate:.1f}",
            ])  # fmt: skip
    head = ["model", "GPUs", "sequences a GPU", "computing a step, ms", "sent a step and GPU, GB"]
    return table([*head, "GB/s to take as long as computing", "sending a step, ms"], rows)


def shuffle_table(measured: Measured) -> str:
    """Returns the memory of a process for the plan and the order of an epoch, with examples of 128 tokens."""
    rows = []
    for corpus in corpora(measured):
        examples = corpus.words * measured.tokens_per_word / PHASES[0][1]
        order = 4 if examples < 2**31 else 8
        rows.append([
            corpus.name,
            f"{examples / 1e6:,.0f}",
            f"{examples * (_PLAN + order) / GIGA:,.1f}",
            f"{examples * (_PLAN + _ORDER_PEAK) / GIGA:,.1f}",
        ])  # fmt: skip
    return table(["corpus", "10⁶ examples", "kept by a process, GB", "peak, GB"], rows)


def measure(files: Sequence[Path], tokenizer: str) -> Measured:
    """Builds a token store of text files and returns the figures."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from bertkit.checkpoint.load import load_tokenizer
    from bertkit.corpus.documents import DocumentForm
    from bertkit.corpus.sources import find_sources
    from bertkit.corpus.store.writer import build_token_store

    text = "".join(file.read_text(encoding="utf-8") for file in files)
    words = len(text.split())
    fast = load_tokenizer(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        store = build_token_store(find_sources(list(files)), DocumentForm(), fast, cache_dir=folder)
        seconds = time.process_time() - started
        tokens, sentences = len(store.tokens), len(store.sentence_offsets) - 1
    return Measured(tokens / seconds, len(text.encode()) / words, tokens / words, tokens / sentences)


def plan(measured: Measured, assumed: Assumed) -> dict[str, str]:
    """Returns the tables of docs/guides/scale.md by their names."""
    return {
        "build": build_table(measured, assumed),
        "schedule": schedule_table(assumed),
        "network": network_table(assumed),
        "shuffle": shuffle_table(measured),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="+", type=Path, metavar="FILE", help="text files, or folders of them")
    parser.add_argument("--tokenizer", help="folder of a tokenizer")
    args = parser.parse_args()
    if args.measure:
        files = [file for path in args.measure for file in (sorted(path.rglob("*.txt")) if path.is_dir() else [path])]
        print(json.dumps(dataclasses.asdict(measure(files, args.tokenizer))))
        return
    for name, text in plan(Measured(), Assumed()).items():
        print(f"<!-- {name} -->\n{text}\n")


if __name__ == "__main__":
    main()
