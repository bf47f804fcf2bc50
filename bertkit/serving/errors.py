"""Errors of requests, with their HTTP status and the type that text-embeddings-inference gives them."""

from __future__ import annotations

from collections.abc import Mapping


class RequestError(Exception):
    """An error that is answered with its message.

    Attributes:
        status: HTTP status.
        error_type: value of ``error_type`` in the answer.
        headers: additional headers of the answer.
    """

    status = 422
    error_type = "Validation"
    headers: Mapping[str, str] = {}


class InvalidRequest(RequestError):
    """The body is no JSON, has a wrong form, or texts that the task does not take."""


class TooLong(RequestError):
    """A body, a text or the number of texts is over its limit."""

    status = 413


class BodyTooLarge(TooLong):
    """The body is not read to its end, so the connection is closed."""

    headers: Mapping[str, str] = {"Connection": "close"}


class WrongContentType(RequestError):
    """The body is not declared as JSON."""

    status = 415


class SlowBody(RequestError):
    """The body has not arrived in time."""

    status = 408
    headers: Mapping[str, str] = {"Connection": "close"}


class Unauthorized(RequestError):
    """The bearer token is missing or wrong."""

    status = 401
    error_type = "Unauthorized"
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class NotServed(RequestError):
    """The checkpoint cannot answer requests of this route, or its model failed."""

    status = 424
    error_type = "Backend"


class Overloaded(RequestError):
    """Too many requests are waiting."""

    status = 429
    error_type = "Overloaded"
    headers: Mapping[str, str] = {"Retry-After": "1"}


class Unavailable(RequestError):
    """The server ends, or nothing computes requests any more."""

    status = 503
    error_type = "Unhealthy"


class ServerFault(RequestError):
    """A bug in bertkit or in a library."""

    status = 500
    error_type = "Internal"
