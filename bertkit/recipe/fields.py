"""Keys of the blocks, and types of their values: pydantic checks values against the annotations of settings' fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from enum import Enum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from bertkit.model.checkpoint.encoders import MODEL_TYPE, MOST_LAYERS, field_types, new_architecture
from bertkit.recipe.files import parse_texts, parse_value
from bertkit.recipe.settings import OptionsOfTransformers, TrainSettings, TuningSettings
from bertkit.runtime.errors import RecipeError, did_you_mean, shown
from bertkit.runtime.options import Range, descriptions

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


class Field(NamedTuple):
    """A key of a block.

    Attributes:
        hint: annotation of its values.
        help: description.
        default: value of a recipe without the key; `dataclasses.MISSING` if there is none.
        range: range of its numbers.
    """

    hint: Any
    help: str = ""
    default: Any = MISSING
    range: Range | None = None


class Fields(dict[str, Field]):
    """Fields of a block by key, not changed after it is made; ``required`` are those that a recipe must have."""

    required: Sequence[str] = ()

    @cached_property
    def annotation(self) -> Any:
        """Annotation of mappings with some of the keys: numbers and text are not converted into each other."""
        import pydantic
        from typing_extensions import TypedDict

        annotations: dict[str, Any] = {}
        for key, each in self.items():
            default = each.default.value if isinstance(each.default, Enum) else each.default
            default = list(default) if isinstance(default, tuple) else default
            is_plain = isinstance(default, str | int | float | bool | list | dict | NoneType)
            extra = {"default": default} if is_plain else None
            described = pydantic.Field(description=each.help or None, json_schema_extra=extra)
            annotations[key] = Annotated[_for_pydantic(each.hint, each.range), described]
        typed_dict: Any = TypedDict  # the functional form, for keys that are known when it is called
        block = typed_dict("Block", annotations, total=False)
        block.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
        if self.required:
            block.__pydantic_config__["json_schema_extra"] = {"required": list(self.required)}
        return block

    @cached_property
    def adapter(self) -> TypeAdapter[dict[str, Any]]:
        """Type of these mappings."""
        from pydantic import TypeAdapter

        return TypeAdapter(self.annotation)


@cache
def fields_of(settings: type) -> Fields:
    """Returns the fields of a settings dataclass by name."""
    hints, described = get_type_hints(settings), descriptions(settings)
    fields = Fields(
        (
            each.name,
            Field(
                hints[each.name],
                described[each.name].get("help", ""),
                each.default if each.default_factory is MISSING else each.default_factory(),
                described[each.name].get("range"),
            ),
        )
        for each in dataclasses.fields(settings)
    )
    fields.required = [key for key, each in fields.items() if each.default is MISSING]
    return fields


# ---- keys of train and model ---------------------------------------------------------------------------------------

# Defaults of all runs that differ from those of transformers; a recipe can override each of them.
TRAIN_DEFAULTS: dict[str, Any] = {
    "global_train_batch_size": 32,
    "seed": 42,
    "logging_steps": None,  # a thirtieth of the steps, at most `LOGGING_STEPS`
    "save_total_limit": 2,
    "report_to": "none",
}

LOGGING_STEPS = 50
"""Most steps between two logs of a run whose recipe does not say how many."""

# Types of fields of transformers that differ from theirs.
_TRAIN_HINTS: dict[str, Any] = {
    "max_steps": int | Literal[-1],  # -1 is none
    "logging_steps": float | None,
    "train_sampling_strategy": Literal["random", "sequential", "group_by_length"],  # others depend on the placement
}

# Ranges of the other fields of transformers. Larger numbers are slips, and would take all memory or time before they
# are refused.
_NOT_NEGATIVE, _SHARE, _FEW, _SIZE = Range(ge=0), Range(ge=0, lt=1), Range(ge=1, le=1024), Range(ge=1, le=2**20)
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
    "dataloader_prefetch_factor": _FEW,
    "ddp_bucket_cap_mb": _FEW,
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
    **dict.fromkeys(("fsdp", "fsdp_config"), "use --placement fsdp"),
    "parallelism_config": "use --placement",
    **dict.fromkeys(("bf16", "fp16"), "use placement.mixed_precision"),
    **dict.fromkeys(("bf16_full_eval", "fp16_full_eval"), "evaluations and predictions of a run are in float32"),
    "use_cpu": "use placement.device",
    "dataloader_num_workers": "use placement.dataloader_num_workers",
    "dataloader_pin_memory": "it follows from the placement",
    "logging_nan_inf_filter": "a loss that is not finite ends the run",
    "enable_jit_checkpoint": "SIGTERM and SIGUSR1 save a checkpoint in every run",
    **dict.fromkeys(("activation_checkpointing", "gradient_checkpointing"), "use placement.gradient_checkpointing"),
    "output_dir": "use --output-dir",
    "resume_from_checkpoint": "use --resume",
    "do_train": "use bertkit finetune or bertkit pretrain",
    "do_eval": "use bertkit evaluate",
    "do_predict": "use bertkit predict",
    "disable_tqdm": "progress bars are shown on a terminal only",
    "remove_unused_columns": "the task decides which columns the model gets",
    "label_names": "the task decides which columns are labels",
    "local_rank": "the launcher sets it",
    "prediction_loss_only": "scores need the predictions",
    **dict.fromkeys(("batch_eval_metrics", "eval_do_concat_batches"), "scores need the predictions of the whole set"),
    **dict.fromkeys(("use_liger_kernel", "liger_kernel_config"), "it has no kernels for encoders"),
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
    fields = dict(fields_of(TrainSettings))
    for each in dataclasses.fields(TrainingArguments):
        if not_in_train(each.name):
            continue
        text = described[each.name].help + " " if each.name in described else ""
        numbers = described[each.name].range if each.name in described else _TRAIN_RANGES.get(each.name)
        default = TRAIN_DEFAULTS.get(each.name, each.default)
        hint = _TRAIN_HINTS.get(each.name, hints[each.name])
        fields[each.name] = Field(hint, f"{text}TrainingArguments.{each.name} of transformers.", default, numbers)
    return Fields(fields)


@cache
def model_fields(model_type: str | None = None, *, of_checkpoint: bool, others: tuple[str, ...] = ()) -> Fields:
    """Returns the fields of the ``model`` block by key; RecipeError if there is no such architecture.

    Args:
        model_type: architecture of new weights, as in ``config.json``; None is BERT.
        of_checkpoint: whether the weights are those of a checkpoint, which has the keys of fine-tuning.
        others: further keys, with values of any type.
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
    return Fields({**dict.fromkeys(others, Field(Any)), **own, **of_config})


