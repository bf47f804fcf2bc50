"""The data set of a whole run, and its batches."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.examples.dataset import PhasedExamples, PretrainingExamples, collate
from bertkit.data.corpus.examples.pairs import plan_epoch
from bertkit.data.corpus.settings import PretrainingData, check_phases, phase_lengths, plan_phases
from bertkit.data.corpus.vocabulary.structure import SpecialTokens, Vocabulary
from bertkit.runtime.errors import DataError

CLS, SEP, PAD, MASK = 2, 3, 0, 4
DATA = PretrainingData(max_seq_length=24, seed=7)


@pytest.fixture
def store(store_of):
    return store_of([[3, 5, 2, 7] * 8, [4, 4, 9] * 9, [6, 1, 2, 3, 5] * 6, [30, 2, 2] * 4])


@pytest.fixture(scope="session")
def word_pieces() -> Vocabulary:
    """t0 to t19 as ids 5 to 24, the odd ones of which go on the word of the one before."""
    from transformers import BertTokenizer

    names = [f"##t{number}" if number % 2 else f"t{number}" for number in range(20)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *names]
    return Vocabulary.of(BertTokenizer(vocab={word: number for number, word in enumerate(words)}))


@pytest.fixture
def run(store, vocabulary) -> PretrainingExamples:
    return PretrainingExamples(store.whole(), vocabulary, DATA, 500)


def restored(example) -> np.ndarray:
    """input_ids with the masked tokens put back."""
    ids = example["input_ids"].copy()
    used = example["labels"] != -100
    ids[example["masked_positions"][used]] = example["labels"][used]
    return ids


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_layout_by_eye(store_of, vocabulary):
    """Documents t0-t2 and t3-t6: each is the other's random next."""
    examples = PretrainingExamples(
        store_of([[3], [4]]).whole(),
        vocabulary,
        PretrainingData(max_seq_length=12, max_predictions_per_seq=3),
        None,
        fixed_epoch=0,
    )
    assert len(examples) == 2
    first, second = examples[0], examples[1]
    assert restored(first).tolist() == [CLS, 5, 6, 7, SEP, 8, 9, 10, 11, SEP, PAD, PAD]
    assert first["attention_mask"].tolist() == [1] * 10 + [0] * 2
    assert first["token_type_ids"].tolist() == [0] * 5 + [1] * 5 + [0] * 2
    assert restored(second).tolist() == [CLS, 8, 9, 10, 11, SEP, 5, 6, 7, SEP, PAD, PAD]
    assert second["token_type_ids"].tolist() == [0] * 6 + [1] * 4 + [0] * 2
    assert first["next_sentence_label"] == second["next_sentence_label"] == 1
    # round(10 × 0.15) = 2 of three slots
    assert (first["labels"] != -100).tolist() == [True, True, False]
    assert first["masked_positions"][2] == 0


def test_batches_have_fixed_shapes_and_types(run):
    batch = collate(run.__getitems__([0, 499, 3]))
    shapes = {name: tuple(tensor.shape) for name, tensor in batch.items()}
    assert shapes == {
        "input_ids": (3, 24),
        "attention_mask": (3, 24),
        "token_type_ids": (3, 24),
        "masked_positions": (3, 4),  # 24 × 15 % = 3.6
        "labels": (3, 4),
        "next_sentence_label": (3,),
    }
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_a_number_is_one_example_whoever_asks(run, store, vocabulary):
    order = np.random.default_rng(0).permutation(len(run))
    batch = run.__getitems__(order.tolist())
    other = PretrainingExamples(store.whole(), vocabulary, DATA, 100_000)
    for row, number in list(enumerate(order.tolist()))[::7]:
        in_batch = {name: array[row] for name, array in batch.items()}
        assert same(in_batch, run[number])
        assert same(in_batch, other[number])


def test_each_epoch_shuffles_all_its_pairs(run, store):
    start = 0
    orders = []
    for epoch in range(3):
        plan = plan_epoch(store.whole(), DATA.seed, epoch, DATA.max_seq_length, DATA.short_seq_prob)
        numbers = range(start, start + len(plan))
        start += len(plan)
        firsts = [int(restored(run[number])[1]) - 5 for number in numbers]
        assert sorted(firsts) == sorted(plan.a_start.tolist())
        assert firsts != plan.a_start.tolist()
        orders.append(firsts)
    assert run.examples_per_epoch == len(orders[0])
    assert orders[0] != orders[1] != orders[2]


