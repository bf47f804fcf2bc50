"""The device of inference, and what it takes of memory."""

from __future__ import annotations

import os

import pytest

from bertkit.runtime.placement.inference import inference_device

CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize("given", [None, "7"])
def test_few_kernels_are_kept_unless_given(monkeypatch, given):
    for name in CACHES:
        monkeypatch.delenv(name, raising=False)
        if given is not None:
            monkeypatch.setenv(name, given)
    assert inference_device("cpu") == "cpu"
    assert [os.environ[name] for name in CACHES] == [given or "64"] * 2
