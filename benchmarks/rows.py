"""The rows of RESULTS: the command of each, its peers, and what of its output counts. Data for ``run_all.py``."""

from __future__ import annotations

from dataclasses import dataclass, field

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
AVX512_BF16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


@dataclass(frozen=True)
class Row:
    """A benchmark.

    Attributes:
        title: name for readers.
        command: the script in ``benchmarks/`` and its arguments; GLUE, BOOKS, MODEL, RUN, STOCK and
            TEXTS stand for paths.
        quick: arguments that a smoke run adds, which override those of the command.
        quantity: the number of each side that counts; without one, the output is kept as lines.
        unit: of the quantity.
        is_rate: the quantity is better when it is higher.
        minutes: what it takes on two cores.
        goal: the least ratio that is aimed at, to the strongest peer.
        others: sides that are reported, but are no peers.
        score: the number of each side that stands beside its speed.
        environment: variables of the command.
        is_default: part of a run without ``--only``.
    """

    title: str
    command: str
    quick: str
    quantity: str = ""
    unit: str = "s"
    is_rate: bool = False
    minutes: float = 1.0
    goal: float | None = None
    others: tuple[str, ...] = ()
    score: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    is_default: bool = True


def finetuning(title: str, minutes: float, goal: float, options: str = "", **values: object) -> Row:
    command = f"finetuning_speed.py sst2 --model MODEL --data-dir GLUE --count 1280 --rounds 3{options}"
    quick = "--count 512 --rounds 1"
    return Row(title, command, quick, "examples_a_second", "examples/s", True, minutes, goal, **values)  # type: ignore[arg-type]


def pretraining(title: str, minutes: float, goal: float, options: str, **values: object) -> Row:
    command = (
        f"pretraining_speed.py pairs --corpus BOOKS --tokenizer MODEL --models mini --steps 8 --rounds 2 {options}"
    )
    return Row(title, command, "--steps 5 --rounds 1", "seconds", "s", False, minutes, goal, **values)  # type: ignore[arg-type]


ROWS: dict[str, Row] = {
    "sst2": finetuning("fine-tuning on SST-2, 6 × 384, batch 32", 4, 1.45),
    "sst2.avx2": finetuning(
        "the same with AVX2 only, float32", 6, 1.25, " --precisions no", environment=AVX2
    ),
    "pretrain.float32": pretraining("pre-training step, 4 × 256, 32 × 128 tokens, float32", 3, 4.5, "--precisions no"),
    "pretrain.bf16": pretraining("the same in bf16", 3, 5.5, "--precisions bf16"),
    "predict": Row(
        "predicting 872 sentences", "prediction_speed.py predict RUN --input TEXTS --rounds 2", "--count 64 --rounds 1",
        "seconds", minutes=3, goal=2.5,
    ),
    "serve": Row(
        "serving 32 clients",
        "serving_speed.py RUN --input TEXTS --clients 32 --seconds 10 --rounds 3 --sides plain batched onnx bertkit",
        "--seconds 4 --clients 8 --rounds 1", "requests_per_second", "requests/s", True, 5, 1.5,
    ),
    "first": Row(
        "first prediction in a fresh process", "start_up.py --repeats 3 --checkpoint STOCK", "--repeats 1", "seconds",
        minutes=2, goal=2.22, others=("import torch",),
    ),
    "evaluate": Row(
        "evaluation on SST-2's dev set, the whole process",
        "prediction_speed.py evaluate RUN --data-dir GLUE --rounds 2", "--rounds 1", "seconds", minutes=2, goal=1.5,
    ),
    "int8": Row(
        "predicting with int8 ONNX", "prediction_speed.py int8 RUN --data-dir GLUE --rounds 2",
        "--count 64 --rounds 1", "seconds", minutes=2, score="accuracy",
    ),
    "lines": Row(
        "`predict` and `embed` on lines: memory", "memory.py lines --lines 10000 100000", "--lines 2000", minutes=3
    ),
    "corpus": Row(
        "preparing 64 MB of text: memory", "memory.py corpus --megabytes 64", "--megabytes 4", minutes=1.5
    ),
    "sst2.avx512_bf16": finetuning(
        "fine-tuning on SST-2 with AVX512-BF16, without AMX", 4, 1.45, environment=AVX512_BF16, is_default=False
    ),
    "pretrain.avx2": pretraining(
        "pre-training step with AVX2 only, float32", 5, 4.5, "--precisions no", environment=AVX2, is_default=False
    ),
}  # fmt: skip
"""Name → row."""

DEFAULT = [name for name, row in ROWS.items() if row.is_default]
