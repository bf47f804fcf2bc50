"""The form of a checkpoint that sentence-transformers loads: the encoder in stock form, its pooling and normalization.

The files are those that every version of sentence-transformers reads: ``modules.json`` names the steps, and
``1_Pooling/config.json`` the pooling.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np

from bertkit.inference.embedding import LONGEST, MODES, Embedder, load_encoder, recorded_pooling
from bertkit.inference.options import EmbedOptions, Pooling
from bertkit.model.checkpoint.encoders import longest_input
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.model.checkpoint.stock import SENTENCES, Comparison, write_stock
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.runtime.files import write_json
from bertkit.runtime.progress import unreported, without_library_bars

TOLERANCE = 1e-5
"""Largest difference of the numbers of a vector of unit length, in float32."""


def write_sentence_transformers(
    checkpoint: str, folder: Path, pooling: Pooling | None, normalize: bool | None
) -> tuple[Comparison, tuple[str, ...]]:
    """Writes the encoder of a checkpoint with its pooling, loads it with sentence-transformers, and compares vectors.

    Args:
        checkpoint: folder or Hub id of a checkpoint of any family, with any head or none.
        folder: the folder to write to.
        pooling, normalize: ``None`` for those of the checkpoint.

    Returns:
        How close the vectors are to those of `bertkit embed`, and the properties of the form as sentences.

    Raises:
        CheckpointError: the checkpoint cannot be loaded, reads too few tokens to be compared, or the vectors differ.
        RecipeError: the pooling is unknown.
    """
    if pooling is not None and pooling not in get_args(Pooling):
        raise RecipeError(f"--pooling {pooling}: expected {', '.join(get_args(Pooling))}")
    recorded = recorded_pooling(checkpoint)
    kind = recorded.pooling if pooling is None else pooling
    unit = recorded.normalize if normalize is None else normalize
    config = load_config(checkpoint, any_encoder=True)
    tokenizer = load_tokenizer(checkpoint, config=config)
    longest = min(recorded.max_seq_length or LONGEST, longest_input(config), LONGEST)
    with without_library_bars():
        encoder = load_encoder(checkpoint, config)
        write_stock(encoder, tokenizer, folder, checkpoint)
    for name, content in module_files(kind, unit, config.hidden_size, longest).items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_json(folder / name, content)
    if unit:
        (folder / "2_Normalize").mkdir()
    comparison = _compare(Embedder(encoder, tokenizer, 64, checkpoint), folder, kind, unit, longest)
    cut = (
        f"{kind} pooling, vectors {'of length 1' if unit else 'not normalized'}; texts are cut after {longest} tokens, "
        "which `bertkit embed` reads in windows"
    )
    return comparison, (cut,)


def module_files(pooling: Pooling, unit: bool, size: int, longest: int) -> dict[str, Any]:
    """Returns the files by which sentence-transformers loads an encoder: path in the checkpoint → content, as JSON.

    Args:
        pooling: pooling of the vectors of tokens.
        unit: divide vectors by their lengths; that step has the folder ``2_Normalize`` without a file.
        size: numbers of a vector.
        longest: tokens of a text that are read.
    """
    steps = ["Transformer", "Pooling", *(["Normalize"] if unit else [])]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{step}" if number else "",
            "type": f"sentence_transformers.models.{step}",
        }
        for number, step in enumerate(steps)
    ]
    modes = {mode: name == pooling for name, mode in MODES.items()}
    content = {"word_embedding_dimension": size, **modes, "pooling_mode_mean_sqrt_len_tokens": False}
    return {
        "modules.json": modules,
        "1_Pooling/config.json": content,
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
    }


def _compare(embedder: Embedder, folder: Path, pooling: Pooling, unit: bool, longest: int) -> Comparison:
    """Compares the vectors of short texts, each divided by its length."""
    from sentence_transformers import SentenceTransformer

    texts = [*SENTENCES, " ".join(SENTENCES)]
    lengths = [len(embedder.tokenizer(text, truncation=False, verbose=False)["input_ids"]) for text in texts]
    texts = [text for text, length in zip(texts, lengths, strict=True) if length <= longest]
    if not texts:
        raise CheckpointError(
            f"{embedder.name}: reads {longest} tokens of a text, and the shortest one that is compared has "
            f"{min(lengths)}; give a checkpoint that reads more"
        )
    lengths = [length for length in lengths if length <= longest]
    ours = embedder.embed(texts, EmbedOptions(pooling=pooling), unreported)
    with without_library_bars():
        theirs = SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False)
    sizes = np.linalg.norm(ours, axis=-1, keepdims=True)
    difference = float(np.abs((ours / sizes) - theirs / (1 if unit else sizes)).max())
    if not difference <= TOLERANCE:
        raise CheckpointError(
            f"{embedder.name}: the vectors of sentence-transformers differ by {difference:.1e}, tolerance "
            f"{TOLERANCE:.0e}; nothing has been written"
        )
    return Comparison(difference, TOLERANCE, len(texts), (min(lengths), max(lengths)))
