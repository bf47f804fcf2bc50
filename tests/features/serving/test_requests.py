"""Requests that are refused: each with its status, in one form, and none of them a fault of the server."""

from __future__ import annotations

import inspect
import json
import random
import time
from dataclasses import fields
from typing import Any

import pytest

from bertkit.features.serving.command import serve
from bertkit.features.serving.requests import Limits, SlowBody

from .bodies import PATHS, random_body

JSON = {"Content-Type": "application/json"}


def test_the_command_has_the_limits_of_python():
    given = inspect.signature(serve).parameters
    limits = {field.name: field.default for field in fields(Limits) if field.name in given}
    assert {name: given[name].default for name in limits} == limits
    assert len(limits) == 5


BAD_BODIES = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[1, 2]",
    "a number": b"1",
    "no inputs": b"{}",
    "null": b'{"inputs": null}',
    "a number as text": b'{"inputs": 3}',
    "no texts": b'{"inputs": []}',
    "nested texts": b'{"inputs": [["a"]]}',
    "one wrong text of several": b'{"inputs": ["a", 3]}',
    "an unknown key": b'{"inputs": "a", "input": "b"}',
    "an unknown parameter": b'{"inputs": "a", "parameters": {"topk": 1}}',
    "a wrong parameter": b'{"inputs": "a", "parameters": {"top_k": "3"}}',
    "a parameter out of its range": b'{"inputs": "a", "parameters": {"top_k": 0}}',
    "a huge number": b'{"inputs": "a", "parameters": {"top_k": -' + b"9" * 5000 + b"}}",
    "NaN": b'{"inputs": "a", "parameters": {"top_k": NaN}}',
    "half a surrogate pair": b'{"inputs": "\\ud800"}',
    "another half": b'{"inputs": "a\\udc00"}',
    "invalid UTF-8": b'{"inputs": "\xff\xfe"}',
    "UTF-16": '{"inputs": "a"}'.encode("utf-16"),
    "deep nesting": b'{"inputs": ' * 100_000,
    "deep lists": b"[" * 100_000,
    "trailing text": b'{"inputs": "a"} x',
    "a key twice": b'{"inputs": "a", "inputs": "b"}',
    "a parameter twice": b'{"inputs": "a", "parameters": {"top_k": 1, "top_k": 2}}',
}


@pytest.fixture
def client(client_of, fine_tuned):
    return client_of(fine_tuned("film"))


def refusal(response, status):
    assert response.status_code == status, response.text
    answer = response.json()
    assert answer.keys() == {"error", "error_type"}
    return answer["error"]


@pytest.mark.parametrize("name", BAD_BODIES)
def test_malformed_bodies(name, client):
    assert refusal(client.post("/", content=BAD_BODIES[name], headers=JSON), 422)


@pytest.mark.parametrize(
    ("path", "start", "item", "end"),
    [
        ("/", '{"inputs": [', "1", "]}"),
        ("/predict", '{"inputs": [["a"], ', "[]", "]}"),
        ("/", '{"inputs": "a", "parameters": {"ignore_labels": [', "1", "]}}"),
    ],
)
def test_one_fault_of_a_list_is_looked_for(path, start, item, end, client_of, fine_tuned):
    """A body has room for a million, for which other requests would wait."""
    client = client_of(fine_tuned("entities" if "ignore" in start else "film"))
    body = f"{start}{', '.join([item] * 100)}{end}"
    assert not refusal(client.post(path, content=body.encode(), headers=JSON), 422).endswith(" more")


def test_a_key_twice_is_found_among_many(client):
    """In time that grows with their number: a body has room for 200,000."""
    keys = ", ".join(f'"{number}": 0' for number in [*range(10, 100_000), 9, 9])
    body = f'{{"inputs": "a", "options": {{{keys}}}}}'.encode()
    started = time.process_time()
    response = client.post("/", content=body, headers=JSON)
    assert "the key '9' occurs twice" in refusal(response, 422)
    assert time.process_time() - started < 5


