"""The HTTP server below the application: names of hosts that it answers to, refusals before the end of a body, its end.

A page of another site can let its own name point at this machine (DNS rebinding); the browser then sends its requests
to a server that listens on loopback only, with that name as their host. They are refused here.

Starlette's TrustedHostMiddleware knows no server that answers to every IP address, refuses requests without a host and
names with a dot at their end, and does not say what to do.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response

from bertkit.runtime.errors import RecipeError, shortened
from bertkit.runtime.json_text import dumps
from bertkit.runtime.options import several

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOCAL = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"(\*|(\*\.)?[\w-]+(\.[\w-]+)*)", re.ASCII)  # as browsers send them
_LINGER = 5.0  # seconds
_LAST_ANSWERS = _LINGER + 1  # seconds for the answers to requests that were not done in time


class Hosts:
    """Names that a server answers to: those of loopback, that which it listens on, and those that are allowed.

    A server that listens on all addresses also answers to every IP address and to the name of its machine: another site
    can be none of them.

    Args:
        host: what the server listens on, as it was given.
        address: its IP address.
        allowed: more names, such as ``example.org``, ``*.example.org`` for the names below it, or ``*`` for all.

    Raises:
        RecipeError: an allowed name is no name of a host.
    """

    def __init__(self, host: str, address: str, allowed: str | Sequence[str] = ()):
        own = ip_address(address.partition("%")[0])
        self.any_address, self.is_loopback = own.is_unspecified, own.is_loopback
        if self.any_address:
            machine = socket.gethostname().lower()
            names = ["localhost", machine, machine.partition(".")[0]]
        else:
            names = [*_LOCAL, host.lower(), address]
        for given in several(allowed):
            name = given.lower().removeprefix("[").removesuffix("]")
            if _is_address(name):
                name = str(ip_address(name))  # as browsers send it, also if it was given with zeros
            elif not _NAME.fullmatch(name):
                raise RecipeError(
                    f"--allowed-host {name}: expected the name of a host without a port, such as example.org, in "
                    "ASCII (xn--… for other letters); *.example.org for the names below it; or * for all names"
                )
            names.append(name)
        self.names = list(dict.fromkeys(names))

    def accept(self, header: str | None) -> bool:
        """Returns whether a request with this header is answered; without one, it is of no browser."""
        if header is None or "*" in self.names:
            return True
        try:
            name = (urlsplit(f"//{header}").hostname or "").removesuffix(".")
        except ValueError:
            return False
        below = (pattern[1:] for pattern in self.names if pattern.startswith("*."))
        return name in self.names or (self.any_address and _is_address(name)) or name.endswith(tuple(below))


class HostCheck:
    """ASGI application that answers requests to foreign hosts with 400, and gives the others to ``app``."""

    def __init__(self, app: ASGIApp, hosts: Hosts):
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host") if scope["type"] in ("http", "websocket") else None
        if self._hosts.accept(host):
            await self._app(scope, receive, send)
            return
        message = (
            f"Host {shortened(str(host), 80)!r}: this server answers to {', '.join(self._hosts.names)}; start it with "
            "--allowed-host NAME to add a name"
        )
        answer = Response(dumps({"error": message, "error_type": "Validation"}), 400, None, "application/json")
        await answer(scope, receive, send)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Lingering:
    """ASGI application that keeps a connection open after an answer that comes before the end of a body.

    To close a connection while a client sends resets it, so that a client that reads the answer after it has sent
    everything sees a broken pipe instead. What still arrives is discarded, for 5 seconds at most.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_sending = True  # the client

        async def received() -> Message:
            nonlocal is_sending
            message = await receive()
            is_sending = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            if is_sending and message["type"] == "http.response.body" and not message.get("more_body", False):
                await send({**message, "more_body": True})
                with suppress(TimeoutError, asyncio.CancelledError):  # cancelled when the server ends at once
                    async with asyncio.timeout(_LINGER):
                        while is_sending:
                            await received()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        await self._app(scope, received, sent)


class HttpServer(uvicorn.Server):
    """uvicorn's server, which lets the application answer the requests that are not done before it cancels them.

    Args:
        config: of uvicorn.
        timeout: seconds that requests have to end after a signal.
        at_timeout: called then, or at a second Ctrl-C, in the event loop.
    """

    def __init__(self, config: uvicorn.Config, timeout: float, at_timeout: Callable[[], None]):
        config.timeout_graceful_shutdown = round(timeout + _LAST_ANSWERS)
        super().__init__(config)
        self._timeout = timeout
        self._at_timeout = at_timeout

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the connections, see `uvicorn.Server.shutdown`."""
        timer = asyncio.get_running_loop().call_later(self._timeout, self._at_timeout)
        await super().shutdown(sockets)
        timer.cancel()
        if self.force_exit:  # a second Ctrl-C: uvicorn waits for nothing
            self._at_timeout()
            await asyncio.sleep(0.1)  # until the answers are written
            await self.lifespan.shutdown()
