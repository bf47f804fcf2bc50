"""Outputs of a teacher on disk: keyed by content, in complete parts, the same after a kill."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from datasets import Dataset

from bertkit.errors import DataError
from bertkit.recipe.distillation import DistillationSettings
from bertkit.tasks.construction import task_of_checkpoint
from bertkit.training.distillation import outputs as module
from bertkit.training.distillation.outputs import TeacherOutputs
from bertkit.training.distillation.teacher import HIDDEN, Teacher

pytestmark = pytest.mark.numeric

TEXTS = [" ".join(["film", "plot", "good", "bad"][: 1 + number % 4] * (1 + number % 3)) for number in range(22)]


@pytest.fixture
def parts_of_eight(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 8)


def teacher_and_features(checkpoint, texts=TEXTS, **settings):
    from bertkit.checkpoint.load import load_config, load_tokenizer

    config = load_config(str(checkpoint))
    task = task_of_checkpoint(config, str(checkpoint))
    tokenizer = load_tokenizer(str(checkpoint), config=config)
    columns = {"tokens": [text.split() for text in texts]} if task.kind == "ner" else {"text": texts}
    features = task.encode(columns, tokenizer)
    features.pop("full_length")
    teacher = Teacher(DistillationSettings(str(checkpoint), **settings), task, torch.device("cpu"))
    return teacher, Dataset.from_dict(features)


def outputs_of(checkpoint, cache, **given):
    teacher, features = teacher_and_features(checkpoint, **given)
    return TeacherOutputs(teacher, features, cache), teacher, features


@pytest.mark.parametrize(("kind", "hidden"), [("film", 0.0), ("film", 1.0), ("entities", 1.0)])
def test_what_is_read_is_what_the_teacher_computes(fine_tuned, cache, parts_of_eight, kind, hidden):
    outputs, _, features = outputs_of(fine_tuned(kind), cache, hidden=hidden)
    direct = outputs.batch([0, 9, 21])
    outputs.compute()
    stored = outputs.batch([0, 9, 21])
    assert stored.keys() == direct.keys() == ({"logits", HIDDEN} if hidden else {"logits"})
    for name, values in stored.items():
        torch.testing.assert_close(
            values, direct[name], equal_nan=True, rtol=1e-3 if name == HIDDEN else 1e-5, atol=1e-3
        )
    if kind == "entities":
        named = np.asarray(features[9]["word_ids"]) >= 0
        assert (~stored["logits"][1, : len(named), 0].isnan()).tolist() == named.tolist()
    if hidden:
        lengths = [len(features[row]["input_ids"]) for row in (0, 9, 21)]
        assert (~stored[HIDDEN][..., 0].isnan()).sum(dim=1).tolist() == lengths


def test_a_kill_loses_nothing_that_was_complete(fine_tuned, cache, parts_of_eight, monkeypatch):
    compute, computed = Teacher.compute, []

    def counted(self, rows, *rest):
        computed.append(len(rows))
        if len(computed) == killed_at:
            raise KeyboardInterrupt
        return compute(self, rows, *rest)

    monkeypatch.setattr(TeacherOutputs, "_size", lambda self: "some kB")
    monkeypatch.setattr(Teacher, "compute", counted)
    killed_at = 2
    outputs, *_ = outputs_of(fine_tuned("film"), cache)
    with pytest.raises(KeyboardInterrupt):
        outputs.compute()
    assert len(list(cache.iterdir())) == 1
    killed_at, computed[:] = 0, []
    outputs, *_ = outputs_of(fine_tuned("film"), cache)
    outputs.compute()
    assert computed == [8, 6]
    assert len(list(cache.iterdir())) == 3
    assert not [path for path in cache.rglob("*") if "unfinished" in path.name]


def test_what_was_left_half_written_is_not_used(fine_tuned, cache, parts_of_eight):
    outputs, *_ = outputs_of(fine_tuned("film"), cache)
    cache.mkdir(parents=True)
    half = cache / ".unfinished-abc"
    half.mkdir()
    (half / "logits.npy").write_bytes(b"\x93NUMPY")
    outputs.compute()
    assert outputs.batch([3])["logits"].isfinite().all()


def test_a_damaged_part_is_named(fine_tuned, cache):
    outputs, *_ = outputs_of(fine_tuned("film"), cache)
    outputs.compute()
    [part] = cache.iterdir()
    (part / "logits.npy").write_bytes(b"")
    with pytest.raises(DataError, match=rf"{part}: outputs of a teacher that cannot be read .*; remove the folder"):
        outputs.batch([0])


def keys(outputs):
    return [outputs._key(start) for start in range(0, len(outputs._features), 8)]


def test_the_key_is_that_of_the_content(fine_tuned, cache, parts_of_eight):
    base = keys(outputs_of(fine_tuned("film"), cache)[0])
    assert len(set(base)) == 3
    assert keys(outputs_of(fine_tuned("film"), cache, alpha=0.1, temperature=9.0)[0]) == base
    assert not set(keys(outputs_of(fine_tuned("film"), cache, hidden=1.0)[0])) & set(base)
    assert not set(keys(outputs_of(fine_tuned("topics"), cache)[0])) & set(base)
    more = keys(outputs_of(fine_tuned("film"), cache, texts=[*TEXTS[:16], "good"])[0])
    assert more[:2] == base[:2]
    assert more[2] != base[2]
    teacher, features = teacher_and_features(fine_tuned("film"))
    labelled = features.add_column("labels", [1] * len(features))
    assert keys(TeacherOutputs(teacher, labelled, cache)) == base


def test_data_workers_read_the_files(fine_tuned, cache):
    outputs, *_ = outputs_of(fine_tuned("film"), cache)
    outputs.compute()
    expected = outputs.batch([1, 2])["logits"]
    state = pickle.dumps(outputs)
    assert len(state) < 2000
    torch.testing.assert_close(pickle.loads(state).batch([1, 2])["logits"], expected, rtol=0, atol=0)
