"""The Hub: one attempt without network, and local names that were probably meant."""

from __future__ import annotations

import datasets
import pytest
from huggingface_hub import constants

from bertkit.model.checkpoint.load import read_config
from bertkit.runtime.errors import CheckpointError
from bertkit.runtime.reading.hub import near_local_name, one_attempt


@pytest.fixture
def name_service(monkeypatch):
    """``name_service(knows=False)``: as on a machine that knows no address of the Hub, with no more than NO_PROXY."""

    def answer(knows: bool) -> None:
        monkeypatch.setattr("bertkit.runtime.reading.hub.getproxies", lambda: {"no": "localhost"})
        monkeypatch.setattr("bertkit.runtime.reading.hub._has_address", lambda host, when: knows)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    return answer


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("alone", [True, False])  # data sets, by HF_DATASETS_OFFLINE
def test_libraries_are_offline_where_the_host_has_no_address(monkeypatch, name_service, knows, alone):
    name_service(knows)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", alone)
    with one_attempt():
        assert constants.HF_HUB_OFFLINE is not knows
        assert datasets.config.HF_HUB_OFFLINE is (alone or not knows)
    assert constants.HF_HUB_OFFLINE is False
    assert datasets.config.HF_HUB_OFFLINE is alone


def test_a_near_folder_is_named_before_the_hub_is_asked(tmp_path, monkeypatch, name_service, capsys):
    monkeypatch.chdir(tmp_path)
    name_service(knows=False)
    (tmp_path / "mymails").mkdir()
    assert near_local_name("google-bert/bert") == ""
    assert near_local_name("a\0b/bert") == ""
    with pytest.raises(CheckpointError, match=r"neither a local folder .*; did you mean 'mymails'"):
        read_config("mymial")
    assert capsys.readouterr().err.startswith("mymial: no such folder here; asking the Hub; did you mean 'mymails'?")
