"""Keys of the blocks ``train`` and ``model``, which are those of transformers' classes and of bertkit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_type_hints

from bertkit.checkpoint.encoders import MOST_LAYERS
from bertkit.checkpoint.pretraining import MODEL_TYPE, field_types, new_architecture
from bertkit.options import Range, option, setting
from bertkit.recipe.distillation import DistillationSettings
from bertkit.recipe.fields import Field, Fields, fields_of
from bertkit.recipe.tuning import TuningSettings

# Defaults of all runs that differ from those of transformers; a recipe can override each of them.
TRAIN_DEFAULTS: dict[str, Any] = {
    "global_train_batch_size": 32,
    "seed": 42,
    "logging_steps": 50.0,  # of the type that the check gives it, so that a recipe of a run loads as itself
    "save_total_limit": 2,
    "report_to": "none",
}


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Keys of the ``train`` block that bertkit adds to `TrainingArguments` of transformers."""

    global_train_batch_size: int = option(
        "Sequences per optimizer step, over all processes and accumulation.", default=32, ge=1, le=2**20
    )
    early_stopping_patience: int | None = setting(
        "Number of evaluations without a better score after which the run ends.", default=None, gt=0
    )
    class_weights: str | dict[Any, Any] | None = option(
        "Loss for imbalanced classes: balanced, focal, or a weight for each label.", default=None
    )
    layer_lr_decay: float | None = setting(
        "Factor of the learning rate from each layer to the one below it.", default=None, gt=0, le=1
    )
    distill: DistillationSettings | None = setting("Teacher of the run, and the weights of its losses.", default=None)
    report: bool = setting("Whether the run leaves report.html; changes no number.", default=True)


@dataclass(frozen=True, kw_only=True)
class OptionsOfTransformers:
    """Fields of `TrainingArguments`, whose import takes seconds, that commands have options for."""

    learning_rate: float = option("Peak learning rate.", gt=0, le=1e6)  # larger steps exceed float32 after a few
    num_train_epochs: float = option("Passes over the training data.", gt=0, le=1e6)
    max_steps: int = option("Optimizer steps; takes precedence over epochs.", gt=0)
    seed: int = option("Random seed of weights, order, masks and dropout.", ge=0, le=2**32 - 1)  # numpy's limit
    report_to: list[str] = option(
        "Write losses, scores and figures to trackio, wandb, tensorboard, mlflow or another tracker; changes no "
        "number.",
        metavar="NAME",
        panel="Output",
    )
    run_name: str | None = option(
        "Name of the run, or of the group of runs, in the trackers; the folder's by default.",
        metavar="NAME",
        panel="Output",
    )


OWN_TRAIN_KEYS = tuple(each.name for each in dataclasses.fields(TrainSettings))
"""Keys of the ``train`` block that are not fields of ``TrainingArguments``."""

# Ranges of the other fields of transformers. Larger numbers are slips, and would take all memory or time before they
# are refused.
_NOT_NEGATIVE, _SHARE, _WORKERS, _SIZE = Range(ge=0), Range(ge=0, lt=1), Range(ge=1, le=1024), Range(ge=1, le=2**20)
_TRAIN_RANGES = {
    "data_seed": Range(ge=0, le=2**32 - 1),
    "warmup_steps": _NOT_NEGATIVE,
    "weight_decay": Range(ge=0, le=1e3),
    "adam_beta1": _SHARE,
    "adam_beta2": _SHARE,
    "adam_epsilon": Range(gt=0),  # at 0 a weight without gradient becomes 0/0
    "max_grad_norm": _NOT_NEGATIVE,  # 0 does not clip
    "label_smoothing_factor": _SHARE,
    "neftune_noise_alpha": Range(ge=0, le=1000),
    "logging_steps": _NOT_NEGATIVE,
    "eval_steps": _NOT_NEGATIVE,
    "eval_delay": _NOT_NEGATIVE,
    "eval_accumulation_steps": Range(ge=1),
    "save_steps": _NOT_NEGATIVE,
    "save_total_limit": Range(ge=1),  # transformers keeps all checkpoints at 0; here null does
    "torch_empty_cache_steps": Range(ge=1),
    "dataloader_prefetch_factor": _WORKERS,
    "ddp_bucket_cap_mb": _WORKERS,
    "ddp_timeout": Range(ge=1, le=2**31 - 1),  # seconds; torch counts nanoseconds in 64 bits
}
_MODEL_RANGES = {
    "num_hidden_layers": Range(ge=1, le=MOST_LAYERS),
    **dict.fromkeys(
        (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
            "feature_lstm_size",
        ),
        _SIZE,
    ),
}

