"""Every rate of the pairs and the masks, on nine books.

A document is a chapter. What is drawn is held against its exact mean and variance; 4.5 standard deviations are passed
by chance once in some hundred thousand times, and the numbers are the same in every run.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.examples.dataset import PretrainingExamples
from bertkit.data.corpus.examples.objectives import EpochOfText, Segments, next_sentence_pairs, sentence_order_pairs
from bertkit.data.corpus.examples.pairs import plan_epoch
from bertkit.data.corpus.settings import PretrainingData
from bertkit.data.corpus.sources import find_sources
from bertkit.data.corpus.store.token_store import StoreView
from bertkit.data.corpus.store.writer import build_token_store
from bertkit.data.corpus.vocabulary.structure import Vocabulary
from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer

pytestmark = [pytest.mark.real, pytest.mark.slow]

SEED = 42
CHAPTER = r"(?i)(chapter|letter|adventure|book)\b.*"


@pytest.fixture(scope="module")
def tokenizer(real_data):
    text = (real_data / "text" / "books" / "frankenstein.txt").read_text(encoding="utf-8-sig")
    return train_tokenizer(text.split("\n"), 4000)


@pytest.fixture(scope="module")
def view(real_data, tokenizer, tmp_path_factory) -> StoreView:
    sources = find_sources([real_data / "text" / "books"])
    form = DocumentForm(document_separator=CHAPTER)
    return build_token_store(sources, form, tokenizer, cache_dir=tmp_path_factory.mktemp("books")).whole()


@pytest.fixture(scope="module")
def vocabulary(tokenizer) -> Vocabulary:
    return Vocabulary.of(tokenizer)


def unlikely(total: float, mean: float, variance: float) -> bool:
    return abs(total - mean) > 4.5 * math.sqrt(variance)


def expected_share(count: int, n: int, p: float) -> bool:
    return not unlikely(count, n * p, n * p * (1 - p))


def evenly_drawn(counts: np.ndarray, expected: np.ndarray | float) -> bool:
    """By chi squared, whose mean is the number of cells and whose variance twice that."""
    cells = counts.size
    return not unlikely(float(((counts - expected) ** 2 / expected).sum()), cells, 2 * cells)


def document_of(view: StoreView, tokens: np.ndarray) -> np.ndarray:
    return np.searchsorted(view.store.sentence_offsets[view.store.document_offsets], tokens, side="right") - 1


def all_segments(rule, view: StoreView, epochs: range, max_tokens: int = 125) -> Segments:
    """Before truncation, every document with the full target."""
    blocks = [block for epoch in epochs for block in rule(EpochOfText(view, SEED, epoch, max_tokens, 0.0))]
    return Segments(*(np.concatenate(arrays) for arrays in zip(*blocks, strict=True)))


def batches(view, vocabulary, data: PretrainingData):
    """All examples of epoch 0, some at a time."""
    run = PretrainingExamples(view, vocabulary, data, None, fixed_epoch=0)
    for start in range(0, len(run), 2048):
        yield run.__getitems__(range(start, min(start + 2048, len(run))))


def restored(batch) -> np.ndarray:
    ids = batch["input_ids"].copy()
    rows, slots = np.nonzero(batch["labels"] != -100)
    ids[rows, batch["masked_positions"][rows, slots]] = batch["labels"][rows, slots]
    return ids


def test_the_books_are_large_enough(view):
    assert view.num_documents > 400
    assert view.num_tokens > 1_500_000


class TestPairs:
    @pytest.fixture(scope="class")
    @classmethod
    def segments(cls, view) -> Segments:
        return all_segments(next_sentence_pairs, view, range(4))

    def test_half_are_random_where_a_next_exists(self, view, segments):
        offsets, starts = view.store.sentence_offsets, segments.starts[:, 0]
        first = np.searchsorted(offsets, starts)
        assert (offsets[first] == starts).all()
        document_end = view.store.document_offsets[document_of(view, starts) + 1]
        size = np.minimum(np.searchsorted(offsets, starts + 125), document_end) - first
        alone = size <= 1
        assert 0 < alone.sum() < len(alone) / 10
        assert (segments.labels[alone] == 1).all()
        assert expected_share(int(segments.labels[~alone].sum()), int((~alone).sum()), 0.5)

    def test_true_and_random_segments_b(self, view, segments):
        random = segments.labels == 1
        a, b = (document_of(view, segments.starts[:, side]) for side in (0, 1))
        assert ((a != b) == random).all()
        assert (segments.starts[~random, 1] == (segments.starts + segments.lengths)[~random, 0]).all()

    def test_random_documents_and_starts_are_even(self, view, segments):
        """Each of D documents is drawn for a pair of another document with probability 1 / (D - 1)."""
        random = segments.labels == 1
        a, b = (document_of(view, segments.starts[random, side]) for side in (0, 1))
        count, of_a = (np.bincount(documents, minlength=view.num_documents) for documents in (b, a))
        assert evenly_drawn(count, (len(a) - of_a) / (view.num_documents - 1))
        offsets = view.store.document_offsets
        place = np.searchsorted(view.store.sentence_offsets, segments.starts[random, 1]) - offsets[b]
        sentences = np.diff(offsets)[b]
        assert not unlikely(place.sum(), ((sentences - 1) / 2).sum(), ((sentences**2 - 1) / 12).sum())

    def test_truncation_tosses_coins(self, view, segments):
        plans = [plan_epoch(view, SEED, epoch, 128, 0.0) for epoch in range(4)]
        start = np.concatenate([np.stack([plan.a_start, plan.b_start], axis=1) for plan in plans])
        left = np.concatenate([np.stack([plan.a_length, plan.b_length], axis=1) for plan in plans])
        assert (left.sum(axis=1) == np.minimum(segments.lengths.sum(axis=1), 125)).all()
        dropped = segments.lengths - left
        front, of = (start - segments.starts)[dropped > 0], dropped[dropped > 0]
        assert len(of) > 10_000
        assert (front >= 0).all()
        assert (front <= of).all()
        assert not unlikely(front.sum(), (of / 2).sum(), (of / 4).sum())
        # The variance too: one toss each, not one for all of them.
        assert not unlikely(((2 * front - of) ** 2 / of).sum(), len(of), (2 - 2 / of).sum())

    def test_half_are_exchanged_under_sop(self, view):
        segments = all_segments(sentence_order_pairs, view, range(4))
        assert expected_share(int(segments.labels.sum()), len(segments.labels), 0.5)
        first = segments.labels[:, None] == [0, 1]
        starts, lengths = segments.starts, segments.lengths
        assert (starts[first] + lengths[first] == starts[~first]).all()
        assert (document_of(view, starts[:, 0]) == document_of(view, starts[:, 1])).all()
        # But for documents of one token, every token is in a pair.
        one = np.diff(view.store.sentence_offsets[view.store.document_offsets]) == 1
        assert view.num_tokens >= lengths.sum() / 4 >= view.num_tokens - view.num_documents - one.sum()


class TestShortDocuments:
    """The first example of a document tells its target: it ends at the last end of a sentence not beyond it."""

    @pytest.fixture(scope="class")
    @classmethod
    def first_by_target(cls, view) -> np.ndarray:
        """Tokens of the first example for each document and target, 2 to 126: ``(D, 125)``."""
        targets = np.arange(2, 127)
        offsets = view.store.sentence_offsets
        starts, ends = offsets[view.store.document_offsets[:-1]], offsets[view.store.document_offsets[1:]]
        reach = starts[:, None] + targets
        boundary = offsets[np.searchsorted(offsets, reach, side="right") - 1]
        return np.where(boundary > starts[:, None], np.minimum(boundary, ends[:, None]) - starts[:, None], targets)

    @pytest.mark.parametrize("short_seq_prob", [0.1, 0.5])
    def test_share_and_lengths(self, view, first_by_target, short_seq_prob):
        starts = view.store.sentence_offsets[view.store.document_offsets[:-1]]
        full = first_by_target[:, -1]
        differs = short_seq_prob * (first_by_target != full[:, None]).mean(axis=1)
        mean = (1 - short_seq_prob) * full + short_seq_prob * first_by_target.mean(axis=1)
        square = (1 - short_seq_prob) * full**2 + short_seq_prob * (first_by_target**2).mean(axis=1)
        epochs = 20
        different = total = 0
        for epoch in range(epochs):
            plan = plan_epoch(view, SEED, epoch, 128, short_seq_prob, "none")
            first = plan.a_length[np.isin(plan.a_start, starts)]
            different += int((first != full).sum())
            total += int(first.sum())
        assert not unlikely(different, epochs * differs.sum(), epochs * (differs * (1 - differs)).sum())
        assert not unlikely(total, epochs * mean.sum(), epochs * (square - mean**2).sum())


class TestMasks:
    @pytest.mark.parametrize("most", [None, 12])
    def test_how_many(self, view, vocabulary, most):
        predicted = attended = 0
        for batch in batches(view, vocabulary, PretrainingData(seed=SEED, max_predictions_per_seq=most)):
            count, length = (batch["labels"] != -100).sum(axis=1), batch["attention_mask"].sum(axis=1)
            special = np.isin(restored(batch), [vocabulary.cls_token_id, vocabulary.sep_token_id]).sum(axis=1)
            assert (special == 3).all()
            assert count.min() >= 1
            assert count.max() <= (most or 20)
            # At least one, at most P, else 15 % rounded, half to even.
            assert (count == np.clip(np.rint(0.15 * length), 1, most or 20)).all()
            predicted += count.sum()
            attended += length.sum()
        if most is None:
            assert abs(predicted / attended - 0.15) < 0.002  # 19 of 128 are 14.8 %

    @pytest.mark.parametrize("whole_word_mask", [False, True])
    def test_what_takes_their_place(self, view, tokenizer, vocabulary, whole_word_mask):
        """One of N ordinary ids is the token's own, so a share of 0.1 (1 - 1 / N) differs by random replacement."""
        ordinary = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
        n = mask = same = other = 0
        drawn = np.zeros(len(tokenizer), np.int64)
        for batch in batches(view, vocabulary, PretrainingData(seed=SEED, whole_word_mask=whole_word_mask)):
            used = batch["labels"] != -100
            new = np.take_along_axis(batch["input_ids"], batch["masked_positions"], axis=1)[used]
            old = batch["labels"][used]
            assert np.isin(old, [vocabulary.cls_token_id, vocabulary.sep_token_id, vocabulary.pad_token_id]).sum() == 0
            random = (new != old) & (new != vocabulary.mask_token_id)
            n += len(new)
            mask += int((new == vocabulary.mask_token_id).sum())
            same += int((new == old).sum())
            other += int(random.sum())
            drawn += np.bincount(new[random], minlength=len(drawn))
        assert n > 200_000
        assert expected_share(mask, n, 0.8)
        assert expected_share(same, n, 0.1 + 0.1 / len(ordinary))
        assert expected_share(other, n, 0.1 - 0.1 / len(ordinary))
        # No special token is among the random ones, and each other id is, as often as any.
        assert drawn.sum() == drawn[ordinary].sum()
        assert evenly_drawn(drawn[ordinary], other / len(ordinary))

    def test_every_place_is_as_good(self, view, vocabulary):
        """Among examples that fill the sequence, 19 of 125 tokens."""
        counts = np.zeros(128)
        rows = 0
        for batch in batches(view, vocabulary, PretrainingData(seed=SEED)):
            ids = restored(batch)
            full = batch["attention_mask"].all(axis=1)
            used = batch["labels"][full] != -100
            # The second [SEP] of most pairs stands elsewhere; its place is passed over where it does.
            middle = np.argmax(ids[full] == vocabulary.sep_token_id, axis=1)
            places = batch["masked_positions"][full] - (batch["masked_positions"][full] > middle[:, None])
            counts += np.bincount(places[used], minlength=128)
            rows += int(full.sum())
        assert rows > 5000
        assert counts.sum() == counts[1:126].sum() == 19 * rows
        # Choosing without replacement: the variance of a cell is smaller than expected by 1 - 19 / 125.
        p = 19 / 125
        chi_squared = float(((counts[1:126] - rows * p) ** 2 / (rows * p * (1 - p))).sum())
        assert not unlikely(chi_squared, 125, 2 * 125)

    def test_words_are_masked_whole(self, view, vocabulary):
        """A word is hidden whole or not at all, unless no word fits; and none that would still fit is left out."""
        cut = 0
        for batch in batches(view, vocabulary, PretrainingData(seed=SEED, whole_word_mask=True)):
            ids = restored(batch)
            rows, slots = np.nonzero(batch["labels"] != -100)
            hidden = np.zeros(ids.shape, bool)
            hidden[rows, batch["masked_positions"][rows, slots]] = True
            wanted = np.clip(np.rint(0.15 * batch["attention_mask"].sum(axis=1)), 1, 20)
            word, sizes = words_of(ids, vocabulary)
            taken = np.bincount(word[hidden], minlength=len(sizes))
            row_of = np.zeros(len(sizes), np.int64)
            row_of[word[word >= 0]] = np.nonzero(word >= 0)[0]
            partly = (taken > 0) & (taken < sizes)
            smallest = np.full(len(ids), 10**6)
            np.minimum.at(smallest, row_of, sizes)
            assert (smallest[row_of[partly]] > wanted[row_of[partly]]).all()
            cut += int(partly.sum())
            count = hidden.sum(axis=1)
            assert count.min() >= 1
            assert (count <= wanted).all()
            left = (wanted - count)[row_of]
            assert (sizes[taken == 0] > left[taken == 0]).all()
        assert cut < 10

    def test_pieces_of_a_word_are_replaced_independently(self, view, vocabulary):
        """Neighbours that are both hidden are both [MASK] with 0.8²."""
        n = both = 0
        for batch in batches(view, vocabulary, PretrainingData(seed=SEED, whole_word_mask=True)):
            positions, used = batch["masked_positions"], batch["labels"] != -100
            is_mask = np.take_along_axis(batch["input_ids"], positions, axis=1) == vocabulary.mask_token_id
            continues = vocabulary.continuation[np.where(used, batch["labels"], 0)][:, 1:]
            neighbours = used[:, 1:] & continues & (np.diff(positions, axis=1) == 1)
            # Each piece in one couple at most, so that these are independent.
            neighbours[:, 1:] &= ~neighbours[:, :-1]
            n += int(neighbours.sum())
            both += int((neighbours & is_mask[:, 1:] & is_mask[:, :-1]).sum())
        assert n > 10_000
        assert expected_share(both, n, 0.64)


def words_of(ids: np.ndarray, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Number of the word of each place, -1 for none, and the pieces of each word; by the text, piece by piece."""
    none = {vocabulary.cls_token_id, vocabulary.sep_token_id, vocabulary.pad_token_id}
    continues = vocabulary.continuation.tolist()
    word = np.full(ids.shape, -1)
    sizes: list[int] = []
    for row, pieces in enumerate(ids.tolist()):
        inside = False
        for column, piece in enumerate(pieces):
            if piece in none:
                inside = False
                continue
            if not (inside and continues[piece]):
                sizes.append(0)
            inside = True
            sizes[-1] += 1
            word[row, column] = len(sizes) - 1
    return word, np.array(sizes)
