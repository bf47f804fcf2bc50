"""The program of a worker process: ``python -m bertkit.scaling.worker``, see `bertkit.scaling.processes`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import BinaryIO

from bertkit.json_text import dumps
from bertkit.placement.launched import end_with_launcher
from bertkit.scaling.computing import Computer, Job
from bertkit.scaling.inputs import Shard
from bertkit.scaling.pool import answer


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Reads a job and loads its model, then computes shards, one line of JSON each, until the input ends."""
    made: list[Computer] = []

    def start(line: bytes) -> None:
        made.append(Computer(Job(**json.loads(line))))

    reply = answer(lambda: start(questions.readline()))
    answers.write(dumps(reply).encode() + b"\n")
    for line in questions:
        shard = Shard.from_json(json.loads(line))
        answers.write(dumps(answer(lambda shard=shard: asdict(made[0].compute(shard)))).encode() + b"\n")  # type: ignore[misc]


if __name__ == "__main__":
    end_with_launcher()
    # What libraries print must not be mixed with the answers.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    serve(sys.stdin.buffer, replies)
