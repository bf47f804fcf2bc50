"""Order of the examples of a run: epochs, and the examples of an epoch that are shuffled together.

A small text is one window: an epoch plans all its pairs and shuffles them, and epochs differ slightly in size. A large
text is cut into groups of consecutive documents. An epoch shuffles the groups, and then the examples of some dozens of
groups at a time, so that one window is planned and kept instead of the epoch; see `GroupedEpochs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bertkit.data.corpus.examples.pairs import PairPlan, plan_epoch
from bertkit.data.corpus.examples.randomness import Stream, permutation, words
from bertkit.data.corpus.settings import PretrainingData
from bertkit.data.corpus.store.token_store import StoreView

if TYPE_CHECKING:
    from bertkit.data.corpus.store.streaming import StreamedBlocks

GROUP_SENTENCES = 1 << 17  # some ten thousand examples: a part of a second to plan
_GROUPS_AT_ONCE = 32  # about a million examples
_GROUPS_COUNTED = 32
_WINDOWS_KEPT = 2  # a batch can span the end of one window and the start of the next
# Numbers of what is shuffled, so that no two permutations share a random number: pairs of a whole epoch start at 0.
_OF_WINDOWS, _OF_GROUPS, _SHIFTS = 1 << 40, 1 << 61, 1 << 62


class Window(NamedTuple):
    """Examples that are shuffled together, in the order of training.

    Attributes:
        pairs: their segments.
        numbers: ``(N,)`` int64, number of each example in its epoch; its masks depend on it.
    """

    pairs: PairPlan
    numbers: NDArray[np.int64]


class Epochs(Protocol):
    """Epochs of a run, from ``first_epoch`` on."""

    @property
    def size(self) -> int:
        """Returns the number of examples of the first epoch."""

    def places(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Returns epoch, window and row in the window of examples of the run, each ``(B,)`` int64."""

    def window(self, epoch: int, number: int) -> Window:
        """Returns a window of an epoch, planned now or kept from before."""


def epochs_of(view: StoreView | StreamedBlocks, data: PretrainingData, special_tokens: int, first_epoch: int) -> Epochs:
    """Returns the epochs of a run on a text; raises as `plan_epoch`, for the first examples.

    Args:
        view: the documents, or a stream of documents, whose epochs are its blocks.
        data: settings of the examples.
        special_tokens: number of special tokens of an example.
        first_epoch: number of the first epoch.
    """
    planner = _Planner(data, special_tokens)
    if isinstance(view, StoreView):
        groups = _groups(view)
        if len(groups) > 1:
            return GroupedEpochs(view, groups, planner, first_epoch)
    return WholeEpochs(view, planner, first_epoch)


class _Planner:
    """Plans pairs by the settings of a run, and keeps the windows that were planned last."""

    def __init__(self, data: PretrainingData, special_tokens: int):
        self.data = data
        self.special_tokens = special_tokens
        self.windows: dict[tuple[int, int], Window] = {}

    def pairs(self, view: StoreView, epoch: int, first_pair: int = 0) -> PairPlan:
        data = self.data
        lengths, objective = (data.max_seq_length, data.short_seq_prob), data.pair_objective
        return plan_epoch(view, data.seed, epoch, *lengths, objective, self.special_tokens, first_pair)

    def keep(self, epoch: int, number: int, window: Window) -> Window:
        while len(self.windows) >= _WINDOWS_KEPT:
            self.windows.pop(next(iter(self.windows)))
        self.windows[epoch, number] = window
        return window

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "windows": {}}  # planning again is faster than sending the plans