def test_errors_repeat_no_texts(client, client_of, checkpoint):
    """Errors may be logged by others on the way. Nor do they name folders."""
    response = client.post("/", {"inputs": ["a secret", 3], "parameters": {"top_k": "a secret"}})
    assert "secret" not in refusal(response, 422)
    masks = client_of(checkpoint)
    for body in ({"inputs": ["[MASK]", "a secret"]}, {"inputs": "film " * 99 + "[MASK]", "truncate": True}):
        assert refusal(masks.post("/", body), 422).startswith("inputs: a text has no [MASK] where it is read; ")
    error = refusal(masks.post("/", {"inputs": "[MASK]", "parameters": {"targets": ["absent"]}}), 422)
    assert error == f"targets: 'absent' is not in the vocabulary of …/{checkpoint.name}"


def test_texts_too_long_are_refused_or_cut(client):
    body = {"inputs": ["fine", "film " * 30]}
    error = refusal(client.post("/", body), 413)
    assert "needs 32 tokens, and 24 are read" in error
    cut = client.post("/", {**body, "truncate": True}).json()
    by_hand = client.post("/", {"inputs": "film " * 22}).json()
    assert [each["score"] for each in cut[1]] == pytest.approx([each["score"] for each in by_hand[0]], abs=1e-4)


def test_very_long_texts_are_not_tokenized(client_of, fine_tuned, checkpoint, monkeypatch):
    """Neither those that are cut nor those that are refused: 2 MB would take seconds, for which others wait."""
    text = "the film is lovely " * 90_000
    tokenizers: set[Any] = set()
    read: list[int] = []

    def served(kind: str) -> Any:
        client = client_of(checkpoint, kind) if kind in ("embed", "fill-mask") else client_of(fine_tuned(kind))
        server = client.app.state.server
        service = server.service
        owner = next(getattr(service, name) for name in ("predictor", "embedder", "filler") if hasattr(service, name))
        kind_of = type(owner.tokenizer)
        if kind_of not in tokenizers:
            tokenizers.add(kind_of)
            call = kind_of.__call__

            def watched(self: Any, *columns: Any, **options: Any) -> Any:
                lists = [[column] if isinstance(column, str) else column for column in columns]
                read.extend(len(each) for column in lists for each in column)
                return call(self, *columns, **options)

            monkeypatch.setattr(kind_of, "__call__", watched)
        return client

    client = served("film")
    cut = client.post("/", {"inputs": text, "truncate": True}).json()
    by_hand = client.post("/", {"inputs": "the film is lovely " * 5 + "the film"}).json()
    assert [each["score"] for each in cut[0]] == pytest.approx([each["score"] for each in by_hand[0]], abs=1e-4)
    assert "more than 24 tokens, and 24 are read" in refusal(client.post("/", {"inputs": text}), 413)
    assert "more than 32768 tokens" in refusal(served("entities").post("/", {"inputs": text}), 413)
    for kind in ("similar", "choices"):
        assert "more than 32768 tokens" in refusal(served(kind).post("/", {"inputs": "a" + "\ta" * 40_000}), 413)
    question = {"question": "what", "context": text}
    assert "more than 32768 tokens" in refusal(served("answers").post("/", {"inputs": question}), 413)
    assert "more than 32768 tokens" in refusal(served("embed").post("/embed", {"inputs": text}), 413)
    masked = {"inputs": f"[MASK] {text}", "truncate": True}
    assert served("fill-mask").post("/", masked).status_code == 200
    assert max(read, default=0) < 2000


def test_windows_read_long_texts_to_their_end(client_of, fine_tuned):
    client = client_of(fine_tuned("entities"), max_request_tokens=20_000)
    words = {"aggregation_strategy": "none", "ignore_labels": []}
    found = client.post("/", {"inputs": "the film is lovely " * 3000, "parameters": words})
    assert len(found.json()) == 12_000


@pytest.mark.parametrize(
    ("kind", "together", "longest"), [("entities", 1, 32768), ("embed", 1, 32768), ("film", 2, 24)]
)
def test_a_long_text_in_windows_is_computed_alone(kind, together, longest, client_of, fine_tuned, checkpoint):
    """As long as it is, not as one window: neighbours would wait for thousands of tokens. A cut text is not."""
    from types import SimpleNamespace

    from bertkit.features.serving.batching import Batcher, Metrics
    from bertkit.features.serving.services import Job

    client = client_of(checkpoint, kind) if kind == "embed" else client_of(fine_tuned(kind))
    batcher = Batcher(client.app.state.server.service, 4096, Metrics())
    for text in ("the film is lovely " * 3000, "the film"):
        batcher._queue.put((Job(columns={"text": [text]}, finish=list), SimpleNamespace(done=lambda: False)))
    assert len(batcher._next_batch()) == together
    assert client.get("/info").json()["max_input_length"] == longest  # in windows the tokens of a request


