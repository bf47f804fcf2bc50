"""Requests per second of ``bertkit serve`` beside servers of FastAPI: transformers' pipeline, and ONNX Runtime.

    python benchmarks/serving_speed.py CHECKPOINT --input TEXTS [--clients 32] [--seconds 60] [--rounds 2]

CHECKPOINT is a run of bertkit that classifies texts, TEXTS a UTF-8 file of one a line. It is exported as stock BERT for
the pipeline and as float32 ONNX. All servers run under uvicorn with the same event loop and listen on 127.0.0.1, by
turns, each in a process of its own; the peers are in ``peer_servers.py``:

- ``plain`` computes in the endpoint's thread, as FastAPI does for ``def``.
- ``batched`` gives all texts that wait to the pipeline at once, sorted by length, in its batches of 16.
- ``onnx`` is dynamic batching as text-embeddings-inference publishes it, with ONNX Runtime.

Clients are connections that stay open, each with one request at a time; every answer is compared with the pipeline's
label and score for its text. Memory is the resident set of the server after 10 seconds and at the end. Prints one JSON
line; on stderr one for each round of a side.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from by_turns import machine, note_round
from peer_servers import PEERS

SIDES = (*PEERS, "bertkit")
_SETTLED = 10  # seconds after which memory is read for the first time
_TOLERANCE = 1e-4  # of scores: batches are padded differently


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(side: str, args: argparse.Namespace, forms: Path, port: int) -> list[str]:
    if side == "bertkit":
        return [sys.executable, "-m", "bertkit", "serve", args.checkpoint, "--port", str(port), "--device", "cpu"]
    script, form = Path(__file__).with_name("peer_servers.py"), forms / ("onnx" if side == "onnx" else "stock")
    return [sys.executable, str(script), side, str(form), "--port", str(port), "--max-length", str(args.max_seq_length)]


async def request(port: int, connection: Any, body: bytes) -> tuple[Any, Any]:
    """Sends a request over an open connection, or a new one; returns the connection and the answer.

    A parser of a few lines, so that the clients take little time from the server on the same cores.
    """
    reader, writer = connection or await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    size = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    answer = await reader.readexactly(size)
    if not lines[0].startswith(b"http/1.1 200"):
        raise RuntimeError(f"{lines[0]!r}: {answer!r}")
    return (reader, writer), json.loads(answer)


async def load_test(port: int, args: argparse.Namespace, texts: list[str], expected: list[Any], pid: int) -> Any:
    """Runs all clients for the given seconds; returns the results."""
    seconds: list[float] = []
    wrong = 0
    end = time.perf_counter() + args.seconds

    async def client(number: int) -> None:
        nonlocal wrong
        connection, at = None, number * 37
        while time.perf_counter() < end:
            at = (at + 1) % len(texts)
            started = time.perf_counter()
            connection, found = await request(port, connection, json.dumps({"inputs": texts[at]}).encode())
            seconds.append(time.perf_counter() - started)
            label, score = expected[at]
            scores = {each["label"]: each["score"] for each in found[0]}
            wrong += not math.isclose(scores[label], score, abs_tol=_TOLERANCE)
        connection[1].close()

    memory = []

    async def watch() -> None:
        await asyncio.sleep(min(_SETTLED, args.seconds / 2))
        memory.append(resident_mib(pid))

    started, cpu_before = time.perf_counter(), cpu_seconds(pid)
    await asyncio.gather(watch(), *(client(number) for number in range(args.clients)))
    ran = time.perf_counter() - started
    ordered = sorted(seconds)
    return {
        "requests_per_second": len(seconds) / ran,
        "p50_ms": 1000 * statistics.median(ordered),
        "p99_ms": 1000 * ordered[int(0.99 * len(ordered))],
        "requests": len(seconds),
        "wrong": wrong,
        "cpu_ms_per_request": 1000 * (cpu_seconds(pid) - cpu_before) / len(seconds),
        "mib_start": memory[0],
        "mib_end": resident_mib(pid),
    }


def cpu_seconds(pid: int) -> float:
    """CPU time of the server, of all its threads; it depends less than the rate on what else runs on the machine."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def resident_mib(pid: int) -> float:
    import psutil

    return round(psutil.Process(pid).memory_info().rss / 2**20, 1)


def run_side(side: str, args: argparse.Namespace, forms: Path, texts: list[str], expected: list[Any]) -> Any:
    """Starts a server, loads it and ends it."""
    port = free_port()
    server = subprocess.Popen(command(side, args, forms, port), stdout=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        warm = argparse.Namespace(clients=args.clients, seconds=2.0)
        asyncio.run(load_test(port, warm, texts, expected, server.pid))
        found = asyncio.run(load_test(port, args, texts, expected, server.pid))
    finally:
        server.send_signal(signal.SIGTERM)
        found_exit = server.wait(timeout=60)
    return {**found, "exit": found_exit}


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the server does not listen")


def expected_answers(stock: str, texts: list[str], max_length: int) -> list[tuple[str, float]]:
    """Label and score of the pipeline for each text alone."""
    from transformers import pipeline

    classify = pipeline("text-classification", stock, device="cpu", truncation=True, max_length=max_length)
    return [(row["label"], row["score"]) for row in classify(texts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--input", type=Path)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--max-seq-length", type=int, default=128, help="of the checkpoint")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    args = parser.parse_args()

    import bertkit

    texts = args.input.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        bertkit.export(args.checkpoint, Path(folder) / "stock")
        if "onnx" in args.sides:
            bertkit.export(args.checkpoint, Path(folder) / "onnx", to="onnx")
        expected = expected_answers(str(Path(folder) / "stock"), texts, args.max_seq_length)
        rounds: dict[str, list[Any]] = {side: [] for side in args.sides}
        for number in range(args.rounds):
            for side in args.sides:
                rounds[side].append(run_side(side, args, Path(folder), texts, expected))
                note_round(number + 1, side, {**rounds[side][-1], "load": os.getloadavg()[0]})
    summary = {
        side: {name: round(statistics.median(each[name] for each in found), 2) for name in found[0]}
        for side, found in rounds.items()
    }
    ours = summary.get("bertkit", {}).get("requests_per_second", math.nan)
    times = {f"times_{side}": round(ours / summary[side]["requests_per_second"], 2) for side in args.sides}
    print(json.dumps({**summary, **times, "distinct_scores": len({score for _, score in expected}), **machine()}))


if __name__ == "__main__":
    main()
