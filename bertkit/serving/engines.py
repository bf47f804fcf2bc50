"""Computation of the answers to several requests at once, by what the checkpoint can do.

An engine runs in the thread of `bertkit.serving.batching.Batcher`. It encodes the texts of all given requests together
and computes them in batches of similar lengths, by the same functions as ``bertkit predict``, ``embed`` and
``fill-mask``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bertkit.checkpoint.encoders import longest_input
from bertkit.inference.embedding import Embedder
from bertkit.inference.fill_mask import MaskFiller
from bertkit.inference.predicted import predicted
from bertkit.inference.predictor import Predictor
from bertkit.progress import unreported
from bertkit.serving.requests import RequestError, TooLong
from bertkit.serving.served import served
from bertkit.tasks.base import Outputs
from bertkit.tasks.splits import Columns
from bertkit.tasks.windows import first_part

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Answer = Any | RequestError
"""Result of a request: plain data, or the error to answer with."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The texts of one request, to be computed with those of others.

    Attributes:
        columns: the inputs, lists of equal length, at least 1.
        options: jobs are computed together only if these are equal.
        truncate: cut inputs that are too long instead of refusing them.
        finish: makes the answer from the result of the engine.
    """

    columns: Mapping[str, Sequence[Any]]
    finish: Callable[..., Any]
    options: Hashable = None
    truncate: bool = False

    @property
    def count(self) -> int:
        """Returns the number of inputs."""
        return len(next(iter(self.columns.values())))

    @property
    def characters(self) -> int:
        """Returns the characters of all texts, an upper bound of their tokens but for unusual vocabularies."""
        return sum(len(each) for column in self.columns.values() for each in column if isinstance(each, str))


class Engine(ABC):
    """Base class of engines.

    Args:
        model: the network, with a ``device``.
        most_tokens: of a request, see `bertkit.serving.server.Limits.max_request_tokens`.
    """

    def __init__(self, model: Any, most_tokens: int):
        self.model = model
        self.most_tokens = most_tokens
        self.tokens = 0  # computed so far

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        """Returns one answer per job; the jobs have equal ``options``."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Returns the maximum tokens of an input."""

    @property
    def device(self) -> str:
        """Returns the name of the device that computes."""
        return str(self.model.device)

    @property
    def dtype(self) -> str | None:
        """Returns the type of the weights; None for ONNX, where each matrix may have its own."""
        dtype = getattr(self.model, "dtype", None)
        return None if dtype is None else str(dtype).removeprefix("torch.")

    def _too_many(self, tokens: int | str) -> TooLong | None:
        if isinstance(tokens, int) and tokens <= self.most_tokens:
            return None
        return TooLong(f"inputs: {tokens} tokens; a request may have at most {self.most_tokens}; send less at once")

    def _far_too_many(self, columns: Columns, tokenizer: PreTrainedTokenizerBase) -> TooLong | None:
        """Refuses texts that have too many tokens together without tokenizing them to their end."""
        texts = " ".join(each for column in columns.values() for each in column if isinstance(each, str))
        (part,) = first_part([texts], tokenizer, self.most_tokens)
        return None if len(part) == len(texts) else self._too_many(f"more than {self.most_tokens}")


class PredictEngine(Engine):
    """Predictions of a fine-tuned checkpoint; ``finish(outputs, features, columns)`` makes the answer of a job."""

    def __init__(self, predictor: Predictor, most_tokens: int):
        super().__init__(predictor.model, most_tokens)
        self.predictor = predictor
        self._predicted = predicted(predictor.task)
        self._reads_whole_texts = served(predictor.task).reads_whole_texts

    @property
    def longest(self) -> int:
        return int(self.predictor.task.data.max_seq_length)

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        task, tokenizer = self.predictor.task, self.predictor.tokenizer
        texts = [self._predicted.cut_texts(job.columns, tokenizer) for job in jobs]
        far_too_many = self._far_too_many if self._reads_whole_texts else lambda *_: None
        answers: list[Answer] = [far_too_many(columns, tokenizer) for columns in texts]
        chosen = [number for number, answer in enumerate(answers) if answer is None]
        if not chosen:
            return answers
        merged = {name: [each for number in chosen for each in texts[number][name]] for name in jobs[0].columns}
        features = task.encode(merged, tokenizer)
        rows = dict(zip(chosen, _rows_of_jobs(features, [jobs[number].count for number in chosen]), strict=True))
        for number in chosen:
            answers[number] = self._refusal(jobs[number], texts[number] == jobs[number].columns, features, rows[number])
        chosen = [number for number in chosen if answers[number] is None]
        if not chosen:
            return answers
        kept = [row for number in chosen for row in rows[number]]
        if len(kept) < len(features["length"]):
            features = _selected(features, kept)
        self.tokens += sum(features["length"])
        outputs = self.predictor.outputs(features, unreported)
        start = 0
        for number in chosen:
            end = start + len(rows[number])
            answers[number] = jobs[number].finish(
                _slice(outputs, start, end), _of_job(features, start, end), jobs[number].columns
            )
            start = end
        return answers

    def _refusal(self, job: Job, is_whole: bool, features: Columns, rows: range) -> TooLong | None:
        lengths, full = ([features[name][row] for row in rows] for name in ("length", "full_length"))
        if not job.truncate:
            for length, whole in zip(lengths, full, strict=True):
                if whole > length:
                    return _too_long(whole if is_whole else f"more than {length}", length)
        return self._too_many(sum(lengths))


