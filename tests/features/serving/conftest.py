"""The server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class Client:
    """Sends requests to an application in this process, one after another or together.

    Args:
        app: the application; it is started and stopped with a ``with`` block.
    """

    def __init__(self, app: Any):
        self.app = app
        self._runner = asyncio.Runner()

    def __enter__(self) -> Client:
        self._lifespan = self.app.router.lifespan_context(self.app)
        self._runner.run(self._lifespan.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._runner.run(self._lifespan.__aexit__(*error))
        self._runner.close()

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """Returns the response to one request."""
        return self.together([(path, body)], **options)[0]

    def get(self, path: str, **options: Any) -> Any:
        return self._runner.run(self._request("GET", path, None, options))

    def together(self, requests: list[tuple[str, Any]], **options: Any) -> list[Any]:
        """Returns the responses to requests that are sent at the same time."""

        async def send() -> list[Any]:
            return await asyncio.gather(*(self._request("POST", *request, options) for request in requests))

        return self._runner.run(send())

    async def _request(self, method: str, path: str, body: Any, options: dict[str, Any]) -> Any:
        import httpx

        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            given = {} if body is None else {"json": body}
            return await client.request(method, path, **given, **options, timeout=60)


@pytest.fixture(scope="module")
def client_of(serve_extra: None) -> Iterator[Callable[..., Client]]:
    """Returns a function that serves a checkpoint in this process until the module's tests are done."""
    import bertkit
    from bertkit.features.serving.app import build_app
    from bertkit.features.serving.requests import Limits
    from bertkit.features.serving.server import service_of

    open_clients: dict[Any, Client] = {}

    def client(folder: Path, as_: Any = None, token: str | None = None, **limits: Any) -> Client:
        key = (folder, as_, token, *limits.items())
        if key not in open_clients:
            of_server = Limits(**limits)
            service = service_of(bertkit.load(folder, device="cpu"), as_, of_server)
            open_clients[key] = Client(build_app(service, folder.name, of_server, token)).__enter__()
        return open_clients[key]

    yield client
    for each in open_clients.values():
        each.__exit__(None, None, None)