# TrainingArguments that a recipe must not set → what to use instead, or the reason.
_NOT_IN_TRAIN: dict[str, str] = {
    "per_device_train_batch_size": "use train.global_train_batch_size, and placement.per_device_train_batch_size",
    "per_device_eval_batch_size": "use placement.per_device_eval_batch_size",
    "gradient_accumulation_steps": "it follows from train.global_train_batch_size and the placement",
    "auto_find_batch_size": "it would change the global batch",
    "average_tokens_across_devices": "losses are means over the global batch",
    "fsdp": "use --placement fsdp",
    "fsdp_config": "use --placement fsdp",
    "parallelism_config": "use --placement",
    "bf16": "use placement.mixed_precision",
    "fp16": "use placement.mixed_precision",
    "use_cpu": "use placement.device",
    "dataloader_num_workers": "use placement.dataloader_num_workers",
    "dataloader_pin_memory": "it follows from the placement",
    "logging_nan_inf_filter": "a loss that is not finite ends the run",
    "enable_jit_checkpoint": "SIGTERM and SIGUSR1 save a checkpoint in every run",
    "activation_checkpointing": "use placement.gradient_checkpointing",
    "gradient_checkpointing": "use placement.gradient_checkpointing",
    "output_dir": "use --output-dir",
    "resume_from_checkpoint": "use --resume",
    "do_train": "use the command of that name",
    "do_eval": "use the command of that name",
    "do_predict": "use the command of that name",
    "disable_tqdm": "progress bars are shown on a terminal only",
    "remove_unused_columns": "the task decides which columns the model gets",
    "local_rank": "the launcher sets it",
    "prediction_loss_only": "scores need the predictions",
    "batch_eval_metrics": "scores need the predictions of the whole set",
    "eval_do_concat_batches": "scores need the predictions of the whole set",
    "use_liger_kernel": "it has no kernels for encoders",
}


def not_in_train(key: Any) -> str | None:
    """Returns what to use instead of a key that the ``train`` block does not take, or the reason; None for others."""
    if str(key).startswith(("hub_", "push_to_hub")):
        return "use --push-to-hub, and the block hub"
    return _NOT_IN_TRAIN.get(key)


@cache
def train_fields() -> Fields:
    """Returns the fields of the ``train`` block by key."""
    from transformers import TrainingArguments

    hints = get_type_hints(TrainingArguments)
    described = fields_of(OptionsOfTransformers)
    found = dict(fields_of(TrainSettings))
    for each in dataclasses.fields(TrainingArguments):
        if not_in_train(each.name):
            continue
        text = described[each.name].help + " " if each.name in described else ""
        numbers = described[each.name].range if each.name in described else _TRAIN_RANGES.get(each.name)
        default = TRAIN_DEFAULTS.get(each.name, each.default)
        hint = int | Literal[-1] if each.name == "max_steps" else hints[each.name]  # -1 is none
        found[each.name] = Field(hint, f"{text}TrainingArguments.{each.name} of transformers.", default, numbers)
    return Fields(found)


@cache
def model_fields(model_type: str | None = None, *, of_checkpoint: bool) -> Fields:
    """Returns the fields of the ``model`` block by key.

    Args:
        model_type: architecture of new weights, as in ``config.json``; None is BERT.
        of_checkpoint: whether the weights are those of a checkpoint, which has the keys of fine-tuning.

    Raises:
        RecipeError: there is no such architecture.
    """
    own: dict[str, Field] = fields_of(TuningSettings)
    if not of_checkpoint:
        described = "Architecture of new weights, as in config.json; BERT by default. The other keys are its fields."
        own = {"name_or_path": own["name_or_path"], MODEL_TYPE: Field(str | None, described)}
    configuration = new_architecture(model_type)
    of_config = {
        name: Field(hint, f"{configuration.__name__}.{name}.", range=_MODEL_RANGES.get(name))
        for name, hint in field_types(configuration).items()
    }
    return Fields({**own, **of_config})
