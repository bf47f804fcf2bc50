"""``bertkit serve``: loads a checkpoint and serves it until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from bertkit.features.serving.requests import Limits
from bertkit.inference.loaded import load
from bertkit.inference.options import PredictOptions
from bertkit.model.checkpoint.encoders import MASKED_LM_HEADS, saved_head
from bertkit.model.checkpoint.load import load_config
from bertkit.recipe.files import run_name
from bertkit.runtime.errors import RecipeError, importing
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.progress import say

if TYPE_CHECKING:
    import uvicorn

    from bertkit.features.serving.connections import Hosts
    from bertkit.features.serving.services import Service
    from bertkit.inference.loaded import LoadedCheckpoint

As = Literal["predict", "fill-mask", "embed"]
_SWITCH_SECONDS = 0.0005
_BATCH_SIZE = 32


def serve(
    checkpoint: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    as_: As | None = None,
    device: Literal["auto", "cpu"] = "auto",
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    token: str | None = None,
    allowed_hosts: str | Sequence[str] = (),
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
    max_error: float | None = None,
    by_class: bool = False,
) -> None:
    """Serves a checkpoint over HTTP until SIGTERM or Ctrl-C; then answers the requests that it has taken and returns.

    POST ``/`` takes and gives what Hugging Face's Inference API defines for the task, so that
    ``huggingface_hub.InferenceClient(model="http://127.0.0.1:8000")`` works; other routes are those of
    text-embeddings-inference, and OpenAI's ``/v1/embeddings``. Answers are those of ``bertkit predict``, ``fill-mask``
    and ``embed``.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        host: address to listen on; the default accepts connections of this machine only.
        port: port to listen on; 0 takes a free one.
        as_: what the checkpoint is served as; ``None`` decides by its head: ``predict`` if it was fine-tuned,
            ``fill-mask`` with a masked-LM head, else ``embed``.
        device, precision, revision, trust_remote_code: as for `bertkit.load`.
        token: bearer token that all routes except ``/health`` need; ``None`` needs none.
        allowed_hosts: names of hosts that requests may be addressed to, besides those of loopback and ``host``:
            ``example.org``, ``*.example.org`` for the names below it, or ``*`` for all. With ``0.0.0.0`` or ``::`` as
            ``host``, all IP addresses and the name of the machine are among them.
        limits: on requests and batches; ``None`` is the default of each.
        ready: called with the address, such as ``http://127.0.0.1:8000``, when connections are accepted.
        max_error, by_class: as for `bertkit.predict`; then each label of an answer says with ``predicted`` whether it
            is given, and none is where the prediction is unsure. For runs of classification whose rows were scored
            by folds.

    Raises:
        RecipeError: the extra ``serve`` is missing, the address cannot be listened on, ``as_`` is another word, the
            token is not printable ASCII or has blanks at its ends, an allowed host is no name, or the rows of the run
            do not support ``max_error``.
        CheckpointError: the checkpoint cannot be loaded.
        PlacementError: the device or the precision is impossible.

    Examples:
        ```python
        bertkit.serve("my-reviews", port=8000)  # until Ctrl-C
        ```
    """
    with importing("serve:", "serve"):
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    if token is not None and not re.fullmatch("[!-~]([ -~]*[!-~])?", token):  # clients cannot send blanks at its ends
        raise RecipeError("--token: expected printable ASCII characters, the first and the last no blank")
    limits = limits or Limits()
    with listening(host, port) as listener:
        from bertkit.features.serving.app import build_app
        from bertkit.features.serving.connections import Hosts

        hosts = Hosts(host, listener.getsockname()[0], allowed_hosts)
        loaded = load(
            checkpoint,
            device=device,
            batch_size=_BATCH_SIZE,
            precision=precision,
            revision=revision,
            trust_remote_code=trust_remote_code,
        )
        service = service_of(loaded, as_, limits, PredictOptions(max_error=max_error, by_class=by_class))
        if token is None and not hosts.is_loopback:
            say(f"warning: {host} accepts connections of other machines, and no --token protects the server")
        app = build_app(service, run_name(checkpoint), limits, token)
        message = f"serving {checkpoint} ({service.what}) at {{address}}; Ctrl-C ends it"
        run_app(app, listener, message, hosts, limits.shutdown_timeout, ready, app.state.server.end)


def service_of(
    loaded: LoadedCheckpoint, as_: As | None, limits: Limits, options: PredictOptions | None = None
) -> Service:
    """Returns what a checkpoint is served as, with its weights loaded.

    Args:
        loaded: the checkpoint.
        as_: its use; None for that of its head.
        limits: on requests and batches.
        options: which predictions are unsure, None for none; the promise of ``max_error`` is printed.

    Raises:
        CheckpointError: the checkpoint cannot be served so.
        RecipeError: there is no such use, it has no such predictions, or does not support the promise.
    """
    from bertkit.features.serving.pretrained import EmbedService, FillService
    from bertkit.features.serving.services import PredictService

    sizes = (limits.max_client_batch_size, limits.max_request_tokens)
    as_ = use_of(loaded, as_)
    options = options or PredictOptions()
    service: Service
    if as_ == "predict":
        options, lines = options.with_thresholds(loaded.name, options.configure(loaded.predictor.task))
        for line in lines:
            say(line)
        service = PredictService(loaded.predictor, *sizes, options)
    elif options.max_error is not None or options.by_class:
        flag = "--by-class" if options.max_error is None else "--max-error"
        raise RecipeError(f"{flag}: {loaded.name} is served as {as_}, which predicts no classes; remove it")
    elif as_ == "fill-mask":
        service = FillService(loaded, *sizes)
    else:
        service = EmbedService(loaded, run_name(loaded.name), *sizes)
    # Copies: weights that are mapped from the files of a checkpoint would change with files that are overwritten in
    # place, and files that are truncated would end the process.
    for module in service.model.modules():
        for weights in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            weights.data = weights.data.clone()
    return service


def use_of(loaded: LoadedCheckpoint, as_: As | None) -> As:
    """Returns what a checkpoint is used for: ``as_``, or by its head that of its fine-tuning, masks, or vectors.

    Raises:
        RecipeError: ``as_`` is none of these.
    """
    if as_ is not None:
        if as_ not in get_args(As):
            raise RecipeError(f"--as {as_}: expected one of {', '.join(get_args(As))}")
        return as_
    if loaded.is_fine_tuned:
        return "predict"
    return "fill-mask" if saved_head(load_config(loaded.name, any_encoder=True)) in MASKED_LM_HEADS else "embed"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Binds a socket and yields it, before a model is loaded, so that a port in use is reported at once.

    Raises:
        RecipeError: the address is in use, not allowed or not of this machine.
    """
    if not 0 <= port <= 65535:
        raise RecipeError(f"--port {port}: expected 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise RecipeError(f"--host {host}: {getattr(error, 'strerror', None) or error}") from error
    with listener:
        try:
            if sys.platform != "win32":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            mend = "another --port, or 0 for a free one"
            if error.errno == errno.EADDRNOTAVAIL:
                mend = "an address of this machine with --host"
            raise RecipeError(f"--host {host} --port {port}: {error.strerror or error}; give {mend}") from error
        yield listener


def _address(listener: socket.socket) -> str:
    """Returns the URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_app(
    app: Any,
    listener: socket.socket,
    message: str,
    hosts: Hosts,
    shutdown_timeout: float,
    ready: Callable[[str], None] | None = None,
    at_timeout: Callable[[], None] = lambda: None,
) -> None:
    """Runs an ASGI application until SIGTERM or Ctrl-C, and ends the requests that it has taken.

    Args:
        app: the application.
        listener: a bound socket.
        message: printed when connections are accepted, with ``{address}`` replaced.
        hosts: names that requests may be addressed to.
        shutdown_timeout: seconds that requests have to end.
        ready: called with the address when connections are accepted.
        at_timeout: called when requests have not ended in time; answers them.

    Raises:
        RecipeError: another process listens on the address.
    """
    import uvicorn

    from bertkit.features.serving.connections import HostCheck, HttpServer, Lingering

    # No access log: a query string could hold texts.
    config = uvicorn.Config(
        HostCheck(Lingering(app), hosts),
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    server = HttpServer(config, shutdown_timeout, at_timeout)
    with _serving(server):
        try:
            listener.listen(config.backlog)  # connections wait until uvicorn takes them
        except OSError as error:  # another process has begun to listen since the socket was bound
            taken = f"{_address(listener)}: {error.strerror}; give another --port, or 0 for a free one"
            raise RecipeError(taken) from error
        say(message.replace("{address}", _address(listener)))
        if hosts.any_address and "*" not in hosts.names:
            say(f"answers requests to IP addresses and to {', '.join(hosts.names)}; --allowed-host NAME adds a name")
        if ready is not None:
            ready(_address(listener))
        try:
            other_loop = asyncio.get_running_loop()
        except RuntimeError:
            other_loop = None
        if other_loop is None:
            server.run(sockets=[listener])
        else:  # in a notebook, whose loop has this thread; signals end the server from here too
            with ThreadPoolExecutor(1) as executor:
                executor.submit(server.run, sockets=[listener]).result()


@contextmanager
def _serving(server: uvicorn.Server) -> Iterator[None]:
    """Context in which a server runs.

    Signals end the server also before it takes them itself, and the process goes on after its end: uvicorn raises the
    signal again then. The thread that computes takes turns with the event loop more often: each operation of torch
    releases the interpreter's lock; with Python's 5 ms it would wait for as long to get it back whenever the event loop
    is busy.
    """
    handlers: dict[int, Any] = {}
    try:
        for each in (signal.SIGINT, signal.SIGTERM):
            handlers[each] = signal.signal(each, server.handle_exit)
    except ValueError:  # not the main thread: uvicorn takes no signals either
        pass
    turns = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(turns)
        for number, handler in handlers.items():
            signal.signal(number, handler)
