"""The HTTP application: admission of requests, reading of bodies, and answers as JSON."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from bertkit.features.serving.batching import Batcher, Metrics, report
from bertkit.features.serving.requests import (
    BodyTooLarge,
    InvalidRequest,
    Limits,
    Overloaded,
    RequestError,
    ServerFault,
    SlowBody,
    Unauthorized,
    Unavailable,
    WrongContentType,
    parse_body,
)
from bertkit.features.serving.services import Route, Service, not_served
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted, say
from bertkit.runtime.version import __version__

# All POST routes that some checkpoint answers; those of others are refused with the reason.
_KNOWN = ("/", "/predict", "/rerank", "/embed", "/similarity", "/v1/embeddings", "/embeddings")

_CLIENT_LEFT = 499  # in the metrics, as in those of nginx
_ENDS = "the server ends"


class Server:
    """Handlers of the routes of the application, with the state of its open requests."""

    def __init__(self, service: Service, name: str, limits: Limits, token: str | None):
        self.service = service
        self.routes = service.routes()
        self.name = name
        self.limits = limits
        self.metrics = Metrics()
        self.batcher = Batcher(service, limits.max_batch_tokens, self.metrics)
        self._token = None if token is None else token.encode()
        self._taken = 0
        # The bodies that are arriving, in the order of their beginning, and those that are given up, with their errors.
        self._arriving: dict[asyncio.Timeout, None] = {}
        self._given_up: dict[asyncio.Timeout, RequestError] = {}

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Computes requests while the application runs."""
        self.batcher.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.batcher.stop)

    async def post(self, request: Request) -> Response:
        """Answers a POST route; one that this checkpoint does not answer with the reason."""
        started, path = time.perf_counter(), request.scope["route"].path
        try:
            self._authorize(request)
            route = self.routes.get(path)
            if route is None:
                raise not_served(path, self.service)
            response = _json(await self._answer(request, route))
        except ClientDisconnect:
            response = Response(status_code=_CLIENT_LEFT)  # which nobody gets
        except RequestError as error:
            response = await _refuse(request, error)
        except Exception as error:
            report(error)
            response = await _refuse(request, ServerFault("a bug of the server; its log has the place"))
        self.metrics.requests.labels(path, response.status_code).inc()
        self.metrics.seconds.observe(time.perf_counter() - started)
        return response

    async def info(self, request: Request) -> Response:
        """Answers GET /info, with the names of text-embeddings-inference."""
        self._authorize(request)
        return _json(
            {
                "model_id": self.name,
                "model_sha": None,
                "model_dtype": self.service.dtype,
                "model_type": self.service.model_type(),
                "task": self.service.what,
                "routes": sorted(self.routes),
                "device": self.service.device,
                "max_concurrent_requests": self.limits.max_concurrent_requests,
                "max_input_length": self.service.longest,
                "max_batch_tokens": self.limits.max_batch_tokens,
                "max_client_batch_size": self.limits.max_client_batch_size,
                "max_request_tokens": self.limits.max_request_tokens,
                "max_body_bytes": self.limits.max_body_bytes,
                "auto_truncate": False,
                "version": __version__,
            }
        )

    async def docs(self, request: Request) -> Response:
        """Answers GET /docs: what can be asked, as plain text, which loads nothing."""
        self._authorize(request)
        keys = {}
        for path, route in self.routes.items():
            body: type[BaseModel] = route.body if isinstance(route.body, type) else route.body(b"{}")
            keys[path] = ", ".join(body.model_fields)
        width = max(map(len, keys))
        lines = [
            f"{self.name}: {self.service.what}, served by bertkit {__version__}",
            "",
            "POST a JSON object with the header Content-Type: application/json. Its keys, by path:",
            *(f"  {path:{width}}  {names}" for path, names in keys.items()),
            "A wrong object is answered with what is wrong. huggingface_hub.InferenceClient and the clients of",
            "text-embeddings-inference and OpenAI send these forms; bertkit's docs/guides/serving.md has examples.",
            "",
            "GET /info for task, labels and limits, /health, /metrics. `bertkit demo` is a page to try texts on.\n",
        ]
        return Response("\n".join(lines), media_type="text/plain")

    async def count(self, request: Request) -> Response:
        """Answers GET /metrics."""
        self._authorize(request)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def health(self, _: Request) -> Response:
        """Answers GET /health, which needs no token."""
        if not self.batcher.is_working:
            raise Unavailable("the server computes no requests any more")
        return Response(status_code=200)

    def end(self) -> None:
        """Answers the requests that are not done with 503, and later ones too; called in the event loop."""
        unfinished = self.batcher.refuse(_ENDS) + len(self._arriving)
        for body in list(self._arriving):
            self._give_up(body, Unavailable(_ENDS))
        if unfinished:
            were = counted(unfinished, "request was", "requests were")
            say(f"bertkit serve: {were} not done before the end: answered with 503")

    def _authorize(self, request: Request) -> None:
        if self._token is None:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        # Compared in constant time, so that the time of an answer tells nothing about the token.
        same = hmac.compare_digest(token.strip().encode("utf-8", "surrogateescape"), self._token)
        if scheme.lower() != "bearer" or not same:
            raise Unauthorized("a bearer token is needed: Authorization: Bearer TOKEN")

    async def _answer(self, request: Request, route: Route) -> Any:
        """Reads a body and returns the answer to it; ClientDisconnect if the client closes the connection before."""
        body = await self._body(request)
        # Counted from here on, so that clients whose bodies arrive slowly keep nobody out.
        if self._taken >= self.limits.max_concurrent_requests:
            raise Overloaded(f"{self._taken} requests are being answered; try again later")
        self._taken += 1
        try:
            model = route.body if isinstance(route.body, type) else route.body(body)
            answering = asyncio.ensure_future(route.answer(parse_body(body, model), self.batcher.submit))
            leaving = asyncio.ensure_future(request.receive())  # after the body: the end of the connection
            try:
                await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    raise ClientDisconnect
                return answering.result()
            finally:
                answering.cancel()
                leaving.cancel()
        finally:
            self._taken -= 1

    async def _body(self, request: Request) -> bytes:
        """Reads a body, which is refused by its declared size before it is read, or at the limit.

        Raises:
            RequestError: it is too large, is empty, is not declared as JSON, or does not arrive in time.
        """
        most = self.limits.max_body_bytes
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise WrongContentType("expected the header Content-Type: application/json")
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared[:20]) > most or len(declared) > 20:
            raise BodyTooLarge(f"the body has more than {most} bytes; send less at once")
        parts, size = [], 0
        timeout = asyncio.timeout(self.limits.body_timeout)
        try:
            async with timeout:
                self._arriving[timeout] = None
                at_once = self.limits.max_concurrent_requests
                if len(self._arriving) > at_once:  # too many would fill the memory, so the oldest is given up
                    late = SlowBody(
                        f"the body had not arrived when those of {at_once} later requests began; try again later"
                    )
                    self._give_up(next(iter(self._arriving)), late)
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise BodyTooLarge(f"the body has more than {most} bytes; send less at once")
                    parts.append(part)
        except TimeoutError:
            too_late = SlowBody(f"the body did not arrive within {self.limits.body_timeout:g} seconds")
            raise self._given_up.get(timeout, too_late) from None
        finally:
            self._arriving.pop(timeout, None)
            self._given_up.pop(timeout, None)
        if not size:
            raise InvalidRequest("the body is empty; expected a JSON object")
        return b"".join(parts)

    def _give_up(self, body: asyncio.Timeout, error: RequestError) -> None:
        del self._arriving[body]
        self._given_up[body] = error
        if not body.expired():  # else its time is over, and it ends next
            body.reschedule(asyncio.get_running_loop().time())


