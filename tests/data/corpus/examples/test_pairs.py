"""Sentence lengths → the segments of an epoch's examples."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.examples import objectives
from bertkit.data.corpus.examples import pairs as pairs_module
from bertkit.data.corpus.examples.pairs import PairPlan, plan_epoch
from bertkit.data.corpus.examples.randomness import Stream, uniform
from bertkit.data.corpus.store.token_store import StoreView, TokenStore
from bertkit.runtime.errors import DataError


@dataclass(frozen=True, eq=False)
class Lengths:
    """A store in memory without its tokens: lengths are all that a plan is made of."""

    sentence_offsets: np.ndarray
    document_offsets: np.ndarray

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    token_bounds = TokenStore.token_bounds

    def whole(self) -> StoreView:
        return self.subset(range(self.num_documents))

    def subset(self, documents: Iterable[int]) -> StoreView:
        return StoreView(self, np.array([*documents], np.int64))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def store_of() -> Callable[[list[list[int]]], Lengths]:
    """``store_of([[3, 4], [5]])``: a document of sentences of 3 and 4 tokens, and one of 5."""
    return lambda documents: Lengths(
        np.cumsum([0, *chain.from_iterable(documents)]), np.cumsum([0, *map(len, documents)])
    )


def spans(plan: PairPlan) -> list[tuple[range, range, int]]:
    """Each pair as the token numbers of A and B, and its label."""
    return [
        (range(a, a + a_length), range(b, b + b_length), label)
        for a, a_length, b, b_length, label in zip(
            plan.a_start.tolist(),
            plan.a_length.tolist(),
            plan.b_start.tolist(),
            plan.b_length.tolist(),
            plan.next_sentence_label.tolist(),
            strict=True,
        )
    ]


def as_the_script_does(view: StoreView, seed: int, epoch: int, max_seq_length: int, short_seq_prob: float):
    """The released ``create_instances_from_document``, line by line, on lists of token numbers.

    Two changes: the numbers drawn are bertkit's, and the random document is drawn among the others at once. Pairs come
    back before truncation, with their lengths after it.
    """
    store = view.store
    offsets = store.sentence_offsets.tolist()
    sentences = [list(range(offsets[s], offsets[s + 1])) for s in range(store.num_sentences)]
    all_documents = [
        sentences[store.document_offsets[d] : store.document_offsets[d + 1]] for d in view.documents.tolist()
    ]
    max_num_tokens = max_seq_length - 3
    instances = []
    for document_index, document in enumerate(all_documents):
        number = int(view.documents[document_index])
        draws = uniform(seed, Stream.TARGET_LENGTH, epoch, [number], 2)[0]
        target_seq_length = max_num_tokens
        if draws[0] < short_seq_prob:
            target_seq_length = 2 + int(draws[1] * (max_num_tokens - 1))
        current_chunk: list[list[int]] = []
        current_length = 0
        chunks = 0
        i = 0
        while i < len(document):
            segment = document[i]
            current_chunk.append(segment)
            current_length += len(segment)
            if i == len(document) - 1 or current_length >= target_seq_length:
                draw = uniform(seed, Stream.PAIRS, epoch, [number << 32 | chunks], 4)[0]
                chunks += 1
                a_end = 1
                if len(current_chunk) >= 2:
                    a_end = 1 + int(draw[0] * (len(current_chunk) - 1))
                tokens_a = [token for sentence in current_chunk[:a_end] for token in sentence]
                tokens_b: list[int] = []
                is_random_next = len(current_chunk) == 1 or draw[1] < 0.5
                if is_random_next:
                    target_b_length = target_seq_length - len(tokens_a)
                    others = [other for other in range(len(all_documents)) if other != document_index]
                    random_document = all_documents[others[int(draw[2] * len(others))]]
                    random_start = int(draw[3] * len(random_document))
                    for j in range(random_start, len(random_document)):
                        tokens_b.extend(random_document[j])
                        if len(tokens_b) >= target_b_length:
                            break
                    i -= len(current_chunk) - a_end
                else:
                    tokens_b = [token for sentence in current_chunk[a_end:] for token in sentence]
                lengths = [len(tokens_a), len(tokens_b)]
                while sum(lengths) > max_num_tokens:
                    lengths[0 if lengths[0] > lengths[1] else 1] -= 1
                instances.append((tokens_a, tokens_b, int(is_random_next), lengths))
                current_chunk = []
                current_length = 0
            i += 1
    return instances


class TestByEye:
    def test_two_sentences_that_fit(self, store_of):
        """Sentences a = 0-2, b = 3-4 and, in the other document, c = 5-8, one long sentence.

        a is followed by b, or by c; where it was c, b was put back and is next, and has only c to go with.
        """
        store = store_of([[3, 2], [4]])
        a, b, c = range(0, 3), range(3, 5), range(5, 9)
        seen = set()
        for epoch in range(60):
            *first, last = spans(plan_epoch(store.whole(), 0, epoch, 16, 0.0))
            assert first in ([(a, b, 0)], [(a, c, 1), (b, c, 1)])
            # From the other document, B is a and b, or b.
            assert last in [(c, range(0, 5), 1), (c, b, 1)]
            seen.add((len(first), last[1].start))
        assert len(seen) == 4

    @pytest.mark.parametrize(
        ("sentence", "max_seq_length", "lengths"),
        [
            (50, 13, [5, 5, 5, 5]),  # ten tokens for the pair
            (50, 14, [6, 5, 6, 5]),  # the odd token is left to A
            (2, 13, [2, 8, 8, 2]),  # a short segment is left whole
        ],
    )
    def test_a_sentence_longer_than_the_sequence(self, store_of, sentence, max_seq_length, lengths):
        """Some tokens are dropped at the front, some at the back."""
        store = store_of([[sentence], [70]])
        [(a, b, _), (c, d, _)] = spans(plan_epoch(store.whole(), 0, 0, max_seq_length, 0.0))
        assert [len(part) for part in (a, b, c, d)] == lengths
        assert 0 <= a.start < a.stop <= sentence < b.start < b.stop < sentence + 70
        assert (a.start > 0) == (a.stop < sentence) == (sentence == 50)


@given(
    documents=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=2, max_size=6),
    max_seq_length=st.integers(5, 40),
    short_seq_prob=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 1000),
    data=st.data(),
)
def test_pairs_are_those_of_the_released_rules(store_of, documents, max_seq_length, short_seq_prob, seed, epoch, data):
    store = store_of(documents)
    chosen = data.draw(st.permutations(range(len(documents))))[: data.draw(st.integers(2, len(documents)))]
    arguments = (store.subset(chosen), seed, epoch, max_seq_length, short_seq_prob)
    expected = as_the_script_does(*arguments)
    actual = spans(plan_epoch(*arguments))
    assert len(actual) == len(expected)
    for (a, b, label), (whole_a, whole_b, expected_label, lengths) in zip(actual, expected, strict=True):
        assert (label, [len(a), len(b)]) == (expected_label, lengths)
        assert set(a) <= set(whole_a)
        assert set(b) <= set(whole_b)


class TestStatistics:
    def test_share_and_lengths_of_short_documents(self, store_of):
        """A true first pair has just the target length, where every sentence is one token."""
        store = store_of([[1] * 25] * 700)
        lengths = []
        for epoch in range(10):
            plan = plan_epoch(store.whole(), 3, epoch, 23, 0.1)
            first = (plan.a_start % 25 == 0) & (plan.next_sentence_label == 0)
            lengths += (plan.a_length + plan.b_length)[first].tolist()
        n = len(lengths)
        assert n > 3000
        counts = np.bincount(lengths, minlength=21)
        # 2 … 20 are equally likely when short, and 20 is also the length of the others.
        share = 0.1 * 18 / 19
        assert counts[:2].sum() == 0
        assert abs(counts[2:20].sum() / n - share) < 4 * math.sqrt(share * (1 - share) / n)
        each = counts[2:20].sum() / 18
        assert np.abs(counts[2:20] - each).max() < 5 * math.sqrt(each)

    def test_truncation_tosses_a_coin_for_each_token(self, store_of):
        """95 tokens of each 100-token sentence are cut: Binomial(95, ½) at the front, mean 47.5, variance 23.75."""
        store = store_of([[100]] * 100)
        fronts = []
        for epoch in range(20):
            plan = plan_epoch(store.whole(), 9, epoch, 13, 0.0)
            fronts += [*(plan.a_start % 100).tolist(), *(plan.b_start % 100).tolist()]
        n = len(fronts)
        assert n == 4000
        assert abs(np.mean(fronts) - 47.5) < 5 * math.sqrt(23.75 / n)
        assert abs(np.var(fronts) / 23.75 - 1) < 5 * math.sqrt(2 / n)

    @pytest.mark.parametrize("length", [68, 69, 133, 300, 5000])
    def test_truncation_of_any_size(self, store_of, length):
        """On either side of a machine word, and of several."""
        store = store_of([[length], [length]])
        fronts = [plan_epoch(store.whole(), 9, epoch, 13, 0.0).a_start[0] for epoch in range(200)]
        dropped = length - 5
        assert min(fronts) >= 0
        assert max(fronts) <= dropped
        assert abs(np.mean(fronts) - dropped / 2) < 5 * math.sqrt(dropped / 4 / len(fronts))


def test_a_plan_depends_on_seed_and_epoch_alone(store_of):
    view = store_of([[5, 6, 7, 8] * 20] * 5).whole()
    first = spans(plan_epoch(view, 1, 0, 32, 0.1))
    others = [spans(plan_epoch(view, seed, epoch, 32, 0.1)) for seed, epoch in ((1, 1), (2, 0), (1, 2))]
    assert all(other != first for other in others)
    assert spans(plan_epoch(view, 1, 0, 32, 0.1)) == first


@pytest.mark.parametrize("pair_objective", ["nsp", "sop", "none"])
@pytest.mark.parametrize(
    ("examples", "documents", "draws", "words"), [(1, 1, 1, 1), (7, 2, 3, 5), (100, 1, 10, 64), (3, 50, 1000, 2)]
)
def test_sizes_of_blocks_do_not_matter(store_of, monkeypatch, pair_objective, examples, documents, draws, words):
    view = store_of([[5, 6, 7, 8, 100] * 40, [1], [3, 90], [5, 6, 7, 8] * 50, [200], [2] * 30]).whole()
    expected = spans(plan_epoch(view, 1, 0, 32, 0.5, pair_objective))
    monkeypatch.setattr(objectives, "_EXAMPLES_AT_ONCE", examples)
    monkeypatch.setattr(objectives, "_DOCUMENTS_AT_ONCE", documents)
    monkeypatch.setattr(objectives, "_DRAWS_AT_ONCE", draws)
    monkeypatch.setattr(pairs_module, "_WORDS_AT_ONCE", words)
    assert spans(plan_epoch(view, 1, 0, 32, 0.5, pair_objective)) == expected


@pytest.mark.parametrize("pair_objective", ["nsp", "sop", "none"])
@pytest.mark.parametrize("documents", [2, 2000])
def test_planning_holds_little_but_the_plan(store_of, monkeypatch, pair_objective, documents):
    """25 bytes an example and an eighth, whether documents are large or many, and blocks, made small here."""
    view = store_of([[1] * (12_000 // documents)] * documents).whole()
    monkeypatch.setattr(objectives, "_EXAMPLES_AT_ONCE", 256)
    monkeypatch.setattr(objectives, "_DOCUMENTS_AT_ONCE", 256)
    monkeypatch.setattr(objectives, "_DRAWS_AT_ONCE", 256)
    tracemalloc.start()
    try:
        plan = plan_epoch(view, 0, 0, 5, 0.0, pair_objective)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(plan) > 3500
    assert held < 25 * len(plan) + 30_000
    assert peak < 29 * len(plan) + 400_000


@pytest.mark.parametrize("chosen", [[0], []])
def test_one_document_is_refused_with_the_ways_out(store_of, chosen):
    store = store_of([[3, 4], [5]])
    ways_out = "give more files.*--document-separator.*--sentence-per-line.*--pair-objective sop or none"
    with pytest.raises(DataError, match=rf"this corpus is {len(chosen)}: {ways_out}"):
        plan_epoch(store.subset(chosen), 0, 0, 16, 0.1)


@pytest.mark.parametrize(("pair_objective", "chosen"), [("sop", [0, 1]), ("sop", []), ("none", [])])
def test_too_little_text_for_an_example(store_of, pair_objective, chosen):
    with pytest.raises(DataError, match=rf"from {len(chosen)} documents with {len(chosen)} tokens.*give more text"):
        plan_epoch(store_of([[1], [1]]).subset(chosen), 0, 0, 16, 0.1, pair_objective)


def sentences_of(view: StoreView, document: int) -> list[list[int]]:
    """The token numbers of each sentence of a document of the store."""
    first, end = view.store.document_offsets[document : document + 2].tolist()
    offsets = view.store.sentence_offsets.tolist()
    return [list(range(offsets[sentence], offsets[sentence + 1])) for sentence in range(first, end)]


def joined(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def target_of(document: int, seed: int, epoch: int, max_tokens: int, short_seq_prob: float) -> int:
    is_short, length = uniform(seed, Stream.TARGET_LENGTH, epoch, [document], 2)[0]
    return 2 + int(length * (max_tokens - 1)) if is_short < short_seq_prob else max_tokens


def ordered_pairs(view: StoreView, seed: int, epoch: int, max_seq_length: int, short_seq_prob: float):
    """The pairs of ``sop`` before truncation, on lists of token numbers, with their labels."""
    pairs = []
    for document in view.documents.tolist():
        target = target_of(document, seed, epoch, max_seq_length - 3, short_seq_prob)
        chunks: list[list[list[int]]] = [[]]
        for sentence in sentences_of(view, document):
            if sum(map(len, chunks[-1])) >= target:
                chunks.append([])
            chunks[-1].append(sentence)
        for number, chunk in enumerate(chunks):
            where, turn = uniform(seed, Stream.PAIRS, epoch, [document << 32 | number], 2)[0]
            tokens = joined(chunk)
            if len(tokens) == 1:
                continue
            if len(chunk) > 1:
                split = len(joined(chunk[: 1 + int(where * (len(chunk) - 1))]))
            else:
                split = 1 + int(where * (len(tokens) - 1))
            a, b = tokens[:split], tokens[split:]
            pairs.append((b, a, 1) if turn < 0.5 else (a, b, 0))
    return pairs


def filled(view: StoreView, seed: int, epoch: int, max_seq_length: int, short_seq_prob: float) -> list[list[int]]:
    """The examples of ``none`` on lists of token numbers."""
    examples = []
    for document in view.documents.tolist():
        target = target_of(document, seed, epoch, max_seq_length - 2, short_seq_prob)
        current: list[int] = []
        for sentence in sentences_of(view, document):
            if current and len(current) + len(sentence) > target:
                examples.append(current)
                current = []
            current = current + sentence
            while len(current) > target:
                examples.append(current[:target])
                current = current[target:]
        examples.append(current)
    return examples


any_corpus = given(
    documents=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=6),
    max_seq_length=st.integers(5, 40),
    short_seq_prob=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 1000),
    data=st.data(),
)


class TestSentenceOrder:
    def test_by_eye(self, store_of):
        """Sentences a, b, c of one document that fit: a | bc or ab | c, in order or exchanged."""
        store = store_of([[3, 2, 4]])
        a, ab, c, bc = range(0, 3), range(0, 5), range(5, 9), range(3, 9)
        seen = [spans(plan_epoch(store.whole(), 0, epoch, 16, 0.0, "sop")) for epoch in range(60)]
        expected = [[(a, bc, 0)], [(bc, a, 1)], [(ab, c, 0)], [(c, ab, 1)]]
        assert all(pairs in expected for pairs in seen)
        assert all(pairs in seen for pairs in expected)

    @any_corpus
    def test_pairs_are_those_of_a_plain_reading(
        self, store_of, documents, max_seq_length, short_seq_prob, seed, epoch, data
    ):
        store = store_of([*documents, [2]])  # some pair there is
        chosen = [*data.draw(st.sets(st.sampled_from(range(len(documents))))), len(documents)]
        arguments = (store.subset(chosen), seed, epoch, max_seq_length, short_seq_prob)
        expected = ordered_pairs(*arguments)
        actual = spans(plan_epoch(*arguments, "sop"))
        assert len(actual) == len(expected)
        for (a, b, label), (whole_a, whole_b, expected_label) in zip(actual, expected, strict=True):
            assert label == expected_label
            assert set(a) <= set(whole_a)
            assert set(b) <= set(whole_b)
            assert len(a) + len(b) == min(max_seq_length - 3, len(whole_a) + len(whole_b))
            assert len(a) > 0
            assert len(b) > 0


class TestFullSentences:
    def test_by_eye(self, store_of):
        """Room for 8 tokens: 3 + 4 fit, 5 more do not; 5 + 3 do, just; the other document is another example."""
        plan = plan_epoch(store_of([[3, 4, 5, 3], [2]]).whole(), 0, 0, 10, 0.0, "none")
        assert spans(plan) == [(range(0, 7), range(0), 0), (range(7, 15), range(0), 0), (range(15, 17), range(0), 0)]

    @any_corpus
    def test_examples_are_those_of_a_plain_reading(
        self, store_of, documents, max_seq_length, short_seq_prob, seed, epoch, data
    ):
        store = store_of(documents)
        chosen = data.draw(st.permutations(range(len(documents))))[: data.draw(st.integers(1, len(documents)))]
        arguments = (store.subset(chosen), seed, epoch, max_seq_length, short_seq_prob)
        plan = plan_epoch(*arguments, "none")
        assert [list(a) for a, _, _ in spans(plan)] == filled(*arguments)
        assert not plan.b_length.any()
        # Every token of the documents is in one example.
        seen = [token for a, _, _ in spans(plan) for token in a]
        assert sorted(seen) == sorted(joined(joined(sentences_of(store.whole(), number)) for number in chosen))
