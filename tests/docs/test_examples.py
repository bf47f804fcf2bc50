"""The examples in the docstrings of the public names, each run in a folder with what they name."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import textwrap
from pathlib import Path
from unittest.mock import create_autospec

import numpy
import pytest
import torch
import transformers

import bertkit
from bertkit.recipe.fields import TRAIN_DEFAULTS

NAMES = [name for name in bertkit.__all__ if name != "__version__"]
EXAMPLE = re.compile(r"^Examples:\n    ```python\n(.+?\n)    ```$", re.M | re.S)
ONLY_CALLED = ("ablations", "demo", "embed_folder", "label_rows", "predict_folder", "quickstart", "serve")
"""Functions that take minutes, start processes or never return: their examples must fit their parameters."""


def example(name: str) -> str:
    """Returns the code of the example of a public name."""
    # Looked up anew, since an import of the room `explain` puts the package in the place of the function.
    found = EXAMPLE.findall(inspect.getdoc(bertkit.__getattr__(name)) or "")
    assert len(found) == 1, f"bertkit.{name}: the docstring has {len(found)} sections Examples with a block of Python"
    return textwrap.dedent(found[0])


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_short_example(name):
    code = example(name)
    assert re.search(rf"\bbertkit\.{name}\b", code)
    compile(code, name, "exec")
    assert len(code.splitlines()) <= 5


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, texts, checkpoints, runs and a grid, under the names that the examples give them."""
    folder = tmp_path_factory.mktemp("materials")
    words = ("lovely", "awful")
    rows = [
        (f"{number}: a {word} film, the plot is {word}", word == "lovely") for number in range(20) for word in words
    ]
    table = "text,label\n" + "".join(f'"{text}",{"good" if good else "bad"}\n' for text, good in rows)
    for name in ("reviews.csv", "tables/reviews.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(table)
    (folder / "more-reviews.csv").write_text('text,label\n"a lovely story",good\n"an awful story",bad\n')
    (folder / "unlabelled.csv").write_text("text\n" + "".join(f"a {word} story\n" for word in ("funny", "sad", "long")))
    (folder / "pairs.csv").write_text("query,passage\na film,a film\nthe plot,the plot\n")
    (folder / "texts").mkdir()
    for number in range(4):
        (folder / "texts" / f"{number}.txt").write_text("A good film. The plot is lovely. The story is awful. " * 9)
    (folder / "field.txt").write_text("Tachycardia and dyspnoea after haemorrhage. " * 9)
    tokenizer = bertkit.train_tokenizer([folder / "texts"], 90, folder / "my-bert")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = bertkit.BertConfig(vocab_size=len(tokenizer), **sizes)
    bertkit.BertForPreTraining(config).save_pretrained(folder / "my-bert")
    shutil.copytree(folder / "my-bert", folder / "bert-2")
    data = {"vocab_size": 90, "max_seq_length": 32, "validation_fraction": 0.25}
    recipe = {"task": {"kind": "pretraining"}, "model": sizes, "data": data}
    recipe["train"] = {"max_steps": 2, "global_train_batch_size": 4, "eval_strategy": "no", "save_strategy": "no"}
    (folder / "small-bert.yaml").write_text(json.dumps(recipe))
    (folder / "GLUE" / "SST-2").mkdir(parents=True)
    for name in ("train", "dev"):
        lines = "".join(f"{text}\t{int(good)}\n" for text, good in rows)
        (folder / "GLUE" / "SST-2" / f"{name}.tsv").write_text(f"sentence\tlabel\n{lines}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TRAIN_DEFAULTS, "max_steps", 2)
        data = {"train_file": folder / "reviews.csv", "model": str(folder / "my-bert")}
        for name in ("my-reviews", "my-reviews-2"):
            bertkit.finetune("classification", output_dir=folder / name, **data)
        bertkit.finetune_grid("classification", output_dir=folder / "my-grid", seeds=2, **data)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, materials, tmp_path, monkeypatch):
    """Trainings end after two steps."""
    folder = shutil.copytree(materials, tmp_path / "folder", symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setitem(TRAIN_DEFAULTS, "max_steps", 2)
    code = compile(example(name), f"bertkit.{name}", "exec")
    if name in ONLY_CALLED:
        monkeypatch.setattr(bertkit, name, create_autospec(getattr(bertkit, name)))
    modules = (bertkit, numpy, torch, transformers)
    exec(code, {module.__name__: module for module in modules})
