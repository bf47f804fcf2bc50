"""Checkpoints of a given revision on the Hub."""

from __future__ import annotations

from pathlib import Path

from bertkit.checkpoint.faults import check_folder, reading
from bertkit.errors import CheckpointError

# Weights of other frameworks and exported models, which are not read.
_NOT_READ = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "coreml/*", "openvino/*")


def at_revision(checkpoint: str | Path, revision: str | None) -> str:
    """Returns the name from which a checkpoint is loaded: the local copy of a revision, or the name itself.

    Everything that is read from the copy, configuration, tokenizer and weights, belongs to one commit.

    Args:
        checkpoint: a folder or a Hub id.
        revision: branch, tag or commit of a Hub id; ``None`` for the name itself.

    Raises:
        CheckpointError: a folder has no revisions, or the Hub has no such repository or revision.
    """
    name = str(checkpoint)
    if revision is None:
        return name
    check_folder(name, "config.json")
    if Path(name).is_dir():
        raise CheckpointError(f"{name}: a folder has no revisions; remove --revision {revision}, or give a Hub id")
    from huggingface_hub import snapshot_download

    with reading(f"{name} at revision {revision}", "checkpoint"):
        return str(snapshot_download(name, revision=revision, ignore_patterns=list(_NOT_READ)))
