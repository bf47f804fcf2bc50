"""Matrix products: what a BERT needs of them, and how fast this machine does them when it does nothing else.

Dimensions: L layers, H hidden size, S tokens of a sequence.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

SIZES = {"tiny": (2, 128), "mini": (4, 256), "6x384": (6, 384), "base": (12, 768), "large": (24, 1024)}
"""Name → L and H; the feed-forward layers are 4 H wide."""


def shape_of(size: str) -> dict[str, int]:
    """The fields of a configuration that a size decides: attention heads are 64 wide, and two at the least."""
    layers, width = SIZES[size]
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": max(2, width // 64),
        "intermediate_size": 4 * width,
    }


def of_layers(layers: int, width: int, lengths: Iterable[int]) -> float:
    """Multiplications and additions of L layers, forward, for sequences of these lengths."""
    return sum(layers * (24 * length * width**2 + 4 * length**2 * width) for length in lengths)


def device_of(choice: str) -> str:
    """The device that ``--device`` means: ``cpu``, or with ``auto`` the accelerator.

    Raises:
        SystemExit: there is no accelerator.
    """
    if choice == "cpu":
        return choice
    import torch

    device = torch.accelerator.current_accelerator()
    if device is None:
        raise SystemExit("--device auto: torch finds no accelerator on this machine")
    return str(device)


def rate_alone(precision: str, device: str, width: int, tokens: int) -> float:
    """Multiplications and additions a second of (tokens, H) × (H, 4 H), the best of ten, by bertkit's linear layer.

    Args:
        precision: ``bf16``, or ``no`` for float32.
    """
    import torch

    from bertkit.placement.matrix_products import fast_products

    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    left = torch.randn(tokens, width, dtype=kind, device=device)
    layer = torch.nn.Linear(width, 4 * width, bias=False, dtype=kind, device=device)
    best = float("inf")
    with fast_products([layer]), torch.inference_mode():
        for _ in range(10):
            started = time.perf_counter()
            for _ in range(5):
                layer(left)
            if device != "cpu":
                torch.accelerator.synchronize()
            best = min(best, (time.perf_counter() - started) / 5)
    return 8 * tokens * width**2 / best
