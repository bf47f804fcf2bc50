"""The Hub: the folder of caches beside its own, one attempt where its host is not known, and similar local names."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from bertkit.runtime.errors import did_you_mean

_KNOWN_SECONDS = 60.0  # for which the answer of the name service is taken for the same


def cache_folder() -> Path:
    """Returns the cache folder of tokenizers, corpora, tables of objects and compiled kernels: ``bertkit`` in the
    Hugging Face home (``HF_HOME``)."""
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "bertkit"


@contextmanager
def one_attempt() -> Iterator[None]:
    """Runs the block, in which libraries ask the Hub, in their offline mode if the host of the Hub has no address.

    They would ask again and again for half a minute. In the offline mode they read their caches at once.
    """
    from huggingface_hub import constants

    host, now = urlsplit(constants.ENDPOINT).hostname or "", int(time.monotonic() // _KNOWN_SECONDS)
    by_proxy = getproxies().keys() - {"no"}  # which looks the host up; NO_PROXY alone is none
    if constants.HF_HUB_OFFLINE or by_proxy or _has_address(host, now):
        yield
        return
    modules = [constants, *([sys.modules["datasets.config"]] if "datasets.config" in sys.modules else [])]
    before = [module.HF_HUB_OFFLINE for module in modules]  # datasets may be offline alone: HF_DATASETS_OFFLINE
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value


@cache
def _has_address(host: str, when: int) -> bool:
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def near_local_name(name: str) -> str:
    """Returns the end of a message about a name that is no local file or folder: a similar one beside it, or none."""
    place = Path(os.path.expanduser(name))
    try:
        names = [str(place.parent / each.name) for each in place.parent.iterdir() if not each.name.startswith(".")]
    except (OSError, ValueError):  # the latter: a NUL in the name
        return ""
    return did_you_mean(str(place), names)
