"""The page of a checkpoint: its examples, and in a real browser what it shows and what it does not load."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bertkit
from bertkit.features.serving.demo import _compute, build_demo, examples_of_run, form_of
from bertkit.recipe.files import to_yaml
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import load_recipe, task_of_recipe

TEXT = "the film is lovely, a good story"
CONTEXT = "the story is good, the film is a lovely plot"


def test_examples_are_texts_of_the_validation_set(tmp_path):
    rows = [f"a {word} film,{label}" for word, label in (("good", "yes"), ("bad", "no")) * 5]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    data = {"data.train_file": str(tmp_path / "rows.csv"), "data.validation_file": str(tmp_path / "rows.csv")}
    recipe = load_recipe("finetune/classification", overrides=data)
    task, _ = task_of_recipe(recipe).load(["validation"])
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe.to_dict()))
    assert examples_of_run(str(tmp_path), task) == [["a good film"], ["a bad film"]] * 2 + [["a good film"]]
    (tmp_path / "rows.csv").unlink()
    assert examples_of_run(str(tmp_path), task) == []
    assert examples_of_run("owner/name", task) == []


def test_another_use_is_refused_before_a_page_is_served(fine_tuned):
    pytest.importorskip("gradio", reason="the extra demo is not installed")
    with pytest.raises(RecipeError, match="--as classify: expected one of predict, fill-mask, embed"):
        build_demo(bertkit.load(fine_tuned("film"), device="cpu"), "film", "classify")


def test_faults_on_a_page_name_no_folders():
    gradio = pytest.importorskip("gradio", reason="the extra demo is not installed")

    def fail():
        raise RecipeError("/home/ada/film: the model computes NaN")

    with pytest.raises(gradio.Error, match="…/film: the model"):
        _compute(fail, ["a"])


def test_similarity_has_a_box_for_each_text(fine_tuned):
    loaded = bertkit.load(fine_tuned("similar"), device="cpu")
    form = form_of(loaded, "predict")
    assert form.fields == ("text", "other text")
    [expected] = loaded.predict("a good film\tthe plot")
    assert form.view(["a good\tfilm", "the plot"]).title == f"{expected['similarity']:.4f}"


@pytest.mark.parametrize(
    ("kind", "use", "has_tab"),
    [
        ("film", "predict", True),
        ("entities", "predict", True),
        ("choices", "predict", True),
        ("similar", "predict", False),  # no label, no number that is attributed to words
        ("film", "embed", False),
        ("checkpoint", "fill-mask", True),
        ("checkpoint", "embed", False),
    ],
)
def test_the_inside_is_there_for_what_can_be_shown(fine_tuned, checkpoint, kind, use, has_tab):
    from bertkit.features.serving.explain import inside_of

    loaded = bertkit.load(checkpoint if kind == "checkpoint" else fine_tuned(kind), device="cpu")
    tab = inside_of(loaded, use, ["text"], [])
    assert (tab is not None) == has_tab
    if has_tab:
        shown = tab.html(["a good film\tthe plot is lovely\tor a bad story", ""])
        part = "What it would fill in" if use == "fill-mask" else "Why this prediction"
        assert f"&lt;h2&gt;{part}&lt;/h2&gt;" in shown
        assert "id=&quot;attention&quot;" not in shown
        assert str(loaded.name) not in shown


def test_no_inside_of_an_ensemble(fine_tuned, tmp_path):
    from bertkit.features.serving.explain import inside_of

    shutil.copytree(fine_tuned("film"), folder := tmp_path / "ensemble")
    shutil.copytree(fine_tuned("film"), folder / "one")
    (folder / "ensemble.json").write_text('{"members": ["one"]}')
    assert inside_of(bertkit.load(folder, device="cpu"), "predict", ["text"], []) is None


@pytest.fixture(scope="module")
def demo(forks: Any) -> Iterator[Callable[..., tuple[str, int]]]:
    """Returns a function that starts the page of a checkpoint, once, and returns its address and port.

    At the end each process gets SIGTERM, and must end with exit code 0.
    """
    pytest.importorskip("gradio", reason="the extra demo is not installed: gradio")
    started: dict[tuple[str, ...], tuple[subprocess.Popen[str], str, int]] = {}

    def start(folder: Path, *options: str) -> tuple[str, int]:
        command = (forks.python, "-m", "bertkit", "demo", str(folder), "--port", "0", "--device", "cpu", *options)
        if command not in started:
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=forks.environment)
            said = process.stderr.readline()
            url = re.search(r"page for .*(http://\S+:(\d+))", said)
            assert url, said + process.communicate()[1]
            started[command] = process, url[1], int(url[2])
        return started[command][1:]

    yield start
    for process, _, _ in started.values():
        process.send_signal(signal.SIGTERM)
    codes = [process.wait(timeout=200) for process, _, _ in started.values()]
    for process, _, _ in started.values():
        process.stderr.close()
    assert set(codes) <= {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "statuses"),
    [
        ([], {"evil.example": 400, "localhost": 200}),
        (["--host", "0.0.0.0"], {"evil.example": 200}),
    ],
)
def test_foreign_hosts_are_refused(demo, fine_tuned, options, statuses):
    """A page on all interfaces has any name, as on a Space."""
    _, port = demo(fine_tuned("film"), *options)
    for host, status in statuses.items():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()


@pytest.fixture
def page_of(browser: Any, demo: Any) -> Iterator[Callable[..., SimpleNamespace]]:
    """Returns a function that opens the page of a checkpoint in Chromium; it notes all requests of the browser."""
    pages: list[Any] = []

    def opened(folder: Path, width: int = 1280) -> SimpleNamespace:
        url, _ = demo(folder)
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(120_000)  # milliseconds; machines may be busy
        pages.append(page)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url)
        page.wait_for_selector("#predict")
        return SimpleNamespace(page=page, requests=requests, url=url)

    yield opened
    for page in pages:
        page.close()


def predicted(opened: SimpleNamespace, *texts: str) -> str:
    """Types the texts, clicks and returns the prediction."""
    for number, text in enumerate(texts):
        opened.page.locator(f"#text-{number} textarea").fill(text)
    opened.page.locator("#predict").click()
    box = "document.querySelector('#prediction textarea')"
    opened.page.wait_for_function(f"{box} && {box}.value.length > 0")
    return opened.page.locator("#prediction textarea").input_value()


def is_of_the_page(opened: SimpleNamespace, request: str) -> bool:
    return request.startswith((opened.url, "data:", "blob:"))


@pytest.mark.browser
@pytest.mark.usefixtures("serve_extra")
@pytest.mark.parametrize("width", [1280, 400])
def test_probabilities_as_bars(page_of: Any, fine_tuned: Any, width: int):
    opened = page_of(fine_tuned("film"), width=width)
    (expected,) = bertkit.load(fine_tuned("film")).predict(TEXT)
    assert predicted(opened, TEXT) == expected["label"]
    opened.page.wait_for_selector("#bars .bar")
    text = opened.page.locator("#bars").inner_text()
    for label, probability in expected["probabilities"].items():
        assert label in text
        assert f"{100 * probability:.0f}%" in text
    assert [request for request in opened.requests if not is_of_the_page(opened, request)] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.browser
@pytest.mark.usefixtures("serve_extra")
def test_a_name_is_shown_as_it_is(page_of: Any, fine_tuned: Any, tmp_path: Path):
    shutil.copytree(fine_tuned("film"), folder := tmp_path / "a&lt;b_c *d* 1.5")
    assert page_of(folder).page.locator("h1").first.inner_text() == folder.name


@pytest.mark.browser
@pytest.mark.usefixtures("serve_extra")
def test_entities_and_answers_are_marked_in_their_text(page_of: Any, fine_tuned: Any):
    (expected,) = bertkit.load(fine_tuned("entities")).predict(TEXT)
    opened = page_of(fine_tuned("entities"))
    count = len(expected["entities"])
    assert count
    assert predicted(opened, TEXT) == f"{count} entities"
    shown = opened.page.locator("#marks").inner_text()
    assert all(entity["text"] in shown for entity in expected["entities"])
    assert shown.count("FILM") == count

    (expected,) = bertkit.load(fine_tuned("answers")).predict(question="what", context=CONTEXT)
    opened = page_of(fine_tuned("answers"))
    assert predicted(opened, "what", CONTEXT) == expected["answer"]
    assert f"{expected['probability']:.4f}" in opened.page.locator("#marks").inner_text()


@pytest.mark.browser
@pytest.mark.usefixtures("serve_extra")
def test_masks_examples_and_wrong_input(page_of: Any, checkpoint: Path):
    opened = page_of(checkpoint)
    (guesses,) = bertkit.load(checkpoint).fill_mask("the [MASK] is")[0]
    assert predicted(opened, "the [MASK] is") == guesses[0].text
    opened.page.locator("#text-0 textarea").fill("no mask")
    opened.page.locator("#predict").click()
    opened.page.wait_for_selector("text=mark the place to predict")
    opened.page.get_by_text("The capital of France").first.click()
    opened.page.wait_for_function("document.querySelector('#text-0 textarea').value.includes('France')")


@pytest.mark.browser
@pytest.mark.usefixtures("serve_extra")
def test_the_inside_of_a_prediction(page_of: Any, fine_tuned: Any):
    opened = page_of(fine_tuned("film"), width=400)
    label = predicted(opened, TEXT)
    opened.page.get_by_role("tab", name="Inside").click()
    opened.page.wait_for_function(f"document.querySelector('#inside-text-0 textarea').value === {TEXT!r}")
    opened.page.locator("#show-inside").click()
    frame = opened.page.frame_locator("#inside iframe")
    assert frame.locator("h3").first.inner_text() == label
    assert [each.strip() for each in frame.locator(".words").first.all_inner_texts()[0].split()] == TEXT.replace(
        ",", " ,"
    ).split()
    assert [request for request in opened.requests if not is_of_the_page(opened, request)] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    opened.page.locator("#inside-text-0 textarea").fill(" ")
    opened.page.locator("#show-inside").click()
    opened.page.wait_for_selector("text=Write a text first")
