"""Routes of a served checkpoint, the jobs of a request, and the form of its answer."""

from __future__ import annotations

import asyncio
import base64
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from pydantic_core import from_json

from bertkit.errors import BertkitError
from bertkit.inference.fill_mask import MaskPrediction
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.inference.predictor import Predictor
from bertkit.serving import requests
from bertkit.serving.engines import EmbedEngine, Engine, FillEngine, Job, PredictEngine
from bertkit.serving.requests import InvalidRequest, NotServed, TooLong
from bertkit.serving.served import served
from bertkit.tasks.base import Outputs
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.splits import Columns

_LONG = 50_000  # characters

Submit = Callable[[Job], Awaitable[Any]]


class Route(NamedTuple):
    """A POST route: the form of its body, and the function that answers it with plain data for JSON."""

    body: type[BaseModel] | Callable[[bytes], type[BaseModel]]
    answer: Callable[[Any, Submit], Awaitable[Any]]


class Service(ABC):
    """Base class of what a checkpoint is served as.

    Args:
        most_texts: of a request.

    Attributes:
        engine: computes the jobs.
        what: name of the task on the Hub, such as ``text-classification``.
    """

    engine: Engine
    what: str

    def __init__(self, most_texts: int):
        self._most_texts = most_texts

    @abstractmethod
    def routes(self) -> Mapping[str, Route]:
        """Returns the POST routes by path."""

    @abstractmethod
    def model_type(self) -> dict[str, Any]:
        """Returns ``model_type`` of ``/info``, as text-embeddings-inference gives it."""

    def _checked(self, count: int) -> None:
        if count > self._most_texts:
            raise TooLong(f"{count} texts; a request may have at most {self._most_texts}; send several requests")


class PredictService(Service):
    """Predictions of a fine-tuned checkpoint."""

    def __init__(self, predictor: Predictor, most_texts: int, most_tokens: int):
        super().__init__(most_texts)
        self.engine = PredictEngine(predictor, most_tokens)
        self.what = predictor.task.pipeline_tag
        self._served = served(predictor.task)
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
        config = self.engine.predictor.model.config  # type: ignore[attr-defined]
        labels = {str(key): value for key, value in config.id2label.items()}
        kind = "reranker" if "/rerank" in self.routes() else "classifier"
        return {kind: {"id2label": labels, "label2id": {name: int(key) for key, name in labels.items()}}}

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

    async def _answers(self, inputs: Sequence[Any], parameters: Any, truncate: bool, submit: Submit) -> list[Any]:
        self._checked(len(inputs))
        if sum(len(text) for text in inputs if isinstance(text, str)) < _LONG:
            columns = _or_invalid(self._served.columns, inputs)
        else:  # to split 2 MB into words takes two seconds, in which the event loop answers other requests
            async with self._reading:
                columns = await asyncio.to_thread(_or_invalid, self._served.columns, inputs)

        def finish(outputs: Outputs, features: Columns, examples: Columns) -> list[Any]:
            return self._served.answers(outputs, features, examples, parameters)

        answers: list[Any] = await submit(Job(columns=columns, finish=finish, truncate=truncate))
        return answers

    async def _rerank(self, body: Any, submit: Submit) -> Any:
        self._checked(len(body.texts))
        columns = self._served.columns([self._served.input_of((body.query, text)) for text in body.texts])

        def finish(logits: Any, *_: Any) -> list[float]:
            scores = logits[:, 0]
            return [float(each) for each in (scores if body.raw_scores else sigmoid(scores))]

        scores = await submit(Job(columns=columns, finish=finish, truncate=bool(body.truncate)))
        best = sorted(range(len(scores)), key=lambda index: -scores[index])
        texts = [{"text": text} if body.return_text else {} for text in body.texts]
        return [{"index": index, **texts[index], "score": scores[index]} for index in best]


