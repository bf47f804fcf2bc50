"""Data sets that cover a whole pre-training run of one or more phases, and their batches.

Dimension letters: B batch size, S ``max_seq_length``, P prediction slots of an example.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from bertkit.data.corpus.examples.epochs import Epochs, epochs_of
from bertkit.data.corpus.examples.masking import MaskingRules, mask_tokens, next_tokens
from bertkit.data.corpus.examples.objectives import OBJECTIVES
from bertkit.data.corpus.examples.pairs import PairPlan, plan_epoch
from bertkit.data.corpus.settings import PretrainingData
from bertkit.data.corpus.store.token_store import StoreView
from bertkit.data.corpus.vocabulary.structure import Vocabulary

if TYPE_CHECKING:
    from bertkit.data.corpus.store.streaming import StreamedBlocks

Arrays = dict[str, NDArray[np.int64]]


class PretrainingExamples(Dataset[Arrays]):
    """Map-style data set of the examples of a run, numbered from 0; example k does not depend on earlier accesses.

    Every epoch has its own pairs, order and masks (`epochs.py`); this replaces ``dupe_factor`` of the released script.
    The run goes through the epochs from ``first_epoch`` on until it has ``num_examples`` examples, so a resumed run
    continues at the next k.

    With ``fixed_epoch`` the pairs and masks are always those of that epoch, in the order of their documents: for
    evaluation. If the epoch has more pairs than ``num_examples``, evenly spaced pairs are selected.

    Items are dicts of int64 numpy arrays, which `collate` converts to tensors:

    - ``input_ids``, ``attention_mask``, ``token_type_ids``: ``(B, S)``, always padded to S.
    - ``masked_positions``: ``(B, P)``, ascending, 0 in unused slots; ``labels``: ``(B, P)``, -100 in unused slots. With
      ``next_token``, P = S - 1: all positions that a token follows, and the ids of these tokens.
    - ``next_sentence_label``: ``(B,)``; 0 = B follows A, 1 = B is random, or A follows B with ``sop``. Absent with
      ``none``, whose examples are [CLS] A [SEP] with all ``token_type_ids`` 0. Special tokens are those of the
      tokenizer's template.

    Args:
        view: the documents, or a stream of documents, whose epochs are its blocks.
        vocabulary: ids of the examples, from `Vocabulary.of`.
        data: settings of the examples.
        num_examples: number of examples of the whole run; with ``fixed_epoch`` the maximum number, None for all.
        fixed_epoch: epoch to repeat; None for a new epoch each time.
        first_epoch: number of the first epoch of the run, at least 0. A second phase, with longer examples of the same
            text, starts after the epochs of the first, so that its masks and order differ.

    Raises:
        DataError: as `plan_epoch`, for the first examples.
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
            raise ValueError("num_examples: required, since the number of epochs is unlimited")
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
            vocabulary.words if data.whole_word_mask else None,
            data.mask_replace_prob,
            data.random_replace_prob,
        )
        self._has_pairs = OBJECTIVES[data.pair_objective].has_label
        self._special_tokens = vocabulary.pair if self._has_pairs else vocabulary.single
        special_tokens = self._special_tokens.number
        self._source: Epochs | PairPlan
        if fixed_epoch is None:
            assert num_examples is not None
            # Raises here if the corpus has no pairs; forked workers share the plan.
            self._source = epochs_of(view, data, special_tokens, first_epoch)
            self._num_examples = num_examples
        else:
            self._source = plan_epoch(
                view.of_epoch(fixed_epoch),
                data.seed,
                fixed_epoch,
                data.max_seq_length,
                data.short_seq_prob,
                data.pair_objective,
                special_tokens,
            )
            pairs = len(self._source)
            self._num_examples = pairs if num_examples is None else min(num_examples, pairs)

    def __len__(self) -> int:
        return self._num_examples

    @property
    def examples_per_epoch(self) -> int:
        """Returns the number of pairs of ``first_epoch`` (or ``fixed_epoch``); other epochs may differ slightly."""
        return len(self._source) if isinstance(self._source, PairPlan) else self._source.size

    def __getitem__(self, index: int) -> Arrays:
        """Returns example ``index``; its arrays have no batch dimension.

        Raises:
            IndexError: as `__getitems__`.
        """
        return {name: array[0] for name, array in self.__getitems__([index]).items()}

    def __getitems__(self, indices: Sequence[int]) -> Arrays:
        """Returns the examples ``indices`` as one batch.

        Raises:
            IndexError: an index is negative or not below the length.
        """
        numbers = np.asarray(indices, np.int64)
        outside = (numbers < 0) | (numbers >= len(self))
        if outside.any():
            raise IndexError(f"example {numbers[outside][0]}: this run has examples 0 to {len(self) - 1}")
        epochs, numbers, pairs = self._locate(numbers)
        a_start, b_start = pairs.a_start[:, None], pairs.b_start[:, None]
        a_length, b_length = pairs.a_length.astype(np.int64)[:, None], pairs.b_length.astype(np.int64)[:, None]
        position = np.arange(self.data.max_seq_length)
        # [CLS] A [SEP] B [SEP] [PAD] …, or [CLS] A [SEP] [PAD] … where there is no B; or as the tokenizer has it
        first, between, last = self._special_tokens
        a_end = len(first) + a_length
        b_first = a_end + len(between)
        b_end = b_first + b_length
        in_a = (position >= len(first)) & (position < a_end)
        in_b = (position >= b_first) & (position < b_end)
        attended = position < b_end + len(last)
        source = np.where(in_b, b_start + position - b_first, a_start + position - len(first))
        text = in_a | in_b
        input_ids = np.full(attended.shape, self.vocabulary.pad_token_id, np.int64)
        for start, special in ((np.zeros_like(a_end), first), (a_end, between), (b_end, last)):
            for number, token in enumerate(special):
                np.put_along_axis(input_ids, start + number, token, axis=1)
        for epoch in np.unique(epochs).tolist():
            rows = epochs == epoch
            # At positions without text `source` may be out of range; the values read there are discarded.
            tokens = self.view.of_epoch(epoch).store.tokens.take(source[rows], mode="clip")
            input_ids[rows] = np.where(text[rows], tokens, input_ids[rows])
        lengths = attended.sum(axis=1)
        if self.data.token_objective == "next_token":
            masked = next_tokens(input_ids, lengths)
        else:
            masked = mask_tokens(input_ids, text, lengths, self._rules, epochs, numbers)
        batch = {
            "input_ids": masked.input_ids,
            "attention_mask": attended.astype(np.int64),
            "token_type_ids": (attended & (position >= b_first) & self._has_pairs).astype(np.int64),
            "masked_positions": masked.masked_positions,
            "labels": masked.labels,
        }
        if self._has_pairs:
            batch["next_sentence_label"] = pairs.next_sentence_label.astype(np.int64)
        return batch

    def segments(self, indices: Sequence[int]) -> NDArray[np.int64]:
        """Returns the tokens of the store that are the segments of examples, ``(B, 4)``: start and end of A, then of B;
        the ends are exclusive, and B may be empty."""
        _, _, pairs = self._locate(np.asarray(indices, np.int64))
        ends = pairs.a_start + pairs.a_length, pairs.b_start + pairs.b_length
        return np.stack([pairs.a_start, ends[0], pairs.b_start, ends[1]], axis=1)

    def _locate(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], PairPlan]:
        """Returns the epoch of each example and its number there, both ``(B,)``, and the pairs."""
        source = self._source
        if isinstance(source, PairPlan):
            rows = numbers * len(source) // len(self)
            return np.full_like(numbers, self.fixed_epoch), rows, source.take(rows)
        epochs, windows, rows = source.places(numbers)
        within, parts, order = np.empty_like(numbers), [], []
        for epoch, number in np.unique(np.stack([epochs, windows]), axis=1).T.tolist():
            chosen = np.flatnonzero((epochs == epoch) & (windows == number))
            window = source.window(epoch, number)
            within[chosen] = window.numbers[rows[chosen]]
            parts.append(window.pairs.take(rows[chosen]))
            order.append(chosen)
        return epochs, within, PairPlan.join(parts).take(np.argsort(np.concatenate(order)))


