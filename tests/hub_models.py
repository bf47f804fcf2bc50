"""The Hub's side of a push, on this machine: model repositories over real HTTP, with the faults that a test asks for.

Speaks what ``huggingface_hub`` asks of it to create a repository and a branch, to upload (LFS by plain PUT, small files
within the commit) and to download again. A program that runs with ``HF_ENDPOINT=hub.endpoint`` and
``HF_HUB_DISABLE_XET=1`` finds these repositories and no others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.parse
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.loopback_server import Handler, LoopbackServer, commit_of, entry_of, oid

TOKEN = "hf_AVerySecretTokenOfAda"
USER = "ada"


@dataclass
class Repository:
    """Branches of a repository, each its files by their path."""

    private: bool = False
    branches: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"main": {}})


class ModelHub(LoopbackServer):
    """A Hub with the user ``ada``, whose token is `TOKEN`.

    ``faults`` maps a repository to its faulty steps (``create``, ``branch``, ``preupload``, ``lfs``, ``commit``), and
    each step to a list with the answer to each of its requests: an HTTP status, or ``"drop"``, which closes the
    connection when half of the body has been read. Requests beyond the list get the right answer.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.faults: dict[tuple[str, str], list[int | str]] = {}
        self.steps: Counter[tuple[str, str]] = Counter()
        super().__init__()

    def files(self, repository: str, branch: str = "main") -> dict[str, bytes]:
        """The files of a branch; none where there is no such repository."""
        found = self.repositories.get(repository)
        return found.branches[branch] if found else {}


