"""Folders in, folders out: rows in order with their columns, bad rows apart, files of every kind."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from bertkit.cli.texts import Texts
from bertkit.features.scaling.command import Folder
from bertkit.features.scaling.folders import embed_folder, predict_folder
from bertkit.runtime.errors import BertkitError, DataError, OutputError, PlacementError, RecipeError
from bertkit.runtime.placement.processes import Workers
from tests.features.scaling.conftest import lines


def test_rows_keep_their_order_and_columns(corpus, film, tmp_path):
    found = predict_folder(film, corpus, tmp_path / "out", shard_rows=8)
    assert (found.files, found.shards, found.computed, found.rows, found.rejected) == (4, 12, 12, 80, 0)
    for name, letter in (("b.csv", "b"), ("part/c.jsonl", "c"), ("part/d.parquet", "d")):
        rows = [row for number in range(3) for row in lines(tmp_path / "out" / f"{name}.{number:06d}.jsonl")]
        assert [row["id"] for row in rows] == [f"{letter}{row}" for row in range(20)]
        assert {row["label"] for row in rows} <= {"bad", "fair", "good"}
    first = lines(tmp_path / "out" / "b.csv.000000.jsonl")[0]
    assert list(first) == ["id", "text", "input_label", "label", "probability", "probabilities"]


def test_predictions_of_predictions_keep_all_columns(film, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.csv").write_text("text,label,input_label\na film,gold,older\n")
    found = []
    for number in range(2):
        predict_folder(film, tmp_path / ("out0" if number else "in"), tmp_path / f"out{number}")
        (row,) = [row for path in (tmp_path / f"out{number}").glob("x.csv*.jsonl") for row in lines(path)]
        found.append(row)
    first, second = found
    assert (first["input_label"], first["input_input_label"]) == ("gold", "older")
    assert second["label"] == first["label"] == second["input_label"]
    assert (second["input_input_label"], second["input_input_input_label"]) == ("gold", "older")


def test_predictions_for_rows_with_vectors(corpus, checkpoint, film, tmp_path):
    """A column of the input that is called as that of vectors is one like any other."""
    table, vectors = corpus / "part" / "c.jsonl", tmp_path / "vectors"
    embed_folder(checkpoint, table, vectors)
    predict_folder(film, vectors / "c.jsonl.000000.parquet", tmp_path / "out", output_format="parquet")
    (found,) = (pq.read_table(path) for path in (tmp_path / "out").glob("*.parquet"))
    given = pq.read_table(vectors / "c.jsonl.000000.parquet").column("embedding").to_pylist()
    np.testing.assert_allclose([json.loads(row) for row in found.column("embedding").to_pylist()], given, rtol=1e-6)


def test_a_table_gives_the_stream_s_predictions(corpus, film, tmp_path):
    from bertkit.inference.files import predict_stream

    predict_folder(film, corpus / "part" / "c.jsonl", tmp_path / "out")
    (block,) = predict_stream(film, input_file=corpus / "part" / "c.jsonl")
    rows = lines(tmp_path / "out" / "c.jsonl.000000.jsonl")
    assert [row["label"] for row in rows] == [row["label"] for row in block.rows]
    np.testing.assert_allclose(
        [row["probability"] for row in rows], [row["probability"] for row in block.rows], rtol=1e-5
    )


@pytest.mark.parametrize("protocol", ["", "file://"])
def test_the_output_may_lie_in_the_input(corpus, film, protocol):
    for computed in (12, 0):
        assert predict_folder(film, f"{protocol}{corpus}", corpus / "out", shard_rows=8).computed == computed


def test_the_output_may_lie_in_the_checkpoint(corpus, film, tmp_path):
    run = shutil.copytree(film, tmp_path / "run")
    for computed in (12, 0):
        assert predict_folder(run, corpus, run / "labels", shard_rows=8).computed == computed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text_columns": ["review"]}, "no column 'review'"),
        ({"shard_rows": 2.5}, "--shard-rows 2.5: expected an integer of at least 1"),
        ({"shard_rows": 0}, "--shard-rows 0: expected"),
        ({"input": ""}, "--input ''"),
        ({"output_dir": ""}, "--output-dir ''"),
        ({"workers": 2}, r"workers: expected a Workers, such as Workers\(number=2\), got 2"),
        ({"output_format": "csv"}, "--output-format csv: is not one of jsonl, parquet"),
        ({"on_error": "ignore"}, "--on-error ignore: is not one of stop, skip"),
    ],
)
def test_a_refused_command_leaves_the_folder_to_the_mended_one(corpus, film, tmp_path, wrong, message):
    with pytest.raises(BertkitError, match=message):
        predict_folder(film, **{"input": corpus, "output_dir": tmp_path / "out", **wrong})
    assert predict_folder(film, corpus, tmp_path / "out").rows == 80


def test_lines_of_a_folder_are_texts_on_request(film, tmp_path):
    """However many files it has."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.txt"
    path.write_text("a\nb\n")
    for given in (tmp_path / "in", f"{tmp_path}/in/*.txt"):
        with pytest.raises(DataError, match=r"a\.txt has several lines; give --per-line"):
            predict_folder(film, given, tmp_path / "out", per_line=False)
    assert predict_folder(film, path, tmp_path / "out", per_line=False).rows == 2