class PhasedExamples(Dataset[Arrays]):
    """Concatenation of the examples of all phases; see `PretrainingExamples`.

    A batch of consecutive examples never mixes phases if the size of every phase is a multiple of the batch size.

    Args:
        parts: the examples of each phase.

    Raises:
        IndexError: raised by the access to an example if its index is negative or not below the length.
        ValueError: raised by `__getitems__` if a batch has examples of more than one phase: their lengths differ.
    """

    def __init__(self, parts: Sequence[PretrainingExamples]):
        self.parts = list(parts)
        self._starts = [0]
        for part in self.parts:
            self._starts.append(self._starts[-1] + len(part))

    def __len__(self) -> int:
        return self._starts[-1]

    def part_of(self, index: int) -> int:
        """Returns the number of the part that contains example ``index``.

        Raises:
            IndexError: ``index`` is negative or not below the length.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"example {index}: this run has examples 0 to {len(self) - 1}")
        return bisect_right(self._starts, index) - 1

    def __getitem__(self, index: int) -> Arrays:
        """Returns example ``index``; its arrays have no batch dimension."""
        part = self.part_of(index)
        return self.parts[part][index - self._starts[part]]

    def __getitems__(self, indices: Sequence[int]) -> Arrays:
        """Returns the examples ``indices`` as one batch."""
        part, last = self.part_of(min(indices)), self.part_of(max(indices))
        if part != last:
            phases = last - part + 1
            raise ValueError(f"examples {min(indices)} to {max(indices)} are from {phases} phases of different length")
        return self.parts[part].__getitems__([index - self._starts[part] for index in indices])


def collate(examples: Arrays | Sequence[Mapping[str, NDArray[np.int64]]]) -> dict[str, torch.Tensor]:
    """Converts items of `PretrainingExamples`, one batch or a list of single examples, to a batch of tensors."""
    if not isinstance(examples, Mapping):
        examples = {name: np.stack([example[name] for example in examples]) for name in examples[0]}
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in examples.items()}
