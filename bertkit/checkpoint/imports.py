"""Imports of torch and transformers in a fresh process, in less time."""

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

    Imports of torch and transformers create a million objects that stay. Examining them many times would take a fifth
    of the time of a first prediction. After a block that has imported modules they count as old.
    """
    was_on, modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # Counting frozen objects goes through all of them, so it is left out where nothing was imported. What the
            # caller has frozen would be unfrozen.
            if len(sys.modules) > modules and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def bert_tokenizer_class() -> Any:
    """Returns transformers' ``BertTokenizer``, without importing the package ``transformers.models``.

    That package reads the source of all models again, a tenth of the time of a first prediction. A stand-in takes its
    place during the import; later imports get the package.
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