class EmbedEngine(Engine):
    """Vectors of texts of any length; ``finish(vectors, tokens)`` makes the answer of a job.

    Args:
        embedder: the encoder.
        pooling: as for `bertkit.embed`.
    """

    def __init__(self, embedder: Embedder, most_tokens: int, pooling: Any = "mean"):
        super().__init__(embedder.model, most_tokens)
        self.embedder = embedder
        self.pooling = pooling

    @property
    def longest(self) -> int:
        return min(longest_input(self.embedder.model.config), 512)

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        tokenizer = self.embedder.tokenizer
        answers: list[Answer] = [self._far_too_many(job.columns, tokenizer) for job in jobs]
        chosen = [number for number, answer in enumerate(answers) if answer is None]
        if not chosen:
            return answers
        texts = [text for number in chosen for text in jobs[number].columns["text"]]
        counts = iter([len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]])
        tokens = {number: sum(islice(counts, jobs[number].count)) for number in chosen}
        for number in chosen:
            answers[number] = self._too_many(tokens[number])
        chosen = [number for number in chosen if answers[number] is None]
        if not chosen:
            return answers
        self.tokens += sum(tokens[number] for number in chosen)
        kept = [text for number in chosen for text in jobs[number].columns["text"]]
        vectors = self.embedder.pooled(kept, self.pooling, (-1,), None, None, unreported)
        start = 0
        for number in chosen:
            end = start + jobs[number].count
            answers[number] = jobs[number].finish(vectors[start:end], tokens[number])
            start = end
        return answers


class FillEngine(Engine):
    """Tokens for masks; ``finish(found)`` makes the answer of a job, ``options`` are (top_k, targets)."""

    def __init__(self, filler: MaskFiller, most_tokens: int):
        super().__init__(filler.model, most_tokens)
        self.filler = filler

    @property
    def longest(self) -> int:
        return longest_input(self.filler.model.config)

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        whole_texts = [text for job in jobs for text in job.columns["text"]]
        texts = first_part(whole_texts, self.filler.tokenizer, self.longest)
        encoded = self.filler.tokenizer(texts, return_offsets_mapping=True, verbose=False)
        answers: list[Answer] = []
        kept: list[str] = []
        at = 0
        for job in jobs:
            numbers = range(at, at := at + job.count)
            lengths = [len(encoded["input_ids"][number]) for number in numbers]
            answer = self._too_many(sum(min(length, self.longest) for length in lengths))
            if answer is None and not job.truncate and max(lengths) > self.longest:
                is_whole = all(len(texts[number]) == len(whole_texts[number]) for number in numbers)
                answer = _too_long(max(lengths) if is_whole else f"more than {self.longest}", self.longest)
            answers.append(answer)
            if answer is None:
                self.tokens += sum(lengths)
                for number, length in zip(numbers, lengths, strict=True):
                    ends = [end for _, end in encoded["offset_mapping"][number]]
                    # Two special tokens: one before the text, one after it.
                    kept.append(texts[number] if length <= self.longest else texts[number][: ends[self.longest - 2]])
        top_k, targets = cast(tuple[int, tuple[str, ...] | None], jobs[0].options)
        predictions = iter(self.filler.fill(kept, top_k, targets) if kept else [])
        return [
            job.finish([next(predictions) for _ in range(job.count)]) if answer is None else answer
            for job, answer in zip(jobs, answers, strict=True)
        ]


def _too_long(tokens: int | str, read: int) -> TooLong:
    return TooLong(f'inputs: a text needs {tokens} tokens, and {read} are read; shorten it, or send "truncate": true')


def _rows_of_jobs(features: Columns, counts: Sequence[int]) -> list[range]:
    """Returns the rows of `Task.encode` that belong to each job; an example has one row or several windows."""
    borders = np.cumsum([0, *counts])
    if "example" in features:
        borders = np.searchsorted(np.asarray(features["example"]), borders)
    return [range(start, end) for start, end in pairwise(borders.tolist())]


def _selected(features: Columns, rows: Sequence[int]) -> dict[str, list[Any]]:
    return {name: [column[row] for row in rows] for name, column in features.items()}


def _of_job(features: Columns, start: int, end: int) -> dict[str, Sequence[Any]]:
    """Returns rows of features with examples counted from 0."""
    rows = {name: column[start:end] for name, column in features.items()}
    if "example" in rows:
        rows["example"] = [example - rows["example"][0] for example in rows["example"]]
    return rows


def _slice(outputs: Outputs, start: int, end: int) -> Outputs:
    if isinstance(outputs, tuple):
        return tuple(each[start:end] for each in outputs)
    return outputs[start:end]
