"""Errors of damaged checkpoints: one CheckpointError for whatever a library raises while it reads one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.runtime.errors import BertkitError, CheckpointError
from bertkit.runtime.progress import say
from bertkit.runtime.reading.hub import near_local_name, one_attempt
from bertkit.runtime.reading.paths import is_below
from bertkit.runtime.reading.text import POINTER, is_pointer

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

_LONGEST_REASON = 300  # characters; a library may quote a whole file
_ANY_TEXT = "A word, 3 \u00e9, \u8a9e, \U0001f642"  # with characters that few vocabularies have
_TYPES = {"F64", "F32", "F16", "BF16", "I64", "BOOL"}  # the last two are those of buffers, such as position_ids
# Exceptions whose text means little without their name, such as KeyError('model').
_NAMED = (LookupError, TypeError, AttributeError, AssertionError, EOFError)


@contextmanager
def reading(name_or_path: str | Path, what: str) -> Iterator[None]:
    """Turns exceptions of the block into a CheckpointError that names the checkpoint and the part that is read.

    transformers, tokenizers, safetensors and torch raise many types of exceptions for damaged files, plain
    ``Exception`` and ``KeyError`` among them. Errors of bertkit and a lack of memory pass unchanged.

    Args:
        name_or_path: a folder or a Hub id.
        what: the part of the checkpoint that the block reads, such as ``tokenizer``.
    """
    try:
        with nullcontext() if Path(name_or_path).is_dir() else one_attempt():
            yield
    except (BertkitError, MemoryError):
        raise
    except Exception as error:
        if "allocate memory" in str(error):  # torch and safetensors have no class for it
            raise
        cause = reason(error)
        if Path(name_or_path).is_dir():
            for file in sorted(Path(name_or_path).iterdir()):
                if file.is_file() and is_pointer(file):
                    raise CheckpointError(f"{file}: {POINTER}") from error
            raise CheckpointError(
                f"{name_or_path}: the {what} in this folder cannot be loaded ({cause}); get a complete copy of the "
                "checkpoint"
            ) from error
        raise CheckpointError(
            f"{name_or_path}: neither a local folder nor a {what} that is available from the Hub ({cause}); give the "
            "folder of a checkpoint, or a Hub id such as google-bert/bert-base-uncased with access to the Hub"
            f"{near_local_name(str(name_or_path))}"
        ) from error


def reason(error: BaseException) -> str:
    """Returns the first line of an exception's text, with the type of the exception where the text needs it.

    >>> reason(ValueError("no such file\\nmore")), reason(KeyError("model"))
    ('no such file', "KeyError: 'model'")
    """
    lines = str(error).strip().splitlines() or [""]
    text = lines[0][:_LONGEST_REASON] + ("…" if len(lines[0]) > _LONGEST_REASON else "")
    return f"{type(error).__name__}: {text}".removesuffix(": ") if isinstance(error, _NAMED) or not text else text


def check_folder(name_or_path: str | Path, *files: str) -> None:
    """Checks local paths before a Hub client would report them after several network retries.

    Raises:
        CheckpointError: the path is empty, does not exist, is a file, cannot be read, or is a folder without any of
            ``files``.
    """
    path = Path(name_or_path)
    if not str(name_or_path):  # an unset variable of a shell; as a path it would be the current folder
        raise CheckpointError("'' is not the name of a checkpoint; give its folder, or a Hub id")
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
        if any((path / name).exists() for name in files):
            return
        names = sorted(os.listdir(path)) if is_folder else []
    except OSError as error:  # a folder on the way is closed, or the name is too long
        raise CheckpointError(f"{name_or_path}: cannot be read: {error.strerror}") from error
    if is_file:
        raise CheckpointError(f"{name_or_path}: is a file; expected the folder that contains {files[0]}, or a Hub id")
    if is_folder:
        content = ", ".join(names[:6]) or "nothing"
        remedy = "give the folder of a checkpoint"
        steps = [entry for entry in path.glob("checkpoint-*") if entry.name.removeprefix("checkpoint-").isdigit()]
        steps = [entry for entry in steps if (entry / files[0]).exists()]
        if steps and (path / "recipe.yaml").exists() and not (path / "config.json").exists():
            newest = max(steps, key=lambda entry: int(entry.name.removeprefix("checkpoint-")))
            remedy = f"a run that has not finished: continue it with --resume, or give {newest}"
        if (path / "best" / files[0]).exists():
            remedy = f"a grid: give its best run, {path / 'best'}"
        if (path / "adapter_config.json").exists():
            remedy = "it is an adapter: merge it into its base model (PEFT's merge_and_unload) and give the result"
        raise CheckpointError(f"{name_or_path}: no {files[0]} in this folder, which contains {content}; {remedy}")
    name = str(name_or_path)
    near = near_local_name(name)
    if path.is_absolute() or name.startswith(("./", "../", "~")) or str(path).count("/") > 1:
        raise CheckpointError(f"{name}: no such folder; expected a folder with {files[0]}, or a Hub id{near}")
    if near or (path.parent != Path() and path.parent.is_dir()):
        _say_once(f"{name}: no such folder here; asking the Hub{near}")


_say_once = cache(say)  # a checkpoint is looked for several times


def check_object(name_or_path: str | Path, file: str) -> None:
    """Checks that a JSON file of a local folder holds an object, which libraries take for granted.

    Raises:
        CheckpointError: it holds something else, or is not JSON.
    """
    path = Path(name_or_path) / file
    if path.is_file():
        with reading(name_or_path, file):
            content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise CheckpointError(
                f"{path}: expected a JSON object, got {type(content).__name__}; get a complete copy of the checkpoint"
            )


def check_parts(name_or_path: str | Path) -> None:
    """Checks that the index of weights in several files names files of its folder only, if there is one.

    Files of a Hub id are those of its repository: huggingface_hub refuses other names.

    Raises:
        CheckpointError: it names another file, or is damaged.
    """
    for index in sorted(Path(name_or_path).glob("*.index.json")):
        check_object(name_or_path, index.name)
        names = json.loads(index.read_bytes()).get("weight_map")
        if not isinstance(names, dict):
            raise CheckpointError(f"{index}: no weight_map; get a complete copy of the checkpoint")
        outside = [name for name in names.values() if not is_below(name)]
        if outside:
            raise CheckpointError(f"{index}: names {outside[0]!r}, which is not in its folder")


def check_floating_point(name_or_path: str | Path) -> None:
    """Checks that the weights of a local folder are floating-point numbers of at least 16 bits.

    transformers converts others without their scales if the configuration does not say that they are quantized.

    Raises:
        CheckpointError: a weight has another type, or a file of weights is damaged.
    """
    from safetensors import safe_open

    for file in sorted(Path(name_or_path).glob("model*.safetensors")):
        with reading(name_or_path, "model"), safe_open(file, framework="numpy") as weights:
            types = {name: weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
        for name, kind in types.items():
            if kind not in _TYPES:
                raise CheckpointError(
                    f"{name_or_path}: {name} in {file.name} is of type {kind}; bertkit reads weights in floating "
                    "point: give the checkpoint as it was before it was quantized"
                )


def check_tokenizer(
    tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig | None, name_or_path: str | Path
) -> None:
    """Checks that a tokenizer encodes any text, and that a model has an embedding for everything that it gives.

    Args:
        tokenizer: a loaded tokenizer.
        config: configuration of the model that reads its output; ``None`` for no model.
        name_or_path: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: it does not, or there is no padding token or no attention mask for the model's batches.
    """
    with reading(name_or_path, "tokenizer"):
        encoded = tokenizer(_ANY_TEXT, _ANY_TEXT, return_token_type_ids=True)
        vocabulary = tokenizer.get_vocab()
    if config is None:
        return
    last = max([*vocabulary.values(), *encoded["input_ids"]], default=0)
    if last >= config.vocab_size:
        token = next((token for token, number in vocabulary.items() if number == last), "a token")
        raise CheckpointError(
            f"{name_or_path}: the tokenizer gives {token!r} the id {last}, but the model has embeddings for "
            f"{config.vocab_size} ids, from 0; the tokenizer belongs to another checkpoint"
        )
    segments = max(encoded["token_type_ids"], default=0)
    if "token_type_ids" in model_inputs(config) and segments >= config.type_vocab_size:
        raise CheckpointError(
            f"{name_or_path}: the tokenizer gives the segment {segments}, but the model has embeddings for "
            f"{config.type_vocab_size} segments, from 0; the tokenizer belongs to another checkpoint"
        )
    if "attention_mask" not in encoded:
        raise CheckpointError(
            f"{name_or_path}: the tokenizer gives no attention_mask, which batches need; add it to model_input_names "
            "in tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:
        raise CheckpointError(
            f"{name_or_path}: the tokenizer has no padding token, which batches need; name one as pad_token in "
            "tokenizer_config.json"
        )


def not_finite(name_or_path: str | Path, dtype: str | None = None) -> CheckpointError:
    """Returns the error of a checkpoint whose outputs are NaN or infinite.

    Args:
        name_or_path: the checkpoint.
        dtype: ``float16`` if the outputs are of that type, whose largest number is 65,504.
    """
    if dtype == "float16":
        return CheckpointError(
            f"{name_or_path}: the model computes NaN or infinite values in fp16; give --precision bf16 or float32 "
            "(bertkit.load(precision=…)), whose numbers may be larger"
        )
    return CheckpointError(
        f"{name_or_path}: the model computes NaN or infinite values; its weights are damaged, or its training "
        "diverged; use an earlier checkpoint, or train again with a smaller learning rate"
    )