def test_too_many_texts_and_tokens(client_of, fine_tuned):
    client = client_of(fine_tuned("film"), max_client_batch_size=2, max_request_tokens=20)
    assert "at most 2" in refusal(client.post("/", {"inputs": ["a", "b", "c"]}), 413)
    assert "at most 20" in refusal(client.post("/", {"inputs": ["film " * 10, "film " * 10]}), 413)
    assert client.post("/", {"inputs": ["a", "b"]}).status_code == 200
    similar = client_of(fine_tuned("similar"), max_request_tokens=20)
    service = similar.app.state.server.service
    assert "33 tokens; " in refusal(similar.post("/", {"inputs": "a" + "\tgood" * 10}), 413)
    assert similar.post("/", {"inputs": "a\tb"}).status_code == 200
    assert service.tokens == 6  # of all texts of an input


def test_texts_in_lists_count_for_a_batch():
    """As words of a text do not, since the text counts."""
    from bertkit.features.serving.services import Job

    similar = Job(columns={"texts": [["a film", "a plot"], ["one", "two"]]}, finish=list)
    assert (similar.characters(6), similar.characters(5)) == (18, 16)
    words = Job(columns={"text": ["a film"], "tokens": [["a", "film"]], "starts": [[0, 2]]}, finish=list)
    assert words.characters(6) == 6


def test_large_bodies_are_refused_before_they_are_read(client_of, fine_tuned):
    """By the header, and at the limit where the size is not declared."""
    client = client_of(fine_tuned("film"), max_body_bytes=1000)
    read = []

    async def endless():
        while True:
            read.append(1)
            assert len(read) < 50
            yield b" " * 100

    response = client.post("/", content=endless(), headers=JSON)
    refusal(response, 413)
    assert response.headers["connection"] == "close"
    assert len(read) < 15
    refusal(client.post("/", content=b"", headers={**JSON, "Content-Length": "1001"}), 413)
    refusal(client.post("/", content=b"", headers={**JSON, "Content-Length": "9" * 400}), 413)


def test_bodies_that_do_not_arrive(client_of, fine_tuned):
    import asyncio

    client = client_of(fine_tuned("film"), body_timeout=0.05)

    async def slow():
        await asyncio.sleep(10)
        yield b"{}"

    assert "0.05 seconds" in refusal(client.post("/", content=slow(), headers=JSON), 408)


def test_slow_bodies_keep_nobody_out(client_of, fine_tuned):
    """They are not counted as requests that are being answered, and too many of them end the oldest one."""
    import asyncio

    client = client_of(fine_tuned("film"), body_timeout=0.4, max_concurrent_requests=2)

    async def slow():
        await asyncio.sleep(5)
        yield b"{}"

    async def send() -> Any:
        late = [
            asyncio.ensure_future(client._request("POST", "/", None, {"content": slow(), "headers": JSON}))
            for _ in range(6)
        ]
        await asyncio.sleep(0.1)
        answer = await client._request("POST", "/", {"inputs": "the film"}, {})
        return answer, await asyncio.gather(*late)

    answer, late = client._runner.run(send())
    assert answer.status_code == 200
    errors = [refusal(response, 408) for response in late]
    assert sum("later requests" in error for error in errors) == 5
    assert sum("0.4 seconds" in error for error in errors) == 1


def test_a_body_that_has_just_expired_disturbs_no_other(client_of, fine_tuned):
    """Neither a later request nor the end of the server, which give up bodies before the expired one is gone."""
    import asyncio

    server = client_of(fine_tuned("film"), max_client_batch_size=11).app.state.server

    async def arriving(timeout: asyncio.Timeout) -> str:
        try:
            async with timeout:
                server._arriving[timeout] = None
                await asyncio.sleep(5)
        except TimeoutError:
            return str(server._given_up.pop(timeout))
        return ""

    async def expire() -> list[str]:
        bodies = [asyncio.timeout(None) for _ in range(2)]
        tasks = [asyncio.ensure_future(arriving(body)) for body in bodies]
        await asyncio.sleep(0)
        bodies[0].reschedule(asyncio.get_running_loop().time())  # runs before what is called next
        asyncio.get_running_loop().call_soon(lambda: [server._give_up(body, SlowBody("late")) for body in bodies])
        return await asyncio.gather(*tasks)

    assert asyncio.run(expire()) == ["late", "late"]


