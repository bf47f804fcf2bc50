"""Validation sets drawn from a training set, and detection of rows that are in both."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np


def hold_out(classes: Sequence[Hashable] | None, rows: int, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Draws a stratified validation set: its class shares are about those of all rows.

    Of a class of n rows, ``fraction`` · n rows (rounded) are held out; at least one row remains for training. (The
    function of the ``datasets`` library does not accept a class of one row.)

    Args:
        classes: the class of every row; None draws uniformly from all rows.
        rows: number of rows.
        fraction: share to hold out, in (0, 1).
        seed: determines the split, independent of other random numbers of the run.

    Returns:
        Indices of the training rows and of the held-out rows, each ascending.
    """
    generator = np.random.default_rng(seed)
    groups: dict[Hashable, list[int]] = {}
    for row in range(rows):
        groups.setdefault(None if classes is None else classes[row], []).append(row)
    held_out: set[int] = set()
    for members in groups.values():
        count = min(round(len(members) * fraction), len(members) - 1)
        held_out.update(generator.permutation(members)[:count].tolist())
    return [row for row in range(rows) if row not in held_out], sorted(held_out)


def repeated(train: Sequence[Sequence[str]], validation: Sequence[Sequence[str]]) -> list[int]:
    """Returns the indices of the rows of a validation set whose texts are also in the training set.

    Args:
        train, validation: text columns, each one string per row.
    """
    seen = set(zip(*train, strict=True))
    return [row for row, texts in enumerate(zip(*validation, strict=True)) if texts in seen]
