"""Tokenization of batches by the workers of Ray (extra ``ray``), which may be on several machines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any

from bertkit.corpus.building.settings import Workers
from bertkit.corpus.store.encoding import Batch, EncodedBatch, SentenceEncoder
from bertkit.errors import PlacementError
from bertkit.placement.ray_cluster import connected

_WAITING = 2  # batches that a worker has at a time: one in work and one that is being sent


def encode_with_ray(batches: Iterable[Batch], encode: SentenceEncoder, workers: Workers) -> Generator[EncodedBatch]:
    """Yields the result of ``encode`` for each batch, in order, computed by actors of Ray.

    The caller reads the text and sends it to the actors, so their machines need neither its files nor a shared file
    system. Ray replaces an actor that dies and repeats its batches; results do not depend on it.

    Raises:
        PlacementError: Ray is not installed or cannot be started, or its workers died repeatedly.
        Exception: any exception of ``batches`` or of the splitter.
    """
    with connected(workers.ray_address, workers.number) as ray:
        _send_by_value(ray, encode)
        # The encoder is part of the class, which Ray keeps for restarts; an argument of the constructor may be gone.
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=3)(
            type("Encoder", (_Encoder,), {"encode": encode})
        )
        actors = [actor.remote() for _ in range(workers.number)]
        out: deque[Any] = deque()
        try:
            for number, batch in enumerate(batches):
                out.append(actors[number % workers.number].encoded.remote(batch))
                if len(out) == _WAITING * workers.number:
                    yield _result(ray, out.popleft())
            while out:
                yield _result(ray, out.popleft())
        finally:
            for each in actors:
                with contextlib.suppress(Exception):  # it may have ended with Ray
                    ray.kill(each)


class _Encoder:
    """Actor; ``encode`` is an attribute of its class."""

    encode: SentenceEncoder

    def __init__(self) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core for each actor

    def encoded(self, batch: Batch) -> EncodedBatch:
        return self.encode(batch)


def _send_by_value(ray: Any, encode: SentenceEncoder) -> None:
    """Makes Ray send the code of a user's splitter: its file cannot be imported by name in a worker."""
    module = getattr(encode.splitter, "__module__", None)
    if module is not None and module.partition(".")[0] != "bertkit" and module in sys.modules:
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])


def _result(ray: Any, reference: Any) -> EncodedBatch:
    try:
        return EncodedBatch(*ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise PlacementError(
            f"Ray could not tokenize a part of the corpus, because its workers died repeatedly, most often because "
            f"memory ran out: use fewer --workers; the finished shards are kept ({type(error).__name__})"
        ) from error