# ---- types ---------------------------------------------------------------------------------------------------------


def members(hint: Any) -> tuple[Any, ...]:
    """Returns the types of which an annotation is the union, or the annotation alone.

    >>> members(list[str] | None)
    (list[str], <class 'NoneType'>)
    """
    return get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else (hint,)


@cache
def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Returns the type of the values that an annotation allows."""
    from pydantic import ConfigDict, TypeAdapter

    if settings := nested_settings(hint):
        return fields_of(settings).adapter
    return TypeAdapter(_for_pydantic(hint), config=ConfigDict(strict=True, allow_inf_nan=False))


def _for_pydantic(hint: Any, numbers: Range | None = None) -> Any:
    """Returns an annotation for pydantic: with a range, whole numbers as 1e5, and the names of an Enum.

    Annotations of transformers that are no plain data allow any value, which transformers checks itself.
    """
    import pydantic

    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType) or origin is Union:
        # TrainingArguments annotates a name as ``SomeEnum | str``: only the names of the Enum are right.
        names = [each for each in arguments if isinstance(each, type) and issubclass(each, Enum)]
        kept = [each for each in arguments if not names or each is not str]
        return Union[tuple(_for_pydantic(each, numbers) for each in kept)]  # noqa: UP007
    if hint is int or hint is float:
        # A number such as 1e5 is a float in YAML.
        whole = pydantic.BeforeValidator(
            lambda each: int(each) if isinstance(each, float) and each.is_integer() and abs(each) < 2**63 else each
        )
        return Annotated[hint, pydantic.Field(**(numbers or Range())._asdict()), *([whole] if hint is int else [])]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(each.value for each in hint)]
    if origin in (list, dict):
        return origin[tuple(_for_pydantic(each) for each in arguments)]
    if settings := nested_settings(hint):
        return fields_of(settings).annotation
    plain = hint in (bool, str, list, dict, NoneType, None) or origin is Literal
    return hint if plain else Any


# ---- values given as text ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Value of a recipe in YAML; `with_types` gives the value that it has in a certain field."""

    text: str


