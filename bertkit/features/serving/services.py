"""Services of a checkpoint: routes, the computation of several requests together, the forms of answers.

A service computes in the thread of `bertkit.features.serving.batching.Batcher`. It encodes the texts of all requests of
a batch together and computes them in batches of similar lengths, by the same functions as ``bertkit predict``,
``embed`` and ``fill-mask``.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from bertkit.data.tables.objects import with_words
from bertkit.features.serving import requests
from bertkit.features.serving.requests import InvalidRequest, NotServed, RequestError, TooLong
from bertkit.features.serving.served import served
from bertkit.inference.options import PredictOptions
from bertkit.inference.outcome import task_inference
from bertkit.inference.predictor import Predictor
from bertkit.runtime.errors import BertkitError
from bertkit.runtime.progress import unreported
from bertkit.tasks.base import Outputs
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.splits import Columns
from bertkit.tasks.windows import first_part

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LONG = 50_000  # characters

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

    def characters(self, most: int) -> int:
        """Returns the characters of whole texts, or of texts in lists if they have more: words repeat their text.

        Of a text with more than ``most`` characters, ``most`` count.
        """
        cells = [each for column in self.columns.values() for each in column]
        in_lists = [text for each in cells if isinstance(each, list) for text in each]
        return max(sum(min(len(each), most) for each in texts if isinstance(each, str)) for texts in (cells, in_lists))


Submit = Callable[[Job], Awaitable[Any]]


class Route(NamedTuple):
    """A POST route: the form of its body, and the function that answers it with plain data for JSON."""

    body: type[BaseModel] | Callable[[bytes], type[BaseModel]]
    answer: Callable[[Any, Submit], Awaitable[Any]]


class Service(ABC):
    """Base class of what a checkpoint is served as.

    Args:
        model: the network, with a ``device``.
        most_texts: of a request.
        most_tokens: of a request, see `bertkit.features.serving.requests.Limits.max_request_tokens`.

    Attributes:
        what: name of the task on the Hub, such as ``text-classification``.
        tokens: computed so far.
    """

    what: str

    def __init__(self, model: Any, most_texts: int, most_tokens: int):
        self.model = model
        self.tokens = 0
        self._most_texts = most_texts
        self._most_tokens = most_tokens

    @abstractmethod
    def routes(self) -> Mapping[str, Route]:
        """Returns the POST routes by path."""

    @abstractmethod
    def model_type(self) -> dict[str, Any]:
        """Returns ``model_type`` of ``/info``, as text-embeddings-inference gives it."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Returns the maximum tokens of an input; those of a request if texts are read to their end, in windows."""

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        """Computes jobs with equal ``options``; returns one answer per job."""

    @property
    def device(self) -> str:
        """Returns the name of the device that computes."""
        return str(self.model.device)

    @property
    def dtype(self) -> str | None:
        """Returns the type of the weights; None for ONNX, where each matrix may have its own."""
        dtype = getattr(self.model, "dtype", None)
        return None if dtype is None else str(dtype).removeprefix("torch.")

    def check_count(self, count: int) -> None:
        """Refuses a request with too many texts; TooLong if it has more than ``most_texts``."""
        if count > self._most_texts:
            raise TooLong(f"{count} texts; a request may have at most {self._most_texts}; send several requests")

    def too_many(self, tokens: int | str) -> TooLong | None:
        """Returns the error for a request with too many tokens; None if they are not too many."""
        if isinstance(tokens, int) and tokens <= self._most_tokens:
            return None
        return TooLong(f"inputs: {tokens} tokens; a request may have at most {self._most_tokens}; send less at once")

    def far_too_many(self, columns: Columns, tokenizer: PreTrainedTokenizerBase) -> TooLong | None:
        """Returns `too_many` for all texts together, which are not tokenized to their end."""
        texts = " ".join(each for column in columns.values() for each in column if isinstance(each, str))
        (part,) = first_part([texts], tokenizer, self._most_tokens)
        return None if len(part) == len(texts) else self.too_many(f"more than {self._most_tokens}")


