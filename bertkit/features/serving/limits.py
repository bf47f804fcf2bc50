"""Limits of `bertkit.serve` on requests and batches."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from bertkit.runtime.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on requests and batches.

    Attributes:
        max_batch_tokens: tokens of the requests that are computed together, about; a longer request is alone.
        max_concurrent_requests: requests that are taken at the same time; more are answered with 429.
        max_client_batch_size: texts of a request.
        max_request_tokens: tokens of a request, with special tokens, over all its texts and their windows.
        max_body_bytes: bytes of a body.
        body_timeout: seconds for the arrival of a body.
        shutdown_timeout: seconds that requests have to end after SIGTERM or Ctrl-C.
    """

    max_batch_tokens: int = 4096
    max_concurrent_requests: int = 512
    max_client_batch_size: int = 32
    max_request_tokens: int = 32768
    max_body_bytes: int = 2_000_000
    body_timeout: float = 30.0
    shutdown_timeout: float = 30.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise RecipeError(f"--{field.name.replace('_', '-')}: expected a positive number, got {value}")
