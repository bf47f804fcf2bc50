"""Orders of examples in which no batch holds a text twice, for losses whose negatives are the other texts of a batch.

Such a text would be a negative of itself. sentence-transformers' ``NoDuplicatesBatchSampler`` has the same aim, but
leaves examples for later batches, which takes them out of groups of similar length, and its last batches are smaller.
Here examples change places between near batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from torch.utils.data import Sampler

_ATTEMPTS = 10  # failed searches after which a frequent text is left where it is


class DistinctBatches(Sampler[int]):
    """Sampler that exchanges examples between the global batches of another one, so that none holds a text twice.

    An example that shares a text with its batch changes places with one of the nearest batch where both fit, since
    near batches have inputs of similar length if the order groups them. It stays if there is none, such as for a text
    in more examples than there are batches. The order is a function of the given one.

    Args:
        order: the order of examples in an epoch; its ``set_epoch``, if it exists, is called before each epoch.
        texts: numbers of the texts of each example, the same for equal texts.
        global_batch_size: examples per optimizer step over all processes.

    >>> list(DistinctBatches(range(4), [[7, 1], [7, 2], [8, 3], [9, 4]], 2))
    [2, 1, 0, 3]
    """

    def __init__(self, order: Sampler[int] | range, texts: Sequence[Iterable[int]], global_batch_size: int):
        self.order = order
        self._texts = [frozenset(each) for each in texts]
        self._totals = Counter(text for each in self._texts for text in each)
        self._size = global_batch_size

    def __len__(self) -> int:
        return len(self.order)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, before it begins or is resumed in the middle."""
        if hasattr(self.order, "set_epoch"):
            self.order.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        examples = list(self.order)
        batches = [examples[start : start + self._size] for start in range(0, len(examples), self._size)]
        self._counts = [Counter(text for example in batch for text in self._texts[example]) for batch in batches]
        self._failed: Counter[int] = Counter()  # searches by the most frequent text of the example
        for number, batch in enumerate(batches):
            for place, example in enumerate(batch):
                if any(self._counts[number][text] > 1 for text in self._texts[example]):
                    self._exchange(batches, number, place)
        return (example for batch in batches for example in batch)

    def _exchange(self, batches: list[list[int]], number: int, place: int) -> None:
        """Exchanges an example with one of the nearest batch where both then share no text with their batch."""
        texts, counts = self._texts[batches[number][place]], self._counts[number]
        most_frequent = max(texts, key=lambda text: (self._totals[text], text))
        if self._failed[most_frequent] == _ATTEMPTS:
            return
        nearest = (other for distance in range(1, len(batches)) for other in (number - distance, number + distance))
        for other in nearest:
            if not 0 <= other < len(batches) or any(self._counts[other][text] for text in texts):
                continue
            for there, candidate in enumerate(batches[other]):
                if all(counts[text] == (text in texts) for text in self._texts[candidate]):
                    self._move(texts, number, other)
                    self._move(self._texts[candidate], other, number)
                    batches[number][place], batches[other][there] = candidate, batches[number][place]
                    return
        self._failed[most_frequent] += 1

    def _move(self, texts: Iterable[int], number: int, other: int) -> None:
        """Counts the texts of an example in another batch."""
        for text in texts:
            self._counts[number][text] -= 1
            self._counts[other][text] += 1
