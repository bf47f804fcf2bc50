"""Matrices of attention as pictures for a page: PNG of 8 bits, in which opacity is the square root of the attention.

The square root keeps small values apart, of which most attention consists. A page reads the values back from the
pictures.
"""

from __future__ import annotations

import base64
import io

import numpy as np

MOST_TOKENS = 128  # of a drawn matrix
_MOST_BYTES = 1_700_000  # of all pictures of a page, as base64
_COLOUR = (43, 140, 196)  # readable on white and on black


def sprites(weights: np.ndarray) -> tuple[list[str], int, float]:
    """Draws attention (L, A, S, S) in 256 levels; in fewer, if the pictures would be larger than 1.7 MB.

    Returns:
        L data URLs, each of a picture with the matrices of the heads below each other, (A * S, S) pixels; the number of
        different opacities; and the largest difference between an attention and what a picture shows.
    """
    from PIL import Image

    opacity = np.sqrt(np.clip(weights, 0, 1)) * 255
    for step in (1, 2, 4, 8, 16, 32):
        levels = (np.rint(opacity / step).astype(np.int64) * step).clip(0, 255).astype(np.uint8)
        urls = []
        for layer in levels:
            picture, file = Image.fromarray(layer.reshape(-1, layer.shape[-1])), io.BytesIO()
            picture.putpalette(bytes(_COLOUR) * 256)
            picture.save(file, "PNG", compress_level=9, transparency=bytes(range(256)))
            urls.append(f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}")
        if sum(map(len, urls)) <= _MOST_BYTES:
            break
    error = float(abs((levels / 255.0) ** 2 - weights).max())
    return urls, len(range(0, 256, step)), error
