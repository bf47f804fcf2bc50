"""Stores given as a corpus: folders and URLs."""

from __future__ import annotations

import json
from http.server import SimpleHTTPRequestHandler

import pytest

from bertkit.data.corpus.store import building, copies, opening
from bertkit.data.corpus.store.copies import verify_part
from bertkit.data.corpus.store.manifest import read_metadata, write_metadata
from bertkit.data.corpus.store.opening import names_store, open_store
from bertkit.runtime.errors import DataError
from tests.data.corpus.conftest import build
from tests.hub_server import HubServer
from tests.loopback_server import LoopbackServer

PART = "part-000000-000.arrow"


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
    assert not names_store([str(tmp_path), "wikimedia/wikipedia", "a text in the place of a path" * 9])
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
    assert not (copied.folder / PART).exists()
    assert copied.num_documents == 2
    assert copied.tokens[:4].tolist() == open_store(str(folder), tmp_path).tokens[:4].tolist()
    for name in (PART, "store.json", "tokenizer/tokenizer.json"):
        assert (copied.folder / name).read_bytes() == (folder / name).read_bytes()
    monkeypatch.setattr(opening, "copy_file", None)
    assert open_store(url, tmp_path / "copies").folder == copied.folder


def test_a_store_that_has_moved_is_read_from_its_new_url(url, tmp_path):
    import fsspec

    copied = open_store(url, tmp_path / "copies")
    fsspec.filesystem("memory").mv("/bucket/store", "/bucket/moved", recursive=True)
    moved = open_store("memory://bucket/moved", tmp_path / "copies")
    assert moved.folder == copied.folder
    assert moved.num_documents == len(moved.document_offsets) - 1


def test_a_damaged_copy_is_refused(url, tmp_path):
    copied = open_store(url, tmp_path / "copies").folder
    (copied / PART).write_bytes(b"damaged")
    with pytest.raises(DataError, match=rf"{PART}: 7 bytes, expected \d+: this token store is damaged"):
        open_store(url, tmp_path / "copies").parts[0].arrays


def test_verification_reads_the_url_and_not_the_copy(folder, url, tmp_path):
    import fsspec

    part = open_store(url, tmp_path / "copies").parts[0]
    verify_part(part)
    assert not part.file.exists()
    part.arrays
    content = bytearray((folder / PART).read_bytes())
    content[-1] ^= 1
    fsspec.filesystem("memory").pipe(f"/bucket/store/{PART}", bytes(content))
    with pytest.raises(DataError, match=rf"^{url}/{PART}: its checksum is [0-9a-f]{{8}}, expected"):
        verify_part(part)


@pytest.mark.parametrize("damage", ["", "store.json", "tokenizer/tokenizer.json"])
def test_an_incomplete_or_altered_store_leaves_no_copy(url, folder, tmp_path, damage):
    import fsspec

    altered = (folder / "store.json").read_bytes().replace(b'"documents"', b'"document"')
    fsspec.filesystem("memory").pipe("/bucket/store/store.json", altered)
    if damage:
        fsspec.filesystem("memory").rm(f"/bucket/store/{damage}")
    with pytest.raises(DataError, match=rf"^{url}{': ' if damage else '/store.json: damaged'}"):
        open_store(url, tmp_path / "copies")
    assert not list((tmp_path / "copies").glob("*"))


def test_a_part_that_is_missing_or_damaged_leaves_no_copy(url, tmp_path):
    import fsspec

    store = open_store(url, tmp_path / "copies")
    fsspec.filesystem("memory").pipe(f"/bucket/store/{PART}", b"damaged")
    with pytest.raises(DataError, match=rf"^{url}/{PART}: 7 bytes, expected \d+: this token store is damaged"):
        store.parts[0].arrays
    fsspec.filesystem("memory").rm(f"/bucket/store/{PART}")
    with pytest.raises(DataError, match=rf"^{url}: no complete token store at this URL: {PART} is missing"):
        store.parts[0].arrays
    assert not list(store.folder.glob("*.arrow"))


def test_copies_of_parts_have_a_limit(corpus, tmp_path, monkeypatch):
    """All parts are read though the cache has room for two of them."""
    import fsspec

    monkeypatch.setattr(building, "_LEAST_BYTES", 1000)
    files = corpus.write(one="\n\n".join(f"t{number} t{number + 1}" for number in range(600)))
    whole = build(corpus, files, add=lambda draft: corpus.tokenizer.save_pretrained(draft / "tokenizer"))
    assert len(whole.parts) >= 6
    memory = fsspec.filesystem("memory")
    memory.put(str(whole.folder), "/bucket/parts", recursive=True)
    monkeypatch.setattr(copies, "COPIED_BYTES", 2 * max(part.facts["bytes"] for part in whole.parts))
    try:
        store = open_store("memory://bucket/parts", tmp_path / "copies")
        for _ in range(2):
            assert store.tokens[0 : store.num_tokens].tolist() == whole.tokens[0 : whole.num_tokens].tolist()
            assert 1 <= len(list(store.folder.glob("*.arrow"))) <= 2
            assert sum(part._arrays is not None for part in store.parts) <= 2
    finally:
        memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize("name", ["../x.arrow", "/etc/passwd", "a/b.arrow"])
def test_names_of_parts_are_names_of_files(folder, name):
    content = read_metadata(folder / "store.json")
    content["parts"][0]["name"] = name
    write_metadata(folder / "store.json", content)
    with pytest.raises(DataError, match="is not the name of a file in this folder"):
        open_store(str(folder), folder)


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("key", "value"),
    [("fingerprint", each) for each in ("/../../mine", "../../mine", "/tmp", "a/../" * 4, HEX[:63], HEX.upper(), None)]
    + [("fingerprint", f"{HEX}\n"), ("fingerprint", "\0" * 64), ("fingerprint", 7)]
    + [("checksum", "7"), ("checksum", -1), ("checksum", 1.5)],
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
    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=folder.parent)

        def log_message(self, *arguments):
            pass

    class Server(LoopbackServer):
        handler = Files

    with Server() as server:
        copied = open_store(f"{server.endpoint}/{folder.name}", tmp_path / "copies")
        copied.verify()
        assert (copied.folder / PART).read_bytes() == (folder / PART).read_bytes()
        with pytest.raises(DataError, match=r"no complete token store at this URL: store.json is missing"):
            open_store(f"{server.endpoint}/missing", tmp_path / "copies")
    with pytest.raises(DataError, match=r"store\.json cannot be read: Cannot connect"):  # and not: is missing
        open_store(f"{server.endpoint}/{folder.name}", tmp_path / "copies")


def test_a_store_in_a_repository_of_the_hub(folder, tmp_path, monkeypatch):
    import fsspec.config
    from huggingface_hub import HfFileSystem

    files = {f"of/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with HubServer({"org/texts": files}) as hub:
        monkeypatch.setitem(fsspec.config.conf, "hf", {"endpoint": hub.endpoint, "token": False})
        HfFileSystem.clear_instance_cache()
        store = open_store("hf://datasets/org/texts/of", tmp_path / "copies")
        assert len(store.parts[0].arrays)
        assert (store.folder / PART).read_bytes() == (folder / PART).read_bytes()
        verify_part(store.parts[0])
        with pytest.raises(DataError, match=r"no complete token store at this URL: store.json is missing"):
            open_store("hf://datasets/org/texts/none", tmp_path / "copies")
    HfFileSystem.clear_instance_cache()
