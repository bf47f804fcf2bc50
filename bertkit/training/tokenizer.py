"""Training a tokenizer on a corpus, from files to a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.checkpoint import save_tokenizer
from bertkit.corpus.documents import TextLines, find_text_files
from bertkit.corpus.tokenizer import train_tokenizer
from bertkit.training.run_directory import check_output_dir

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train_tokenizer_on(
    corpus: Sequence[str | Path], vocab_size: int, output_dir: str | Path, *, cased: bool = False
) -> PreTrainedTokenizerBase:
    """Trains a WordPiece tokenizer on text files and saves it.

    Args:
        corpus: text files and folders.
        vocab_size: pieces, specials included.
        output_dir: new or empty folder; ``AutoTokenizer.from_pretrained`` loads it.
        cased: keep upper case and accents.

    Raises:
        BertkitError: the corpus cannot be read, the size is impossible, the folder is in use; nothing is written.
    """
    output_dir = Path(output_dir)
    check_output_dir(output_dir, resume=False)
    tokenizer = train_tokenizer(TextLines(find_text_files(corpus)), vocab_size, lowercase=not cased)
    output_dir.parent.mkdir(parents=True, exist_ok=True)
    partial = output_dir.with_name(output_dir.name + ".partial")
    save_tokenizer(tokenizer, partial)
    if output_dir.exists():
        output_dir.rmdir()  # empty, or it would have been refused
    os.replace(partial, output_dir)
    return tokenizer
