"""Loading of models and tokenizers from a run directory, a folder or the Hub, with actionable errors."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.model.checkpoint.encoders import (
    BERT,
    bert_tokenizer_class,
    check_encoder,
    config_class,
    head_class,
    own_fields,
)
from bertkit.model.checkpoint.faults import (
    check_floating_point,
    check_folder,
    check_object,
    check_parts,
    check_tokenizer,
    reading,
    reason,
)
from bertkit.model.labels_bert import PROBLEM_TYPES
from bertkit.runtime.errors import CheckpointError, RecipeError, listed
from bertkit.runtime.progress import logging_errors_alone

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

# Fields that every configuration accepts in addition to those of its family.
_OF_THE_TASK = ("num_labels", "id2label", "label2id", "problem_type", "bertkit_task")
# Fields of a stored configuration that do not describe the network: kernels, which transformers may fetch from the Hub,
# and the form of the outputs.
_OF_THE_CALLER = (
    "attn_implementation",
    "_attn_implementation",
    "experts_implementation",
    "_experts_implementation",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
)
# A folder with any of these files has a tokenizer; the last ones are formats of older transformers versions.
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model", "sentencepiece.bpe.model")
_BERT_TOKENIZERS = ("BertTokenizer", "BertTokenizerFast")
_FEWEST_FROZEN = 1_000  # of 4,000 in a new interpreter; the collector of Python 3.12 freezes the immortal ones, 400
_LAYER = re.compile(r"\blayers?\.(\d+)\.")  # number of the encoder layer in the name of a weight


@contextmanager
def without_collector() -> Iterator[None]:
    """Turns the garbage collector off in the block, and on again if it was on.

    Imports of torch and transformers create a million objects that stay. Examining them many times would take a fifth
    of the time of a first prediction. After a block that has imported modules they count as old.
    """
    was_on, modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # Counting frozen objects goes through all of them, so it is left out where nothing was imported. What the
            # caller has frozen, all objects of that time, would be unfrozen.
            if len(sys.modules) > modules and gc.get_freeze_count() < _FEWEST_FROZEN:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def load_config(
    name_or_path: str, changes: Mapping[str, Any] | None = None, *, any_encoder: bool = False
) -> PreTrainedConfig:
    """Loads the configuration of a checkpoint and changes some of its fields.

    Args:
        name_or_path: a folder or a Hub id; stock ``bert`` checkpoints count as BERT.
        changes: fields that override those of the checkpoint: fields of its family, and label fields of a task. With
            ``num_labels`` the checkpoint's label names are dropped.
        any_encoder: accept encoders other than BERT.

    Returns:
        A ``BertConfig`` for BERT, transformers' configuration for other encoders.

    Raises:
        CheckpointError: the checkpoint does not exist, or is not BERT, or not an encoder.
        RecipeError: a changed field does not exist, or is impossible for this checkpoint.
    """
    return read_config(name_or_path, any_encoder=any_encoder).build(changes or {})


@dataclass(frozen=True)
class StoredConfig:
    """Contents of a checkpoint's ``config.json``, from which configurations are built."""

    name_or_path: str
    fields: Mapping[str, Any]
    configuration: type[PreTrainedConfig]

    def build(self, changes: Mapping[str, Any]) -> PreTrainedConfig:
        """Returns the configuration with some fields changed, see `load_config`.

        Raises:
            CheckpointError: the stored configuration is unusable, or does not describe an encoder.
            RecipeError: a changed field does not exist, or is impossible for this checkpoint.
        """
        name_or_path, fields = self.name_or_path, dict(self.fields)
        known, faults = own_fields(self.configuration), []  # unknown fields would be accepted and ignored
        for key in changes:
            if key not in known and key not in _OF_THE_TASK:
                near = get_close_matches(key, sorted(known), n=4, cutoff=0.5)
                hint = f"; similar fields: {', '.join(near)}" if near else ""
                family = self.configuration.model_type
                faults.append(f"model.{key}: {name_or_path} is of type {family!r}, which has no such field{hint}")
        if faults:
            raise RecipeError(listed(faults))
        if "num_labels" in changes:  # stored label names would override the number
            fields = {key: value for key, value in fields.items() if key not in ("id2label", "label2id")}
        try:
            # Not from_pretrained(…, **changes), which sets the fields after the configuration has been checked.
            config = self.configuration.from_dict({**fields, **changes})
            check_encoder(config, name_or_path)
        except CheckpointError:
            raise
        except Exception as error:  # a damaged file holds values of any type, so that any exception may be raised
            cause = reason(error.__cause__ or error)
            if changes:
                self.build({})  # raises if the file is at fault, and not the changes
                raise RecipeError(
                    f"model: the fields {', '.join(changes)} are not valid for {name_or_path}: {cause}"
                ) from error
            raise CheckpointError(f"{name_or_path}: config.json is not usable: {cause}") from error
        if config.problem_type not in (None, *PROBLEM_TYPES):
            fault = f"problem_type is {config.problem_type!r}; expected {', '.join(PROBLEM_TYPES)} or null"
            if "problem_type" in changes:
                raise RecipeError(f"model.{fault}")
            raise CheckpointError(f"{name_or_path}: config.json: {fault}")
        return config


