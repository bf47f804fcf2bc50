"""Fixtures that several rooms share."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Whether a test passes must not hang on how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores; threads of each would only wait for others'
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure() -> None:
    """Lets the commands that tests start receive Ctrl-C, also where the tests run in the background of a shell."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def _frozen_objects() -> None:
    """Takes the objects of the imported libraries out of garbage collection.

    Every training starts with a full collection, which would go through a million of them.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _unsynced_files() -> Iterator[None]:
    """Leaves files to the system: no power is cut, and a training waits for the disk for a fifth of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def rng() -> random.Random:
    """Draws the moments of chaos anew in each run; the seed that a failing test prints repeats them."""
    seed = int(os.environ.get("BERTKIT_TEST_SEED") or random.randrange(2**32))
    print(f"BERTKIT_TEST_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def tiny_sizes() -> dict[str, Any]:
    """A BERT that fits in the head: 2 layers, 32 wide, 4 heads, 99 words, 16 positions, no dropout."""
    return {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 37,
        "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


@pytest.fixture
def tiny_config(tiny_sizes: dict[str, Any]) -> Any:
    """The configuration of that BERT."""
    from bertkit import BertConfig

    return BertConfig(**tiny_sizes)


# The families of encoders that fine-tuning is tried with, and the fields of their tiny configurations beside those of
# `tests.stock_models`; a text of up to 40 tokens fits all of them.
_ENCODERS: dict[str, dict[str, Any]] = {
    "bertkit": {},
    "albert": {},
    "deberta": {},
    "deberta-v2": {},
    "distilbert": {},
    "electra": {},
    "modernbert": {"classifier_pooling": "cls", "eos_token_id": 2}
    | {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "sep_token_id": 2},
    "mpnet": {"max_position_embeddings": 42},
    "roberta": {"max_position_embeddings": 42},
    "xlm-roberta": {"max_position_embeddings": 42},
}


@pytest.fixture(params=_ENCODERS)
def encoder(request: pytest.FixtureRequest) -> Any:
    """The configuration of a tiny encoder without dropout; a test is run once for each family."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    import bertkit  # noqa: F401 - registers the first family
    from bertkit.model.checkpoint.encoders import own_fields
    from tests.stock_models import OWN

    name = request.param
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 40, **OWN.get(name, {}), **_ENCODERS[name]}
    family = CONFIG_MAPPING[name]
    no_dropout = {field: 0.0 for field in own_fields(family) if "dropout" in field}
    return family(**{field: value for field, value in {**no_dropout, **sizes}.items() if value is not None})


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained BERT as a run leaves it, but tiny and with random weights; 64 positions."""
    import torch

    from bertkit import BertConfig, BertForPreTraining
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = train_tokenizer(["a good bad film story, the plot is lovely or awful"] * 3, 90, model_max_length=64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    BertForPreTraining(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def fine_tuned(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a function that makes a fine-tuned checkpoint of a kind of ``fine_tuned.py``, with random weights."""
    from tests.fine_tuned import fine_tuned

    @cache
    def make(kind: str) -> Path:
        return fine_tuned(kind, checkpoint, tmp_path_factory.mktemp(kind) / kind)

    return make


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Programs ``python`` and ``bertkit`` that start in 0.1 s, offline and with one thread (`tests.forking`).

    Give them ``forks.environment``; with other variables of the libraries they start as slowly as usual.
    """
    from tests.forking.programs import Forks

    settings = {"OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path_factory.mktemp("home")), "HF_HUB_OFFLINE": "1"}
    forks = Forks({**os.environ, **settings})
    yield forks
    forks.close()


@pytest.fixture
def two_processes(forks: Any) -> Callable[[str], list[str]]:
    """``two_processes(program)``: what the two processes of a run print that execute a program, without a launcher."""

    def run(program: str, **environment: str) -> list[str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        together = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes = [
            subprocess.Popen(
                [forks.python, "-c", program],
                env={**forks.environment, **together, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]
        try:
            outputs = [process.communicate(timeout=180) for process in processes]
        finally:
            for process in processes:
                process.kill()
        for process, (_, err) in zip(processes, outputs, strict=True):
            assert process.returncode == 0, err
        return [out.strip() for out, _ in outputs]

    return run


@pytest.fixture(scope="module")  # while a playwright is open, its event loop counts as that of the whole process
def browser() -> Iterator[Any]:
    """The system's Chromium, or a skip that says why."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, path: Path, width: int, scheme: str = "light", drawn: str = "true") -> Any:
    """Opens a page in Chromium and checks what holds for every page: no message, no request, no horizontal scrolling.

    Args:
        browser: of the fixture.
        path: the file.
        width: of the window, pixels.
        scheme: ``light`` or ``dark``.
        drawn: expression of JavaScript that is true when the page's script has drawn.
    """
    page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(drawn)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    return page


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets, or a skip that says why."""
    folder = Path(os.environ.get("BERTKIT_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} does not exist; set BERTKIT_REAL_DATA")
    return folder


@pytest.fixture(scope="session")
def hub_models() -> Any:
    """The module ``hub_models.py``: a Hub to push to."""
    from tests import hub_models

    return hub_models


@pytest.fixture(scope="session")
def stock_models() -> Any:
    """The module ``stock_models.py``: checkpoints as others publish them."""
    from tests import stock_models

    return stock_models


@pytest.fixture(scope="session", autouse=bool(os.environ.get("BERTKIT_TEST_ODD_OFFSETS")))
def weights_at_odd_offsets() -> Iterator[None]:
    """Runs the tests with weights at other addresses than torch's own, if BERTKIT_TEST_ODD_OFFSETS is set."""
    from tests.odd_offsets import odd_offsets

    with odd_offsets():
        yield


@pytest.fixture(autouse=True)
def without_reports() -> Iterator[None]:
    """Sets ``train.report: false`` for the runs of this process, since a report takes seconds; tests/features/reporting
    has it on."""
    from bertkit.recipe.fields import TRAIN_DEFAULTS

    with pytest.MonkeyPatch.context() as patch:  # its own, since tests may undo theirs
        patch.setitem(TRAIN_DEFAULTS, "report", False)
        yield


@pytest.fixture
def with_hub(tmp_path: Path) -> Callable[..., list[Any]]:
    """``with_hub(endpoint, program, calls)``: what a program prints that finds this Hub, a JSON value a line.

    It is another process, since the address of the Hub is read at import; its argument is ``calls`` as JSON.
    """

    def run(endpoint: str, program: str, calls: Sequence[Any], **environment: str) -> list[Any]:
        settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(calls)],
            env={**os.environ, **settings, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return list(map(json.loads, done.stdout.splitlines()))

    return run
