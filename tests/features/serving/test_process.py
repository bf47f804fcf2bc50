"""The server as a process: real connections, signals, InferenceClient, and thousands of generated bodies."""

from __future__ import annotations

import http.client
import json
import random
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertkit

from .bodies import PATHS, random_body

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("serve_extra")]
TEXT = "the film is lovely"
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n"


class Server:
    """A running ``bertkit serve``."""

    def __init__(self, forks: Any, folder: Path, *options: str, program: str = "", **environment: str):
        command = [forks.python, "-m", "bertkit", "serve", str(folder), "--port", "0", "--device", "cpu", *options]
        if program:
            command = [forks.python, "-c", program, str(folder)]
        variables = {**forks.environment, **environment}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        assert self.process.stderr is not None
        self.said = ""
        while "serving" not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = re.search(r"http://\S+:\d+", self.said)[0]
        self.port = int(self.url.rpartition(":")[2])

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def post(self, body: Any, path: str = "/", headers: Any = None) -> tuple[int, Any]:
        connection = self.connection()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        found = response.read().decode()
        connection.close()
        return response.status, json.loads(found)

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def gauge(self, name: str) -> float:
        """Returns a number of /metrics; 0 if it is not there."""
        connection = self.connection()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        number = re.search(rf"^{re.escape(name)} (\S+)", text, re.M)
        return float(number[1]) if number else 0

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Returns the exit code, and what was written to stdout and stderr."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=200)
        return self.process.returncode, out, self.said + err


@pytest.fixture
def start(forks: Any) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def started(*given: Any, **environment: str) -> Server:
        servers.append(Server(forks, *given, **environment))
        return servers[-1]

    yield started
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


def test_inference_client_of_every_task(start, fine_tuned, checkpoint):
    from huggingface_hub import InferenceClient

    def client(*given: Any) -> Any:
        return InferenceClient(provider="hf-inference", model=start(*given).url)

    film = client(fine_tuned("film"))
    (expected,) = bertkit.load(fine_tuned("film")).predict(TEXT)
    found = film.text_classification(TEXT, top_k=2, function_to_apply="softmax")
    assert (len(found), found[0].label) == (2, expected["label"])
    assert found[0].score == pytest.approx(expected["probability"], abs=1e-4)
    assert film.health_check()
    assert film.get_endpoint_info()["task"] == "text-classification"

    (expected,) = bertkit.load(fine_tuned("entities")).predict("a good film, a bad plot")
    entities = client(fine_tuned("entities")).token_classification(
        "a good film, a bad plot", aggregation_strategy="simple"
    )
    assert [(each.entity_group, each.start, each.end) for each in entities] == [
        (each["type"], each["start"], each["end"]) for each in expected["entities"]
    ]

    answers = client(fine_tuned("answers"))
    (expected,) = bertkit.load(fine_tuned("answers")).predict(question="what is lovely", context=TEXT)
    assert answers.question_answering("what is lovely", TEXT).answer == expected["answer"]
    assert len(answers.question_answering("what is lovely", TEXT, top_k=3)) == 3

    (guesses,) = bertkit.load(checkpoint).fill_mask("the [MASK] is")[0]
    masks = client(checkpoint).fill_mask("the [MASK] is", top_k=2)
    assert [each.sequence for each in masks] == [guess.text for guess in guesses[:2]]

    vectors = client(checkpoint, "--as", "embed")
    assert vectors.feature_extraction(TEXT) == pytest.approx(bertkit.load(checkpoint).embed(TEXT)[0], abs=1e-4)
    assert np.linalg.norm(vectors.feature_extraction(TEXT, normalize=True, truncate=True)) == pytest.approx(1, abs=1e-4)
    assert vectors.sentence_similarity(TEXT, [TEXT, "bad"])[0] == pytest.approx(1, abs=1e-4)


