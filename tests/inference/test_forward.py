"""The forward pass: each input once, batches of like length, results where their inputs stood."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bertkit.inference.forward import forward_in_batches
from bertkit.inference.loaded import load
from bertkit.inference.predictor import joined_outputs
from bertkit.runtime.errors import CheckpointError, DataError


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def three_threads():
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(1)


class Doubles(nn.Module):
    device = torch.device("cpu")

    def forward(self, ids: torch.Tensor, plus: int = 0) -> torch.Tensor:
        assert torch.is_inference_mode_enabled()
        assert not self.training
        return 2 * ids + plus


def test_an_input_without_tokens_is_refused():
    with pytest.raises(DataError, match="here: its tokenizer adds no tokens to an empty text"):
        forward_in_batches(Doubles(), np.array([3, 0]), dict, list, 4, "here")


@given(lengths=st.lists(st.integers(1, 9), max_size=20), batch_size=st.integers(1, 7))
def test_results_stand_where_their_inputs_stood(lengths, batch_size):
    batches, told = [], []

    def collate(chosen: list[int]) -> dict[str, torch.Tensor]:
        batches.append(chosen)
        return {"ids": torch.tensor(chosen)}

    kept = forward_in_batches(
        Doubles().train(), lengths, collate, lambda chosen, outputs: outputs.tolist(), batch_size, "here",
        lambda *done: told.append(done), plus=1,
    )  # fmt: skip
    assert kept == [2 * number + 1 for number in range(len(lengths))]
    order = [number for batch in batches for number in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[number] for number in order] == sorted(lengths, reverse=True)
    for batch, following in pairwise([*batches, []]):
        longest = lengths[batch[0]]
        assert all(lengths[number] >= (0.4 if at < 8 else 0.75) * longest for at, number in enumerate(batch))
        shortest = (0.4 if len(batch) < 8 else 0.75) * longest
        is_full = len(batch) == batch_size
        assert is_full if following and lengths[following[0]] >= shortest else len(batch) <= batch_size
    assert told == [(done, len(order)) for done in accumulate(map(len, batches))]


def test_a_value_is_kept_for_each_input():
    with pytest.raises(ValueError, match="shorter"):
        forward_in_batches(Doubles(), [1, 1], lambda chosen: {"ids": torch.tensor(chosen)}, lambda *_: [0], 2, "here")


class Noted(Doubles):
    """Notes the thread of each batch, and what torch has there; waits for as many batches at once as are expected."""

    def __init__(self, at_once=1):
        super().__init__()
        self.threads = []
        self.together = threading.Barrier(at_once, timeout=60)

    def forward(self, ids, plus=0):
        self.threads.append((threading.get_ident(), torch.get_num_threads()))
        self.together.wait()
        return super().forward(ids, plus)


def results(model, number=30):
    return forward_in_batches(
        model, [1] * number, lambda chosen: {"ids": torch.tensor(chosen)}, lambda _, outputs: outputs.tolist(), 64, "x"
    )


def test_several_threads_share_batches_and_torchs_threads(three_threads):
    model = Noted(at_once=3)
    assert results(model) == list(range(0, 60, 2))
    numbers, of_torch = map(set, zip(*model.threads, strict=True))
    assert len(numbers) == 3
    assert threading.get_ident() not in numbers
    assert of_torch == {1}
    assert torch.get_num_threads() == 3
    assert ThreadPoolExecutor(1).submit(torch.get_num_threads).result() == 3
    few = Noted()
    assert results(few, 3) == [0, 2, 4]
    assert few.threads == [(threading.get_ident(), 3)]  # too few to divide


def test_hooks_are_called_in_one_thread(three_threads):
    model = Noted()
    model.register_forward_pre_hook(lambda *_: None)
    assert results(model) == list(range(0, 60, 2))
    assert set(model.threads) == {(threading.get_ident(), 3)}


def test_a_batch_that_fails_ends_all(three_threads):
    class Fails(Noted):
        def forward(self, ids, plus=0):
            result = super().forward(ids, plus)
            return result / 0.0 if 0 in ids else result

    model = Fails()
    with pytest.raises(CheckpointError, match="NaN or infinite"):
        results(model, 3000)
    assert len(model.threads) < 10
    assert torch.get_num_threads() == 3


class Gives(nn.Module):
    """A model whose outputs are given."""

    device = torch.device("cpu")

    def __init__(self, outputs):
        super().__init__()
        self.outputs = outputs

    def forward(self, **inputs):
        return self.outputs


LENGTHS = [4, 2, 3]
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])  # in the order of the batch, the longest first
SHAPES = {"logits": (3, 2), "start_logits": (3, 4), "last_hidden_state": (3, 4, 5), "hidden": (3, 4, 5)}


def forward(outputs):
    nested = {**outputs, "hidden_states": (outputs.pop("hidden"),), "loss": None}
    model, batch = Gives(nested), {"attention_mask": MASK}
    return forward_in_batches(model, LENGTHS, lambda chosen: batch, lambda chosen, _: chosen, 8, "the-folder")


@given(data=st.data(), bad=st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_outputs_not_finite_are_refused_outside_padding(data, bad):
    outputs = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    assert forward(dict(outputs)) == [0, 1, 2]
    name = data.draw(st.sampled_from(sorted(SHAPES)))
    place = tuple(data.draw(st.integers(0, size - 1)) for size in SHAPES[name])
    outputs[name][place] = bad
    if name != "logits" and not MASK[place[:2]]:
        assert forward(outputs) == [0, 1, 2]
    else:
        with pytest.raises(CheckpointError, match="the-folder: the model computes NaN or infinite values"):
            forward(outputs)


def test_an_interrupt_waits_for_what_has_begun_only(three_threads):
    class Slow(Noted):
        def forward(self, ids, plus=0):
            result = super().forward(ids, plus)
            time.sleep(0.3)
            return result

    model = Slow(at_once=3)
    threading.Timer(0.15, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        results(model, 3000)
    assert len(model.threads) == 3  # a fourth batch waits for a thread


def test_outputs_of_one_number_for_each_input_are_kept_in_order(fine_tuned, monkeypatch):
    predictor = load(fine_tuned("pairs"), device="cpu", batch_size=1).predictor
    features = predictor.encode(predictor.task.read_input(["a film\tthe plot", "a good bad film\tthe plot is lovely"]))
    expected, forward = predictor.outputs(features)[:, 0], predictor.model.forward
    monkeypatch.setattr(predictor.model, "forward", lambda **inputs: {"logits": forward(**inputs)["logits"][:, 0]})
    found = predictor.outputs(features)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert joined_outputs([found, found]).tolist() == [*found, *found]