class PredictService(Service):
    """Predictions of a fine-tuned checkpoint; ``finish(outputs, features, columns)`` makes the answer of a job.

    Args:
        predictor: the checkpoint.
        most_texts, most_tokens: as of `Service`.
        options: which predictions are unsure; None for none.
    """

    def __init__(self, predictor: Predictor, most_texts: int, most_tokens: int, options: PredictOptions | None = None):
        super().__init__(predictor.model, most_texts, most_tokens)
        self.predictor = predictor
        self.what = predictor.task.pipeline_tag
        self._predicted = task_inference(predictor.task)
        self._served = served(predictor.task)
        self._served.options = options or PredictOptions()
        self._reading = asyncio.Lock()

    def routes(self) -> Mapping[str, Route]:
        body = requests.task_body(self._served.input_type, self._served.parameters)
        routes = {"/": Route(body, self._infer)}
        if self._served.classifies_texts:
            routes["/predict"] = Route(requests.PredictBody, self._predict)
        if self._served.ranks_texts:
            routes["/rerank"] = Route(requests.RerankBody, self._rerank)
        return routes

    def model_type(self) -> dict[str, Any]:
        labels = {str(key): value for key, value in self.predictor.model.config.id2label.items()}
        kind = "reranker" if self._served.ranks_texts else "classifier"
        return {kind: {"id2label": labels, "label2id": {name: int(key) for key, name in labels.items()}}}

    @property
    def longest(self) -> int:
        return self._most_tokens if self._served.reads_whole_texts else int(self.predictor.task.data.max_seq_length)

    async def _infer(self, body: Any, submit: Submit) -> Any:
        is_list = isinstance(body.inputs, list)
        inputs = body.inputs if is_list else [body.inputs]
        parameters = self._served.parameters() if body.parameters is None else body.parameters
        answers = await self._answers(inputs, parameters, bool(body.truncate), submit)
        return answers if is_list or self._served.nests else answers[0]

    async def _predict(self, body: Any, submit: Submit) -> Any:
        single = isinstance(body.inputs, str) or isinstance(body.inputs[0], str)
        rows = [body.inputs] if single else body.inputs
        inputs = [self._served.input_of([row] if isinstance(row, str) else row) for row in rows]
        options = {"function_to_apply": "none"} if body.raw_scores else {}
        answers = await self._answers(inputs, self._served.parameters(**options), bool(body.truncate), submit)
        return answers[0] if single else answers

    def _columns(self, inputs: Sequence[Any]) -> dict[str, list[Any]]:
        """Returns inputs as columns; DataError if one has an empty text, as `bertkit predict`."""
        columns = self._served.columns(inputs)
        for name, values in columns.items():
            if all(isinstance(value, str) for value in values):
                with_words(values, "input" if len(columns) == 1 else f"{name} of input")
        return columns

    async def _answers(self, inputs: Sequence[Any], parameters: Any, truncate: bool, submit: Submit) -> list[Any]:
        self.check_count(len(inputs))
        if sum(len(text) for text in inputs if isinstance(text, str)) < _LONG:
            columns = or_invalid(self._columns, inputs)
        else:  # to split 2 MB into words takes two seconds, in which the event loop answers other requests
            async with self._reading:
                columns = await asyncio.to_thread(or_invalid, self._columns, inputs)
        # Texts and words in lists have a token or more each, so that too many need not be tokenized.
        in_lists = max(sum(len(each) for each in column if isinstance(each, list)) for column in columns.values())
        if in_lists > self._most_tokens and (error := self.too_many(f"more than {self._most_tokens}")):
            raise error

        def finish(outputs: Outputs, features: Columns, examples: Columns) -> list[Any]:
            return self._served.answers(outputs, features, examples, parameters)

        answers: list[Any] = await submit(Job(columns=columns, finish=finish, truncate=truncate))
        return answers

    async def _rerank(self, body: Any, submit: Submit) -> Any:
        self.check_count(len(body.texts))
        columns = or_invalid(self._columns, [self._served.input_of((body.query, text)) for text in body.texts])

        def finish(logits: Any, *_: Any) -> list[float]:
            scores = logits[:, 0]
            return [float(each) for each in (scores if body.raw_scores else sigmoid(scores))]

        scores = await submit(Job(columns=columns, finish=finish, truncate=bool(body.truncate)))
        best = sorted(range(len(scores)), key=lambda index: -scores[index])
        texts = [{"text": text} if body.return_text else {} for text in body.texts]
        return [{"index": index, **texts[index], "score": scores[index]} for index in best]

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        task, tokenizer = self.predictor.task, self.predictor.tokenizer
        texts = [self._predicted.cut_texts(job.columns, tokenizer) for job in jobs]
        answers: list[Answer] = [None] * len(jobs)
        if self._served.reads_whole_texts:
            answers = [self.far_too_many(columns, tokenizer) for columns in texts]
        accepted = [number for number, answer in enumerate(answers) if answer is None]
        if not accepted:
            return answers
        merged = {name: [each for number in accepted for each in texts[number][name]] for name in jobs[0].columns}
        features = task.encode(merged, tokenizer)
        borders = np.cumsum([0, *(jobs[number].count for number in accepted)])
        if "example" in features:  # of each row: a long text has several windows
            borders = np.searchsorted(np.asarray(features["example"]), borders)
        rows = dict(zip(accepted, (range(*ends) for ends in pairwise(borders.tolist())), strict=True))
        for number in accepted:
            lengths, full = ([features[name][row] for row in rows[number]] for name in ("length", "full_length"))
            answers[number] = self.too_many(_tokens([features["input_ids"][row] for row in rows[number]]))
            cut = next((each for each in zip(full, lengths, strict=True) if each[0] > each[1]), None)
            if cut is not None and not jobs[number].truncate:
                is_whole = texts[number] == jobs[number].columns
                answers[number] = too_long(cut[0] if is_whole else f"more than {cut[1]}", cut[1])
        accepted = [number for number in accepted if answers[number] is None]
        if not accepted:
            return answers
        kept = [row for number in accepted for row in rows[number]]
        if len(kept) < len(features["length"]):
            features = {name: [column[row] for row in kept] for name, column in features.items()}
        self.tokens += _tokens(features["input_ids"])
        outputs = self.predictor.outputs(features, unreported)
        start = 0
        for number in accepted:
            part = slice(start, start := start + len(rows[number]))
            own = {name: column[part] for name, column in features.items()}
            if "example" in own:  # counted from 0 in each job
                own["example"] = [example - own["example"][0] for example in own["example"]]
            of_job = tuple(each[part] for each in outputs) if isinstance(outputs, tuple) else outputs[part]
            answers[number] = jobs[number].finish(of_job, own, jobs[number].columns)
        return answers


def _tokens(ids: Sequence[Any]) -> int:
    """Returns the number of ids in nested lists: a row of `Task.encode` has one input or several."""
    return len(ids) if not len(ids) or np.isscalar(ids[0]) else sum(map(_tokens, ids))


def too_long(tokens: int | str, read: int) -> TooLong:
    """Returns the error for a text that is too long."""
    return TooLong(f'inputs: a text needs {tokens} tokens, and {read} are read; shorten it, or send "truncate": true')


def not_served(path: str, service: Service) -> NotServed:
    """Returns the error for a known route that this checkpoint does not answer."""
    known = ", ".join(sorted(service.routes()))
    return NotServed(f"{path}: this checkpoint is served for {service.what}, which answers POST {known}")


def or_invalid(convert: Callable[[Any], Any], inputs: Any) -> Any:
    """Returns converted inputs; raises InvalidRequest with the message of an error."""
    try:
        return convert(inputs)
    except BertkitError as error:
        raise InvalidRequest(str(error)) from None