class WholeEpochs:
    """Epochs of one window each; to reach an epoch, all epochs before it are planned too, since their sizes differ."""

    def __init__(self, view: StoreView | StreamedBlocks, planner: _Planner, first_epoch: int):
        self._view = view
        self._planner = planner
        self._first_epoch = first_epoch
        self._starts = [0]  # first example of each planned epoch, and of the epoch after them
        self._plan_up_to(0)

    @property
    def size(self) -> int:
        return self._starts[1]

    def places(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        self._plan_up_to(int(numbers.max(initial=0)))
        passed = np.searchsorted(self._starts, numbers, side="right") - 1
        return self._first_epoch + passed, np.zeros_like(numbers), numbers - np.array(self._starts)[passed]

    def window(self, epoch: int, number: int) -> Window:
        if (epoch, number) in self._planner.windows:
            return self._planner.windows[epoch, number]
        pairs = self._planner.pairs(self._view.of_epoch(epoch), epoch)
        order = permutation(self._planner.data.seed, epoch, len(pairs)).astype(np.int64)
        return self._planner.keep(epoch, number, Window(pairs.take(order), order))

    def _plan_up_to(self, number: int) -> None:
        while self._starts[-1] <= number:
            window = self.window(self._first_epoch + len(self._starts) - 1, 0)
            self._starts.append(self._starts[-1] + len(window.numbers))


class GroupedEpochs:
    """Epochs of a large text, all of one size; an epoch costs the windows that are read, whatever came before it.

    Each group has a fixed number of examples in every epoch. It is that of epoch 0 if there are few groups; otherwise
    it is estimated from the tokens and documents of the group and the examples of some groups. If a plan of a group has
    more examples in an epoch, a random run of them is left out; if it has fewer, a random run is taken twice, with
    other masks. With ``nsp`` random segments come from the group of their A.
    """

    def __init__(self, view: StoreView, groups: list[range], planner: _Planner, first_epoch: int):
        self._view = view
        self._groups = groups
        self._planner = planner
        self._first_epoch = first_epoch
        self._sizes = self._sizes_of_groups()  # (G,) int64
        self._layouts: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    @property
    def size(self) -> int:
        return int(self._sizes.sum())

    def places(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        passed, within = np.divmod(numbers, self.size)
        windows, rows = np.empty_like(numbers), np.empty_like(numbers)
        for number in np.unique(passed).tolist():
            of_epoch = passed == number
            _, starts = self._layout(self._first_epoch + number)
            windows[of_epoch] = np.searchsorted(starts, within[of_epoch], side="right") - 1
            rows[of_epoch] = within[of_epoch] - starts[windows[of_epoch]]
        return self._first_epoch + passed, windows, rows

    def window(self, epoch: int, number: int) -> Window:
        if (epoch, number) in self._planner.windows:
            return self._planner.windows[epoch, number]
        order, _ = self._layout(epoch)
        chosen = order[number * _GROUPS_AT_ONCE : (number + 1) * _GROUPS_AT_ONCE]
        seed, parts, numbers = self._planner.data.seed, [], []
        for group in chosen.tolist():
            pairs = self._planner.pairs(self._view_of(group), epoch, first_pair=group << 32)
            [[shift]] = words(seed, Stream.SHUFFLE, epoch, [_SHIFTS + group], 1).tolist()
            rows = np.arange(self._sizes[group])
            parts.append(pairs.take((rows + shift % len(pairs)) % len(pairs)))
            numbers.append((group << 32) + rows)
        pairs, examples = PairPlan.join(parts), np.concatenate(numbers)
        shuffled = permutation(seed, epoch, len(examples), first=(number + 1) * _OF_WINDOWS)
        return self._planner.keep(epoch, number, Window(pairs.take(shuffled), examples[shuffled]))

    def _layout(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the order of the groups in an epoch, ``(G,)``, and the first example of each window."""
        if epoch not in self._layouts:
            order = permutation(self._planner.data.seed, epoch, len(self._groups), first=_OF_GROUPS).astype(np.int64)
            ends = np.cumsum(self._sizes[order])
            starts = np.concatenate([[0], ends[_GROUPS_AT_ONCE - 1 : -1 : _GROUPS_AT_ONCE]])
            if len(self._layouts) > 1:  # two are kept, since a batch can span two epochs
                self._layouts.pop(next(iter(self._layouts)))
            self._layouts[epoch] = order, starts
        return self._layouts[epoch]

    def _view_of(self, group: int) -> StoreView:
        rows = self._groups[group]
        return StoreView(self._view.store, self._view.documents[rows.start : rows.stop])

    def _sizes_of_groups(self) -> NDArray[np.int64]:
        number = min(len(self._groups), _GROUPS_COUNTED)
        counted = np.arange(number) * len(self._groups) // number
        counts = np.array([len(self._planner.pairs(self._view_of(group), 0)) for group in counted.tolist()])
        if number == len(self._groups):
            return counts
        # A document has about one example per `half` · 2 tokens, and half a one at its end. Whole numbers are the same
        # on every machine.
        half = self._planner.data.max_seq_length // 2
        firsts = np.array([rows.start for rows in self._groups])
        lasts = np.array([rows.stop - 1 for rows in self._groups])
        store, documents = self._view.store, self._view.documents
        bounds = np.stack([documents[firsts], documents[lasts] + 1])
        starts, ends = _counterparts(bounds, store.document_starts, store.token_starts)
        weights = (ends - starts) + (lasts + 1 - firsts) * half
        return np.maximum(1, weights * int(counts.sum()) // int(weights[counted].sum()))


def _groups(view: StoreView) -> list[range]:
    """Cuts the documents of a view, by their indices, into ranges of about `GROUP_SENTENCES` sentences and at least
    two documents; only the counts of the parts of the store are used, not the parts."""
    store, number = view.store, view.num_documents
    if not view.is_ascending:
        return [range(number)]
    sentences = np.arange(GROUP_SENTENCES, store.num_sentences, GROUP_SENTENCES)
    documents = _counterparts(sentences, store.sentence_starts, store.document_starts)
    cuts = [0]
    for cut in np.searchsorted(view.documents, documents).tolist():
        if cut - cuts[-1] >= 2 and number - cut >= 2:
            cuts.append(cut)
    return [range(start, stop) for start, stop in zip(cuts, [*cuts[1:], number], strict=True)]


def _counterparts(
    numbers: NDArray[np.int64], starts: NDArray[np.int64], other_starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns, for numbers of sentences for example, those of documents at the same share of their part of a store.

    Args:
        numbers: any shape.
        starts, other_starts: ``(num_parts + 1,)``, first number of either kind in each part, and the end.
    """
    parts = (np.searchsorted(starts, numbers, side="right") - 1).clip(0, len(starts) - 2)
    sizes, other_sizes = np.diff(starts)[parts], np.diff(other_starts)[parts]
    counterparts: NDArray[np.int64] = other_starts[parts] + (numbers - starts[parts]) * other_sizes // sizes
    return counterparts
