"""Checkpoints of a given revision on the Hub, and those with code of their own."""

from __future__ import annotations

from pathlib import Path

from bertkit.checkpoint.faults import check_folder, reading
from bertkit.errors import CheckpointError

# Weights of other frameworks and exported models, which are not read.
_NOT_READ = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "coreml/*", "openvino/*")


def at_revision(checkpoint: str | Path, revision: str | None, trust_remote_code: bool = False) -> str:
    """Returns the name from which a checkpoint is loaded: the local copy of a revision, or the name itself.

    Everything that is read from the copy, configuration, tokenizer and weights, belongs to one commit.

    Args:
        checkpoint: a folder or a Hub id.
        revision: branch, tag or commit of a Hub id; ``None`` for the name itself, or, of a Hub id whose code is run,
            for ``main``.
        trust_remote_code: run the code of the checkpoint, see `bertkit.checkpoint.remote_code`.

    Raises:
        CheckpointError: a folder has no revisions, the Hub has no such repository or revision, or its code cannot be
            run.
    """
    folder = _at_revision(str(checkpoint), revision, trust_remote_code)
    if trust_remote_code:
        from bertkit.checkpoint.remote_code import run_code

        run_code(folder, str(checkpoint))
    return folder


def _at_revision(name: str, revision: str | None, is_downloaded: bool) -> str:
    if revision is None and (not is_downloaded or Path(name).is_dir()):
        return name
    check_folder(name, "config.json")
    if Path(name).is_dir():
        raise CheckpointError(f"{name}: a folder has no revisions; remove --revision {revision}, or give a Hub id")
    from huggingface_hub import snapshot_download

    with reading(name if revision is None else f"{name} at revision {revision}", "checkpoint"):
        return str(snapshot_download(name, revision=revision, ignore_patterns=list(_NOT_READ)))