@without_collector()
def read_config(name_or_path: str, *, any_encoder: bool = False) -> StoredConfig:
    """Reads a checkpoint's ``config.json``; arguments as of `load_config`.

    Raises:
        CheckpointError: the checkpoint does not exist, is not BERT, or no encoder, or is quantized.
    """
    from transformers import PreTrainedConfig

    check_folder(name_or_path, "config.json")
    check_object(name_or_path, "config.json")
    with reading(name_or_path, "config.json"):
        family = PreTrainedConfig.get_config_dict(name_or_path)[0].get("model_type")
        if not isinstance(family, str):
            raise CheckpointError(
                f"{name_or_path}: config.json has the model_type {family!r}; expected the name of an encoder, such as "
                "bert"
            )
        if family not in BERT and not any_encoder:
            raise CheckpointError(
                f"{name_or_path}: a checkpoint of type {family!r}; expected BERT ({' or '.join(BERT)})"
            )
        configuration = config_class(family, name_or_path)
        fields, _ = configuration.get_config_dict(name_or_path)  # a file may hold several; each class reads its own
    if fields.get("quantization_config") is not None:
        raise CheckpointError(
            f"{name_or_path}: config.json has a quantization_config; bertkit reads weights in floating point: give the "
            "checkpoint as it was before it was quantized"
        )
    fields = {key: value for key, value in fields.items() if key not in _OF_THE_CALLER}
    return StoredConfig(name_or_path, fields, configuration)


@without_collector()
def load_model(
    head: str | type[PreTrainedModel],
    name_or_path: str,
    config: PreTrainedConfig,
    new_head: bool,
    labels: Sequence[str] | None = None,
) -> tuple[PreTrainedModel, list[str]]:
    """Loads an encoder with a head in float32: bertkit's BERT, or transformers' model for other families.

    Args:
        head: as for `head_class`.
        name_or_path: a folder or a Hub id.
        config: the configuration to build with, from `load_config`.
        new_head: allow missing head weights, which are then initialised at random (fine-tuning).
        labels: names of the labels of a new head, in the order of their ids; ``None`` for a head without named labels.
            A head that was trained for other labels is reinitialised; a head for the same labels in another order is
            reordered.

    Returns:
        The model, and the names of the weights that were initialised at random.

    Raises:
        CheckpointError: the family has no such head, or weights are missing or have another shape.
        RecipeError: the configuration has ``feature_layers``, which a new head of this kind does not support.
    """
    import torch

    model_class = head_class(head, config, name_or_path)
    check_parts(name_or_path)
    check_floating_point(name_or_path)
    if new_head and head != "BertForTokenClassification" and getattr(config, "feature_layers", None) is not None:
        raise RecipeError("model.feature_layers: supported for word tagging only; set model.feature_layers=null")
    # transformers reports new heads as a table of warnings; missing weights are checked below.
    with logging_errors_alone("transformers"), reading(name_or_path, "model"):
        model, report = model_class.from_pretrained(
            name_or_path,
            config=config,
            dtype=torch.float32,  # otherwise a checkpoint in half precision would be trained in half precision
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
        )
    lost = _check_complete(model, report, name_or_path, new_head)
    prefix = f"{model.base_model_prefix}."
    if new_head and labels is not None and all(key.startswith(prefix) for key in lost):
        stored = load_config(name_or_path, any_encoder=True)
        lost += match_labels(model, list(stored.id2label.values()), labels)
    return model, lost


