"""Paths and URLs, one rule for all commands; names from manifests, which never lead out of their folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bertkit.inference.networks import ENSEMBLE_FILE, members_of
from bertkit.model.checkpoint.load import load_config, load_model
from bertkit.runtime.errors import BertkitError, DataError, OutputError
from bertkit.runtime.files import check_new_file
from bertkit.runtime.reading.paths import filesystem, find_files, is_url, workbook_and_sheet
from bertkit.tasks.registry import load_recipe
from bertkit.training.recovery import MANIFEST, find_fault

NAMES = ["../outside/mine.txt", "a/../../outside/mine.txt", "{outside}/mine.txt", "mine\0.txt", ""]
LINK = "link/mine.txt"


@pytest.fixture
def folder(tmp_path):
    """A folder beside another one that none of `NAMES` may reach, with a link to it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mine.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "outside")
    return tmp_path / "folder"


@pytest.mark.parametrize("name", [*NAMES, 7, None])
def test_members_of_an_ensemble_are_in_its_folder(folder, name):
    name = name.format(outside=folder.parent / "outside") if isinstance(name, str) else name
    (folder / ENSEMBLE_FILE).write_text(json.dumps({"members": [name]}))
    with pytest.raises(BertkitError, match="is not in this folder"):
        members_of(str(folder))


@pytest.mark.parametrize("name", [*NAMES, LINK])
def test_files_of_a_manifest_are_in_its_checkpoint(folder, name):
    name = name.format(outside=folder.parent / "outside")
    (folder / MANIFEST).write_text(json.dumps({"files": {name: {"size": 4, "sha256": ""}}}))
    assert "which is not in this folder" in find_fault(folder)


@pytest.mark.parametrize("name", [*NAMES, 7, None])
def test_parts_of_weights_are_in_their_folder(folder, checkpoint, name):
    """Links are followed: the cache of the Hub consists of them."""
    name = name.format(outside=folder.parent / "outside") if isinstance(name, str) else name
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    (folder / "model.safetensors").rename(folder.parent / "outside" / "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"bert.a": name}}))
    with pytest.raises(BertkitError, match="which is not in its folder"):
        load_model("BertForMaskedLM", str(folder), load_config(str(folder)), new_head=False)


@pytest.mark.parametrize(("block", "value"), [("submission", {"test": "../x"}), ("name", "a/../../x")])
def test_glue_task_writes_only_into_its_folder(block, value):
    with pytest.raises(BertkitError, match=rf"{block}: .* (is not the name|cannot be part)"):
        load_recipe("finetune/glue/sst2", {f"task.{block}": value})


@pytest.mark.parametrize("name", ["o::p", "simplecache::o", "a*b.csv", "C:/x", "a b", "memory:x"])
def test_local_names_stay_whole(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    files, place = filesystem(name, "--output-dir")
    assert (files.protocol[0], place) == ("file", str(tmp_path / name))
    assert not is_url(str(tmp_path / name))


def test_urls_have_the_file_system_of_their_protocol():
    files, place = filesystem("memory://bucket/store", "x")
    assert (files.protocol, place) == ("memory", "/bucket/store")
    with pytest.raises(DataError, match=r"--input qq://a: Protocol not known: qq; install the package"):
        filesystem("qq://a", "--input qq://a")


@pytest.mark.parametrize("url", ["github://owner/name/a.csv", "zip://a.csv::no.zip", "dir://a"])
def test_urls_that_cannot_be_opened_are_said_without_a_package_to_install(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"^--input {url}: cannot be opened: .+; copy the files$"):
        filesystem(url, f"--input {url}")


def test_a_sheet_is_found_after_letters_that_lower_case_makes_longer():
    assert workbook_and_sheet("İzmir.XLSX#May") == ("İzmir.XLSX", "May")


def test_existing_files_are_no_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_url("memory://store")
    (tmp_path / "memory:").mkdir()
    (tmp_path / "memory:" / "store").mkdir()
    assert not is_url("memory://store")


def test_a_name_that_is_too_long_for_a_file_is_a_fault(tmp_path):
    faults: list[str] = []
    name = str(tmp_path / ("x" * 300))
    assert find_files(name, faults) == []
    assert faults == [f"{name}: no such file or folder"]
    with pytest.raises(OutputError, match="--output: cannot be written: File name too long"):
        check_new_file(Path(name), "--output")
    assert is_url(f"https://{'x' * 300}")