def test_a_pickled_run_goes_on_alike(run):
    run[400]
    again = pickle.loads(pickle.dumps(run))
    assert same(again.__getitems__(range(380, 420)), run.__getitems__(range(380, 420)))


class TestFixedEpoch:
    def test_all_pairs_in_order_each_time_the_same(self, store, vocabulary):
        fixed = PretrainingExamples(store.whole(), vocabulary, DATA, None, fixed_epoch=5)
        plan = plan_epoch(store.whole(), DATA.seed, 5, DATA.max_seq_length, DATA.short_seq_prob)
        assert len(fixed) == fixed.examples_per_epoch == len(plan)
        everything = fixed.__getitems__(range(len(fixed)))
        assert (everything["next_sentence_label"] == plan.next_sentence_label).all()
        assert [int(restored(fixed[number])[1]) - 5 for number in range(len(fixed))] == plan.a_start.tolist()
        assert same(everything, fixed.__getitems__(range(len(fixed))))

    def test_fewer_are_taken_at_even_distances(self, store, vocabulary):
        everything = PretrainingExamples(store.whole(), vocabulary, DATA, None, fixed_epoch=0)
        some = PretrainingExamples(store.whole(), vocabulary, DATA, 10, fixed_epoch=0)
        assert len(some) == 10
        assert len(PretrainingExamples(store.whole(), vocabulary, DATA, 10**6, fixed_epoch=0)) == len(everything)
        for number in range(10):
            assert same(some[number], everything[number * len(everything) // 10])


def test_numbers_outside_the_run(run):
    for number in (-1, 500):
        with pytest.raises(IndexError, match=rf"example {number}: this run has examples 0 to 499"):
            run[number]


@pytest.mark.parametrize(("mask", "changes"), [(0, False), (1, True)])
def test_shares_of_replacements_are_those_of_the_settings(store, vocabulary, mask, changes):
    data = PretrainingData(max_seq_length=24, seed=7, mask_replace_prob=mask, random_replace_prob=0)
    for example in PretrainingExamples(store.whole(), vocabulary, data, 20):
        positions = example["masked_positions"][example["labels"] != -100]
        assert len(positions)
        assert (example["input_ids"][positions] == MASK).all() == changes
        assert (example["input_ids"] == restored(example)).all() != changes


def test_one_document_is_refused_at_once(store, vocabulary):
    with pytest.raises(DataError, match="random segments from other documents"):
        PretrainingExamples(store.subset([0]), vocabulary, DATA, 10)


class TestObjectives:
    def test_one_segment_by_eye(self, store_of, vocabulary):
        """Documents t0-t6 and t7-t10: [CLS] text [SEP], and nothing to tell."""
        data = PretrainingData(max_seq_length=12, max_predictions_per_seq=3, short_seq_prob=0, pair_objective="none")
        examples = PretrainingExamples(store_of([[3, 4], [4]]).whole(), vocabulary, data, None, fixed_epoch=0)
        first, second = examples
        assert restored(first).tolist() == [CLS, *range(5, 12), SEP, PAD, PAD, PAD]
        assert restored(second).tolist() == [CLS, *range(12, 16), SEP, *[PAD] * 6]
        assert first["attention_mask"].tolist() == [1] * 9 + [0] * 3
        assert not first["token_type_ids"].any()
        assert set(first) == {"input_ids", "attention_mask", "token_type_ids", "masked_positions", "labels"}

    def test_order_by_eye(self, store_of, vocabulary):
        """Sentences t0-t2 and t3-t6 of one document, as they are or exchanged."""
        data = PretrainingData(max_seq_length=12, max_predictions_per_seq=3, short_seq_prob=0, pair_objective="sop")
        examples = PretrainingExamples(store_of([[3, 4]]).whole(), vocabulary, data, 40)
        a, b = [5, 6, 7], [8, 9, 10, 11]
        expected = ([CLS, *a, SEP, *b, SEP, PAD, PAD], [CLS, *b, SEP, *a, SEP, PAD, PAD])
        labels = set()
        for number in range(40):
            example = examples[number]
            label = int(example["next_sentence_label"])
            assert restored(example).tolist() == expected[label]
            assert example["token_type_ids"].tolist() == [0] * (5 + label) + [1] * (5 - label) + [0] * 2
            labels.add(label)
        assert labels == {0, 1}


class TestWholeWords:
    def test_words_are_masked_whole(self, store_of, word_pieces):
        """Ids 5, 6 are a word, so are 7, 8, and so on; each sentence has whole words."""
        view = store_of([[2, 4, 4], [6, 4]]).whole()
        data = PretrainingData(max_seq_length=16, mlm_probability=0.3, whole_word_mask=True)
        run = PretrainingExamples(view, word_pieces, data, 300)
        counts = set()
        for number in range(300):
            example = run[number]
            text = restored(example)
            positions = set(example["masked_positions"][example["labels"] != -100].tolist())
            counts.add(len(positions))
            for position in positions:
                partner = position + 1 if text[position] % 2 else position - 1
                # Truncation can part a word; then it stands next to a special token, and is masked alone.
                assert partner in positions or text[partner] < 5
        assert {2, 4} <= counts

    def test_tokens_are_masked_singly_otherwise(self, store_of, word_pieces):
        view = store_of([[2, 4, 4], [6, 4]]).whole()
        run = PretrainingExamples(view, word_pieces, PretrainingData(max_seq_length=16), 50)
        assert (np.diff(run.__getitems__(range(50))["masked_positions"][:, :2]) > 1).any()


class TestFirstEpoch:
    def test_a_run_from_a_later_epoch(self, run, store, vocabulary):
        skipped = sum(
            len(plan_epoch(store.whole(), DATA.seed, epoch, DATA.max_seq_length, DATA.short_seq_prob))
            for epoch in range(2)
        )
        later = PretrainingExamples(store.whole(), vocabulary, DATA, 500 - skipped, first_epoch=2)
        assert 0 < skipped < 400
        assert same(later.__getitems__(range(len(later))), run.__getitems__(range(skipped, 500)))
        plan = plan_epoch(store.whole(), DATA.seed, 2, DATA.max_seq_length, DATA.short_seq_prob)
        assert later.examples_per_epoch == len(plan)

    def test_a_second_phase_has_masks_of_its_own(self, store_of, vocabulary):
        """The same documents at another length: the masks of an epoch would begin alike, those of another do not."""
        view = store_of([[9], [9]]).whole()
        short, long = (PretrainingData(max_seq_length=length, short_seq_prob=0) for length in (24, 40))
        phases = [
            PretrainingExamples(view, vocabulary, data, 200, first_epoch=first).__getitems__(range(200))
            for data, first in ((short, 0), (long, 0), (long, 100))
        ]
        one, alike, other = (phase["input_ids"][:, :24] for phase in phases)
        assert (one == alike).all(axis=1).mean() > 0.9
        assert (one == other).all(axis=1).mean() < 0.1

    def test_below_zero(self, store, vocabulary):
        with pytest.raises(ValueError, match="first_epoch: -1 is not at least 0"):
            PretrainingExamples(store.whole(), vocabulary, DATA, 10, first_epoch=-1)


@pytest.mark.parametrize("num_examples", [None, 0])
def test_a_run_has_an_end(store, vocabulary, num_examples):
    with pytest.raises(ValueError, match="num_examples"):
        PretrainingExamples(store.whole(), vocabulary, DATA, num_examples)


class TestSettings:
    @pytest.mark.parametrize(
        ("length", "share", "given", "expected"),
        [
            (128, 0.15, None, 20),
            (512, 0.15, None, 77),
            (100, 0.07, None, 7),
            (5, 0.01, None, 1),
            (5, 1e-8, None, 1),
            (128, 0.15, 9, 9),
        ],
    )
    def test_predictions_per_seq(self, length, share, given, expected):
        data = PretrainingData(max_seq_length=length, mlm_probability=share, max_predictions_per_seq=given)
        assert data.predictions_per_seq == expected

    @pytest.mark.parametrize(
        ("name", "value", "fault"),
        [
            ("max_seq_length", 4, "expected .*, got 4"),
            ("seed", -1, "expected .*, got -1"),
            ("pair_objective", "order", "'order' is not one of nsp, sop, none"),
            ("token_objective", "order", "'order' is not one of masked_lm, next_token"),
        ],
    )
    def test_impossible_values(self, name, value, fault):
        with pytest.raises(ValueError, match=rf"^{name}: {fault}$"):
            PretrainingData(**{name: value})

    def test_no_special_token_is_ordinary(self, numbered_tokenizer, vocabulary):
        assert vocabulary.ordinary_ids.tolist() == list(range(5, 20005))
        assert vocabulary.mask_token_id == numbered_tokenizer.mask_token_id == MASK


def of_special_tokens(vocabulary: Vocabulary, single, pair) -> Vocabulary:
    return dataclasses.replace(vocabulary, single=SpecialTokens(*single), pair=SpecialTokens(*pair))


class TestTemplates:
    """Special tokens as a tokenizer has them: [CLS] A [SEP] B [SEP], <s> A </s></s> B </s>, or none in front."""

    BERT = (((2,), (), (3,)), ((2,), (3,), (3,)))
    ROBERTA = (((2,), (), (3,)), ((2,), (3, 3), (3,)))
    AT_THE_END = (((), (), (3, 2)), ((), (3,), (3, 2)))

    @pytest.mark.parametrize("template", [BERT, ROBERTA, AT_THE_END])
    @pytest.mark.parametrize("pair_objective", ["nsp", "sop", "none"])
    def test_every_example_is_well_formed(self, store, vocabulary, template, pair_objective):
        data = PretrainingData(max_seq_length=24, seed=7, pair_objective=pair_objective)
        examples = PretrainingExamples(store.whole(), of_special_tokens(vocabulary, *template), data, 200)
        first, between, last = map(list, template[pair_objective != "none"])
        for number in range(200):
            example = examples[number]
            ids, length = restored(example).tolist(), int(example["attention_mask"].sum())
            a_start, a_end, b_start, b_end = examples.segments([number])[0] + 5  # id of t0
            with_a = [*first, *range(a_start, a_end), *(between or last)]
            with_b = [*range(b_start, b_end), *last] if between else []
            padding = 24 - length
            assert ids == with_a + with_b + [PAD] * padding
            assert example["token_type_ids"].tolist() == [0] * len(with_a) + [1] * len(with_b) + [0] * padding
            used = example["labels"] != -100
            assert used.sum() == min(4, max(1, round(length * 0.15)))
            assert (example["labels"][used] >= 5).all()

    def test_inputs_without_room_for_text_are_refused(self, store, vocabulary):
        long = of_special_tokens(vocabulary, ((2,) * 4, (), (3,)), ((2,), (3,), (3,)))
        data = PretrainingData(max_seq_length=6, pair_objective="none")
        with pytest.raises(DataError, match="leaves no room for text besides 5 special tokens"):
            PretrainingExamples(store.whole(), long, data, 10)


@pytest.mark.parametrize(
    ("shares", "fault"),
    [
        ({128: 0.9, 512: 0.2}, "add up to 1.1; expected 1"),
        ({128: 0.9, 512: 0.100002}, "add up to 1.000002; expected 1"),
        ({4: 1.0}, "4 tokens leave no room"),
        ({128: 1.0, 512: 0.0}, "the share of 512 tokens is 0.0"),
    ],
)
def test_shares_that_make_no_run_are_refused(shares, fault):
    with pytest.raises(ValueError, match=fault):
        check_phases(shares)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=4), st.integers(1, 10_000))