def with_types(value: Any, hint: Any) -> Any:
    """Returns a recipe value with each `Text` in it replaced by the value that it has in a field annotated ``hint``.

    A field that can hold text takes it as it is given, unless it is quoted, or is YAML of another type that the field
    can hold. Other fields take YAML. Numbers and arrays of numpy become those of Python, which recipe files can hold.

    Args:
        value: a value, a `Text`, or a mapping with some of them.
        hint: annotation of the field.

    Raises:
        RecipeError: the text is not YAML, and the field does not take text.

    >>> [with_types(Text(text), str | None) for text in ("|", "no", "1e5", "a: b", "null", "'null'")]
    ['|', 'no', '1e5', 'a: b', None, 'null']
    >>> with_types(Text("1e5"), float), with_types(Text("[no]"), list[str]), with_types(Text("[0]"), str | list[int])
    (100000.0, ['no'], [0])
    """
    if isinstance(value, Mapping):
        settings = nested_settings(hint)
        hints = {key: each.hint for key, each in fields_of(settings).items()} if settings else {}
        return {with_types(key, Any): with_types(each, hints.get(key, Any)) for key, each in value.items()}
    if isinstance(value, list):
        return [with_types(each, Any) for each in value]
    if not isinstance(value, Text):
        return value.tolist() if type(value).__module__ == "numpy" else value
    text, takes_text = value.text, _validate(value.text, hint) is not MISSING
    try:
        parsed, texts = parse_value(text), parse_texts(text)
    except RecipeError:
        if takes_text:
            return text
        raise
    if Any in members(hint):
        return parsed
    if isinstance(parsed, str):
        first = text.lstrip(" \t\r\n")[0]  # YAML has other white space in texts
        return parsed if first in ("'", '"') or (first in "|>" and parsed) else text
    is_sign = parsed is None and text and text.strip() != "null"  # ~ as a separator, # alone
    if not is_sign and _validate(parsed, hint) is not MISSING:
        return parsed
    if isinstance(texts, list | dict) and (values := _validate(texts, hint, strict=False)) is not MISSING:
        return values
    return text if takes_text else parsed


def _validate(value: Any, hint: Any, *, strict: bool = True) -> Any:
    """Returns a value as one of a field, ``['1e5']`` as numbers if not strict, or MISSING if the field has no such."""
    try:
        return adapter_of(hint).validate_python(value, strict=strict)
    except ValueError:
        return MISSING


# ---- messages -------------------------------------------------------------------------------------------------------


def faults_of(
    error: ValidationError, fields: Mapping[str, Field], values: Mapping[str, Any]
) -> list[tuple[tuple[str, ...], str]]:
    """Returns the path of each wrong key and what is wrong with it; for a union, what each of its members expects."""
    by_path: dict[tuple[str, ...], list[Any]] = {}
    for each in error.errors(include_url=False):
        path = tuple(map(str, each["loc"]))
        by_path.setdefault(path[: 2 if nested_settings(fields[path[0]].hint) else 1], []).append(each)
    faults = []
    for path, errors in by_path.items():
        field, value = fields[path[0]], values[path[0]]
        if len(path) > 1:
            known = fields_of(nested_settings(field.hint))
            if path[1] not in known:
                faults.append((path, f"unknown key{did_you_mean(path[1], known)}"))
                continue
            field, value = known[path[1]], value.get(path[1])
        expected, near = [], ""
        for each in errors:
            choices = re.findall(r"'([^']*)'", each.get("ctx", {}).get("expected", ""))
            if choices and isinstance(value, str):
                near = did_you_mean(value, choices)
            if field.range is not None and each["type"].startswith(("greater_than", "less_than")):
                expected.append(str(field.range))
            elif choices:
                expected.append(f"one of {', '.join(choices)}")
            else:
                words = each["msg"].removeprefix("Input should be ").replace("valid ", "")
                if each["input"] is not value:  # but within it, in a list perhaps of mappings
                    place, kind = each["loc"][-2:]
                    where = "value of each mapping" if isinstance(place, int) else "value"
                    words += f" as each {'key' if kind == '[key]' else where}"
                expected.append(words.replace("a integer", "an integer").replace("a dictionary", "a mapping"))
        faults.append((path, f"expected {' or '.join(dict.fromkeys(expected))}, got {shown(value)}{near}"))
    return faults


def nested_settings(hint: Any) -> Any:
    """Returns the settings dataclass of values that are mappings of settings; None for any other annotation.

    Configurations of transformers are dataclasses too, and check their values themselves.
    """
    settings = (each for each in members(hint) if dataclasses.is_dataclass(each))
    return next((each for each in settings if not each.__module__.startswith("transformers.")), None)
