"""Imports of a prediction for one text and of an evaluation, in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import bertkit
from bertkit.tasks.base import task_record
from bertkit.tasks.registry import task_of_recipe

# Libraries of training, scoring and data sets, and parts of transformers and torch that take longer than a prediction.
FORBIDDEN = (
    *("datasets", "evaluate", "scipy", "pandas", "pyarrow", "sklearn", "accelerate", "matplotlib", "onnxruntime"),
    *("transformers.modeling_utils", "transformers.generation.utils", "transformers.models"),
    *("torch._dynamo", "torch.distributed.tensor", "torchvision"),
)
PROGRAM = """
import json, sys
from bertkit.cli.app import main
sys.argv = ["bertkit", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code
print(json.dumps([name for name in json.loads(sys.stdin.read()) if name in sys.modules]))
"""
LATER = """
import gc, sys
examined = []
gc.callbacks.append(lambda phase, _: phase == "start" and examined.append(len(gc.get_objects(generation=0))))
import bertkit
loaded = bertkit.load(sys.argv[1])
gc.collect(0)
assert gc.isenabled() and max(examined) < 50_000 < len(gc.get_objects()), examined
assert gc.get_freeze_count() < 1_000  # Python 3.12 freezes its immortal objects itself
import transformers
assert type(loaded.tokenizer) is transformers.BertTokenizer
assert transformers.models.bert.modeling_bert.BertModel is transformers.BertModel
"""
FROZEN = """
import gc, sys
gc.freeze()
frozen = gc.get_freeze_count()
import bertkit
bertkit.load(sys.argv[1])
assert gc.get_freeze_count() > 0.9 * frozen > 1_000, frozen  # some have been freed
"""


def test_a_prediction_imports_no_more_than_it_needs(stock_models, tmp_path):
    folder = stock_models.stock_checkpoint(tmp_path, "bert", "AutoModelForSequenceClassification", ["neg", "pos"])
    predicted, imported = run("predict", folder, "a lovely film")
    assert predicted.endswith("\ta lovely film")
    assert json.loads(imported) == []


def test_an_evaluation_imports_no_more_than_needed(stock_models, tmp_path):
    folder = stock_models.stock_checkpoint(
        tmp_path / "model", "bert", "AutoModelForSequenceClassification", ["negative", "positive"]
    )
    recipe = bertkit.load_recipe("finetune/glue/sst2")
    config = json.loads((folder / "config.json").read_text())
    config["bertkit_task"] = task_record(task_of_recipe(recipe))
    config["bertkit_task"]["data"]["max_seq_length"] = 32
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na lovely film\t1\na dull film\t0\na film\t1\n")
    score, *_, examples, imported = run("evaluate", folder, "--data-dir", tmp_path)
    right = [row["label"] for row in bertkit.load(folder).predict(["a lovely film", "a dull film", "a film"])]
    expected = sum(label == given for label, given in zip(right, ("positive", "negative", "positive"), strict=True)) / 3
    assert score == f"accuracy {expected:.4f}"
    assert examples == f"3 examples of {tmp_path / 'dev.tsv'}"
    assert json.loads(imported) == []


@pytest.mark.parametrize("program", [LATER, FROZEN], ids=["examined", "frozen"])
def test_a_loaded_checkpoint_leaves_imports_and_collector_usable(stock_models, tmp_path, program):
    folder = stock_models.stock_checkpoint(tmp_path, "bert", "AutoModelForSequenceClassification")
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def run(*arguments):
    """Runs a command; returns its lines and, as JSON, the names of what it should not have imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        input=json.dumps(FORBIDDEN),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
