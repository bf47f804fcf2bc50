"""Loading models and tokenizers, from a run directory, a folder or the Hub, with errors a user can act on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError, RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from bertkit.model.configuration_bert import BertConfig

_OURS = ("bertkit", "bert")


def load_config(name_or_path: str, changes: Mapping[str, Any] | None = None) -> BertConfig:
    """The configuration of a BERT checkpoint, with some fields changed.

    Args:
        name_or_path: a folder or a Hub id; stock ``bert`` checkpoints are BERT too.
        changes: ``BertConfig`` fields that win over the checkpoint's.

    Raises:
        CheckpointError: there is no such checkpoint, or it is no BERT.
        RecipeError: a changed field is impossible for this checkpoint.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import PreTrainedConfig

    from bertkit.model.configuration_bert import BertConfig

    _check_folder(name_or_path, "config.json")
    try:
        stored, _ = PreTrainedConfig.get_config_dict(name_or_path)
    except (OSError, ValueError) as error:
        raise CheckpointError(_not_usable(name_or_path, "config.json", error)) from error
    if stored.get("model_type") not in _OURS:
        raise CheckpointError(
            f"{name_or_path}: a checkpoint of type {stored.get('model_type')!r}; "
            f"bertkit loads BERT ({' or '.join(_OURS)})"
        )
    try:
        # Not from_pretrained(…, **changes): that sets the fields on a configuration which has been checked before.
        return BertConfig.from_dict({**BertConfig.get_config_dict(name_or_path)[0], **(changes or {})})
    except (ValueError, StrictDataclassError) as error:
        cause = error.__cause__ or error
        if changes:
            raise RecipeError(f"model: the fields {', '.join(changes)} do not fit {name_or_path}: {cause}") from error
        raise CheckpointError(f"{name_or_path}: config.json is not usable: {cause}") from error


def check_positions(max_seq_length: int, config: BertConfig, name: str) -> None:
    """Refuses inputs that are longer than a model can number.

    Raises:
        RecipeError: ``max_seq_length`` is more than the model's positions.
    """
    if max_seq_length > config.max_position_embeddings:
        raise RecipeError(
            f"data.max_seq_length: {max_seq_length} tokens, but {name} has positions for "
            f"{config.max_position_embeddings}; set --max-seq-length to at most that"
        )


def load_model(head: str, name_or_path: str, config: BertConfig, new_head: bool) -> tuple[PreTrainedModel, list[str]]:
    """A BERT with a head, in float32.

    Args:
        head: name of a class in ``bertkit.model.modeling_bert``.
        name_or_path: a folder or a Hub id.
        config: the configuration to build with, from `load_config`.
        new_head: whether the checkpoint may lack the head's weights, which are then drawn at random (fine-tuning).

    Returns:
        The model, and the names of the weights that were drawn at random.

    Raises:
        CheckpointError: no weights there, or weights of another shape or missing ones.
    """
    import torch
    from safetensors import SafetensorError
    from transformers.utils import logging as transformers_logging

    from bertkit.model import modeling_bert

    model_class = getattr(modeling_bert, head)
    # transformers reports new heads as a table of warnings; what matters of it is checked below.
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        # A checkpoint in half precision would otherwise be trained in half precision.
        model, report = model_class.from_pretrained(
            name_or_path, config=config, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=new_head
        )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise CheckpointError(_not_usable(name_or_path, "model", error)) from error
    finally:
        transformers_logging.set_verbosity(verbosity)
    lost = sorted(set(report["missing_keys"]) | {key for key, *_ in report["mismatched_keys"]})
    encoder = [key for key in lost if key.startswith("bert.") and not key.startswith("bert.pooler.")]
    shapes = {key: shapes for key, *shapes in report["mismatched_keys"]}
    for key in encoder:
        if key in shapes:
            there, here = (tuple(shape) for shape in shapes[key])
            raise CheckpointError(
                f"{name_or_path}: {key} has the shape {there}, but the model is to have {here}; leave out the "
                "model fields that differ from the checkpoint's (a recipe for new weights names sizes of its own)"
            )
    if encoder or (lost and not new_head):
        named = ", ".join((encoder or lost)[:3]) + (" …" if len(encoder or lost) > 3 else "")
        raise CheckpointError(f"{name_or_path}: the weights lack {named}; it is not a complete {head}")
    return model, lost


