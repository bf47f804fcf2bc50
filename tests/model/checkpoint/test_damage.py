"""Damaged checkpoints: every command gives finite results or one CheckpointError that names the folder.

The damages are generated from a seed: values of every type in every field of the JSON files, cut and changed bytes in
every file, changed tensors.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import bertkit
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.runtime.errors import BertkitError, CheckpointError
from bertkit.tasks.base import task_record
from bertkit.tasks.classification.task import ClassificationTask, DataSettings, TaskSettings

TEXTS = ["the plot is lovely", "a good film"]
TASK = task_record(
    ClassificationTask(
        TaskSettings(problem="single_label", text_columns=["text"], label_column="label", label_names=["bad", "good"]),
        DataSettings(max_seq_length=32),
    )
)
# Fields that transformers reads and a checkpoint of bertkit does not have.
FURTHER = tuple(
    "output_hidden_states output_attentions return_dict attn_implementation quantization_config tokenizer_class "
    "torch_dtype chunk_size_feed_forward is_decoder pruned_heads per_layer_config transformers_weights name_or_path "
    "rope_scaling configuration_files feature_layers".split()
)
VALUES: list[Any] = [None, True, 0, 1, -1, 3, 2.5, 1e300, float("nan"), "", "x", [], ["x"], [[1]], {}, {"x": 1}]

Damage = Callable[[Path, random.Random], None]


@pytest.fixture(scope="module")
def classifier(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    torch.manual_seed(0)
    config = load_config(str(checkpoint))
    config.bertkit_task, config.id2label = TASK, {0: "bad", 1: "good"}
    bertkit.BertForSequenceClassification(config).save_pretrained(folder)
    load_tokenizer(checkpoint).save_pretrained(folder)
    return folder


@pytest.fixture
def copied(classifier: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(classifier, tmp_path / "copy"))


def edit(file: Path, change: Callable[[Any], Any]) -> None:
    """Applies a change to the content of a JSON file; the change returns the new content, or None for the same."""
    content = json.loads(file.read_text())
    changed = change(content)
    file.write_text(json.dumps(content if changed is None else changed))


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value in nested JSON; long lists and vocabularies are sampled."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in list(items)[:40]:
        yield (*path, key)
        yield from places(value, (*path, key))


def change_value(file: str, *within: str, added: tuple[str, ...] = ()) -> Damage:
    """Returns a damage that replaces or removes one value of a JSON file, or adds one of the keys ``added``."""

    def damage(folder: Path, rng: random.Random) -> None:
        def change(content: Any) -> None:
            part = content
            for key in within:
                part = part[key]
            *above, key = rng.choice([*places(part), *((key,) for key in added)])
            for each in above:
                part = part[each]
            if rng.random() < 0.2 and key not in added:
                del part[key]
            else:
                part[key] = copy.deepcopy(rng.choice(VALUES))

        edit(folder / file, change)

    return damage


def replace_content(file: str) -> Damage:
    """Returns a damage that replaces a whole JSON file."""

    def damage(folder: Path, rng: random.Random) -> None:
        contents = [json.dumps(value).encode() for value in VALUES]
        contents += [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b'{"a": ' * 100_000, b"\0" * 100, "é".encode("latin-1")]
        (folder / file).write_bytes(rng.choice(contents))

    return damage


def change_bytes(file: str) -> Damage:
    """Returns a damage that cuts a file, or overwrites some bytes near its start, where formats keep their headers."""

    def damage(folder: Path, rng: random.Random) -> None:
        content = bytearray((folder / file).read_bytes())
        if rng.random() < 0.5:
            del content[rng.choice([0, 4, 100, rng.randrange(len(content))]) :]
        else:
            for _ in range(rng.choice([1, 3])):
                content[rng.randrange(min(2000, len(content)))] = rng.randrange(256)
        (folder / file).write_bytes(content)

    return damage


def change_tensor(folder: Path, rng: random.Random) -> None:
    """Removes, reshapes or converts a tensor, or makes all of it NaN or infinite."""
    tensors = load_file(folder / "model.safetensors")
    name = rng.choice(sorted(tensors))
    changed = rng.choice(
        [
            None,
            tensors[name].new_full(tensors[name].shape, float("nan")),
            tensors[name].new_full(tensors[name].shape, float("inf")),
            tensors[name].new_full(tensors[name].shape, float("-inf")),
            tensors[name].flatten()[:1].clone(),
            tensors[name].unsqueeze(0).clone(),
            tensors[name].to(torch.int8),
            tensors[name].double(),
        ]
    )
    tensors[name] = changed
    save_file({key: value for key, value in tensors.items() if value is not None}, folder / "model.safetensors")


def remove_file(folder: Path, rng: random.Random) -> None:
    rng.choice(sorted(folder.iterdir())).unlink()


DAMAGES: dict[str, Damage] = {
    "a value of config.json": change_value("config.json", added=FURTHER),
    "a value of bertkit_task": change_value("config.json", "bertkit_task"),
    "a value of tokenizer_config.json": change_value("tokenizer_config.json"),
    "a value of tokenizer.json": change_value("tokenizer.json"),
    "config.json": replace_content("config.json"),
    "tokenizer_config.json": replace_content("tokenizer_config.json"),
    "tokenizer.json": replace_content("tokenizer.json"),
    "bytes of config.json": change_bytes("config.json"),
    "bytes of tokenizer.json": change_bytes("tokenizer.json"),
    "bytes of the weights": change_bytes("model.safetensors"),
    "a tensor": change_tensor,
    "a file": remove_file,
}


def predicted(folder: Path) -> None:
    for row in bertkit.load(folder, device="cpu").predict(TEXTS):
        assert np.isfinite(list(row["probabilities"].values())).all()


def embedded(folder: Path) -> None:
    assert np.isfinite(bertkit.load(folder, device="cpu").embed(TEXTS)).all()


def check(use: Callable[[Path], None], folder: Path) -> str | None:
    """Returns the message of the refusal; None if the checkpoint is still usable."""
    try:
        use(folder)
    except BertkitError as error:
        message = str(error)
        assert str(folder) in message
        assert len(message) < 1500
        return message
    return None


def damaged_and_used(folder: Path, damage: Damage, cases: int, seed: str) -> None:
    original = {file: file.read_bytes() for file in folder.iterdir()}
    refused = 0
    for case in range(cases):
        damage(folder, random.Random(f"{seed} {case}"))
        try:
            refused += sum(check(use, folder) is not None for use in (predicted, embedded))
        except Exception as error:
            error.add_note(f"{seed} {case}")
            raise
        finally:
            for file, content in original.items():
                file.write_bytes(content)
    assert refused  # otherwise the damage is none


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_checkpoints_are_refused_or_give_finite_results(what, copied):
    damaged_and_used(copied, DAMAGES[what], 6, what)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", DAMAGES)
def test_many_damaged_checkpoints(what, copied):
    damaged_and_used(copied, DAMAGES[what], 15, f"many {what}")


def test_the_undamaged_checkpoint_is_usable(copied):
    assert check(predicted, copied) is check(embedded, copied) is None


# ---- what the messages say ------------------------------------------------------------------------------------------


def refusal(folder: Path, use: Callable[[Path], None] = predicted) -> str:
    with pytest.raises(CheckpointError) as caught:
        use(folder)
    return str(caught.value)


@pytest.mark.parametrize("content", ["[]", "3", '"bert"', "null"])
def test_a_config_that_is_no_object(copied, content):
    (copied / "config.json").write_text(content)
    assert f"{copied}/config.json: expected a JSON object, got " in refusal(copied)


def test_a_quantized_checkpoint(copied):
    edit(copied / "config.json", lambda config: config.update(quantization_config={"quant_method": "awq", "bits": 4}))
    assert "config.json has a quantization_config" in refusal(copied)


def test_kernels_named_by_checkpoints_are_not_loaded(copied):
    edit(copied / "config.json", lambda config: config.update(attn_implementation="someone/kernel"))
    predicted(copied)


@pytest.mark.parametrize("use", [predicted, embedded])
def test_a_tokenizer_of_another_checkpoint(copied, use):
    def add(content):
        content["model"]["vocab"]["further"] = 4000

    edit(copied / "tokenizer.json", add)
    assert "the tokenizer gives 'further' the id 4000, but the model has embeddings for" in refusal(copied, use)


def test_a_tokenizer_without_padding(copied):
    edit(copied / "tokenizer_config.json", lambda config: config.update(pad_token=None))
    assert "the tokenizer has no padding token" in refusal(copied)


def test_more_layers_in_weights_than_in_config(copied):
    edit(copied / "config.json", lambda config: config.update(num_hidden_layers=1))
    for use in (predicted, embedded):
        assert "config.json has 1 layers, but the weights hold more, such as bert.encoder.layer.1." in refusal(
            copied, use
        )


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (["glue"], "bertkit_task in config.json is"),
        ({}, "fine-tuned for the task None"),
        ({"kind": ["glue"]}, "fine-tuned for the task ['glue']"),
        ({"kind": "classification"}, "this version of bertkit does not know (task: missing; data: missing)"),
        ({**TASK, "task": {**TASK["task"], "label_names": "bad"}}, "task.label_names: expected a list"),
        (
            {**TASK, "data": {**TASK["data"], "max_seq_length": "32"}},
            "data.max_seq_length: expected an integer, got '32'",
        ),
        (
            {**TASK, "task": {**TASK["task"], "label_names": ["a", "b", "c"]}},
            "has 2 labels, but its bertkit_task has 3",
        ),
    ],
)
def test_a_task_that_is_none(copied, task, expected):
    edit(copied / "config.json", lambda config: config.update(bertkit_task=task))
    with pytest.raises(CheckpointError) as caught:
        bertkit.load(copied).predict(TEXTS)
    assert expected in str(caught.value)


def test_weights_of_nan_are_refused_by_every_use(copied, checkpoint, tmp_path):
    for name in ("predict", "pretrained"):
        folder = copied if name == "predict" else Path(shutil.copytree(checkpoint, tmp_path / "pretrained"))
        tensors = load_file(folder / "model.safetensors")
        tensors["bert.embeddings.LayerNorm.weight"].fill_(float("nan"))
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    expected = "the model computes NaN or infinite values"
    assert expected in refusal(copied)
    assert expected in refusal(copied, embedded)
    assert expected in refusal(folder, lambda folder: bertkit.load(folder).fill_mask("a [MASK] film"))
    assert expected in refusal(copied, lambda folder: bertkit.export(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
