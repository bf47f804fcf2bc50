"""A task of another package, through the real command line: one class and an entry point are all that it registers."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import bertkit as package_of_runs
from bertkit.inference.outcome import Outcome
from bertkit.inference.verdict import verdict_of
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import task_record
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.registry import TASKS, Registry, load_recipe
from bertkit.tasks.usual_recipes import default_recipe, recipe_of_package

PACKAGE = Path(__file__).parents[1] / "third_party"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "tasks.md"
LEVELS = {1: "good", 2: "bad good", 3: "bad awful plot", 4: "awful bad lovely or plot"}
TEXTS = ["the film is good", "the awful bad lovely or plot"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def package(folder: Path, name: str, entry: str, **modules: str) -> Path:
    """Writes an installed package: its modules and what it registers in the group ``bertkit.tasks``."""
    info = folder / f"{name}-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[bertkit.tasks]\n{entry}\n")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    return folder


@pytest.fixture(scope="module")
def bertkit() -> Run:
    """Runs ``bertkit ARGS…`` in a process of its own in which the packages of some folders are installed."""

    def run(*args: object, packages: tuple[Path, ...] = (PACKAGE,), code: int = 0, **environment: str) -> Any:
        path = os.pathsep.join([*map(str, packages), *sys.path])
        done = subprocess.run(
            [sys.executable, "-m", "bertkit", *map(str, args)],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stderr
        return done

    return run


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the package."""
    monkeypatch.syspath_prepend(PACKAGE)
    return importlib.import_module


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("levels") / "levels.csv"
    rows = [f"the {noun} is {text},{level}" for noun in ("film", "plot") for level, text in LEVELS.items()]
    path.write_text("\n".join(["text,grade", *rows * 6]) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(bertkit: Run, checkpoint: Path, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("third") / "run"
    sizes = ("--max-steps", 4, "--global-train-batch-size", 8, "--max-seq-length", 12, "--placement", "cpu")
    data = ("--train-file", table, "--test-file", table, "--level-column", "grade")
    done = bertkit("finetune", "reading-level", "--model", checkpoint, "--output-dir", out, *data, *sizes)
    assert re.search(r"^within_one \d\.\d+.* on \d+ examples\.$", done.stdout, re.M)  # the verdict
    assert "chosen: learning rate 0.0002 for a hidden size of " in done.stderr
    return out


@pytest.mark.slow
def test_the_files_of_a_run_name_the_task_and_what_it_has_learned(trained):
    config = json.loads((trained / "config.json").read_text())
    assert config["bertkit_task"]["kind"] == "reading_level"
    assert config["bertkit_task"]["task"] == {"column": "grade", "levels": 4}
    assert config["bertkit_task"]["data"]["max_seq_length"] == 12
    assert list(config["id2label"].values()) == ["level 1", "level 2", "level 3", "level 4"]
    assert len((trained / "predictions.jsonl").read_text().splitlines()) == 48
    assert "reading_level" in (trained / "README.md").read_text()
    assert "eval_within_one" in json.loads((trained / "eval_results.json").read_text())
    assert (trained / "recipe.yaml").read_text().startswith("# Resolved from reading_level. To repeat the run: ")
    assert "Fine-tuning: reading_level" in (trained / "report.html").read_text()


def test_a_task_on_tables_is_trained_as_classification_is(acme, monkeypatch):
    task = acme("acme_levels").LevelTask
    monkeypatch.setattr(task, "recipe", None)
    train = recipe_of_package(task)["train"]
    assert train["fit_schedule"]
    assert train.items() <= load_recipe("finetune/classification").train.items()
    own = Path("own.yaml")
    monkeypatch.setattr(task, "recipe", own)
    assert recipe_of_package(task) == own


def test_a_subclass_of_another_package_has_the_recipe_of_its_own_kind():
    class LegalTask(QuestionAnsweringTask):
        kind = "legal"

    settings, data = QuestionAnsweringTask.Settings(), QuestionAnsweringTask.data_settings()
    assert default_recipe(QuestionAnsweringTask(settings, data)) == "finetune/squad/v1"
    assert default_recipe(LegalTask(settings, data)) == {"task": {"kind": "legal"}}


@pytest.mark.parametrize("guesses", [[1, 2, 4, 4, 1, 3], [2] * 6])
def test_the_verdict_of_such_a_task_has_an_interval_and_names_a_collapse(acme, guesses):
    module = acme("acme_levels")
    task = module.LevelTask(module.LevelSettings(levels=4), module.LevelData())
    true = np.array([1, 2, 3, 4, 3, 1] * 5)
    logits = 50.0 * np.eye(4)[np.array(guesses * 5) - 1]
    examples = {"text": [f"film {number}" for number in range(30)], "labels": (true - 1).tolist()}
    outcome = Outcome(task, logits, {"labels": true - 1}, examples, "levels.csv")
    (sentence,) = verdict_of(outcome).sentences
    share = np.mean(abs(np.array(guesses * 5) - true) <= 1)
    assert re.fullmatch(rf"within_one {share:.4f} \(95 % interval 0\.\d+ to \d\.\d+\) on 30 examples\.", sentence)
    assert outcome.collapse == ("all predictions are '2'" if len(set(guesses)) == 1 else None)


def test_without_single_scores_the_verdict_is_the_main_metric(acme):
    module = acme("acme_reviews")
    task = module.ReviewTask(module.ReviewSettings(stars=["1", "5"], topic=["film", "plot"]), module.TableData())
    outputs, labels = (np.eye(2)[[0, 1, 1, 0]],) * 2, {"stars": np.array([0, 1, 1, 1]), "topic": np.array([0, 1, 1, 0])}
    outcome = Outcome(task, outputs, labels, {"text": [f"film {number}" for number in range(4)]}, "reviews.csv")
    assert verdict_of(outcome).sentences == ("both 0.7500 on 4 examples.",)
    of_test_set = verdict_of(outcome, (), {"eval_both": 0.75, "predict_both": 0.5, "predict_samples": 4.0}).sentences[1]
    assert of_test_set == "On the test set of 4 inputs the both is 0.5000, and 0.7500 on the validation set."


@pytest.fixture(scope="module")
def predicted(bertkit: Run, trained: Path) -> str:
    return bertkit("predict", trained, *TEXTS).stdout


@pytest.mark.slow
def test_texts_are_predicted_and_an_export_predicts_the_same(bertkit, trained, predicted, tmp_path):
    assert [line.startswith('{"level": ') for line in predicted.splitlines()] == [True, True]
    bertkit("export", trained, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "bert"
    assert bertkit("predict", tmp_path / "out", *TEXTS).stdout == predicted


def test_the_guide_shows_the_package():
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    assert [block for block in blocks if "class LevelTask" in block] == [(PACKAGE / "acme_levels.py").read_text()]


def test_a_long_text_keeps_its_last_token(checkpoint, acme):
    task_class = acme("acme_levels").LevelTask
    task = task_class(task_class.Settings(), task_class.data_settings(max_seq_length=6))
    tokenizer = load_tokenizer(str(checkpoint))
    features = task.encode({"text": [*TEXTS, "good"]}, tokenizer)
    expected = tokenizer([*TEXTS, "good"], truncation=True, max_length=6)
    assert features["input_ids"] == expected["input_ids"]
    assert {row[-1] for row in features["input_ids"]} == {tokenizer.sep_token_id}
    assert features["length"] == list(map(len, expected["input_ids"]))
    assert features["full_length"] == list(map(len, tokenizer([*TEXTS, "good"])["input_ids"]))


def test_a_task_may_have_the_earlier_names_of_its_settings(acme):
    levels = acme("acme_levels")

    class Earlier(levels.LevelTask):
        settings = levels.LevelSettings

        def config(self):
            return {"levels": self.task.levels}

    task = Earlier(Earlier.Settings(levels=3), Earlier.data_settings())
    assert task.with_settings(levels=4).config() == {"levels": 4}
    assert (task.settings.levels, task_record(task)["task"]["levels"]) == (3, 3)


def test_help_names_the_task_and_imports_nothing_of_it(bertkit, tmp_path):
    broken = package(tmp_path, "broken", "sounds = no_such_module:Task")
    listed = bertkit("finetune", "--help", packages=(broken, PACKAGE)).stdout
    assert "reading-level" in listed
    assert "sounds" in listed
    shown = bertkit("finetune", "reading-level", "--help").stdout
    assert "Usage: " in shown
    assert "reading_level, a task of the package acme-levels 1.0" in shown
    options = set(re.findall(r"^  (--[a-z-]+)", shown, re.M))
    assert {"--level-column", "--train-file", "--set", "--learning-rate", "--output-dir"} <= options
    assert not {"--column", "--levels"} & options  # a setting has the flag that it names, and none without help


@pytest.mark.slow
def test_without_its_package_the_kind_is_named(bertkit, trained, tmp_path):
    refused = bertkit("predict", trained, *TEXTS, packages=(), code=2).stderr
    assert "fine-tuned for the task 'reading_level', which is not part of bertkit" in refused
    again = ("finetune", "ner", "--recipe", trained / "recipe.yaml", "--output-dir", tmp_path / "out")
    assert "unknown task 'reading_level'" in bertkit(*again, packages=(), code=2).stderr


@pytest.mark.parametrize(
    ("name", "module", "expected"),
    [
        ("Task", "1 / 0", "cannot be imported (ZeroDivisionError: division by zero); fix or uninstall the package"),
        ("Task", "import no_such_thing", "cannot be imported (ModuleNotFoundError: No module"),
        ("Task", "", "cannot be imported (AttributeError"),
        ("Task", "Task = 5", "expected a subclass of bertkit.tasks.base.Task, got 5"),
        (
            "Own",
            "from bertkit.tasks.base import Task\nclass Own(Task): kind, Settings, data_settings = 'noises', int, int",
            "Own: kind is 'noises'; expected the entry point's name, 'sounds'; Settings is <class 'int'>; expected a "
            "dataclass; data_settings is <class 'int'>; expected a subclass of bertkit.tasks.splits.FineTuningData; "
            "does not define config, decode, encode, load, score",
        ),
    ],
)
def test_what_is_no_task_is_named_and_breaks_no_other(monkeypatch, tmp_path, name, module, expected):
    unique = f"acme_{tmp_path.name}"  # a module is imported once in a process
    monkeypatch.syspath_prepend(package(tmp_path, "acme-broken", f"sounds = {unique}:{name}", **{unique: module}))
    registry = Registry()
    assert registry.third_party() == {"sounds": "acme-broken 2.0"}
    with pytest.raises(RecipeError) as refused:
        registry.task("sounds")
    named = f"entry point sounds = {unique}:{name} of acme-broken 2.0 (group bertkit.tasks): "
    assert str(refused.value).startswith(named)
    assert expected in str(refused.value)
    assert registry.task("ner").kind == "ner"


def test_a_kind_that_is_taken_is_refused_and_the_others_work(monkeypatch, tmp_path):
    """One package takes two names of bertkit's and the kind of a third package."""
    entries = "ner = elsewhere:Ner\nsquad = elsewhere:Squad\nreading_level = elsewhere:Task"
    monkeypatch.syspath_prepend(PACKAGE)
    monkeypatch.syspath_prepend(package(tmp_path, "rival", entries))
    registry = Registry()
    assert registry.third_party() == dict.fromkeys(("relations", "reviews"), "acme-levels 1.0")
    for kind, entry in (("ner", "Ner"), ("squad", "Squad")):
        with pytest.raises(RecipeError, match=f"entry point {kind} = elsewhere:{entry} of rival .* bertkit's own task"):
            registry.settings(kind)
    both = "reading_level = elsewhere:Task of rival 2.0 .* reading_level = acme_levels:LevelTask of acme-levels 1.0"
    with pytest.raises(RecipeError, match=f"{both} .*: in conflict with each other; uninstall"):
        registry.task("reading_level")
    assert registry.task("glue").kind == "glue"


def test_pre_training_has_settings_and_is_no_task_to_fine_tune_for():
    assert Registry().settings("pretraining")[1].__name__ == "DataSettings"
    with pytest.raises(RecipeError, match=r"task.kind is 'pretraining'; use `bertkit pretrain`"):
        Registry().task("pretraining")


ROWS = {
    "reading_level": [{"text": "the film is good", "level": 1}, {"text": "the plot is bad", "level": 2}],
    "relations": [
        {"text": "the <e1>film</e1> is <e2>good</e2>", "label": "likes"},
        {"text": "the <e2>plot</e2> or <e1>film</e1>", "label": "other"},
    ],
    "reviews": [
        {"text": "the film is good", "stars": "5", "topic": "film"},
        {"text": "the plot is bad", "stars": "1", "topic": "plot"},
    ],
}


SERVING = "app", "requests", "services"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS)
def test_own_losses_and_heads_from_training_to_serving(kind, bertkit, checkpoint, tmp_path, monkeypatch, hub_models):
    """A loss and a metric, an encoding and a head, two heads: nothing is registered in a feature."""
    monkeypatch.syspath_prepend(PACKAGE)
    monkeypatch.delitem(TASKS.__dict__, "_installed", raising=False)
    table, recipe, out = tmp_path / "table.jsonl", tmp_path / f"{kind}.yaml", tmp_path / "run"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS[kind] * 20))
    data, train = f"{{train_file: {table}, max_seq_length: 16}}", "{max_steps: 3, global_train_batch_size: 8}"
    recipe.write_text(f"task: {{kind: {kind}}}\ndata: {data}\ntrain: {train}\nplacement: {{device: cpu}}\n")
    package_of_runs.finetune(recipe, model=str(checkpoint), output_dir=out)

    recorded = json.loads((out / "eval_results.json").read_text())
    scores = package_of_runs.evaluate(out).metrics
    assert {key: recorded[key] for key in scores} == pytest.approx(scores)
    texts = [row["text"] for row in ROWS[kind]]
    predictor = package_of_runs.load(out)
    predictions = predictor.predict(texts)
    assert len(predictions) == 2
    assert "<section" in Path(package_of_runs.report(out)).read_text()
    imported = {"relations": "from acme_relations import ", "reviews": "from acme_reviews import BertForReviews"}
    assert imported.get(kind, "import AutoModelFor") in (out / "README.md").read_text()

    app, requests, services = (pytest.importorskip(f"bertkit.features.serving.{name}") for name in SERVING)
    service = app.build_app(services.PredictService(predictor, 32, 1000), kind, requests.Limits())
    with TestClient(service, base_url="http://localhost") as client:
        answers = client.post("/", json={"inputs": texts}).json()
    assert len(answers) == 2
    with hub_models.ModelHub() as hub:
        there = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": hub_models.TOKEN, "HF_HOME": str(tmp_path / "hf")}
        bertkit("push", out, "ada/own", HF_HUB_DISABLE_XET="1", **there)
        done = bertkit("predict", "ada/own", *texts, HF_HUB_DISABLE_XET="1", **there)
        assert done.stdout == bertkit("predict", out, *texts).stdout