def load_tokenizer(name_or_path: str | Path, for_pretraining: bool = False) -> PreTrainedTokenizerFast:
    """The tokenizer of a checkpoint folder or Hub repository, without the truncation and padding that its
    ``tokenizer.json`` may carry: text is cut and padded where bertkit says so, and nowhere else.

    Args:
        name_or_path: a folder with ``tokenizer.json``, or a Hub id.
        for_pretraining: also require the tokens that pre-training writes: [CLS], [SEP], [PAD] and [MASK], by whatever
            name.

    Raises:
        CheckpointError: it cannot be loaded, has no fast (``tokenizers``) form, or lacks a token that is required.
    """
    from transformers import AutoTokenizer

    _check_folder(name_or_path, "tokenizer.json", "vocab.txt")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(name_or_path))
    except Exception as error:  # the libraries raise OSError, ValueError, KeyError and bare Exception here
        raise CheckpointError(_not_usable(name_or_path, "tokenizer", error)) from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise CheckpointError(
            f"{name_or_path}: its {type(tokenizer).__name__} has no fast form; expected one with a tokenizer.json"
        )
    backend.no_truncation()
    backend.no_padding()
    if for_pretraining:
        roles = {"[CLS]": "cls_token", "[SEP]": "sep_token", "[PAD]": "pad_token", "[MASK]": "mask_token"}
        missing = [name for name, role in roles.items() if getattr(tokenizer, f"{role}_id") is None]
        if missing:
            raise CheckpointError(
                f"{name_or_path}: this tokenizer has no {', '.join(missing)}, which pre-training writes; "
                f"give that of a BERT checkpoint, or train one: bertkit tokenizer train"
            )
    return tokenizer


def new_weights(checkpoint: str | Path, folder: Path, seed: int) -> Path:
    """Writes a checkpoint's twin before it learned anything: its configuration and tokenizer, weights drawn anew.

    Args:
        checkpoint: a folder or a Hub id.
        folder: to write to.
        seed: of the weights.

    Returns:
        ``folder``.

    Raises:
        CheckpointError: as `load_config` and `load_tokenizer`.
    """
    from transformers import set_seed

    from bertkit.model.modeling_bert import BertForPreTraining

    set_seed(seed)
    BertForPreTraining(load_config(str(checkpoint))).save_pretrained(folder)
    save_tokenizer(load_tokenizer(checkpoint), folder)
    return folder


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Saves a tokenizer without the truncation and padding that its last call left in it."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def _check_folder(name_or_path: str | Path, *files: str) -> None:
    """Says at once what a Hub client would only find out after several tries over the network.

    Raises:
        CheckpointError: a path that does not exist, a file, or a folder that has none of ``files``.
    """
    path = Path(name_or_path)
    if path.is_file():
        raise CheckpointError(f"{name_or_path}: is a file; expected the folder that holds {files[0]}, or a Hub id")
    if path.is_dir():
        if not any((path / name).exists() for name in files):
            found = ", ".join(sorted(entry.name for entry in path.iterdir())[:6]) or "nothing"
            raise CheckpointError(
                f"{name_or_path}: no {files[0]} in this folder, which holds {found}; give the folder of a checkpoint"
            )
    elif path.is_absolute() or str(name_or_path).startswith(("./", "../", "~")) or str(path).count("/") > 1:
        raise CheckpointError(f"{name_or_path}: no such folder; expected a folder with {files[0]}, or a Hub id")


def _not_usable(name_or_path: str | Path, what: str, error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).split("\n")[0]
    if Path(name_or_path).is_dir():
        return f"{name_or_path}: the {what} in this folder cannot be loaded ({reason})"
    return (
        f"{name_or_path}: neither a folder here nor a {what} that can be had from the Hub now ({reason}); "
        "give the folder of a checkpoint, or a Hub id such as google-bert/bert-base-uncased with access to the Hub"
    )