def test_a_folder_with_other_files_is_refused(corpus, film, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("a")
    with pytest.raises(OutputError, match=r"other files, such as .*mine\.txt"):
        predict_folder(film, corpus / "b.csv", tmp_path / "used")
    with pytest.raises(OutputError, match="holds the input"):
        predict_folder(film, corpus, corpus)
    (tmp_path / "odd" / "command.json").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"command\.json: cannot be read: .*Is a directory"):
        predict_folder(film, corpus, tmp_path / "odd")


BAD = '{"id": 1, "text": "a film"}\n{"id": 2}\n{"id": 3, "text": 5}\nno json\n{"id": 5, "text": "a plot"}\n'


def test_rows_of_folds_decide_what_is_answered(corpus, film, tmp_path, capsys):
    run, path = tmp_path / "run", corpus / "part" / "c.jsonl"
    shutil.copytree(film, run)
    predict_folder(run, path, tmp_path / "plain")
    plain = lines(tmp_path / "plain" / "c.jsonl.000000.jsonl")
    one, other = sorted(row["probability"] for row in plain)[9:11]
    rows = [{"gold": "bad", "label": "bad", "probability": other}] * 80
    rows += [{"gold": "bad", "label": "fair", "probability": one}] * 40
    (run / "out_of_fold.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    predict_folder(run, path, tmp_path / "out", max_error=0.05)
    best = [{**row, "best_label": row["label"]} for row in plain]
    kept = [row if row["probability"] > one else {**row, "label": "unsure"} for row in best]
    assert lines(tmp_path / "out" / "c.jsonl.000000.jsonl") == kept
    assert "80 of the 120 rows that models of folds scored" in capsys.readouterr().err
    for _ in range(2):  # classes that are never answered are the same for the second command, which has nothing to do
        predict_folder(run, path, tmp_path / "classes", max_error=0.05, by_class=True)
    with pytest.raises(RecipeError, match="do not support it"):
        predict_folder(run, path, tmp_path / "none", max_error=0.01)
    assert not (tmp_path / "none").exists()


def test_the_validation_set_is_predicted_after_what_can_be_checked_without_it(corpus, film, tmp_path, capsys):
    with pytest.raises(DataError, match="no such file or folder"):
        predict_folder(film, corpus / "nothing", tmp_path / "out", unsure_below=0.9)
    assert "unsure below" not in capsys.readouterr().err
    predict_folder(film, corpus / "b.csv", tmp_path / "out", unsure_below=0.9)
    assert "unsure below 0.9: the share of such predictions is not known" in capsys.readouterr().err


def test_bad_rows_are_skipped_with_their_reasons(film, fine_tuned, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.jsonl").write_text(BAD)
    out = tmp_path / "out"
    found = predict_folder(film, tmp_path / "in", out, on_error="skip", shard_rows=3)
    assert (found.rows, found.rejected) == (2, 3)
    assert [row["id"] for number in (0, 1) for row in lines(out / f"x.jsonl.{number:06d}.jsonl")] == [1, 5]
    rejected = [row for number in (0, 1) for row in lines(out / "rejected" / f"x.jsonl.{number:06d}.rejected.jsonl")]
    assert [(row["file"], row["row"], row["line"]) for row in rejected] == [("x.jsonl", at, at) for at in (2, 3, 4)]
    assert all("x.jsonl" not in row["reason"] for row in rejected)
    again = predict_folder(film, tmp_path / "in", out, on_error="skip", shard_rows=3)
    assert (again.computed, again.rows, again.rejected) == (0, 2, 3)
    (tmp_path / "y.jsonl").write_text('{"question": "a", "context": "b"}\n{"id": 1}\n')
    predict_folder(fine_tuned("answers"), tmp_path / "y.jsonl", tmp_path / "two", on_error="skip")
    [row] = lines(tmp_path / "two" / "rejected" / "y.jsonl.000000.rejected.jsonl")
    assert row["reason"] == "2 faults:\n  - no value for 'question'\n  - no value for 'context'"
    (tmp_path / "z.txt").write_text("a\tb\nc\n")
    predict_folder(fine_tuned("pairs"), tmp_path / "z.txt", tmp_path / "three", on_error="skip")
    [row] = lines(tmp_path / "three" / "rejected" / "z.txt.000000.rejected.jsonl")
    assert (row["line"], row["reason"]) == (2, "expected two texts separated by a tab, none empty, got 'c'")


def test_a_bad_row_stops_the_run(film, tmp_path):
    (tmp_path / "x.jsonl").write_text(BAD)
    with pytest.raises(DataError, match=r"x\.jsonl, line 2: no value for 'text'"):
        predict_folder(film, tmp_path / "x.jsonl", tmp_path / "out", shard_rows=2)
    found = predict_folder(film, tmp_path / "x.jsonl", tmp_path / "out", shard_rows=2, on_error="skip")
    assert (found.rows, found.rejected) == (2, 3)


def test_a_shard_without_readable_rows_is_finished(film, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n1\n2\n')
    for computed in (2, 0):
        found = predict_folder(film, tmp_path / "x.jsonl", tmp_path / "out", on_error="skip", shard_rows=2)
        assert (found.computed, found.rows, found.rejected) == (computed, 1, 2)
    (tmp_path / "y.jsonl").write_text("1\n")
    with pytest.raises(DataError, match="every row was rejected, 1 in all"):
        predict_folder(film, tmp_path / "y.jsonl", tmp_path / "out y", on_error="skip")


def test_an_input_folder_may_be_named_rejected(film, tmp_path):
    """No row loses its result to the rejected rows of another file."""
    given, out = tmp_path / "in", tmp_path / "out"
    (given / "rejected").mkdir(parents=True)
    (given / "x.jsonl").write_text('{"text": "a"}\n1\n')
    for name in ("x.jsonl", "x.jsonl.000000.jsonl", "x.jsonl.000000.rejected.jsonl"):
        (given / "rejected" / name).write_text('{"text": "a"}\n{"text": "b"}\n')
    for computed in (4, 0):
        found = predict_folder(film, given, out, on_error="skip")
        assert (found.computed, found.rows, found.rejected) == (computed, 7, 1)
    results = [path for path in (tmp_path / "out").rglob("*.jsonl") if not path.name.endswith("rejected.jsonl")]
    assert sum(len(lines(path)) for path in results) == 7


def test_links_do_not_lead_out(corpus, film, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    predict_folder(film, corpus, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "part")
    (tmp_path / "out" / "part").symlink_to(outside)
    with pytest.raises(OutputError, match="leads out of the output folder"):
        predict_folder(film, corpus, tmp_path / "out")
    assert not list(outside.iterdir())
    (tmp_path / "linked").symlink_to(outside)  # the folder itself may be a link
    assert predict_folder(film, corpus, tmp_path / "linked").rows == 80


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=[pytest.mark.slow, pytest.mark.multiprocess])])
def test_names_that_are_not_utf8_are_kept(film, tmp_path, processes):
    place = os.fsencode(tmp_path / "in")
    os.mkdir(place)
    for name in (b"caf\xe9.jsonl", "café.jsonl".encode()):
        with open(os.path.join(place, name), "wb") as stream:
            stream.write(b'{"text": "a"}\n5\n')
    workers = Workers(number=processes)
    for computed in (2, 0):
        given = (film, tmp_path / "in", tmp_path / "out")
        found = predict_folder(*given, on_error="skip", workers=workers)
        assert (found.computed, found.rows, found.rejected) == (computed, 2, 2)
    names = sorted(name for name in os.listdir(os.fsencode(tmp_path / "out")) if name.endswith(b".jsonl"))
    assert names == ["café.jsonl.000000.jsonl".encode(), b"caf\xe9.jsonl.000000.jsonl"]
    rejected = [row["file"] for path in (tmp_path / "out" / "rejected").iterdir() for row in lines(path)]
    assert sorted(map(os.fsencode, rejected)) == ["café.jsonl".encode(), b"caf\xe9.jsonl"]
    assert "café.jsonl" in (tmp_path / "out" / "command.json").read_text()


def test_empty_and_passed_over_files_are_counted(corpus, film, tmp_path, capsys):
    (corpus / "header.csv").write_text("text\n")
    (corpus / "empty.txt").touch()
    (corpus / "linked").symlink_to(corpus / "part")
    pq.write_table(pq.read_table(corpus / "part" / "d.parquet").slice(0, 0), corpus / "none.parquet")
    found = predict_folder(film, corpus, tmp_path / "out")
    assert (found.files, found.shards, found.rows) == (7, 4, 80)
    said = capsys.readouterr().err
    assert f"--input {corpus}: 3 files passed over: 1 .md, 1 hidden, 1 linked folder" in said
    assert "3 files without rows" in said


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_files_without_rows_give_nothing(film, checkpoint, tmp_path, form):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "header.csv").write_text("text\n")
    for _ in range(2):
        found = predict_folder(film, tmp_path / "in", tmp_path / "out", output_format=form)
        assert (found.files, found.shards, found.rows, found.rejected) == (1, 0, 0, 0)
    assert embed_folder(checkpoint, tmp_path / "in", tmp_path / "vectors", output_format=form).rows == 0


