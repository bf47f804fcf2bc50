"""A Hub on this machine: enough of its HTTP interface for ``datasets`` to load and to stream a data set from it.

Started with ``with HubServer({"org/name": {"train.jsonl": b"..."}}) as hub:``; a program that runs with
``HF_ENDPOINT=hub.endpoint`` finds these repositories and no others.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tests.loopback_server import Handler, LoopbackServer, commit_of, entry_of, oid

Files = Mapping[str, bytes]


class HubServer(LoopbackServer):
    """Data set repositories by their id, each its files by their path; every one has one commit, called ``main``."""

    def __init__(self, repositories: Mapping[str, Files]):
        self.repositories = dict(repositories)
        self.requests: list[str] = []
        super().__init__()


class _Handler(Handler):
    hub: HubServer

    def _answer(self) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match [urllib.parse.unquote(part) for part in urllib.parse.urlsplit(self.path).path.strip("/").split("/")]:
            case ["api", "datasets", owner, name, *rest]:
                self._answer_api(f"{owner}/{name}", rest, body)
            case ["datasets", owner, name, "resolve", _, *path]:
                self._answer_file(f"{owner}/{name}", "/".join(path))
            case _:
                self._refuse(404, "EntryNotFound")

    def _answer_api(self, repository: str, rest: list[str], body: bytes) -> None:
        files = self.hub.repositories.get(repository)
        if files is None:
            return self._refuse(404, "RepoNotFound")
        match rest:
            case [] | ["revision", _]:
                siblings = [{"rfilename": path} for path in files]
                self._send_json({"id": repository, "sha": commit_of(files), "siblings": siblings, "tags": []})
            case ["tree", _, *folder]:
                below = "/".join([*folder, ""]).lstrip("/")
                entries = [entry_of(path, data) for path, data in files.items() if path.startswith(below)]
                parents = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
                entries += [_folder_entry(path) for path in sorted(parents) if path.startswith(below)]
                self._send_json(entries) if entries or not below else self._refuse(404, "EntryNotFound")
            case ["paths-info", _]:
                wanted = (
                    urllib.parse.parse_qs(body.decode())["paths"] if body[:1] != b"{" else json.loads(body)["paths"]
                )
                known = [entry_of(path, files[path]) for path in wanted if path in files]
                folders = [path for path in wanted if any(file.startswith(f"{path}/") for file in files)]
                self._send_json([*known, *map(_folder_entry, folders)])
            case _:
                self._refuse(404, "EntryNotFound")

    def _answer_file(self, repository: str, path: str) -> None:
        files = self.hub.repositories.get(repository)
        if files is None or path not in files:
            return self._refuse(404, "RepoNotFound" if files is None else "EntryNotFound")
        data, status, headers = files[path], 200, {"Accept-Ranges": "bytes"}
        size = len(data)
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or size - 1), size - 1)
            data, status = data[start : end + 1], 206
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        kind = {"Content-Type": "application/octet-stream", "ETag": f'"{oid(files[path])}"'}
        self._send(data, status, {**headers, **kind, "X-Repo-Commit": commit_of(files), "X-Linked-Size": str(size)})


HubServer.handler = _Handler


def _folder_entry(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": oid(path.encode())}