class EmbedService(Service):
    """Vectors of texts, the mean over their tokens."""

    what = "feature-extraction"

    def __init__(self, loaded: LoadedCheckpoint, name: str, most_texts: int, most_tokens: int):
        super().__init__(most_texts)
        self.engine = EmbedEngine(loaded.embedder, most_tokens)
        self._name = name
        self._size = int(loaded.embedder.model.config.hidden_size)

    def routes(self) -> Mapping[str, Route]:
        routes = dict.fromkeys(("/v1/embeddings", "/embeddings"), Route(requests.OpenAIBody, self._openai))
        routes["/embed"] = Route(requests.EmbedBody, self._embed)
        routes["/similarity"] = Route(requests.SimilarityBody, self._similarity)
        return {"/": Route(_feature_or_similarity, self._infer), **routes}

    def model_type(self) -> dict[str, Any]:
        return {"embedding": {"pooling": "mean"}}

    async def _infer(self, body: Any, submit: Submit) -> Any:
        if isinstance(body, requests.SimilarityBody):
            return await self._similarity(body, submit)
        vectors = await self._embed(body, submit)
        return vectors[0] if isinstance(body.inputs, str) else vectors

    async def _vectors(self, inputs: Any, dimensions: int | None, normalize: bool, submit: Submit) -> Any:
        texts = [inputs] if isinstance(inputs, str) else inputs
        self._checked(len(texts))
        if dimensions not in (None, self._size):
            raise InvalidRequest(f"dimensions: the vectors of this checkpoint have {self._size}; remove it")

        def finish(vectors: np.ndarray, tokens: int) -> tuple[np.ndarray, int]:
            return normalized(vectors) if normalize else vectors, tokens

        return await submit(Job(columns={"text": texts}, finish=finish))

    async def _embed(self, body: Any, submit: Submit) -> Any:
        vectors, _ = await self._vectors(body.inputs, body.dimensions, body.normalize, submit)
        return vectors.tolist()

    async def _similarity(self, body: Any, submit: Submit) -> Any:
        texts = [body.inputs.source_sentence, *body.inputs.sentences]
        vectors, _ = await self._vectors(texts, None, True, submit)
        return (vectors[1:] @ vectors[0]).tolist()

    async def _openai(self, body: Any, submit: Submit) -> Any:
        vectors, tokens = await self._vectors(body.input, body.dimensions, True, submit)
        values = [_base64(each) for each in vectors] if body.encoding_format == "base64" else vectors.tolist()
        data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(values)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": self._name, "usage": usage}


class FillService(Service):
    """Tokens for masks, of a masked language model."""

    what = "fill-mask"

    def __init__(self, loaded: LoadedCheckpoint, most_texts: int, most_tokens: int):
        super().__init__(most_texts)
        self._filler = loaded.mask_filler
        self.engine = FillEngine(self._filler, most_tokens)

    def routes(self) -> Mapping[str, Route]:
        return {"/": Route(requests.FillBody, self._infer)}

    def model_type(self) -> dict[str, Any]:
        return {"masked_lm": {"mask_token": self._filler.tokenizer.mask_token}}

    async def _infer(self, body: Any, submit: Submit) -> Any:
        is_list = isinstance(body.inputs, list)
        texts = body.inputs if is_list else [body.inputs]
        self._checked(len(texts))
        parameters = body.parameters or requests.FillParameters()
        targets = None if parameters.targets is None else tuple(parameters.targets)
        options = (parameters.top_k, targets)
        truncate = bool(body.truncate)
        answers = await submit(Job(columns={"text": texts}, finish=self._form, options=options, truncate=truncate))
        return answers if is_list else answers[0]

    def _form(self, of_texts: Sequence[Sequence[Sequence[MaskPrediction]]]) -> list[Any]:
        """Returns the guesses for the mask of each text, or for several masks a list for each."""
        tokenizer = self._filler.tokenizer
        answers = []
        for masks in of_texts:
            of_text = [
                [
                    {
                        "score": guess.probability,
                        "token": token,
                        "token_str": tokenizer.decode([token]),
                        "sequence": guess.text,
                    }
                    for guess in guesses
                    for token in [tokenizer.convert_tokens_to_ids(guess.token)]
                ]
                for guesses in masks
            ]
            answers.append(of_text[0] if len(of_text) == 1 else of_text)
        return answers


def not_served(path: str, service: Service) -> NotServed:
    """Returns the error for a known route that this checkpoint does not answer."""
    known = ", ".join(sorted(service.routes()))
    return NotServed(f"{path}: this checkpoint is served for {service.what}, which answers POST {known}")


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors (N, H) of Euclidean length 1; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: np.ndarray = vectors / np.where(lengths == 0, 1, lengths)
    return unit


def _base64(vector: np.ndarray) -> str:
    """Returns little-endian float32 in base64, as OpenAI's clients decode it."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _feature_or_similarity(body: bytes) -> type[BaseModel]:
    """Returns the form of a body by its ``inputs``: texts, or an object with sentences to compare."""
    try:
        content = from_json(body)
    except ValueError:  # also refused, with the place, when it is parsed
        return requests.FeatureBody
    compares = isinstance(content, dict) and isinstance(content.get("inputs"), dict)
    return requests.SimilarityBody if compares else requests.FeatureBody


def _or_invalid(convert: Callable[[Any], Any], inputs: Any) -> Any:
    try:
        return convert(inputs)
    except BertkitError as error:
        raise InvalidRequest(str(error)) from None