def test_a_sheet_of_a_workbook(film, tmp_path):
    import openpyxl

    book, out = openpyxl.Workbook(), tmp_path / "out"
    for name, count in (("May", 2), ("June", 3)):
        sheet = book.create_sheet(name)
        for text in ("text", *["a good film"] * count):
            sheet.append([text])
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match=r"has 2 sheets, 'May', 'June'; name one of them: '.*a\.xlsx#May'"):
        predict_folder(film, tmp_path / "a.xlsx", out)
    found = predict_folder(film, tmp_path / "a.xlsx#june", out)  # the refused command has left nothing
    assert found.rows == 3
    assert len(lines(tmp_path / "out" / "a.xlsx#june.000000.jsonl")) == 3


def test_vectors_in_parquet(corpus, checkpoint, tmp_path):
    out = tmp_path / "out"
    embed_folder(checkpoint, corpus / "part", out, shard_rows=16)
    table = pq.read_table(out / "d.parquet.000001.parquet")
    assert table.column("id").to_pylist() == ["d16", "d17", "d18", "d19"]
    assert {len(vector) for vector in table.column("embedding").to_pylist()} == {32}


def test_vectors_of_tokens_are_json_lines(corpus, checkpoint, tmp_path):
    with pytest.raises(RecipeError, match="--output-format jsonl"):
        embed_folder(checkpoint, corpus, tmp_path / "out", pooling="none")
    embed_folder(checkpoint, corpus / "e.txt", tmp_path / "out", pooling="none", output_format="jsonl")
    first = lines(tmp_path / "out" / "e.txt.000000.jsonl")[0]
    assert list(first["tokens"][0]) == ["token", "start", "end", "embedding"]
    assert len(first["tokens"][0]["embedding"]) == 32