class _Handler(Handler):
    hub: ModelHub

    def _answer(self) -> None:
        parts = [urllib.parse.unquote(part) for part in urllib.parse.urlsplit(self.path).path.strip("/").split("/")]
        match parts:
            case ["api", "repos", "create"]:
                self._create(json.loads(self._body()))
            case ["api", "validate-yaml"]:
                self._validate(json.loads(self._body())["content"])
            case ["api", "whoami-v2"]:
                if self._may_write():
                    self._send_json({"name": USER, "type": "user", "orgs": []})
            case ["api", "models" | "spaces" as kind, owner, name, step, *rest] if self.command == "POST":
                repository = _name(kind, f"{owner}/{name}")
                if self._goes_wrong(repository, step) or not self._may_write():
                    return
                getattr(self, f"_{step}")(repository, rest)
            case ["api", "models" | "spaces" as kind, owner, name, *rest]:
                self._info(_name(kind, f"{owner}/{name}"), rest)
            case [owner, name, "info", "lfs", "objects", "batch"]:
                self._lfs_batch(f"{owner}/{name.removesuffix('.git')}")
            case ["lfs", owner, name, oid]:
                if not self._goes_wrong(f"{owner}/{name}", "lfs"):
                    self._lfs(f"{owner}/{name}", oid)
            case ["datasets", owner, name, "resolve", revision, *path]:
                self._resolve(f"datasets/{owner}/{name}", revision, "/".join(path))
            case [owner, name, "resolve", revision, *path]:
                self._resolve(f"{owner}/{name}", revision, "/".join(path))
            case _:
                self._refuse(404, "EntryNotFound")

    def _validate(self, card: str) -> None:
        """Refuses a language that is no text, as the Hub does."""
        language = yaml.safe_load(card.split("---\n")[1]).get("language", "en") if card.startswith("---") else "en"
        if all(isinstance(each, str) for each in (language if isinstance(language, list) else [language])):
            self._send_json({"errors": [], "warnings": []})
        else:
            self._send(b'"language" must be a string', 400, {"Content-Type": "text/plain"})

    # ---- writing --------------------------------------------------------------------------------------------------

    def _goes_wrong(self, repository: str, step: str) -> bool:
        self.hub.steps[repository, step] += 1
        planned = self.hub.faults.get((repository, step), [])
        fault = planned.pop(0) if planned else None
        if fault == "drop":
            self._body(share=0.5)
            self.close_connection = True
            self.connection.close()
        elif isinstance(fault, int):
            self._body()
            self._refuse(fault, "")
        return fault is not None

    def _may_write(self) -> bool:
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if not known:
            self._body()
            self._refuse(401, "")
        return known

    def _create(self, wanted: dict[str, Any]) -> None:
        name = _name(f"{wanted.get('type', 'model')}s", f"{wanted.get('organization') or USER}/{wanted['name']}")
        if self._goes_wrong(name, "create") or not self._may_write():
            return
        address = {"url": f"{self.hub.endpoint}/{name}"}
        if name in self.hub.repositories:
            return self._send_json(address, 409)
        self.hub.repositories[name] = Repository(wanted.get("visibility") == "private" or wanted.get("private", False))
        self._send_json(address)

    def _branch(self, repository: str, rest: list[str]) -> None:
        self._body()
        branches = self.hub.repositories[repository].branches
        if rest[0] in branches:
            return self._refuse(409, "")
        branches[rest[0]] = dict(branches["main"])
        self._send_json({})

    def _preupload(self, repository: str, rest: list[str]) -> None:
        files = json.loads(self._body())["files"]
        answers = [
            {"path": file["path"], "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular"}
            | {"shouldIgnore": False, "oid": None}
            for file in files
        ]
        self._send_json({"files": answers})

    def _lfs_batch(self, repository: str) -> None:
        objects = json.loads(self._body())["objects"]
        for wanted in objects:
            if (repository, wanted["oid"]) not in self.hub.blobs:
                place = f"{self.hub.endpoint}/lfs/{repository}/{wanted['oid']}"
                wanted["actions"] = {"upload": {"href": place, "header": {}}}
        self._send_json({"transfer": "basic", "objects": objects})

    def _lfs(self, repository: str, oid: str) -> None:
        data = self._body()
        if hashlib.sha256(data).hexdigest() != oid:
            return self._refuse(400, "")
        self.hub.blobs[repository, oid] = data
        self._send_json({})

    def _commit(self, repository: str, rest: list[str]) -> None:
        branch = self.hub.repositories[repository].branches[rest[0]]
        files, gone = {}, []
        for line in self._body().splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[repository, value["oid"]]
            elif entry["key"] == "deletedFile":
                gone.append(value["path"])
        branch |= files
        for path in gone:
            del branch[path]
        commit = commit_of(branch)
        self._send_json({"commitUrl": f"{self.hub.endpoint}/{repository}/commit/{commit}", "commitOid": commit})

    # ---- reading --------------------------------------------------------------------------------------------------

    def _branch_of(self, repository: str, revision: str) -> dict[str, bytes] | None:
        """The files of a branch, or of a commit that is the last of one."""
        branches = self.hub.repositories[repository].branches if repository in self.hub.repositories else {}
        by_commit = {commit_of(files): files for files in branches.values()}
        return branches.get(revision, by_commit.get(revision))

    def _info(self, repository: str, rest: list[str]) -> None:
        if repository not in self.hub.repositories:
            return self._refuse(404, "RepoNotFound")
        files = self._branch_of(repository, rest[1] if len(rest) > 1 else "main")
        if files is None:
            return self._refuse(404, "RevisionNotFound")
        match rest:
            case [] | ["revision", _]:
                about = {"id": repository, "modelId": repository, "sha": commit_of(files), "tags": []}
                siblings = [{"rfilename": path} for path in files]
                self._send_json({**about, "private": self.hub.repositories[repository].private, "siblings": siblings})
            case ["tree", _, *folder] if not folder:
                self._send_json([entry_of(path, data) for path, data in files.items()])
            case _:
                self._refuse(404, "EntryNotFound")

    def _resolve(self, repository: str, revision: str, path: str) -> None:
        files = self._branch_of(repository, revision)
        if files is None or path not in files:
            return self._refuse(404, "RepoNotFound" if repository not in self.hub.repositories else "EntryNotFound")
        data = files[path]
        known = {"ETag": f'"{oid(data)}"', "X-Repo-Commit": commit_of(files), "X-Linked-Size": str(len(data))}
        self._send(data, 200, {"Content-Type": "application/octet-stream", **known})

    # ---- HTTP -----------------------------------------------------------------------------------------------------

    def handle_one_request(self) -> None:
        self._read = False
        super().handle_one_request()

    def _body(self, share: float = 1.0) -> bytes:
        """Returns the body of the request, or its first part with the rest unread. It can be read once."""
        if self._read:
            return b""
        self._read = True
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
                if share < 1:
                    return data
            self.rfile.readline()
            return data
        return self.rfile.read(int(share * int(self.headers.get("Content-Length") or 0)))


ModelHub.handler = _Handler


def _name(kind: str, repository: str) -> str:
    """Key of a repository; those of Spaces start with ``spaces/``, as their addresses."""
    return f"spaces/{repository}" if kind == "spaces" else repository
