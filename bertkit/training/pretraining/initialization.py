"""Initialization of pre-training: a tokenizer with new weights, or a checkpoint with its tokenizer."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from bertkit.data.corpus.sources import Source, TextLines
from bertkit.data.corpus.store.token_store import TOKENIZER_FOLDER, TokenStore
from bertkit.data.corpus.vocabulary.tokenizer import train_vocabulary
from bertkit.model.checkpoint.encoders import check_pair_objective, check_positions, head_class, longest_input
from bertkit.model.checkpoint.load import load_config, load_tokenizer, save_tokenizer
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import KEEP
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.files import new_folder
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import say
from bertkit.runtime.version import __version__
from bertkit.tasks.pretraining import DataSettings
from bertkit.training.initialization import Initialization, kept_layers, of_layers
from bertkit.training.pretraining.encoders import as_pretraining_model, new_config, number_of_ids


def pretraining_model(start: Initialization) -> PreTrainedModel:
    """Loads or builds the model of a pre-training; prints the weights that are not from its checkpoint."""
    model, new = start.model()
    if new and start.checkpoint is not None:
        say(f"not in {start.checkpoint}, so initialized at random: {', '.join(new)}")
    return as_pretraining_model(model, start.name)


def pretraining_start(
    recipe: Recipe, sources: list[Source], cache_dir: Path, resumed: Path | None, store: TokenStore | None = None
) -> Initialization:
    """Loads or trains the tokenizer, and loads or builds the configuration.

    Args:
        recipe: a pre-training recipe.
        sources: the corpus, to train a tokenizer on.
        cache_dir: cache folder of trained tokenizers.
        resumed: directory of a resumed run, whose tokenizer is not trained again.
        store: token store that is the corpus; its tokenizer is used unless the recipe names one or a checkpoint.

    Raises:
        BertkitError: a checkpoint or tokenizer is not available, or values are inconsistent.
    """
    data: DataSettings = recipe.data
    checkpoint = recipe.model.get("name_or_path")
    changes = {key: value for key, value in recipe.model.items() if key not in ("name_or_path", KEEP)}
    pair_objective = recipe.task.pair_objective
    head = "BertForMaskedLM" if pair_objective == "none" else "BertForPreTraining"
    layers, loaded = None, None
    if checkpoint is not None:
        config = load_config(checkpoint, changes, any_encoder=True)
        layers = kept_layers(recipe, config)
        if layers is not None:
            loaded, config = config, of_layers(config, layers)
        check_pair_objective(pair_objective, config.model_type)
        head_class(head, config, checkpoint)  # an error if its family has no such head
        tokenizer = load_tokenizer(checkpoint, for_pretraining=True)
    else:
        if store is not None and data.tokenizer is None:
            folder = store.folder / TOKENIZER_FOLDER
            if not folder.is_dir():
                raise RecipeError(f"{store.folder}: this token store has no tokenizer; give --tokenizer")
            tokenizer = load_tokenizer(folder, for_pretraining=True)
        else:
            tokenizer = corpus_tokenizer(data, sources, VERY_LARGE_INTEGER, cache_dir, resumed)
        config = new_config(changes, recipe.name, tokenizer)
        # Programs that read the saved tokenizer cut texts to this length.
        tokenizer.model_max_length = min(tokenizer.model_max_length, longest_input(config))
    if config.vocab_size < (needed := number_of_ids(tokenizer)):
        raise RecipeError(f"model.vocab_size: {config.vocab_size}, but the tokenizer's ids need {needed}")
    check_positions(max(length for length, _ in data.lengths()), config, checkpoint or "the model")
    start = Initialization(checkpoint, tokenizer, config, head, layers, loaded)
    if start.token_objective == "next_token":
        for name in ("whole_word_mask", "max_predictions_per_seq"):
            if getattr(data, name):
                raise RecipeError(f"data.{name}: a left_to_right model predicts every token and masks none; remove it")
    return start


def corpus_tokenizer(
    data: DataSettings, sources: list[Source], positions: int, cache_dir: Path, resumed: Path | None = None
) -> PreTrainedTokenizerFast:
    """Loads the given or a previously trained tokenizer, or trains one whose ``model_max_length`` is ``positions``."""
    if data.tokenizer is not None:
        return load_tokenizer(data.tokenizer, for_pretraining=True)
    if resumed is not None and (resumed / "tokenizer.json").is_file():
        return load_tokenizer(resumed, for_pretraining=True)
    assert data.vocab_size is not None
    settings: dict[str, Any] = {
        "vocab_size": data.vocab_size,
        "lowercase": not data.cased,
        "model_max_length": positions,
        "merge_score": data.merge_score,
        "min_frequency": data.min_pair_frequency,
    }
    trainers = [__version__, version("tokenizers"), data.tokenizer_type]
    origin = {"sources": [source.fingerprint() for source in sources], "trainers": trainers, **settings}
    key = hashlib.sha256(dumps(origin, sort_keys=True).encode()).hexdigest()
    place = cache_dir / f"tokenizer-{key[:32]}"
    if not (place / "tokenizer.json").is_file():
        say(f"training a tokenizer of {data.vocab_size} pieces")
        save_trained_tokenizer(train_vocabulary(data.tokenizer_type, TextLines(sources), **settings), place)
    return load_tokenizer(place, for_pretraining=True)


def save_trained_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a tokenizer to ``folder``, new or empty, atomically."""
    # Another process may have written the same tokenizer in the meantime.
    with new_folder(folder, is_there=(folder / "tokenizer.json").is_file) as draft:
        save_tokenizer(tokenizer, draft)
