"""Matrices of attention as pictures for a page: PNG of 8 bits, in which opacity is the square root of the attention.

The square root keeps small values apart, of which most attention consists. A page reads the values back from the
pictures.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np

MOST_TOKENS = 128  # of a drawn matrix
_MOST_BYTES = 1_700_000  # of all pictures of a page, as base64
_COLOUR = (43, 140, 196)  # readable on white and on black


@dataclass(frozen=True)
class Sprites:
    """Pictures of all heads, one for each layer.

    Attributes:
        urls: L data URLs; a picture has the matrices of the heads below each other, (A * S, S) pixels.
        levels: number of different opacities.
        error: largest difference between an attention and what a picture shows.
    """

    urls: list[str]
    levels: int
    error: float


def sprites(weights: np.ndarray) -> Sprites:
    """Draws attention (L, A, S, S) in 256 levels; in fewer, if the pictures would be larger than 1.7 MB."""
    opacity = np.sqrt(np.clip(weights, 0, 1)) * 255
    for step in (1, 2, 4, 8, 16, 32):
        levels = (np.rint(opacity / step).astype(np.int64) * step).clip(0, 255).astype(np.uint8)
        urls = [_png(each.reshape(-1, each.shape[-1])) for each in levels]
        if sum(map(len, urls)) <= _MOST_BYTES:
            break
    error = float(abs((levels / 255.0) ** 2 - weights).max())
    return Sprites(urls, len(range(0, 256, step)), error)


def _png(opacity: np.ndarray) -> str:
    """Returns a picture (height, width) uint8 of one colour as a data URL."""
    from PIL import Image

    picture, file = Image.fromarray(opacity), io.BytesIO()
    picture.putpalette(bytes(_COLOUR) * 256)
    picture.save(file, "PNG", compress_level=9, transparency=bytes(range(256)))
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
