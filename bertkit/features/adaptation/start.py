"""The checkpoint whose vocabulary is changed, and the rows of its weights for new ids.

V is the size of the vocabulary, H the width of the embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.inference.networks import refuse_ensemble
from bertkit.model.checkpoint.encoders import head_of, vocabulary_weights
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.checkpoint.remote import at_revision
from bertkit.training.runs.directory import check_output_dir

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class Start:
    """A checkpoint with any head."""

    name: str
    config: PreTrainedConfig
    tokenizer: PreTrainedTokenizerFast
    head: str

    def model(self) -> PreTrainedModel:
        """Loads its weights."""
        return load_model(self.head, self.name, self.config, new_head=False)[0]


def start_of(checkpoint: str | Path, revision: str | None, output_dir: str | Path) -> Start:
    """Checks that an output folder is free, and reads a checkpoint without its weights.

    Raises:
        BertkitError: the folder is in use, or the checkpoint cannot be read or is an ensemble.
    """
    check_output_dir(Path(output_dir), resume=False, can_resume=False)
    name = at_revision(checkpoint, revision, False)
    refuse_ensemble(name)
    config = load_config(name, any_encoder=True)
    return Start(name, config, load_tokenizer(name, config=config), head_of(config, name))


def set_rows(model: PreTrainedModel, sources: Sequence[Sequence[int]], first_id: int = 0, size: int = 0) -> None:
    """Gives each id from ``first_id`` on the mean of the rows of old ids, in place.

    The rows are those of the embedding matrix, (V, H), and of the matrix and the bias of an output layer over the
    vocabulary, where the model has one; rows of other ids stay as they are.

    Args:
        model: a model of any family.
        sources: old ids of each new id, at least one.
        first_id: the first new id.
        size: smallest new V; by default there are rows up to the last new id.
    """
    import torch

    lists = {id(ids): ids for ids in sources}  # many new ids share one list, that of all old ones
    before = [table.detach().clone() for table in vocabulary_weights(model)]
    model.resize_token_embeddings(max(first_id + len(sources), size), mean_resizing=False)
    with torch.no_grad():
        for table, old in zip(vocabulary_weights(model), before, strict=True):
            means = {key: old[list(ids)].mean(dim=0) for key, ids in lists.items()}
            table[first_id : first_id + len(sources)] = torch.stack([means[id(ids)] for ids in sources])
