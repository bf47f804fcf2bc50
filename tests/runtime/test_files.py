"""Written files are complete after Ctrl-C, SIGKILL, a full disk, and beside another process."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.store.writer import write_token_store
from bertkit.model.checkpoint.load import load_tokenizer, save_tokenizer
from bertkit.recipe.files import copy_recipe
from bertkit.runtime import files
from bertkit.runtime.errors import OutputError
from bertkit.runtime.files import (
    UNFINISHED,
    clean_run_folder,
    into_folder,
    is_temporary,
    new_folder,
    remove_unfinished,
    write_json_lines,
    write_whole,
)
from bertkit.runtime.progress import without_library_bars
from bertkit.tasks.registry import load_recipe


def test_a_folder_appears_when_it_is_whole(tmp_path):
    place = tmp_path / "above" / "place"
    with new_folder(place) as draft:
        (draft / "file").write_text("content")
        assert not place.exists()
    assert (place / "file").read_text() == "content"
    assert list(place.parent.iterdir()) == [place]
    plain = tmp_path / "plain"
    plain.mkdir()
    assert place.stat().st_mode == plain.stat().st_mode
    (tmp_path / "link").symlink_to(plain)
    with new_folder(tmp_path / "link") as draft:
        (draft / "file").write_text("content")
    assert (plain / "file").read_text() == (tmp_path / "link" / "file").read_text() == "content"


def test_the_current_folder_is_replaced_and_a_mount_point_is_not(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with new_folder(Path()) as draft:
        (draft / "file").write_text("content")
    assert Path("file").read_text() == "content"
    with pytest.raises(OutputError, match="is a mount point, which cannot be replaced"), new_folder(Path("/")):
        pass


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_folder_that_is_not_finished_vanishes(tmp_path, error):
    def half():
        with new_folder(tmp_path / "place") as draft:
            (draft / "file").write_text("half")
            raise error

    with pytest.raises(error):
        half()
    assert list(tmp_path.iterdir()) == []


def test_folder_created_meanwhile_is_unchanged(tmp_path):
    place = tmp_path / "place"

    def write(is_there):
        with new_folder(place, is_there=lambda: is_there) as draft:
            (draft / "file").write_text("second")
            place.mkdir(exist_ok=True)
            (place / "file").write_text("first")

    with pytest.raises(OutputError, match=r"place: cannot be written: .*another process has written it"):
        write(is_there=False)
    write(is_there=True)
    assert (place / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [place]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match=r"place: cannot be written: File exists"),
        new_folder(tmp_path / "file" / "place"),
    ):
        pass


# ---- disks without space ------------------------------------------------------------------------------------------


def into(save: Callable[[Path], object]) -> Callable[[Path, Path], None]:
    def write(folder: Path, checkpoint: Path) -> None:
        with into_folder(folder) as draft:
            save(draft)

    return write


def save_model(folder: Path, checkpoint: Path) -> None:
    from bertkit import BertForMaskedLM

    model = BertForMaskedLM.from_pretrained(checkpoint)
    with into_folder(folder) as draft:
        model.save_pretrained(draft)


def save_with_torch(draft: Path) -> None:
    import torch

    torch.save({"state": torch.arange(4000)}, draft / "optimizer.pt")


def save_with_numpy(draft: Path) -> None:
    import numpy as np

    np.savez(draft / "vectors.npz", vectors=np.arange(4000))


def save_with_arrow(draft: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"number": list(range(4000))}), draft / "table.parquet")


def build_store(folder: Path, checkpoint: Path) -> None:
    words = [Paragraph(f"good bad film {number}", True) for number in range(900)]
    write_token_store(words, DocumentForm(), load_tokenizer(checkpoint), folder=folder / "store")


# Each writes more than 2,000 bytes to one of its files.
WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "text": lambda folder, checkpoint: write_whole(folder / "new", "é" * 4000),
    "rows": lambda folder, checkpoint: write_json_lines(folder / "old", [{"number": n} for n in range(900)]),
    "recipe": lambda folder, checkpoint: load_recipe("sst2").save(folder / "recipe.yaml", "x" * 2000),
    "copied recipe": lambda folder, checkpoint: copy_recipe("finetune/glue/sst2", folder),
    "tokenizer": lambda folder, checkpoint: into(lambda draft: save_tokenizer(load_tokenizer(checkpoint), draft))(
        folder, checkpoint
    ),
    "model": save_model,
    "checkpoint": lambda folder, checkpoint: pytest.importorskip("bertkit.features.tour.quickstart").new_weights(
        checkpoint, folder / "new-weights", 1
    ),
    "torch": into(save_with_torch),
    "numpy": into(save_with_numpy),
    "arrow": into(save_with_arrow),
    "store": build_store,
}


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Writes beyond this size fail in the system, so also those of libraries in C++ and Rust."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def no_bars() -> Iterator[None]:
    """Otherwise the bars of transformers are written to a file of pytest, where the limit applies too."""
    with without_library_bars():
        yield


@pytest.mark.usefixtures("no_bars")
@pytest.mark.parametrize("name", WRITERS)
def test_failed_write_leaves_one_error_and_nothing_else(name, tmp_path, checkpoint):
    rng = random.Random(name)
    (tmp_path / "old").write_text("before")
    for size in (0, *(rng.randrange(1, 1200) for _ in range(3))):
        with pytest.raises(OutputError) as caught, files_limited_to(size):
            WRITERS[name](tmp_path, checkpoint)
        assert str(caught.value).startswith(str(tmp_path))
        assert "cannot be written: " in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == ["old"], size
        assert (tmp_path / "old").read_text() == "before"
    WRITERS[name](tmp_path, checkpoint)
    assert not [path.name for path in tmp_path.rglob("*") if is_temporary(path.name)]


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_full_disk_names_needed_and_free_space(call, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if call != "open" else Path, call, fail)
    with pytest.raises(
        OutputError, match=r"x: cannot be written: No space left on device; 3\.0 kB are needed, "
    ) as caught:
        write_whole(tmp_path / "x", b"." * 3000)
    assert "B are free there; make room, or write to another disk" in str(caught.value)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_other_errors_are_unchanged(tmp_path):
    for error in (ValueError("x"), OSError(errno.ENOENT, "gone")):
        with pytest.raises(type(error)) as caught, into_folder(tmp_path):
            raise error
        assert caught.value is error


def test_text_that_has_no_utf8_form_is_refused(tmp_path):
    with pytest.raises(OutputError, match=r"x: cannot be written as UTF-8: 'caf\\udce9' holds half a character"):
        write_whole(tmp_path / "x", "caf\udce9")
    assert list(tmp_path.iterdir()) == []


# ---- permissions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_all_files_have_the_permissions_of_new_files(umask, tmp_path, checkpoint):
    tmp_path.chmod(0o700)
    before = os.umask(umask)
    try:
        for write in WRITERS.values():
            write(tmp_path, checkpoint)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.suffix == ".safetensors" for path in modes)
    assert {path.name for path, mode in modes.items() if mode != 0o666 & ~umask} == set()


# ---- killed and concurrent processes --------------------------------------------------------------------------------

HANGS = """
import sys, time
from pathlib import Path
from bertkit.runtime.files import into_folder, new_folder, write_whole
place = Path(sys.argv[2])
with {"new_folder": new_folder, "into_folder": into_folder}[sys.argv[1]](place) as draft:
    (draft / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["new_folder", "into_folder"])
