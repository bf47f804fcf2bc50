"""Texts from arguments, a file or a pipe to predictions on disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Any

from bertkit.corpus.documents import decode_text, read_text
from bertkit.errors import DataError
from bertkit.files import check_new_file, write_whole
from bertkit.inference.predictor import Predictor, load


def predict_texts(
    checkpoint: str | Path,
    texts: Sequence[str] | None = None,
    input_file: Path | None = None,
    output_file: Path | None = None,
) -> tuple[list[dict[str, Any]], Predictor]:
    """Predictions for texts given directly or one a line in a file; everything is checked before the model loads.

    Args:
        checkpoint: a run directory or a Hub id.
        texts: the texts themselves, or ``None``.
        input_file: a UTF-8 file of one text a line (``-`` is stdin), or ``None``. Empty lines are inputs too, so that
            line n of the input is line n of the output.
        output_file: where the predictions will go; checked here, written by `write_jsonl`.

    Returns:
        One dictionary a text: ``text`` and what the task predicts; and the predictor, to show them.

    Raises:
        BertkitError: no input, two inputs, an unreadable file, an output that exists, an unusable checkpoint.
    """
    if bool(texts) == (input_file is not None):
        raise DataError("give texts as arguments, or a file of them with --input (- for a pipe)")
    if output_file is not None:
        check_new_file(output_file, f"--output {output_file}")
    lines = list(texts) if texts else _lines(input_file)
    predictor = load(checkpoint)
    predictions = predictor.predict(lines)
    return [{"text": line, **row} for line, row in zip(lines, predictions, strict=True)], predictor


def _lines(input_file: Path | None) -> list[str]:
    assert input_file is not None
    pipe = str(input_file) == "-"
    text = decode_text(sys.stdin.buffer.read(), "standard input") if pipe else read_text(input_file)
    lines = text.removesuffix("\n").split("\n") if text else []
    if not lines:
        raise DataError(f"--input {input_file}: no texts in it")
    return lines


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes one JSON object a line; the file appears only when it is whole."""
    write_whole(path, "".join(dumps(row, ensure_ascii=False) + "\n" for row in rows))
