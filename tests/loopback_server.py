"""HTTP server on a free local port, and what its answers say of repositories: the base of the Hubs for tests."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self


class LoopbackServer:
    """Answers while a ``with`` block lasts; ``handler`` gets the server that it answers for as ``hub``."""

    handler: ClassVar[type[BaseHTTPRequestHandler]]

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (self.handler,), {"hub": self}))
        self._server.daemon_threads = True  # a connection that a test cut off may never end
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """Value of ``HF_ENDPOINT`` for a program."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    """Answers requests of every kind by ``_answer``, silently, on connections that stay open."""

    hub: Any
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, *_: Any) -> None:
        pass

    def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str) -> None:
        named = {"X-Error-Code": code, "X-Error-Message": code} if code else {}
        self._send(b"{}", status, {"Content-Type": "application/json", **named})


def oid(data: bytes) -> str:
    """40 hexadecimal digits that depend on the content alone."""
    return hashlib.sha1(data).hexdigest()


def commit_of(files: Mapping[str, bytes]) -> str:
    """The commit of files by their path: 40 hexadecimal digits that depend on them alone."""
    return oid(json.dumps({path: oid(data) for path, data in files.items()}, sort_keys=True).encode())


def entry_of(path: str, data: bytes) -> dict[str, Any]:
    """A file in the list of a repository."""
    return {"type": "file", "path": path, "size": len(data), "oid": oid(data)}