def test_phases_are_all_steps_in_order(weights, steps):
    lengths = [(10 * number + 10, weight / sum(weights)) for number, weight in enumerate(weights)]
    phases = plan_phases(lengths, steps)
    covered = [step for phase in phases for step in range(phase.first_step, phase.first_step + phase.steps)]
    assert covered == list(range(steps))
    for phase in phases:
        assert phase.max_seq_length == lengths[phase.number][0]
        assert abs(phase.steps - lengths[phase.number][1] * steps) <= 1


def test_a_phase_below_one_step_is_dropped():
    (only,) = plan_phases([(128, 0.1), (512, 0.9)], 1)
    assert (only.number, only.max_seq_length) == (1, 512)
    assert [phase.steps for phase in plan_phases(phase_lengths({128: 0.9, 512: 0.1}, 512), 300)] == [270, 30]


class Part:
    """Stands for the examples of a phase: its name and their numbers."""

    def __init__(self, name: int, size: int):
        self.name, self.size = name, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int):
        return {"example": np.array([self.name, index])}

    def __getitems__(self, indices):
        return {"example": np.array([[self.name, index] for index in indices])}


def test_examples_of_phases_follow_each_other():
    examples = PhasedExamples([Part(0, 4), Part(1, 2)])
    assert len(examples) == 6
    assert [examples[index]["example"].tolist() for index in range(6)] == [
        [0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1],
    ]  # fmt: skip
    assert examples.__getitems__([4, 5])["example"].tolist() == [[1, 0], [1, 1]]


def test_batches_across_phases_are_refused():
    examples = PhasedExamples([Part(0, 4), Part(1, 2)])
    with pytest.raises(ValueError, match="examples 3 to 4 are from 2 phases"):
        examples.__getitems__([3, 4])
    for index in (-1, 6):
        with pytest.raises(IndexError, match="this run has examples 0 to 5"):
            examples[index]
