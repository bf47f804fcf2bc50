"""Paths and URLs: one rule for all commands, and paths that fsspec would read otherwise."""

from __future__ import annotations

import pytest

from bertkit.errors import DataError
from bertkit.reading.paths import filesystem, is_url


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


def test_existing_files_are_no_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_url("memory://store")
    (tmp_path / "memory:").mkdir()
    (tmp_path / "memory:" / "store").mkdir()
    assert not is_url("memory://store")
