"""Revisions of checkpoints on the Hub, and code that a checkpoint brings, run only on request (--trust-remote-code).

The classes of the code are registered with transformers' Auto classes, so that the rest of the package loads such a
checkpoint like one of any other family.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.model.checkpoint.encoders import FROM_CODE
from bertkit.model.checkpoint.faults import check_folder, check_object, reading
from bertkit.runtime.errors import CheckpointError
from bertkit.runtime.progress import say

# Weights of other frameworks and exported models, which are not read.
_NOT_READ = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "coreml/*", "openvino/*")


def at_revision(checkpoint: str | Path, revision: str | None, trust_remote_code: bool = False) -> str:
    """Returns the name from which a checkpoint is loaded: the local copy of a revision, or the name itself.

    Everything that is read from the copy, configuration, tokenizer and weights, belongs to one commit.

    Args:
        checkpoint: a folder or a Hub id.
        revision: branch, tag or commit of a Hub id; ``None`` for the name itself, or, of a Hub id whose code is run,
            for ``main``.
        trust_remote_code: run the code of the checkpoint.

    Raises:
        CheckpointError: a folder has no revisions, the Hub has no such repository or revision, or its code cannot be
            run.
    """
    name = folder = str(checkpoint)
    if revision is not None or (trust_remote_code and not Path(name).is_dir()):
        check_folder(name, "config.json")
        if Path(name).is_dir():
            raise CheckpointError(f"{name}: a folder has no revisions; remove --revision {revision}, or give a Hub id")
        from huggingface_hub import snapshot_download

        with reading(name if revision is None else f"{name} at revision {revision}", "checkpoint"):
            folder = str(snapshot_download(name, revision=revision, ignore_patterns=list(_NOT_READ)))
    if trust_remote_code:
        run_code(folder, name)
    return folder


def run_code(folder: str, name: str) -> None:
    """Runs the code that the ``auto_map`` of a checkpoint names, and registers its classes; says which revision it is.

    Nothing is run for a checkpoint without code, for one that bertkit wrote, or for a type whose code this process has
    run already: the classes of that code are used.

    Raises:
        CheckpointError: the code cannot be run, or redefines a family that transformers has.
    """
    from transformers import AutoConfig, PreTrainedConfig
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from bertkit.model.modeling_bert import AUTO_CLASSES

    check_folder(folder, "config.json")
    check_object(folder, "config.json")
    with reading(folder, "config.json"):
        stored, _ = PreTrainedConfig.get_config_dict(folder)
    references = stored.get("auto_map")
    family = stored.get("model_type")
    if not isinstance(references, Mapping) or "AutoConfig" not in references or family == "bertkit":
        say(f"{name} needs no code of its own; --trust-remote-code changes nothing")
        return
    if family in FROM_CODE:
        return
    if family in CONFIG_MAPPING:
        raise CheckpointError(
            f"{name}: its code redefines the type {family!r}, which transformers has; bertkit runs code only for types "
            "of its own; load it with transformers"
        )
    places = {
        auto: _find_code(str(reference), folder)
        for auto, reference in references.items()
        if auto in ("AutoConfig", *AUTO_CLASSES)
    }
    say("\n".join(dict.fromkeys(f"{name}: running code, {_describe_code(*place)}" for place in places.values())))
    configuration = _load_class(*places.pop("AutoConfig"))
    if getattr(configuration, "model_type", None) != family:
        raise CheckpointError(
            f"{name}: config.json has the model_type {family!r}, but its code defines "
            f"{getattr(configuration, 'model_type', None)!r}; get a complete copy of the checkpoint"
        )
    networks = {auto: _load_class(*place) for auto, place in places.items()}
    with reading(folder, "code"):
        for auto, network in networks.items():
            getattr(modeling_auto, auto).register(configuration, network)
        AutoConfig.register(family, configuration)  # last: code that fails can be tried again
    FROM_CODE.add(str(family))


def _find_code(reference: str, folder: str) -> tuple[str, str]:
    """Returns the local folder with the code of a class, and ``module.Class``; ``OWNER/NAME--module.Class`` is
    downloaded."""
    owner, _, named = reference.rpartition("--")
    if not owner:
        return folder, named
    from huggingface_hub import snapshot_download

    with reading(owner, "code"):
        return str(snapshot_download(owner, allow_patterns=["*.py"])), named


def _describe_code(folder: str, named: str) -> str:
    """Returns the file of a class and its revision; snapshots of the Hub are folders named by their commit."""
    path = Path(folder)
    file = f"{named.rpartition('.')[0]}.py"
    if path.parent.name != "snapshots":
        return f"{file} of the folder {folder}"
    repository = path.parent.parent.name.removeprefix("models--").replace("--", "/")
    return f"{file} of {repository} at revision {path.name}"


def _load_class(folder: str, named: str) -> Any:
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    with reading(folder, f"code {named}"):
        return get_class_from_dynamic_module(named, folder)
