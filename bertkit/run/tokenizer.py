"""Training of a tokenizer on a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.corpus.sources import TextLines, find_sources
from bertkit.corpus.vocabulary.tokenizer import MergeScore, TokenizerType, train_vocabulary
from bertkit.run.directory import check_output_dir
from bertkit.training.pretraining.initialization import save_trained_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train_tokenizer_on(
    corpus: Sequence[str | Path],
    vocab_size: int,
    output_dir: str | Path,
    *,
    tokenizer_type: TokenizerType = "wordpiece",
    cased: bool = False,
    merge_score: MergeScore = "frequency",
    min_pair_frequency: int | None = None,
    text_column: str = "text",
    dataset_config: str | None = None,
    dataset_split: str = "train",
    streaming: bool = False,
) -> PreTrainedTokenizerBase:
    """Trains a tokenizer on text files and saves it.

    Args:
        corpus: text files, folders, patterns and Hub ids.
        vocab_size: number of pieces, special tokens included.
        output_dir: new or empty folder; ``AutoTokenizer.from_pretrained`` loads it.
        tokenizer_type: ``wordpiece``, as BERT has, or ``byte_level_bpe``, as RoBERTa has.
        cased: keep upper case and accents; byte-level BPE always keeps them.
        merge_score, min_pair_frequency: criteria for merging pieces; see `train_tokenizer`.
        text_column: the text column of rows.
        dataset_config, dataset_split, streaming: settings of Hub data sets; a streamed data set is read over the
            network twice.

    Raises:
        BertkitError: the corpus cannot be read, the size is impossible, or the folder is in use; nothing is written.
    """
    output_dir = Path(output_dir)
    check_output_dir(output_dir, resume=False, can_resume=False)
    sources = find_sources(
        corpus,
        text_column=text_column,
        dataset_config=dataset_config,
        dataset_split=dataset_split,
        streaming=streaming,
    )
    tokenizer = train_vocabulary(
        tokenizer_type,
        TextLines(sources),
        vocab_size,
        lowercase=not cased,
        merge_score=merge_score,
        min_frequency=min_pair_frequency,
    )
    save_trained_tokenizer(tokenizer, output_dir)
    return tokenizer