def match_labels(model: PreTrainedModel, before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Reorders a loaded head to the new labels, or reinitialises it if they differ and returns the weights' names.

    transformers loads a head whenever its shape fits, even if its classes are other ones.

    Args:
        model: the loaded model with a classification head.
        before: names of the labels that the head was trained for, in the order of their ids.
        now: names of the new labels, in the order of their ids.
    """
    import torch
    from torch import nn

    if list(before) == list(now):
        return []
    prefix = f"{model.base_model_prefix}."
    head = {name: module for name, module in model.named_modules() if name and not f"{name}.".startswith(prefix)}
    if sorted(before) == sorted(now):
        order = torch.tensor([before.index(name) for name in now])
        linear = [module for module in head.values() if isinstance(module, nn.Linear)]
        last = [module for module in linear if module.out_features == len(now)][-1]
        with torch.no_grad():
            for parameter in last.parameters():
                parameter.copy_(parameter[order])
        return []
    for module in head.values():
        for parameter in module.parameters(recurse=False):
            parameter._is_hf_initialized = False  # otherwise transformers keeps the loaded weights
        model._init_weights(module)
    return sorted(
        f"{name}.{parameter}"
        for name, module in head.items()
        for parameter, _ in module.named_parameters(recurse=False)
    )


def _check_complete(model: PreTrainedModel, report: Mapping[str, Any], name_or_path: str, new_head: bool) -> list[str]:
    """Returns the names of the weights that were initialised at random, if these may be.

    Args:
        model: the loaded model.
        report: the weights that transformers reports as missing, of another shape, and unexpected.
        name_or_path, new_head: as for `load_model`.
    """
    shapes = {key: (tuple(there), tuple(here)) for key, there, here in report["mismatched_keys"]}
    lost = sorted({*report["missing_keys"], *shapes})
    # The pooler may be new like a head: not every family pre-trains one, and not every head has one.
    prefix = f"{model.base_model_prefix}."
    encoder = [key for key in lost if key.startswith(prefix) and not key.startswith(f"{prefix}pooler.")]
    refused = encoder if new_head else encoder or lost
    for key in refused:
        if key in shapes:
            there, here = shapes[key]
            raise CheckpointError(
                f"{name_or_path}: {key} has the shape {there}, but the model needs {here}; remove the "
                "model fields that differ from the checkpoint's (a recipe for new weights sets its own sizes); "
                "without such fields, config.json does not belong to these weights"
            )
    if refused:
        named = ", ".join(refused[:3]) + (" …" if len(refused) > 3 else "")
        raise CheckpointError(f"{name_or_path}: the weights lack {named}; it is not a complete {type(model).__name__}")
    layers = model.config.num_hidden_layers
    unread = sorted(
        key for key in report["unexpected_keys"] if (match := _LAYER.search(key)) and int(match[1]) >= layers
    )
    # A recipe may keep the first layers only; a checkpoint whose own configuration does so is damaged.
    if unread and load_config(name_or_path, any_encoder=True).num_hidden_layers == layers:
        raise CheckpointError(
            f"{name_or_path}: config.json has {layers} layers, but the weights hold more, such as "
            f"{unread[0]}; config.json does not belong to these weights"
        )
    return lost


@without_collector()
def load_tokenizer(
    name_or_path: str | Path, for_pretraining: bool = False, config: PreTrainedConfig | None = None
) -> PreTrainedTokenizerFast:
    """Loads the tokenizer of a checkpoint folder or Hub repository.

    Truncation and padding settings in ``tokenizer.json`` are removed; bertkit truncates and pads explicitly.

    Args:
        name_or_path: a folder with ``tokenizer.json``, or with files that transformers converts to it, or a Hub id.
        for_pretraining: also require the special tokens of pre-training: [CLS], [SEP], [PAD] and [MASK], under any
            name.
        config: configuration of the model that reads the ids; ``None`` for no model. It must have an embedding for
            every token.

    Raises:
        CheckpointError: the tokenizer cannot be loaded, is not a fast tokenizer, needs code from the checkpoint, lacks
            a required token, or does not fit the model.
    """
    settings = tokenizer_settings(name_or_path)
    with reading(name_or_path, "tokenizer"):
        code = settings.get("auto_map")  # a list in old checkpoints
        if code.get("AutoTokenizer") if isinstance(code, dict) else code:
            # transformers would ask whether to run it, and take the answer from piped data; or use another class.
            raise CheckpointError(
                f"{name_or_path}: tokenizer_config.json names code in the checkpoint as its tokenizer (auto_map), and "
                "bertkit does not run code of tokenizers; if tokenizer.json is complete without that code, remove "
                "auto_map from a copy of the checkpoint"
            )
        if config is not None and config.model_type in BERT and settings.get("tokenizer_class") in _BERT_TOKENIZERS:
            tokenizer_class: Any = bert_tokenizer_class()  # AutoTokenizer finds it too, and imports all models' tables
        else:
            from transformers import AutoTokenizer

            tokenizer_class = AutoTokenizer
        tokenizer = tokenizer_class.from_pretrained(str(name_or_path), trust_remote_code=False)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise CheckpointError(
            f"{name_or_path}: its {type(tokenizer).__name__} is not a fast tokenizer; expected one with tokenizer.json"
        )
    backend.no_truncation()
    backend.no_padding()
    if for_pretraining:
        roles = {"[CLS]": "cls_token", "[SEP]": "sep_token", "[PAD]": "pad_token", "[MASK]": "mask_token"}
        missing = [name for name, role in roles.items() if getattr(tokenizer, f"{role}_id") is None]
        if missing:
            raise CheckpointError(
                f"{name_or_path}: this tokenizer has no {', '.join(missing)}, which pre-training needs; "
                "give the tokenizer of a BERT checkpoint, or train one: bertkit tokenizer train"
            )
    check_tokenizer(tokenizer, config, name_or_path)
    return tokenizer


def tokenizer_settings(name_or_path: str | Path) -> dict[str, Any]:
    """Returns the content of ``tokenizer_config.json``, empty if there is none.

    Raises:
        CheckpointError: it is damaged, or there is no tokenizer.
    """
    check_folder(name_or_path, *_TOKENIZER_FILES)
    check_object(name_or_path, "tokenizer_config.json")
    with reading(name_or_path, "tokenizer"):
        file = Path(name_or_path) / "tokenizer_config.json"
        if file.is_file():
            settings: dict[str, Any] = json.loads(file.read_bytes())
            return settings
        from transformers.models.auto.tokenization_auto import get_tokenizer_config

        return dict(get_tokenizer_config(str(name_or_path)))


def longest_of_tokenizer(name_or_path: str) -> int:
    """Returns ``model_max_length`` of a tokenizer's configuration; a very large number if it has none.

    Raises:
        CheckpointError: ``tokenizer_config.json`` cannot be read.
    """
    longest = tokenizer_settings(name_or_path).get("model_max_length")
    # transformers writes 1e30 if there is no limit; a limit without room for a token is no limit either.
    return int(min(longest, sys.maxsize)) if isinstance(longest, int | float) and longest >= 3 else sys.maxsize


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Saves a tokenizer without the truncation and padding settings of its last call."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
