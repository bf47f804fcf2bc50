"""A command that is repeated: finished shards kept, changed ones computed again, changed commands refused, parts."""

from __future__ import annotations

import os

import pytest

from bertkit.features.scaling.folders import embed_folder, predict_folder
from bertkit.features.scaling.output import OutputFolder
from bertkit.runtime.errors import BertkitError, OutputError
from bertkit.runtime.locks import RunLock
from bertkit.runtime.placement.processes import Workers


def test_a_repeated_command_computes_what_is_missing_only(corpus, film, tmp_path, contents):
    out = tmp_path / "out"
    predict_folder(film, corpus, out, shard_rows=8)
    before = contents(out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")}
    lost = out / "part" / "c.jsonl.000001.jsonl"
    lost.unlink()
    assert predict_folder(film, corpus, out, shard_rows=8).computed == 1
    assert contents(out) == before
    assert {path for path in times if path.stat().st_mtime_ns != times[path]} == {lost}


def test_a_changed_command_is_refused(corpus, film, fine_tuned, tmp_path):
    out = tmp_path / "out"
    predict_folder(film, corpus, out, shard_rows=8)
    with pytest.raises(OutputError, match="shard_rows was 8 and is 9"):
        predict_folder(film, corpus, out, shard_rows=9)
    with pytest.raises(OutputError, match="checkpoint was"):
        predict_folder(fine_tuned("threshold"), corpus, out, shard_rows=8)
    with pytest.raises(OutputError, match="command was 'predict' and is 'embed'"):
        embed_folder(film, corpus, out, shard_rows=8)
    (corpus / "f.txt").write_text("a\n")
    with pytest.raises(OutputError, match=r"the input f\.txt is new"):
        predict_folder(film, corpus, out, shard_rows=8)


@pytest.mark.parametrize("damage", ["cut", "emptied", "other"])
@pytest.mark.parametrize("name", ["x.jsonl.000000.jsonl", "rejected/x.jsonl.000000.rejected.jsonl"])
def test_changed_results_are_computed_again(film, tmp_path, contents, capsys, damage, name):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n5\n6\n' * 2)
    out = tmp_path / "out"
    predict_folder(film, tmp_path / "x.jsonl", out, on_error="skip", shard_rows=4)
    before = contents(out)
    kept = (out / "x.jsonl.000001.jsonl").stat()
    data = before[name]
    changed = {"cut": data[: len(data) // 2 + 1], "emptied": b"", "other": data[:-4] + b"~" + data[-3:]}[damage]
    (out / name).write_bytes(changed)
    capsys.readouterr()
    found = predict_folder(film, tmp_path / "x.jsonl", out, on_error="skip", shard_rows=4)
    assert (found.computed, found.rows, found.rejected) == (1, 4, 4)
    assert contents(out) == before
    assert (out / "x.jsonl.000001.jsonl").stat() == kept
    assert "the results of 1 shard have changed; they are computed again" in capsys.readouterr().err


def test_changed_results_are_known_after_an_interruption(film, tmp_path, contents, monkeypatch):
    """A run that is stopped before it has computed them again does not leave them without a record, as complete."""
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n' * 2)
    out = tmp_path / "out"
    predict_folder(film, tmp_path / "x.jsonl", out, shard_rows=2)
    before = contents(out)
    (out / "x.jsonl.000001.jsonl").write_text('{"text": "cut"}\n')

    def interrupt(self, shard):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bertkit.features.scaling.folders.Computer.compute", interrupt)
        with pytest.raises(KeyboardInterrupt):
            predict_folder(film, tmp_path / "x.jsonl", out, shard_rows=2)
    assert predict_folder(film, tmp_path / "x.jsonl", out, shard_rows=2).computed == 1
    assert contents(out) == before


def test_a_changed_file_behind_a_link_is_seen(film, tmp_path):
    file, given = tmp_path / "x.csv", tmp_path / "in"
    given.mkdir()
    (given / "x.csv").symlink_to(file)
    file.write_text("text\na good film\n")
    predict_folder(film, given, tmp_path / "out")
    file.write_text("text\na poor film\n")
    os.utime(file, (1, 1))
    with pytest.raises(OutputError, match=r"the input x\.csv has changed"):
        predict_folder(film, given, tmp_path / "out")


def test_cut_results_at_a_url_are_computed_again(corpus, film):
    import fsspec

    memory = fsspec.filesystem("memory")
    given = (film, corpus / "b.csv", "memory://changed/out")
    predict_folder(*given, shard_rows=8)
    whole = memory.cat_file("/changed/out/b.csv.000001.jsonl")
    memory.pipe_file("/changed/out/b.csv.000001.jsonl", whole[:-9])
    assert predict_folder(*given, shard_rows=8).computed == 1
    assert memory.cat_file("/changed/out/b.csv.000001.jsonl") == whole
    memory.rm("/changed", recursive=True)


@pytest.mark.parametrize(
    ("denied", "name", "told"),
    [("find", "b.csv", "cannot be listed: Denied"), ("rm_file", "x.parquet", r"x\.parquet: cannot be read")],
)
def test_a_bucket_that_may_not_be_listed_or_deleted_from(corpus, film, monkeypatch, denied, name, told):
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    def refuse(*given, **options):
        raise PermissionError("Denied")

    (corpus / "x.parquet").write_bytes(b"no parquet")
    monkeypatch.setattr(MemoryFileSystem, denied, refuse)
    with pytest.raises(BertkitError, match=told):
        predict_folder(film, corpus / name, "memory://denied/out")
    monkeypatch.undo()
    fsspec.filesystem("memory").store.clear()


def test_results_without_a_record_are_complete(corpus, film, tmp_path, contents):
    """Those of a run that was killed before it wrote the record."""
    (corpus / "x.jsonl").write_text('{"text": "a film"}\n{"id": 2}\n')
    given = (film, corpus, tmp_path / "out")
    predict_folder(*given, on_error="skip")
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "finished.json").unlink()
    assert predict_folder(*given, on_error="skip").computed == 0
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("name", ["command.json", "shards.json", "finished.json"])
@pytest.mark.parametrize("content", [b"", b"null", b"[1]", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_damaged_records_are_named(corpus, film, tmp_path, name, content):
    out = tmp_path / "out"
    predict_folder(film, corpus / "e.txt", out)
    (out / name).write_bytes(content)
    with pytest.raises(OutputError, match=rf"{name}: damaged|holds the results of another command"):
        predict_folder(film, corpus / "e.txt", out)


def test_changed_shards_are_named(corpus, film, tmp_path):
    """A shard with fewer rows would lose the results of the others."""
    out = tmp_path / "out"
    predict_folder(film, corpus / "e.txt", out)
    text = (out / "shards.json").read_text()
    assert '"rows": 20' in text
    (out / "shards.json").write_text(text.replace('"rows": 20', '"rows": 2'))
    with pytest.raises(OutputError, match=r"shards\.json: damaged; give another folder"):
        predict_folder(film, corpus / "e.txt", out)


def test_parts_beside_one_another_give_the_whole(corpus, film, tmp_path, contents):
    def predict(place, **workers):
        return predict_folder(film, corpus, tmp_path / place, shard_rows=8, workers=Workers(**workers))

    predict("whole")
    computed = [predict("parts", part=f"{number}/5") for number in (4, 1, 5)]
    assert [each.computed for each in computed] == [2, 3, 2]
    assert predict("parts", part="4/5").computed == 0
    assert not (tmp_path / "parts" / "finished.json").exists()
    with RunLock(tmp_path / "parts" / ".part-2-of-5"), pytest.raises(OutputError, match="another run is writing here"):
        predict("parts", part="2/5")
    with RunLock(tmp_path / "parts" / ".part-2-of-5"), pytest.raises(OutputError, match="with --part is computing"):
        predict("parts")
    with RunLock(tmp_path / "parts"), pytest.raises(OutputError, match="without --part is computing all of it"):
        predict("parts", part="2/5")
    (tmp_path / "parts" / ".part-3-of-5").mkdir()  # of a killed process
    assert predict("parts").computed == 5  # what the parts that were killed have left
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_parts_that_begin_at_once(corpus, film, tmp_path, monkeypatch):
    """The second one finds the record of the first, though it was not there a moment ago."""
    out, read = tmp_path / "out", OutputFolder.read
    first = []

    def late(folder, name):
        content = read(folder, name)
        if not first:
            first.append(name)
            predict_folder(film, corpus, out, shard_rows=8, workers=Workers(part="1/2"))
        return content

    monkeypatch.setattr(OutputFolder, "read", late)
    assert predict_folder(film, corpus, out, shard_rows=8, workers=Workers(part="2/2")).computed == 6
    assert len(list(out.rglob("*.jsonl"))) == 12


def test_a_part_may_end_while_another_cleans(tmp_path, monkeypatch):
    """A part removes the folder of its lock when it ends, which the other one has just listed."""
    (lock := tmp_path / ".part-2-of-2").mkdir()
    scandir = os.scandir

    def late(path):
        if str(path) == str(lock):
            lock.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    OutputFolder(str(tmp_path), ".jsonl").clean()
    assert not lock.exists()
