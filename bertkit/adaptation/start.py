"""The checkpoint whose vocabulary is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.checkpoint.encoders import head_of
from bertkit.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.checkpoint.remote import at_revision
from bertkit.inference.networks import refuse_ensemble
from bertkit.run.directory import check_output_dir

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
