"""One data set over a whole pre-training run, of one phase or several, and its batches.

Dimension letters: B examples of a batch, S ``max_seq_length``, P predictions of an example.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from bertkit.corpus.examples.masking import MaskingRules, mask_tokens
from bertkit.corpus.examples.objectives import OBJECTIVES
from bertkit.corpus.examples.pairs import PairPlan, plan_epoch
from bertkit.corpus.examples.randomness import permutation
from bertkit.corpus.settings import PretrainingData, Vocabulary
from bertkit.corpus.store.token_store import StoreView

if TYPE_CHECKING:
    from bertkit.corpus.store.streaming import StreamedBlocks

Arrays = dict[str, NDArray[np.int64]]

_EPOCHS_KEPT = 2  # a batch can span the end of one epoch and the start of the next


class PretrainingExamples(Dataset[Arrays]):
    """The examples of a run, numbered from 0: number k is one and the same whenever and wherever it is asked for.

    Every epoch has its own pairs (`plan_epoch`), in an order of its own, under masks of their own; that takes the
    place of the released script's ``dupe_factor``. The run goes through epoch ``first_epoch``, then the next, and so
    on, for ``num_examples`` examples, so resuming is going on at the next k. Epochs differ a little in size: to reach
    one, the pairs of those before it are planned too.

    With ``fixed_epoch`` the pairs and masks are those of that epoch, each time the same, in the order of their
    documents: for evaluation. Of more pairs than ``num_examples``, as many are taken at even distances.

    Items are dicts of int64 numpy arrays, which `collate` makes into tensors:

    - ``input_ids``, ``attention_mask``, ``token_type_ids``: ``(B, S)``, padded to S always.
    - ``masked_positions``: ``(B, P)``, ascending, 0 in unused slots; ``labels``: ``(B, P)``, -100 in unused slots.
    - ``next_sentence_label``: ``(B,)``; 0 = B follows A, 1 = B is random, or A follows B under ``sop``. Not there under
      ``none``, whose examples are [CLS] A [SEP], with ``token_type_ids`` 0 throughout.

    Args:
        view: the documents, or a stream of them, whose epochs are its blocks.
        vocabulary: the ids to write, from `Vocabulary.of`.
        data: the numbers.
        num_examples: examples of the whole run; with ``fixed_epoch`` the most there are, None for all.
        fixed_epoch: an epoch to repeat.
        first_epoch: what the run's epochs are numbered from, at least 0. A second phase of a run, with longer examples
            of the same text, begins behind the epochs of the first, so that it has other masks and another order.

    Raises:
        DataError: ``view`` has fewer than two documents under ``nsp``, or too little text for an example.
        ValueError: ``num_examples`` is below 1, or None without ``fixed_epoch``; ``first_epoch`` is below 0.
    """

    def __init__(
        self,
        view: StoreView | StreamedBlocks,
        vocabulary: Vocabulary,
        data: PretrainingData,
        num_examples: int | None,
        *,
        fixed_epoch: int | None = None,
        first_epoch: int = 0,
    ):
        if num_examples is None and fixed_epoch is None:
            raise ValueError("num_examples: needed, since the epochs of a run have no end")
        if num_examples is not None and num_examples < 1:
            raise ValueError(f"num_examples: {num_examples} is not at least 1")
        if first_epoch < 0:
            raise ValueError(f"first_epoch: {first_epoch} is not at least 0")
        self.view = view
        self.vocabulary = vocabulary
        self.data = data
        self.fixed_epoch = fixed_epoch
        self.first_epoch = first_epoch
        self._rules = MaskingRules(
            data.seed,
            data.mlm_probability,
            data.predictions_per_seq,
            vocabulary.mask_token_id,
            vocabulary.ordinary_ids,
            vocabulary.continuation if data.whole_word_mask else None,
        )
        self._plans: dict[int, PairPlan] = {}
        self._orders: dict[int, NDArray[np.integer[Any]]] = {}
        self._starts = [0]  # the first example of each of the run's epochs, and of the one after those planned
        if fixed_epoch is None:
            assert num_examples is not None
            self._num_examples = num_examples
            # A corpus that cannot be paired is refused here, and forked workers share what was planned.
            self._plan_up_to(0)
            self._order(first_epoch)
        else:
            pairs = len(self._plan(fixed_epoch))
            self._num_examples = pairs if num_examples is None else min(num_examples, pairs)

    def __len__(self) -> int:
        return self._num_examples

    @property
    def examples_per_epoch(self) -> int:
        """Pairs of ``first_epoch`` (or of ``fixed_epoch``); other epochs differ a little."""
        return len(self._plan(self.fixed_epoch)) if self.fixed_epoch is not None else self._starts[1]

    def __getitem__(self, index: int) -> Arrays:
        """Example ``index``, each array without its B.

        Raises:
            IndexError: as `__getitems__`.
        """
        return {name: array[0] for name, array in self.__getitems__([index]).items()}

    def __getitems__(self, indices: Sequence[int]) -> Arrays:
        """The examples of these numbers as one batch.

        Raises:
            IndexError: a number is below 0, or not below the length.
        """
        numbers = np.asarray(indices, np.int64)
        outside = (numbers < 0) | (numbers >= len(self))
        if outside.any():
            raise IndexError(f"example {numbers[outside][0]}: this run has examples 0 to {len(self) - 1}")
        epochs, pairs = self._locate(numbers)
        return self._batch(epochs, pairs)

    def _locate(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Epoch of each example, and which pair of its plan it is."""
        if self.fixed_epoch is not None:
            total = len(self._plan(self.fixed_epoch))
            return np.full_like(numbers, self.fixed_epoch), numbers * total // len(self)
        self._plan_up_to(int(numbers.max(initial=0)))
        passed = np.searchsorted(self._starts, numbers, side="right") - 1
        pairs = np.empty_like(numbers)
        for number in np.unique(passed).tolist():
            rows = passed == number
            pairs[rows] = self._order(self.first_epoch + number)[numbers[rows] - self._starts[number]]
        return self.first_epoch + passed, pairs

    def _plan_up_to(self, number: int) -> None:
        while self._starts[-1] <= number:
            epoch = self.first_epoch + len(self._starts) - 1
            self._starts.append(self._starts[-1] + len(self._plan(epoch)))

    def _plan(self, epoch: int) -> PairPlan:
        data = self.data
        if epoch not in self._plans:
            _make_room(self._plans)
            self._plans[epoch] = plan_epoch(
                self.view.of_epoch(epoch),
                data.seed,
                epoch,
                data.max_seq_length,
                data.short_seq_prob,
                data.pair_objective,
            )
        return self._plans[epoch]

    def _order(self, epoch: int) -> NDArray[np.integer[Any]]:
        if epoch not in self._orders:
            _make_room(self._orders)
            self._orders[epoch] = permutation(self.data.seed, epoch, len(self._plan(epoch)))
        return self._orders[epoch]

    def _batch(self, epochs: NDArray[np.int64], pairs: NDArray[np.int64]) -> Arrays:
        a_start, a_length, b_start, b_length, next_sentence_label = self._segments(epochs, pairs)
        position = np.arange(self.data.max_seq_length)
        # [CLS] A [SEP] B [SEP] [PAD] …, or [CLS] A [SEP] [PAD] … where there is no B
        in_a = (position >= 1) & (position <= a_length)
        in_b = (position >= a_length + 2) & (position <= a_length + 1 + b_length)
        attended = position < a_length + b_length + np.where(b_length > 0, 3, 2)
        source = np.where(in_b, b_start + position - a_length - 2, a_start + position - 1)
        text = in_a | in_b
        input_ids = np.where(attended, self.vocabulary.sep_token_id, self.vocabulary.pad_token_id)
        input_ids[:, 0] = self.vocabulary.cls_token_id
        for epoch in np.unique(epochs).tolist():
            rows = epochs == epoch
            # Where there is no text, `source` may lie outside of the store: what is read there is not used.
            tokens = self.view.of_epoch(epoch).store.tokens.take(source[rows], mode="clip")
            input_ids[rows] = np.where(text[rows], tokens, input_ids[rows])
        masked = mask_tokens(input_ids, text, attended.sum(axis=1), self._rules, epochs, pairs)
        batch = {
            "input_ids": masked.input_ids,
            "attention_mask": attended.astype(np.int64),
            "token_type_ids": (attended & (position >= a_length + 2)).astype(np.int64),
            "masked_positions": masked.masked_positions,
            "labels": masked.labels,
        }
        if OBJECTIVES[self.data.pair_objective].has_label:
            batch["next_sentence_label"] = next_sentence_label
        return batch

    def _segments(self, epochs: NDArray[np.int64], pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Start and length of A and of B, each ``(B, 1)``, and next_sentence_label, ``(B,)``."""
        fields = ("a_start", "a_length", "b_start", "b_length", "next_sentence_label")
        found = np.empty((len(fields), len(pairs)), np.int64)
        for epoch in np.unique(epochs).tolist():
            rows = epochs == epoch
            plan = self._plan(epoch)
            for values, field in zip(found, fields, strict=True):
                values[rows] = getattr(plan, field)[pairs[rows]]
        return (*found[:4, :, None], found[4])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}, "_orders": {}}  # planned anew where it is unpickled: faster than to send


def _make_room(kept: dict[int, Any]) -> None:
    """Lets the oldest go, before the next is made."""
    while len(kept) >= _EPOCHS_KEPT:
        kept.pop(next(iter(kept)))


class PhasedExamples(Dataset[Arrays]):
    """The examples of all phases, one after another; see `PretrainingExamples`.

    A batch never mixes phases as long as its examples follow each other and every phase has whole batches.

    Args:
        parts: the examples of each phase.

    Raises:
        ValueError: examples of two phases are asked for at once, which have different lengths.
    """

    def __init__(self, parts: Sequence[PretrainingExamples]):
        self.parts = list(parts)
        self._starts = [0]
        for part in self.parts:
            self._starts.append(self._starts[-1] + len(part))

    def __len__(self) -> int:
        return self._starts[-1]

    def part_of(self, index: int) -> int:
        """Which of the parts example ``index`` is of.

        Raises:
            IndexError: it is below 0, or not below the length.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"example {index}: this run has examples 0 to {len(self) - 1}")
        return bisect_right(self._starts, index) - 1

    def __getitem__(self, index: int) -> Arrays:
        """Example ``index``, each array without its B."""
        part = self.part_of(index)
        return self.parts[part][index - self._starts[part]]

    def __getitems__(self, indices: Sequence[int]) -> Arrays:
        """The examples of these numbers as one batch."""
        part, last = self.part_of(min(indices)), self.part_of(max(indices))
        if part != last:
            phases = last - part + 1
            raise ValueError(f"examples {min(indices)} to {max(indices)} are of {phases} phases, of unequal length")
        return self.parts[part].__getitems__([index - self._starts[part] for index in indices])


def collate(examples: Arrays | Sequence[Mapping[str, NDArray[np.int64]]]) -> dict[str, torch.Tensor]:
    """A batch of tensors from what `PretrainingExamples` gives: one batch, or a list of single examples."""
    if not isinstance(examples, Mapping):
        examples = {name: np.stack([example[name] for example in examples]) for name in examples[0]}
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in examples.items()}
