"""The Hub: one attempt without network, and local names that were probably meant."""

from __future__ import annotations

import datasets
import pytest
from huggingface_hub import constants

from bertkit.model.checkpoint.load import read_config
from bertkit.runtime.errors import CheckpointError
from bertkit.runtime.reading.hub import near_local_name, one_attempt


@pytest.mark.parametrize("knows", [True, False])
def test_libraries_are_offline_where_the_host_has_no_address(monkeypatch, knows):
    monkeypatch.setattr("bertkit.runtime.reading.hub.getproxies", dict)
    monkeypatch.setattr("bertkit.runtime.reading.hub._has_address", lambda host, when: knows)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with one_attempt():
        assert constants.HF_HUB_OFFLINE is not knows
    assert constants.HF_HUB_OFFLINE is False


def test_data_sets_that_are_offline_alone_stay_so(monkeypatch):
    monkeypatch.setattr("bertkit.runtime.reading.hub.getproxies", dict)
    monkeypatch.setattr("bertkit.runtime.reading.hub._has_address", lambda host, when: False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)  # by HF_DATASETS_OFFLINE
    with one_attempt():
        pass
    assert (constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE) == (False, True)


def test_a_near_folder_is_named_before_the_hub_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bertkit.runtime.reading.hub.getproxies", dict)
    monkeypatch.setattr("bertkit.runtime.reading.hub._has_address", lambda host, when: False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    (tmp_path / "mymails").mkdir()
    assert near_local_name("google-bert/bert") == ""
    with pytest.raises(CheckpointError, match=r"neither a local folder .*; did you mean 'mymails'"):
        read_config("mymial")
    assert capsys.readouterr().err.startswith("mymial: no such folder here; asking the Hub; did you mean 'mymails'?")
