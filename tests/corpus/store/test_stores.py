"""Stores given as a corpus: folders and URLs."""

from __future__ import annotations

import functools
import http.server
import json
import threading

import pytest

from bertkit.corpus.store import token_store
from bertkit.corpus.store.token_store import names_store, open_store
from bertkit.errors import DataError


@pytest.fixture
def folder(corpus):
    """A store with a tokenizer."""
    folder = corpus.build(corpus.write(one="t0 t1. T2\n\nt3", two="t4")).folder
    corpus.tokenizer.save_pretrained(folder / "tokenizer")
    return folder


@pytest.fixture
def url(folder):
    """The same store in the memory of fsspec."""
    import fsspec

    files = fsspec.filesystem("memory")
    files.put(str(folder), "/bucket/store", recursive=True)
    yield "memory://bucket/store"
    files.rm("/bucket", recursive=True)


def test_a_store_is_told_from_texts(folder, tmp_path):
    assert names_store([str(folder)])
    assert names_store(["s3://bucket/store"])
    assert not names_store([])
    assert not names_store([str(tmp_path), "wikimedia/wikipedia"])
    with pytest.raises(DataError, match="a token store is a whole corpus"):
        names_store([str(folder), str(tmp_path / "one.txt")])


def test_a_local_url_is_not_copied(folder, tmp_path):
    store = open_store(f"file://{folder}", tmp_path / "copies")
    assert store.folder == folder
    assert not (tmp_path / "copies").exists()


def test_a_store_at_a_url_is_copied_once(folder, url, tmp_path, monkeypatch):
    copied = open_store(url, tmp_path / "copies")
    assert copied.folder.parent == tmp_path / "copies"
    assert copied.fingerprint == open_store(str(folder), tmp_path).fingerprint
    for name in ("documents.arrow", "store.json", "tokenizer/tokenizer.json"):
        assert (copied.folder / name).read_bytes() == (folder / name).read_bytes()
    monkeypatch.setattr(token_store, "_copy", None)
    assert open_store(url, tmp_path / "copies").folder == copied.folder


def test_a_damaged_copy_is_copied_again(url, tmp_path):
    copied = open_store(url, tmp_path / "copies").folder
    (copied / "documents.arrow").write_bytes(b"damaged")
    assert open_store(url, tmp_path / "copies").num_documents == 2


@pytest.mark.parametrize("damage", ["documents.arrow", "store.json", "tokenizer/tokenizer.json"])
def test_an_incomplete_store_leaves_no_copy(url, tmp_path, damage):
    import fsspec

    fsspec.filesystem("memory").rm(f"/bucket/store/{damage}")
    with pytest.raises(DataError, match=r"^memory://bucket/store: "):
        open_store(url, tmp_path / "copies")
    assert not list((tmp_path / "copies").glob("*"))


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("key", "value"),
    [("fingerprint", each) for each in ("/../../mine", "../../mine", "/tmp", "a/../" * 4, HEX[:63], HEX.upper(), None)]
    + [("fingerprint", f"{HEX}\n"), ("fingerprint", "\0" * 64), ("fingerprint", 7)]
    + [("checksum", "7"), ("checksum", -1), ("checksum", 1.5), ("bytes", "9"), ("bytes", None)],
)
def test_a_url_removes_no_other_folder(url, folder, tmp_path, key, value):
    """Its metadata become the name of the folder of its copy."""
    import fsspec

    content = {**json.loads((folder / "store.json").read_text()), key: value}
    fsspec.filesystem("memory").pipe("/bucket/store/store.json", json.dumps(content).encode())
    for place in ("mine", "copies/store-"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "file.txt").touch()
    with pytest.raises(DataError, match=r"store\.json is damaged"):
        open_store(url, tmp_path / "copies")
    assert (tmp_path / "mine" / "file.txt").exists()
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["store-"]


@pytest.mark.parametrize("given", ["memory://none/there", "file:///none/there", "nothing://a/b"])
def test_a_url_without_a_store(given, tmp_path):
    with pytest.raises(DataError):
        open_store(given, tmp_path)


def test_over_http(folder, tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.parent))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        root = f"http://127.0.0.1:{server.server_port}"
        copied = open_store(f"{root}/{folder.name}", tmp_path / "copies")
        with pytest.raises(DataError, match=r"no token store at this URL"):
            open_store(f"{root}/missing", tmp_path / "copies")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (copied.folder / "documents.arrow").read_bytes() == (folder / "documents.arrow").read_bytes()