def test_only_json_is_taken(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        refusal(client.post("/", content=b'{"inputs": "a"}', headers={"Content-Type": kind}), 415)
    utf8 = {"Content-Type": "application/json; charset=utf-8"}
    assert client.post("/", content=b'{"inputs": "a"}', headers=utf8).status_code == 200


def test_overload(client_of, fine_tuned):
    client = client_of(fine_tuned("film"), max_concurrent_requests=3)
    responses = client.together([("/", {"inputs": "the film"})] * 12)
    refused = [response for response in responses if response.status_code != 200]
    assert refused
    assert len(responses) - len(refused) >= 3
    for response in refused:
        assert "try again" in refusal(response, 429)
        assert response.headers["retry-after"] == "1"
    assert client.post("/", {"inputs": "the film"}).status_code == 200


def test_texts_are_truncated_at_their_end_only(client_of, fine_tuned, checkpoint):
    """What cannot be done is refused, not ignored."""
    for client, path, body in (
        (client_of(fine_tuned("film")), "/predict", {"inputs": "a"}),
        (client_of(fine_tuned("pairs")), "/rerank", {"query": "a", "texts": ["b"]}),
        (client_of(checkpoint, "embed"), "/embed", {"inputs": "a"}),
    ):
        assert client.post(path, {**body, "truncation_direction": "Right"}).status_code == 200
        assert "truncation_direction" in refusal(client.post(path, {**body, "truncation_direction": "Left"}), 422)


def test_any_text_can_be_embedded(client_of, checkpoint):
    client = client_of(checkpoint, "embed")
    for inputs in ("source_sentence", ["source_sentence", '{"source_sentence": ""}']):
        assert client.post("/", {"inputs": inputs}).status_code == 200
    assert client.post("/", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}).status_code == 200
    refusal(client.post("/", {"inputs": {"source_sentence": "a"}}), 422)


def test_routes_of_other_checkpoints(client, client_of, checkpoint):
    error = refusal(client.post("/embed", {"inputs": "a"}), 424)
    assert error == "/embed: this checkpoint is served for text-classification, which answers POST /, /predict"
    refusal(client.post("/rerank", {"query": "a", "texts": ["b"]}), 424)
    refusal(client_of(checkpoint, "embed").post("/predict", {"inputs": "a"}), 424)
    assert "POST /, /predict" in refusal(client.get("/nothing"), 404)
    assert "takes POST with JSON, whose keys GET /docs names; `bertkit demo`" in refusal(client.get("/"), 405)