def test_only_leftovers_of_killed_processes_are_removed(kind, tmp_path):
    place = tmp_path / "place"
    if kind == "into_folder":
        place.mkdir()
    folder = place if kind == "into_folder" else tmp_path
    with subprocess.Popen([sys.executable, "-c", HANGS, kind, place], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        (draft,) = folder.iterdir()
        remove_unfinished(folder)
        assert draft.exists()
        process.kill()
    remove_unfinished(folder, "another")
    assert draft.exists()
    with {"new_folder": new_folder, "into_folder": into_folder}[kind](place):
        assert not draft.exists()


def test_a_write_outlasts_the_removal_of_its_new_draft(tmp_path, monkeypatch):
    really_open, removed = os.open, []

    def open_late(path, *args):
        if UNFINISHED in str(path) and os.path.exists(path) and not removed:
            removed.append(Path(path).unlink())
        return really_open(path, *args)

    monkeypatch.setattr(os, "open", open_late)
    write_whole(tmp_path / "file", "content")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["content"]


def test_files_and_folders_are_written_without_locks_as_on_windows(tmp_path, monkeypatch):
    def open_as_windows(path, *args):
        if UNFINISHED in str(path) or os.path.isdir(path):  # it renames nothing that is open, and opens no folders
            raise PermissionError(errno.EACCES, "Permission denied")
        return os.open(path, *args)

    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "os", SimpleNamespace(**{**vars(os), "open": open_as_windows}))
    place = tmp_path / "place"
    with new_folder(place) as draft:
        (draft / "new").write_text("content")
    with into_folder(place) as draft:
        (draft / "into").write_text("content")
    write_whole(place / "whole", "content")
    assert {path.name: path.read_text() for path in place.iterdir()} == dict.fromkeys(
        ("new", "into", "whole"), "content"
    )
    assert list(tmp_path.iterdir()) == [place]


def test_run_folder_loses_only_temporary_files(tmp_path):
    inner = tmp_path / "checkpoint-3"
    inner.mkdir()
    kept = ["run.json", ".tmp", ".tmpfile.txt", "labels.csv.partial", ".gitignore"]
    for folder in (tmp_path, inner):
        for name in (*kept, ".tmpa1B2c3", ".unfinished-run.json-1f"):
            (folder / name).write_text("x")
    clean_run_folder(tmp_path)
    assert sorted(path.name for path in inner.iterdir()) == sorted(kept)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "checkpoint-3"])