def build_app(service: Service, name: str, limits: Limits, token: str | None = None) -> FastAPI:
    """Returns the ASGI application that serves a checkpoint; its ``state.server`` is a `Server`.

    Args:
        service: what the checkpoint answers.
        name: of the checkpoint, without its folder.
        limits: on requests and batches.
        token: bearer token that all routes except ``/health`` need; ``None`` needs none.
    """
    server = Server(service, name, limits, token)
    # The pages of FastAPI load scripts from other hosts; /docs is a text of ours.
    app = FastAPI(title="bertkit", version=__version__, lifespan=server.lifespan, openapi_url=None)
    for path in _KNOWN:
        app.add_api_route(path, server.post, methods=["POST"])
    app.add_api_route("/info", server.info, methods=["GET"])
    app.add_api_route("/docs", server.docs, methods=["GET"])
    app.add_api_route("/metrics", server.count, methods=["GET"])
    app.add_api_route("/health", server.health, methods=["GET"])
    app.add_exception_handler(RequestError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.state.server = server
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Answers an error; also an unknown path or method, in the form of all others."""
    if isinstance(error, RequestError):
        return _json({"error": str(error), "error_type": error.error_type}, error.status, error.headers)
    assert isinstance(error, HTTPException)
    what = str(error.detail)
    if error.status_code == 405 and request.method == "GET":  # as browsers ask
        what += "; this path takes POST with JSON, whose keys GET /docs names; `bertkit demo` shows a page instead"
    elif error.status_code == 404:
        what += f"; paths: POST {', '.join(_KNOWN)}; GET /docs, /info, /metrics, /health"
    return _json({"error": what, "error_type": "NotFound"}, error.status_code, error.headers)


def _json(content: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(dumps(content), status, headers, "application/json")