def test_urls_are_read_and_written(corpus, film, tmp_path, contents):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(corpus), "/bucket/in", recursive=True)
    for computed in (12, 0):
        found = predict_folder(film, "memory://bucket/in", "memory://bucket/out", shard_rows=8, output_format="parquet")
        assert (found.shards, found.computed) == (12, computed)
    predict_folder(film, corpus, tmp_path / "out", shard_rows=8, output_format="parquet")
    here = {name: data for name, data in contents(tmp_path / "out").items() if name.endswith(".parquet")}
    assert {name: memory.cat_file(f"/bucket/out/{name}") for name in here} == here
    memory.rm("/bucket", recursive=True)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_all_cores_are_used_by_default(corpus, film, tmp_path, capsys, contents, monkeypatch):
    predict_folder(film, corpus, tmp_path / "one", shard_rows=8)
    monkeypatch.setattr("bertkit.features.scaling.folders.usable_cores", lambda: 2)
    predict_folder(film, corpus, tmp_path / "two", shard_rows=8)
    assert "2 processes" in capsys.readouterr().err
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one.keys() == two.keys()
    # The memory of this process and of the workers begins at other addresses, which decide the order of sums.
    for name in one:
        if name.endswith(".jsonl"):
            for mine, theirs in zip(*(each[name].splitlines() for each in (one, two)), strict=True):
                row, other = json.loads(mine), json.loads(theirs)
                assert row.pop("probabilities") == pytest.approx(other.pop("probabilities"), abs=1e-5)
                assert row.pop("probability") == pytest.approx(other.pop("probability"), abs=1e-5)
                assert row == other


def test_missing_ray_is_said_with_the_command(corpus, film, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PlacementError, match=r"pip install 'bertkit\[ray\]'"):
        predict_folder(film, corpus, tmp_path / "out", workers=Workers(engine="ray"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ray_address": "auto"}, "--ray-address: is for --engine ray"),
        ({"threads": 0}, "--threads 0: expected at least 1"),
        ({"engine": "spark"}, "--engine spark: is not one of local, ray"),
    ],
)
def test_wrong_options_of_workers_are_refused(given, message):
    with pytest.raises(RecipeError, match=message):
        Workers(**given)


def test_workers_by_both_names_are_refused():
    command = Texts(name="predict", checkpoint="x", input="y", how={}, others={}, on_error="skip", json=False)
    arguments = Folder(num_processes=3, part="1/2").arguments_for(command)
    assert (arguments["workers"], arguments["on_error"]) == (Workers(number=3, part="1/2"), "skip")
    with pytest.raises(RecipeError, match="the earlier name of --workers"):
        Folder(workers=2, num_processes=2).arguments_for(command)
