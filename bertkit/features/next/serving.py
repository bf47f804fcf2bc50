"""Adapter of `bertkit label` to the server of the feature ``serving``, for connections of this machine only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bertkit.features.serving.connections import Hosts
from bertkit.features.serving.server import listening, run_app

_HOST = "127.0.0.1"
_SHUTDOWN = 5  # seconds


def serve_page(
    app: Any, message: str, port: int, allowed_hosts: Sequence[str], ready: Callable[[str], None] | None
) -> None:
    """Serves an ASGI application on this machine until SIGTERM or Ctrl-C.

    Args:
        app: the application.
        message: printed when connections are accepted, with ``{address}`` replaced.
        port: port to listen on; 0 takes a free one.
        allowed_hosts, ready: as for `bertkit.serve`.

    Raises:
        RecipeError: the port cannot be listened on, or an allowed host is no name.
    """
    with listening(_HOST, port) as listener:
        run_app(app, listener, message, Hosts(_HOST, _HOST, allowed_hosts), _SHUTDOWN, ready)
