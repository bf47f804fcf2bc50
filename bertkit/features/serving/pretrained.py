"""Vectors of texts and tokens for masks over HTTP, of checkpoints that need no fine-tuning."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np
from pydantic import BaseModel
from pydantic_core import from_json

from bertkit.data.tables.objects import with_words
from bertkit.features.serving import requests
from bertkit.features.serving.requests import InvalidRequest
from bertkit.features.serving.services import Answer, Job, Route, Service, Submit, or_invalid, too_long
from bertkit.inference.fill_mask import MaskPrediction
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.metrics.ranking import unit
from bertkit.model.checkpoint.encoders import longest_input
from bertkit.runtime.progress import unreported
from bertkit.tasks.windows import first_part


class EmbedService(Service):
    """Vectors of texts of any length, pooled as the checkpoint records it; ``finish(vectors, tokens)`` makes the answer
    of a job."""

    what = "feature-extraction"

    def __init__(self, loaded: LoadedCheckpoint, name: str, most_texts: int, most_tokens: int):
        super().__init__(loaded.embedder.model, most_texts, most_tokens)
        self.embedder = loaded.embedder
        self._name = name

    def routes(self) -> Mapping[str, Route]:
        routes = dict.fromkeys(("/v1/embeddings", "/embeddings"), Route(requests.OpenAIBody, self._openai))
        routes["/embed"] = Route(requests.EmbedBody, self._embed)
        routes["/similarity"] = Route(requests.SimilarityBody, self._similarity)
        return {"/": Route(_choose_body, self._infer), **routes}

    def model_type(self) -> dict[str, Any]:
        return {"embedding": {"pooling": self.embedder.pooling}}

    async def _infer(self, body: Any, submit: Submit) -> Any:
        if isinstance(body, requests.SimilarityBody):
            return await self._similarity(body, submit)
        vectors = await self._embed(body, submit)
        return vectors[0] if isinstance(body.inputs, str) else vectors

    async def _vectors(self, inputs: Any, dimensions: int | None, normalize: bool, submit: Submit) -> Any:
        """Returns the vectors of texts, (N, H), and the number of their tokens."""
        texts = [inputs] if isinstance(inputs, str) else inputs
        self.check_count(len(texts))
        or_invalid(with_words, texts)
        if dimensions not in (None, size := self.embedder.size([-1])):
            raise InvalidRequest(f"dimensions: the vectors of this checkpoint have {size}; remove it")

        def finish(vectors: np.ndarray, tokens: int) -> tuple[np.ndarray, int]:
            return unit(vectors) if normalize else vectors, tokens

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
        values = vectors.tolist()
        if body.encoding_format == "base64":  # little-endian float32, as OpenAI's clients decode it
            values = [base64.b64encode(each.astype("<f4").tobytes()).decode() for each in vectors]
        data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(values)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": self._name, "usage": usage}

    @property
    def longest(self) -> int:
        return self._most_tokens

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        tokenizer = self.embedder.tokenizer
        answers: list[Answer] = [self.far_too_many(job.columns, tokenizer) for job in jobs]
        accepted = [number for number, answer in enumerate(answers) if answer is None]
        if not accepted:
            return answers
        texts = [text for number in accepted for text in jobs[number].columns["text"]]
        counts = iter([len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]])
        tokens = {number: sum(islice(counts, jobs[number].count)) for number in accepted}
        for number in accepted:
            answers[number] = self.too_many(tokens[number])
        accepted = [number for number in accepted if answers[number] is None]
        if not accepted:
            return answers
        kept = [text for number in accepted for text in jobs[number].columns["text"]]
        vectors = self.embedder.embed(kept, on_progress=unreported)
        self.tokens += sum(tokens[number] for number in accepted)
        start = 0
        for number in accepted:
            end = start + jobs[number].count
            answers[number] = jobs[number].finish(vectors[start:end], tokens[number])
            start = end
        return answers


class FillService(Service):
    """Tokens for masks, of a masked language model; ``finish(predictions)`` makes the answer of a job, and its
    ``options`` are (top_k, targets)."""

    what = "fill-mask"

    def __init__(self, loaded: LoadedCheckpoint, most_texts: int, most_tokens: int):
        super().__init__(loaded.mask_filler.model, most_texts, most_tokens)
        self.filler = loaded.mask_filler

    def routes(self) -> Mapping[str, Route]:
        return {"/": Route(requests.FillBody, self._infer)}

    def model_type(self) -> dict[str, Any]:
        return {"masked_lm": {"mask_token": self.filler.tokenizer.mask_token}}

    async def _infer(self, body: Any, submit: Submit) -> Any:
        is_list = isinstance(body.inputs, list)
        texts = body.inputs if is_list else [body.inputs]
        self.check_count(len(texts))
        parameters = body.parameters or requests.FillParameters()
        targets = None if parameters.targets is None else tuple(parameters.targets)
        options = (parameters.top_k, targets)
        truncate = bool(body.truncate)
        tokenizer = self.filler.tokenizer

        def form(guess: MaskPrediction) -> dict[str, Any]:
            token = tokenizer.convert_tokens_to_ids(guess.token)
            text = tokenizer.decode([token])
            return {"score": guess.probability, "token": token, "token_str": text, "sequence": guess.text}

        def finish(of_texts: Sequence[Sequence[Sequence[MaskPrediction]]]) -> list[Any]:
            answers = [[list(map(form, guesses)) for guesses in masks] for masks in of_texts]
            return [each[0] if len(each) == 1 else each for each in answers]  # a list for each of several masks

        answers = await submit(Job(columns={"text": texts}, finish=finish, options=options, truncate=truncate))
        return answers if is_list else answers[0]

    @property
    def longest(self) -> int:
        return longest_input(self.model.config)

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        whole_texts = [text for job in jobs for text in job.columns["text"]]
        texts = first_part(whole_texts, self.filler.tokenizer, self.longest)
        encoded = self.filler.tokenizer(texts, return_offsets_mapping=True, verbose=False)
        answers: list[Answer] = []
        kept: list[str] = []
        at = computed = 0
        for job in jobs:
            numbers = range(at, at := at + job.count)
            lengths = [len(encoded["input_ids"][number]) for number in numbers]
            tokens = sum(min(length, self.longest) for length in lengths)
            answer: Answer = self.too_many(tokens)
            if answer is None and not job.truncate and max(lengths) > self.longest:
                is_whole = all(len(texts[number]) == len(whole_texts[number]) for number in numbers)
                answer = too_long(max(lengths) if is_whole else f"more than {self.longest}", self.longest)
            # Of a text that is cut, the last position is that of the token after it.
            read = (encoded["input_ids"][number][: self.longest - 1] for number in numbers)
            if answer is None and not all(self.filler.mask_id in ids for ids in read):
                mask = self.filler.tokenizer.mask_token
                answer = InvalidRequest(f"inputs: a text has no {mask} where it is read; mark the place to predict")
            answers.append(answer)
            if answer is None:
                computed += tokens
                for number, length in zip(numbers, lengths, strict=True):
                    ends = [end for _, end in encoded["offset_mapping"][number]]
                    # Two special tokens: one before the text, one after it.
                    kept.append(texts[number] if length <= self.longest else texts[number][: ends[self.longest - 2]])
        top_k, targets = cast(tuple[int, tuple[str, ...] | None], jobs[0].options)
        predictions = iter(self.filler.fill(kept, top_k, targets) if kept else [])
        self.tokens += computed  # not before: a batch that fails is computed again, job by job
        return [
            job.finish([next(predictions) for _ in range(job.count)]) if answer is None else answer
            for job, answer in zip(jobs, answers, strict=True)
        ]


def _choose_body(body: bytes) -> type[BaseModel]:
    """Returns the form of a body by its ``inputs``: texts, or an object with sentences to compare."""
    try:
        content = from_json(body)
    except ValueError:  # also refused, with the place, when it is parsed
        return requests.FeatureBody
    compares = isinstance(content, dict) and isinstance(content.get("inputs"), dict)
    return requests.SimilarityBody if compares else requests.FeatureBody
