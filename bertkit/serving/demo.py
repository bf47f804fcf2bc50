"""``bertkit demo``: serves the page of a checkpoint until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from bertkit.errors import RecipeError
from bertkit.inference.loaded import LoadedCheckpoint, load
from bertkit.placement.inference import Precision
from bertkit.serving.server import As, default_use, listening, run_app

# With this header the browser blocks everything that the page loads from other hosts.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'self' https://huggingface.co"
)
_SHUTDOWN = 5  # seconds; a page keeps a connection open


def demo(
    checkpoint: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    as_: As | None = None,
    device: Literal["auto", "cpu"] = "auto",
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    allowed_hosts: Sequence[str] = (),
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves a page for a checkpoint until SIGTERM or Ctrl-C.

    The page shows the probabilities of labels as bars, entities and answers marked in their text, the tokens for masks,
    or the similarity of two sentences; its examples are texts of the run's validation set. It sends nothing to other
    hosts and loads nothing from them.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        host: address to listen on; the default accepts connections of this machine only.
        port: port to listen on; 0 takes a free one.
        as_: as for `bertkit.serve`.
        device, precision, revision, trust_remote_code: as for `bertkit.load`.
        allowed_hosts: as for `bertkit.serve`; but all names if none is given and ``host`` is ``0.0.0.0`` or ``::``.
        ready: called with the address when connections are accepted.

    Raises:
        RecipeError: the extra ``demo`` is missing, or the address cannot be listened on.
        CheckpointError: the checkpoint cannot be loaded.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise RecipeError("demo: needs the extra demo: pip install 'bertkit[demo]'") from error
    with listening(host, port) as listener:
        from bertkit.serving.connections import Hosts

        address = listener.getsockname()[0]
        # A page on all interfaces is public, as on a Space, whose name is not known here.
        public = ip_address(address.partition("%")[0]).is_unspecified and not allowed_hosts
        hosts = Hosts(host, address, ["*"] if public else allowed_hosts)
        loaded = load(
            checkpoint, device=device, precision=precision, revision=revision, trust_remote_code=trust_remote_code
        )
        app = build_demo(loaded, Path(str(checkpoint)).name, as_)
        run_app(app, listener, f"page for {checkpoint}: {{address}}; Ctrl-C ends it", hosts, _SHUTDOWN, ready)


def build_demo(loaded: LoadedCheckpoint, name: str, as_: As | None = None) -> Any:
    """Returns the ASGI application with the page at ``/``, titled with the ``name`` of the checkpoint."""
    import gradio
    from fastapi import FastAPI

    from bertkit.serving.page import build_page, form_of

    page = build_page(form_of(loaded, as_ or default_use(loaded)), name)
    app = FastAPI(openapi_url=None)

    @app.middleware("http")
    async def with_policy(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    return gradio.mount_gradio_app(app, page, path="/", theme=page.theme, footer_links=[])
