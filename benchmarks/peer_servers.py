"""The servers that ``serving_speed.py`` runs beside ``bertkit serve``: FastAPI under uvicorn.

    python benchmarks/peer_servers.py plain|batched|onnx MODEL_FOLDER --port PORT

``batched`` and ``onnx`` have a queue: a request tokenizes nothing and waits; one thread takes what waits, computes it
and answers. Nothing waits for a batch to become full.

``onnx`` follows the method that Hugging Face publishes for text-embeddings-inference
(https://github.com/huggingface/text-embeddings-inference): requests are tokenized in workers of their own before they
queue; a batch is as many waiting requests as fit in a budget of tokens (16,384, its default), computed by ONNX Runtime
with padding to the longest. The original is a program of its own in Rust, which this is not: its router takes less of
the processor for a request than uvicorn.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, Queue
from typing import Any

PEERS = ("plain", "batched", "onnx")
BATCH_TOKENS = 16_384
PIPELINE_BATCH = 16

Row = list[dict[str, Any]]
"""A dictionary with ``label`` and ``score`` for each class."""


def pipeline_of(folder: str, max_length: int) -> Any:
    """transformers' pipeline on the CPU."""
    from transformers import pipeline

    return pipeline("text-classification", folder, device="cpu", truncation=True, max_length=max_length, top_k=None)


def plain(folder: str, max_length: int) -> Callable[[str], Awaitable[Row]]:
    """The server that one writes first: a call of the pipeline in a thread for each request."""
    classify = pipeline_of(folder, max_length)

    def answer(text: str) -> Row:
        return list(classify([text])[0])

    async def endpoint(text: str) -> Row:
        return await asyncio.get_running_loop().run_in_executor(THREADS, answer, text)

    return endpoint


THREADS = ThreadPoolExecutor(40)  # as many as FastAPI has for endpoints that are plain functions


def batched(folder: str, max_length: int) -> Callable[[str], Awaitable[Row]]:
    """All texts that wait are one call of the pipeline, sorted by length."""
    classify = pipeline_of(folder, max_length)

    def compute(texts: list[str]) -> list[Row]:
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        rows = classify([texts[at] for at in order], batch_size=PIPELINE_BATCH)
        of_text = dict(zip(order, rows, strict=True))
        return [of_text[at] for at in range(len(texts))]

    queued = queue_for(compute, lambda text: 1, 512)

    async def endpoint(text: str) -> Row:
        return await asyncio.wrap_future(queued(text))

    return endpoint


def onnx(folder: str, max_length: int) -> Callable[[str], Awaitable[Row]]:
    """Dynamic batching by a budget of tokens, with ONNX Runtime."""
    import json

    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    session = onnxruntime.InferenceSession(str(Path(folder) / "model.onnx"), providers=["CPUExecutionProvider"])
    inputs = [each.name for each in session.get_inputs()]
    names = json.loads(Path(folder, "config.json").read_text())["id2label"]
    workers = ThreadPoolExecutor(2)

    def compute(batch: list[Any]) -> list[Row]:
        longest = max(len(each.ids) for each in batch)
        arrays = {name: np.zeros((len(batch), longest), np.int64) for name in inputs}
        parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        for name, array in arrays.items():
            for row, each in zip(array, batch, strict=True):
                values = getattr(each, parts[name])
                row[: len(values)] = values
        logits = session.run(None, arrays)[0]
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return [[{"label": names[str(at)], "score": float(each)} for at, each in enumerate(row)] for row in scores]

    queued = queue_for(compute, lambda encoding: len(encoding.ids), BATCH_TOKENS)

    async def endpoint(text: str) -> Row:
        encoding = await asyncio.get_running_loop().run_in_executor(workers, tokenizer.encode, text)
        return await asyncio.wrap_future(queued(encoding))

    return endpoint


def queue_for(
    compute: Callable[[list[Any]], list[Row]], size_of: Callable[[Any], int], budget: int
) -> Callable[[Any], Future[Row]]:
    """Starts a thread that computes what waits, together.

    Args:
        compute: items → their rows.
        size_of: what an item takes of ``budget``, the most of a batch: of the longest times their number.
        budget: as above.

    Returns:
        A function that queues an item.
    """
    waiting: Queue[tuple[Any, Future[Row]]] = Queue()

    def work() -> None:
        held: list[tuple[Any, Future[Row]]] = []
        while True:
            batch = held or [waiting.get()]
            held, longest = [], max(size_of(item) for item, _ in batch)
            while True:
                try:
                    entry = waiting.get_nowait()
                except Empty:
                    break
                longest = max(longest, size_of(entry[0]))
                if longest * (len(batch) + 1) > budget:
                    held = [entry]
                    break
                batch.append(entry)
            for (_, future), row in zip(batch, compute([item for item, _ in batch]), strict=True):
                future.set_result(row)

    threading.Thread(target=work, daemon=True).start()

    def queued(item: Any) -> Future[Row]:
        future: Future[Row] = Future()
        waiting.put((item, future))
        return future

    return queued


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=PEERS)
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-length", type=int, default=128)
    args = parser.parse_args()

    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Body(BaseModel):
        inputs: str

    endpoint = {"plain": plain, "batched": batched, "onnx": onnx}[args.side](args.folder, args.max_length)

    async def answer(body: Body) -> Any:
        return [await endpoint(body.inputs)]

    answer.__annotations__["body"] = Body
    app = FastAPI()
    app.post("/")(answer)
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