def test_the_token(client_of, fine_tuned):
    client = client_of(fine_tuned("film"), token="open sesame")
    body = {"inputs": "a"}
    for given in ("", "Bearer", "Bearer open", "Basic open sesame", "Bearer open sesame!", "Bearer öffne".encode()):
        response = client.post("/", body, headers={"Authorization": given})
        refusal(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    right = {"Authorization": "Bearer open sesame"}
    assert client.post("/", body, headers=right).status_code == 200
    for path in ("/docs", "/info", "/metrics"):
        refusal(client.get(path), 401)
        assert client.get(path, headers=right).status_code == 200
    assert client.get("/health").status_code == 200
    refusal(client.post("/embed", body), 401)


def test_a_page_says_what_can_be_asked(client, client_of, checkpoint):
    answer = client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert lines[0].startswith("film: text-classification, served by bertkit ")
    assert "  /predict  inputs, raw_scores, truncate, truncation_direction" in lines
    assert "/embed" not in answer.text
    of_vectors = client_of(checkpoint, "embed").get("/docs").text
    [line] = [line for line in of_vectors.splitlines() if line.startswith("  /similarity ")]
    assert {"inputs", "parameters"} <= set(line.replace(",", "").split())
    assert "/docs" in refusal(client.get("/redoc"), 404)


def test_information_and_metrics(client):
    client.post("/", {"inputs": ["a secret", "b"]})
    info = client.get("/info").json()
    assert info["model_id"] == "film"  # no path
    assert info["model_type"]["classifier"]["id2label"] == {"0": "bad", "1": "fair", "2": "good"}
    assert info["max_input_length"] == 24
    assert info["model_dtype"] == "float32"
    text = client.get("/metrics").text
    assert "secret" not in text
    assert 'bertkit_requests_total{route="/",status="200"}' in text
    assert "bertkit_batch_texts_bucket" in text


def test_a_failing_model_fails_its_own_request_only(client_of, fine_tuned, monkeypatch, capfd):
    """Requests of one batch: the one whose text breaks the model gets the error, the others their answers."""
    client = client_of(fine_tuned("film"), max_client_batch_size=9)
    service = client.app.state.server.service
    encode = service.predictor.task.encode

    def broken(examples: Any, tokenizer: Any) -> Any:
        if any("break" in text for text in examples["text"]):
            raise SystemExit("with the text: a secret")
        return encode(examples, tokenizer)

    monkeypatch.setattr(service.predictor.task, "encode", broken)
    requests = [("/", {"inputs": text}) for text in ("the film", "break", "a plot", "bad")]
    responses = client.together(requests)
    assert [response.status_code for response in responses] == [200, 500, 200, 200]
    assert "secret" not in responses[1].text + capfd.readouterr().err
    assert client.post("/", {"inputs": "the film"}).status_code == 200


def test_nothing_waits_for_a_thread_that_has_ended(client_of, fine_tuned, monkeypatch, capfd):
    client = client_of(fine_tuned("film"), max_client_batch_size=7)
    batcher = client.app.state.server.batcher
    assert client.get("/health").status_code == 200

    def broken(*_: Any) -> None:
        raise SystemExit("a secret")

    monkeypatch.setattr(batcher._metrics, "count_batch", broken)
    responses = client.together([("/", {"inputs": "the film"})] * 3)
    for response in [*responses, client.get("/health"), client.post("/", {"inputs": "the film"})]:
        assert "computes no requests any more" in refusal(response, 503)
    said = capfd.readouterr().err
    assert "the thread that computes has ended" in said
    assert "secret" not in said


def test_weights_not_finite_are_no_server_fault(client_of, fine_tuned, monkeypatch):
    import torch

    client = client_of(fine_tuned("film"), max_client_batch_size=8)
    service = client.app.state.server.service
    with torch.no_grad():
        service.predictor.model.classifier.bias.fill_(float("nan"))
    refusal(client.post("/", {"inputs": "a"}), 424)


@pytest.mark.parametrize("kind", ["film", "entities", "answers", "pairs", "fill-mask", "embed"])
def test_fuzzed_bodies_get_an_answer_or_a_refusal(kind, client_of, fine_tuned, checkpoint):
    """Never a fault of the server; `test_process.py` sends more to a real one."""
    client = client_of(checkpoint, kind) if kind in ("fill-mask", "embed") else client_of(fine_tuned(kind))
    source = random.Random(kind)
    for _ in range(60):
        body, path = random_body(source), source.choice(PATHS)
        response = client.post(path, content=body, headers=JSON)
        assert response.status_code == 200 or 400 <= response.status_code < 500, (path, body, response.text)
        json.loads(response.text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize(
    ("name", "kind", "path", "body"),
    [
        ("film", "predict", "/", {"inputs": ""}),
        ("film", "predict", "/", {"inputs": ["a", " \n\t"]}),
        ("film", "predict", "/predict", {"inputs": [["a"], [""]]}),
        ("chunks", "predict", "/", {"inputs": " "}),
        ("topics", "predict", "/", {"inputs": ["a", ""]}),
        ("pairs", "predict", "/", {"inputs": {"text": "a", "text_pair": ""}}),
        ("entities", "predict", "/", {"inputs": ""}),
        ("answers", "predict", "/", {"inputs": {"question": "", "context": "a"}}),
        ("reranker", "predict", "/rerank", {"query": "a", "texts": ["b", " "]}),
        ("reranker", "predict", "/rerank", {"query": "", "texts": ["b"]}),
        ("film", "embed", "/", {"inputs": ""}),
        ("film", "embed", "/embed", {"inputs": ["a", "\n"]}),
        ("film", "embed", "/v1/embeddings", {"input": ""}),
        ("film", "embed", "/similarity", {"inputs": {"source_sentence": "a", "sentences": [""]}}),
    ],
)
def test_no_route_answers_a_text_without_words(client_of, fine_tuned, name, kind, path, body):
    client = client_of(fine_tuned(name), *([kind] if kind == "embed" else []))
    assert "empty" in refusal(client.post(path, body), 422)
