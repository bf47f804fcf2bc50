"""The best checkpoint by the task's metric, the last one beside it, and a training that stops when none is better."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from bertkit.runtime.errors import RecipeError
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import log_history, same_weights

# Two steps an epoch. A word decides: accuracy is 1.0 after some epochs and gets no better, while the loss still does.
LEARNS = {
    "data.max_seq_length": 16,
    "data.max_train_samples": 32,
    "train.learning_rate": 5e-3,
    "train.num_train_epochs": 9,
    "train.global_train_batch_size": 16,
    "train.eval_strategy": "epoch",
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}
STEPS = 2


@pytest.fixture
def train(tuned, glue):
    """Fine-tunes on SST-2 into a folder of the given name, with changes to the recipe."""

    def run(name: str, resume: bool = False, **changes) -> Path:
        overrides = {**LEARNS, **{f"train.{key}": value for key, value in changes.items()}}
        return tuned("sst2", overrides, name, data_dir=glue, resume=resume).output_dir

    return run


def evaluations(out: Path) -> list[tuple[int, float, float]]:
    """Step, accuracy and loss of each evaluation on the way, as the last checkpoint knows them."""
    last = max(out.glob("checkpoint-*"), key=lambda path: int(path.name.removeprefix("checkpoint-")))
    found = [entry for entry in log_history(last) if "eval_loss" in entry]
    return [(entry["step"], entry["eval_accuracy"], entry["eval_loss"]) for entry in found]


def steps_of_checkpoints(out: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("checkpoint-")) for path in out.glob("checkpoint-*"))


@pytest.fixture
def rated(monkeypatch):
    """``rated(scores, losses)``: a context in which the evaluations during training have these accuracies and losses.

    Without ``losses`` they have their own.
    """

    @contextmanager
    def rate(scores: list[float], losses: list[float] | None = None):
        values = iter(zip(scores, losses or [None] * len(scores), strict=True))
        whole = BertkitTrainer.evaluation_loop

        def evaluation_loop(self, *args, **kwargs):
            outcome = whole(self, *args, **kwargs)
            if self.is_in_train:
                accuracy, loss = next(values)
                outcome.metrics["eval_accuracy"] = accuracy
                outcome.metrics.update({} if loss is None else {"eval_loss": loss})
            return outcome

        with monkeypatch.context() as patches:
            patches.setattr(BertkitTrainer, "evaluation_loop", evaluation_loop)
            yield

    return rate


@pytest.mark.parametrize("limit", [1, None])
def test_the_best_by_the_tasks_metric_is_saved_and_the_last_stays_beside_it(train, rated, limit, capsys):
    with rated([0.5, 0.9, 0.7, 0.8, 0.6], [0.3, 0.2, 0.3, 0.4, 0.2]):
        out = train("run", early_stopping_patience=3, save_total_limit=limit)
    seen = evaluations(out)
    assert len(seen) == 5  # three evaluations with neither a better score nor a lower loss
    steps = [step for step, *_ in seen]
    assert steps == [STEPS * epoch for epoch in range(1, len(seen) + 1)]
    assert steps_of_checkpoints(out) == (steps if limit is None else [steps[1], steps[-1]])
    assert same_weights(out, out / f"checkpoint-{steps[1]}")
    assert not same_weights(out, out / f"checkpoint-{steps[-1]}")
    assert json.loads((out / "run.json").read_text())["steps"] == steps[-1]
    printed = capsys.readouterr().err
    assert f"kept: step {steps[1]}, the best of 5 evaluations by accuracy; " in printed
    assert printed.count("validation:") == 5  # that of the weights that are kept is not printed again


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ([0.3, 0.2, 0.1, 0.4], 3),  # epoch 1 has a lower accuracy
        ([0.1, 0.2, 0.3, 0.1], 4),
        ([0.1, 0.2, 0.3, 0.4], 2),
        ([0.1, 0.3, 0.3, 0.3], 2),  # nothing is better than the first
    ],
)
def test_equal_scores_keep_the_lower_loss(train, rated, capsys, losses, best):
    with rated([0.5, 0.9, 0.9, 0.9], losses):
        out = train("run", load_best_model_at_end=True, num_train_epochs=4)
    assert same_weights(out, out / f"checkpoint-{best * STEPS}")
    printed = capsys.readouterr().err
    assert ("by accuracy, of equal ones by loss;" in printed) == (best != 4)


def test_nothing_is_stopped_while_the_loss_falls(train, rated):
    with rated([0.9, 0.9, 0.8, 0.8, 0.8], [0.4, 0.3, 0.2, 0.3, 0.2]):
        out = train("run", early_stopping_patience=2)
    assert [step for step, *_ in evaluations(out)] == [STEPS * epoch for epoch in range(1, 6)]
    assert same_weights(out, out / f"checkpoint-{2 * STEPS}")


def test_a_stopped_run_keeps_its_last_weights_where_the_recipe_says_so(train, rated):
    with rated([0.9, 0.9, 0.8, 0.8], [0.2, 0.3, 0.4, 0.5]):
        out = train("run", early_stopping_patience=2, load_best_model_at_end=False, save_strategy="epoch")
    assert [step for step, *_ in evaluations(out)] == [STEPS, 2 * STEPS, 3 * STEPS]
    assert same_weights(out, out / f"checkpoint-{3 * STEPS}")


def test_a_resumed_run_compares_losses_of_before(train, rated):
    scores, losses = [0.9, 0.9, 0.9], [0.3, 0.1, 0.2]
    with rated(scores, losses):
        out = train("run", load_best_model_at_end=True, num_train_epochs=3, save_total_limit=9)
    (out / "model.safetensors").unlink()
    for lost in (3, 2):
        shutil.rmtree(out / f"checkpoint-{lost * STEPS}")
    with rated(scores[1:], losses[1:]):
        train("run", resume=True, load_best_model_at_end=True, num_train_epochs=3, save_total_limit=9)
    assert same_weights(out, out / f"checkpoint-{2 * STEPS}")


def test_a_resumed_run_has_the_patience_of_before(train, rated, caplog):
    scores, losses = [0.5, 0.9, 0.9, 0.8, 0.8], [0.1, 0.3, 0.2, 0.4, 0.4]
    with rated(scores, losses):
        out = train("run", early_stopping_patience=2, save_total_limit=9)
    assert steps_of_checkpoints(out) == [STEPS * epoch for epoch in (1, 2, 3, 4)]
    (out / "model.safetensors").unlink()
    for lost in (3, 4):
        shutil.rmtree(out / f"checkpoint-{lost * STEPS}")
    with rated(scores[2:], losses[2:]):
        train("run", resume=True, early_stopping_patience=2, save_total_limit=9)
    assert steps_of_checkpoints(out) == [STEPS * epoch for epoch in (1, 2, 3, 4)]
    assert "callbacks not included" not in caplog.text


def test_only_better_losses_are_saved_of_equal_scores(train, rated):
    with rated([0.5, 0.9, 0.9, 0.9], [0.1, 0.3, 0.4, 0.2]):
        out = train("run", save_strategy="best", num_train_epochs=4, save_total_limit=9)
    assert steps_of_checkpoints(out) == [STEPS, 2 * STEPS, 4 * STEPS]


@pytest.mark.slow
def test_stopped_early_interrupted_and_resumed_is_never_interrupted(train):
    """Resumes a run that was killed while it waited, after it had stopped, or after the best checkpoint."""
    out = train("straight", early_stopping_patience=3, save_total_limit=10)
    steps = steps_of_checkpoints(out)
    for killed_after in (steps[-1], steps[-2], steps[-4]):
        other = out.with_name(f"killed-{killed_after}")
        shutil.copytree(out, other)
        for step in steps:
            if step > killed_after:
                shutil.rmtree(other / f"checkpoint-{step}")
        for name in ("model.safetensors", "eval_results.json", "predict_results_sst2.tsv"):
            (other / name).unlink()
        assert train(other.name, resume=True, early_stopping_patience=3, save_total_limit=10) == other
        assert steps_of_checkpoints(other) == steps
        assert json.loads((other / "run.json").read_text())["steps"] == steps[-1]
        assert same_weights(out, other)
        assert same_weights(out / f"checkpoint-{steps[-1]}", other / f"checkpoint-{steps[-1]}")
        for name in ("eval_accuracy", "eval_loss"):
            one, two = (json.loads((folder / "eval_results.json").read_text())[name] for folder in (out, other))
            assert one == two


def test_checkpoints_are_saved_where_they_are_evaluated(train):
    out = train(
        "run", load_best_model_at_end=True, eval_strategy="steps", eval_steps=3, max_steps=6, save_total_limit=5
    )
    assert [step for step, *_ in evaluations(out)] == steps_of_checkpoints(out) == [3, 6]


def test_it_can_stop_between_epochs_and_is_resumed_there(train):
    """A learning rate that moves nothing: the first evaluation stays the best, two more and it stops in an epoch."""
    changes = {"learning_rate": 1e-12, "eval_strategy": "steps", "eval_steps": 3, "early_stopping_patience": 2}
    out = train("run", **changes)
    assert steps_of_checkpoints(out) == [3, 9]
    (out / "model.safetensors").unlink()
    train("run", resume=True, **changes)
    assert steps_of_checkpoints(out) == [3, 9]
    assert json.loads((out / "run.json").read_text())["steps"] == 9
    assert same_weights(out, out / "checkpoint-3")


def test_the_metric_can_be_another_one(train):
    out = train("run", load_best_model_at_end=True, metric_for_best_model="loss", num_train_epochs=6)
    seen = evaluations(out)
    best = min(seen, key=lambda each: each[2])[0]
    assert same_weights(out, out / f"checkpoint-{best}")
    state = json.loads((out / "trainer_state.json").read_text())
    assert state["best_metric"] == min(loss for *_, loss in seen)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"early_stopping_patience": 2, "eval_strategy": "no"}, "early_stopping_patience: nothing is evaluated"),
        ({"load_best_model_at_end": True, "eval_strategy": "no"}, "load_best_model_at_end: nothing is evaluated"),
        ({"save_strategy": "best", "eval_strategy": "no"}, "save_strategy: nothing is evaluated"),
        ({"early_stopping_patience": 0}, "train.early_stopping_patience: expected more than 0, got 0"),
        (
            {"load_best_model_at_end": True, "save_steps": 4},
            "train.save_steps: checkpoints are saved by steps and evaluated by",
        ),
        ({"load_best_model_at_end": True, "save_strategy": "no"}, "no checkpoint is saved, .* set it to epoch"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(train, tmp_path, changes, expected):
    with pytest.raises(RecipeError, match=expected):
        train("run", **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("labels", "metric", "others"),
    [
        ([[], ["x"], ["y"], ["x", "y"]], "average_precision", ["f1_micro"]),
        ([number / 4 for number in range(24)], "pearson", ["spearmanr"]),
        (["x", "y", "x", "y"], "accuracy", []),
    ],
)
def test_the_metric_is_the_one_of_the_labels_that_were_found(tuned, tmp_path, labels, metric, others):
    texts = ["good film", "bad plot", "awful story", "lovely"]
    rows = [json.dumps({"text": text, "labels": label}) for text, label in zip(cycle(texts), labels, strict=False)]
    table = tmp_path / "table.jsonl"
    table.write_text("\n".join(rows) + "\n")
    overrides = {"data.train_file": str(table), "data.validation_file": str(table), "train.num_train_epochs": 2}
    overrides |= {"placement.mixed_precision": "no", "placement.device": "cpu", "data.max_seq_length": 16}
    overrides |= {"train.load_best_model_at_end": True}
    run = tuned("finetune/classification", overrides)
    out = run.output_dir
    assert {f"eval_{name}" for name in (metric, *others)} <= run.metrics.keys()
    state = json.loads((out / "trainer_state.json").read_text())
    seen = [
        (entry[f"eval_{metric}"], -entry["eval_loss"]) for entry in state["log_history"] if f"eval_{metric}" in entry
    ]
    assert len(seen) == 2
    assert state["best_metric"] == max(seen)[0]
    assert same_weights(out, out / f"checkpoint-{1 + seen.index(max(seen))}")
