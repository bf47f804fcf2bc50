"""Two processes of a run: a failure of the first ends the other with its message; both resume the same checkpoint."""

from __future__ import annotations

import json

import pytest

from bertkit.tasks.registry import load_recipe
from bertkit.training.arguments import training_arguments
from bertkit.training.runs.training import set_up

SETTINGS = {
    "model.num_hidden_layers": 1,
    "model.hidden_size": 32,
    "model.intermediate_size": 64,
    "data.vocab_size": 90,
    "data.max_seq_length": 32,
    "train.global_train_batch_size": 8,
    "train.save_steps": 2,
    "train.report": False,
    "placement.device": "cpu",
    "placement.mixed_precision": "no",
}
# Functions that only the first process calls, or whose results it has before the other.
FAILING = [
    "pretrain.load_corpus",
    "directory.save_tokenizer",
    "Trainer._save",
    "Trainer._save_optimizer_and_scheduler",
    "trainer.write_manifest",
    "training.write_results",
    "training.tell_end",
]
PROGRAM = """
import json, os
from transformers import Trainer
import bertkit
from bertkit.runtime.errors import BertkitError, OutputError
from bertkit.training.runs import directory, pretrain, training
from bertkit.training import trainer

corpus, folder, settings, failing = json.loads(os.environ["VALUES"])
is_first = os.environ["RANK"] == "0"


def train(out, steps, resume=False):
    values = {**settings, "train.max_steps": steps}
    try:
        bertkit.pretrain("bert-tiny", corpus=[corpus], output_dir=f"{folder}/{out}", overrides=values, resume=resume)
        print("finished", out)
    except BertkitError as error:
        print(type(error).__name__, error)


def fail(*args, **kwargs):
    raise OutputError("the disk is full")


for name in failing:
    module, function = name.split(".")
    module = globals()[module]
    whole = getattr(module, function)
    if is_first:
        setattr(module, function, fail)
    train(name, 4)
    setattr(module, function, whole)
train("run", 4)
if not is_first:
    directory.last_checkpoint = lambda folder: None
train("run", 6, resume=True)
"""


@pytest.mark.multiprocess
def test_both_processes_fail_and_resume_together(two_processes, corpus, tmp_path):
    values = json.dumps([str(corpus), str(tmp_path), SETTINGS, FAILING])
    first, second = (printed.splitlines() for printed in two_processes(PROGRAM, VALUES=values))
    failures, ends = len(FAILING), ["finished run"] * 2
    assert first == ["OutputError the disk is full"] * failures + ends
    reported = "OtherProcessError process 0 of 2 (counted from 0) failed: the disk is full"
    assert second == [reported] * failures + ends
    assert json.loads((tmp_path / "run" / "trainer_state.json").read_text())["global_step"] == 6


@pytest.mark.parametrize(("given", "expected"), [({}, 1800), ({"train.ddp_timeout": 77}, 77)])
def test_training_waits_for_minutes(tmp_path, given, expected):
    recipe = load_recipe("sst2", {**given, "placement.device": "cpu"})
    arguments = training_arguments(recipe, set_up(recipe, tmp_path / "run").placement, tmp_path / "run")
    assert arguments.ddp_timeout == expected