def test_sigterm_answers_what_was_taken(start, fine_tuned):
    server = start(fine_tuned("film"))
    found: list[int] = []
    texts = {"inputs": ["the film is lovely " * 4] * 32}
    threads = [threading.Thread(target=lambda: found.append(server.post(texts)[0])) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(100):  # until the server has taken them all
        done = server.gauge('bertkit_requests_total{route="/",status="200"}')
        if server.gauge("bertkit_queue_size") + done >= 12:
            break
    code, out, err = server.end()
    for thread in threads:
        thread.join()
    assert found == [200] * 12
    assert (code, out) == (0, "")
    assert "lovely" not in err
    assert "Traceback" not in err


# A batch takes 0.2 seconds and requests have 1 second to end.
SLOW = """
import sys, time, bertkit
from bertkit.features.serving.services import PredictService
from bertkit.features.serving.requests import Limits
run = PredictService.run
PredictService.run = lambda self, jobs: time.sleep(0.2) or run(self, jobs)
bertkit.serve(sys.argv[1], port=0, device="cpu", limits=Limits(max_batch_tokens=1, shutdown_timeout=1))
"""


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_requests_not_done_in_time_get_503(numbers, start, fine_tuned):
    server = start(fine_tuned("film"), program=SLOW)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(server.post({"inputs": TEXT}))) for _ in range(60)]
    for thread in threads:
        thread.start()
    while server.gauge("bertkit_queue_size") < 50:
        pass
    with server.connected() as slow:  # its body never comes
        slow.sendall(HEAD % b"Content-Length: 9")
        time.sleep(0.2)
        for number in numbers[:-1]:
            server.process.send_signal(number)
            time.sleep(0.3)
        code, _, err = server.end(numbers[-1])
        assert slow.recv(100).startswith(b"HTTP/1.1 503")
    for thread in threads:
        thread.join()
    statuses = [status for status, _ in found]
    assert set(statuses) == {200, 503}
    assert all(answer["error"] == "the server ends" for status, answer in found if status == 503)
    assert len(statuses) == 60
    assert "Traceback" not in err
    assert err.count("\n") == 2  # that it serves, and how many requests were not done
    assert f"{statuses.count(503) + 1} requests were not done" in err
    assert code == 0


def test_ctrl_c_ends_with_an_idle_connection(start, fine_tuned):
    server = start(fine_tuned("film"))
    idle = server.connection()
    idle.connect()
    code, _, err = server.end(signal.SIGINT)
    idle.close()
    assert code == 0
    assert "Traceback" not in err


def test_clients_that_go_away_leave_the_server_answering(start, fine_tuned):
    """They are no faults of the server, and most of what they asked for is not computed."""
    server = start(fine_tuned("film"), program=SLOW)
    body = json.dumps({"inputs": [TEXT] * 32}).encode()
    head = HEAD % b"Content-Length: %d" % len(body)
    for sent in (head + body, head + body[:10], head, head[:20]) * 50:
        with server.connected() as connection:
            connection.sendall(sent)
            reset = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    assert server.post({"inputs": TEXT})[0] == 200
    assert server.gauge("bertkit_batch_texts_sum") < 50 * 32 / 2  # of the 50 that were sent whole
    assert server.gauge('bertkit_requests_total{route="/",status="499"}') > 100
    assert server.gauge('bertkit_requests_total{route="/",status="500"}') == 0
    code, _, err = server.end()
    assert code == 0
    assert err.count("\n") == 1


def test_foreign_hosts_are_refused(start, fine_tuned):
    """On every route; `test_hosts.py` has all names."""
    server = start(fine_tuned("film"), "--allowed-host", "film.example", "--allowed-host", "*.example.org")
    for host in (f"localhost:{server.port}", "FILM.example", "a.example.org:80"):
        assert server.post({"inputs": TEXT}, headers={"Host": host})[0] == 200, host
    for host in ("evil.example", ""):
        for path in ("/", "/info", "/health", "/nothing"):
            status, answer = server.post({"inputs": TEXT}, path, headers={"Host": host})
            assert (status, answer["error_type"]) == (400, "Validation"), host
            assert "--allowed-host NAME" in answer["error"]


def test_all_interfaces_take_addresses(start, fine_tuned):
    server = start(fine_tuned("film"), "--host", "0.0.0.0", "--token", "x")
    assert server.process.stderr is not None
    assert "answers requests to IP addresses and to localhost" in server.process.stderr.readline()
    headers = {"Authorization": "Bearer x"}
    for host, status in {"192.0.2.1:8000": 200, "evil.example": 400}.items():
        assert server.post({"inputs": TEXT}, headers={**headers, "Host": host})[0] == status


