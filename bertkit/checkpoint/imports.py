"""Imports of torch and transformers that take no longer than they must."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


@contextmanager
def without_collector() -> Iterator[None]:
    """Turns the garbage collector off in the block, and on again if it was on.

    Imports of torch and transformers create a million objects that stay. The collector would examine all of them many
    times and free none, which takes a fifth of the time of a command that predicts for one text. After the block they
    count as old, so that the next collection does not examine them either.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # else what the caller has frozen would be unfrozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def bert_tokenizer() -> Any:
    """Returns transformers' ``BertTokenizer``, without importing the package ``transformers.models``.

    That package reads the source of all models, as ``transformers`` itself has done before, which takes a tenth of the
    time of a first prediction. A stand-in takes its place during the import; later imports get the package.
    """
    import transformers

    package = "transformers.models"
    is_imported = package in sys.modules
    if not is_imported:
        stand_in = sys.modules[package] = ModuleType(package)
        stand_in.__path__ = [str(Path(transformers.__file__).parent / "models")]
    try:
        from transformers.models.bert.tokenization_bert import BertTokenizer
    finally:
        if not is_imported:
            del sys.modules[package]
    return BertTokenizer
