"""The HTTP server below the application: the end of requests that are refused early, and the end of the server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LINGER = 5.0  # seconds
_LAST_ANSWERS = _LINGER + 1  # seconds for the answers to requests that were not done in time


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
        config.timeout_graceful_shutdown = max(1, round(timeout + _LAST_ANSWERS))
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