def test_a_changed_checkpoint_changes_no_answers(start, fine_tuned, tmp_path):
    """Overwritten in place by other weights, and truncated, which ended the process with SIGBUS."""
    for kind, options in (("film", ()), ("film", ("--as", "embed"))):
        folder = tmp_path / "-".join((kind, *options))
        shutil.copytree(fine_tuned(kind), folder)
        server = start(folder, *options)
        expected = server.post({"inputs": TEXT})
        weights = folder / "model.safetensors"
        data = weights.read_bytes()
        with weights.open("r+b") as stream:
            stream.seek(len(data) // 10)
            stream.write(b"\x3f" * (len(data) * 9 // 10))
        assert server.post({"inputs": TEXT}) == expected
        with weights.open("r+b") as stream:
            stream.truncate(10)
        assert server.post({"inputs": TEXT}) == expected
        assert server.post({"inputs": "a bad plot or story"})[0] == 200


def test_a_413_reaches_a_client_that_sends_first(start, fine_tuned):
    server = start(fine_tuned("film"), "--max-body-bytes", "1000")
    for _ in range(5):
        status, answer = server.post({"inputs": "film " * 2_000_000})
        assert (status, answer["error_type"]) == (413, "Validation")


def test_the_token_may_be_in_the_environment(start, fine_tuned):
    server = start(fine_tuned("film"), BERTKIT_SERVE_TOKEN="sesame")
    assert server.post({"inputs": TEXT})[0] == 401
    assert server.post({"inputs": TEXT}, headers={"Authorization": "Bearer sesame"})[0] == 200


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("{film} --port {taken}", "--port {taken}: Address already in use; give another --port"),
        ("{film} --host 192.0.2.1", "address; give an address of this machine with --host"),  # kept free by RFC 5737
        ("{film} --port 70000", "--port 70000: expected 0 to 65535"),
        ("{film} --host none.invalid", "--host none.invalid: "),
        ("{film} --allowed-host http://a.example", "--allowed-host http://a.example: expected the name of a host"),
        ("{film} --token é", "--token: expected printable ASCII"),
        ("{film} --token 'sesame '", "the first and the last no blank"),
        ("{film} --max-batch-tokens 0", "--max-batch-tokens: expected a positive number, got 0"),
        ("./absent", "./absent: no such folder"),
        ("{film} --as fill-mask --port 0", "film"),
    ],
)
def test_wrong_options_end_with_one_message(forks, fine_tuned, taken, words, message):
    given = shlex.split(words.format(film=fine_tuned("film"), taken=taken))
    command = [forks.python, "-m", "bertkit", "serve", *given]
    done = subprocess.run(command, env=forks.environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert message.format(taken=taken) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("onnx_extra")
def test_an_onnx_model_is_served(start, fine_tuned, tmp_path):
    out = tmp_path / "onnx"
    bertkit.export(fine_tuned("film"), out, to="onnx")
    status, found = start(out).post({"inputs": TEXT})
    (expected,) = bertkit.load(out).predict(TEXT)
    assert (status, found[0][0]["label"]) == (200, expected["label"])
    assert found[0][0]["score"] == pytest.approx(expected["probability"], abs=1e-3)


def test_hundreds_of_generated_bodies(start, fine_tuned, rng):
    """Over real connections, in four threads at once; then the server still gives the answers of `predict`."""
    server = start(fine_tuned("film"))
    faults: list[Any] = []
    statuses: list[int] = []

    def send(seed: float) -> None:
        source = random.Random(seed)
        for _ in range(150):
            body, path = random_body(source), source.choice(PATHS)
            status, answer = server.post(body, path)
            statuses.append(status)
            if not (status == 200 or 400 <= status < 500):
                faults.append((path, body, status, answer))

    threads = [threading.Thread(target=send, args=(rng.random(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]
    assert len(statuses) == 600
    assert {200, 422, 424} <= set(statuses)
    (expected,) = bertkit.load(fine_tuned("film")).predict(TEXT)
    _, found = server.post({"inputs": TEXT})
    assert found[0][0]["score"] == pytest.approx(expected["probability"], abs=1e-4)
    code, _, err = server.end()
    assert (code, "Traceback" in err) == (0, False)
