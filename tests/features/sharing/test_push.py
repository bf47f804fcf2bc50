"""Pushing over real HTTP: what arrives, what never does, and what is left when the connection or the Hub fails."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

import bertkit
from bertkit.features.sharing import push as push_module
from bertkit.features.sharing import push_files
from bertkit.runtime.errors import CheckpointError, HubError
from bertkit.runtime.files import write_json

from .conftest import WITHOUT_BERTKIT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # of huggingface_hub's uploads
]
TEXTS = ["the film is lovely", "the plot is awful"]

# Makes the given calls [name, arguments, keywords], and prints a JSON value for each.
CALLS = """
import json, platform, socket, sys, time
socket.gethostname = platform.node = lambda: "tell-tale-host"
time.sleep = lambda seconds: None  # the Hub's client waits between its own retries
import bertkit
from bertkit.runtime.errors import BertkitError
for name, given, keywords in json.loads(sys.argv[1]):
    try:
        if name == "predict":
            print(json.dumps(bertkit.load(*given).predict(**keywords)))
        else:
            print(json.dumps({"done": str(getattr(bertkit, name)(*given, **keywords))}))
    except BertkitError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""

# A stranger: no bertkit, only what the card says.
READS_CARD = (
    WITHOUT_BERTKIT
    + """
import torch
from huggingface_hub import hf_hub_download
for repository, texts in json.loads(sys.argv[1]):
    card = open(hf_hub_download(repository, "README.md")).read()
    lines = re.search(r"```python\\n(.*?)```", card, re.S)[1]
    if "trust_remote_code" in lines:
        lines = re.sub(r"import bertkit .*", "", lines).replace('")', '", trust_remote_code=True)')
    exec(lines)
    with torch.no_grad():
        logits = model.eval()(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    print(json.dumps([lines.strip().splitlines(), type(model).__module__, logits.softmax(-1).tolist()]))
"""
)


STALE = ["model-00001-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "modeling_bert.py"]
STALE += ["vocab.txt", "recipe.yaml", "modules.json", "1_Pooling/config.json", "features_bert.py"]
STALE += ["vocab.json", "merges.txt", "spm.model", "spiece.model", "sentencepiece.bpe.model"]
KEPT = ["notes.md", "figures/model.safetensors.png", "onnx/model.safetensors", ".gitattributes"]


@pytest.fixture(scope="module")
def world(hub_models: Any, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory):
    """A Hub, and a process that fine-tunes and pushes to it under all kinds of faults; what it said of each."""
    folder = tmp_path_factory.mktemp("tell-tale-home") / "tell-tale-folder"
    folder.mkdir()
    rows = [f"the {noun} is {word},{word}" for noun in ("film", "plot") for word in ("lovely", "awful")]
    (folder / "tell-tale-table.csv").write_text("\n".join(["text,label", *rows * 6]) + "\n")
    run = str(folder / "run")
    overrides = {
        "data.train_file": str(folder / "tell-tale-table.csv"),
        "data.max_seq_length": 16,
        "data.folds": 0,
        "train.max_steps": 2,
        "train.load_best_model_at_end": False,
        "placement.device": "cpu",
        "hub.license": "cc-by-4.0",
    }
    given = {"model": str(checkpoint), "output_dir": run, "overrides": overrides, "push_to_hub": "ada/film"}
    with hub_models.ModelHub() as hub:
        hub.faults = {
            ("ada/film", "commit"): [500],
            ("ada/unknown", "create"): [401],
            ("ada/forbidden", "preupload"): [403],
            ("ada/conflict", "commit"): [409],
            ("ada/cut", "commit"): ["drop"],
            ("ada/torn", "lfs"): ["drop"] * 20,
            ("ada/shaky", "lfs"): ["drop", 500],
            ("ada/busy", "preupload"): [500, 503],
            ("spaces/ada/broken", "create"): [403],
        }
        faulty = ["unknown", "forbidden", "conflict", "cut", "torn", "shaky", "busy"]
        calls: dict[str, list[Any]] = {"run": ["finetune", ["finetune/classification"], given]}
        calls |= {"again": ["push", [run, "film"], {"language": ["en"]}]}
        calls |= {name: ["push", [run, f"ada/{name}"], {}] for name in faulty}
        calls |= {
            "branch": ["push", [run, "ada/film"], {"revision": "v1", "license": "mit"}],
            "hidden": ["push", [run, "ada/hidden"], {"private": True}],
            "too late": ["push", [run, "ada/film"], {"private": True}],
            "used": ["push", [run, "ada/used"], {}],
            "bare": ["push", [run, "ada/bare"], {"report": False}],
            "native": ["push", [run, "ada/native"], {"as_": "bertkit"}],
            "space": ["push", [run, "ada/shown"], {"space": "ada/try-film", "license": "mit"}],
            "public space": ["push", [run, "ada/hidden"], {"space": "ada/try-film", "private": True}],
            "refused space": ["push", [run, "ada/shown"], {"space": "ada/broken"}],
            "predict": ["predict", [run], {"texts": TEXTS}],
        }
        environment = {
            **os.environ,
            "HF_ENDPOINT": hub.endpoint,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_TOKEN": hub_models.TOKEN,
            **dict.fromkeys(("USER", "LOGNAME"), "tell-tale-user"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "TMPDIR": str(folder / "temporary"),  # other tests push at the same time, with the same prefix
        }
        (folder / "temporary").mkdir()

        def process(program: str, what: list[Any], home: str) -> list[Any]:
            done = subprocess.run(
                [sys.executable, "-c", program, json.dumps(what)],
                env={**environment, "HF_HOME": str(folder / home)},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, done.stderr
            assert hub_models.TOKEN not in done.stdout + done.stderr
            return list(map(json.loads, done.stdout.splitlines()))

        # What another tool pushed before: weights that would be loaded in place of ours, and a file of its owner's.
        hub.repositories["ada/used"] = hub_models.Repository()
        hub.files("ada/used").update(dict.fromkeys(STALE, b"old") | dict.fromkeys(KEPT, b"mine"))
        outcomes = dict(zip(calls, process(CALLS, list(calls.values()), "hf"), strict=True))
        failed = {name: dict(hub.files(f"ada/{name}")) for name in faulty if "error" in outcomes[name]}
        made = {"hub": hub, "run": Path(run), "process": process, "temporary": folder / "temporary"}
        yield {**made, "outcomes": outcomes, "failed": failed}


@pytest.fixture
def push_here(world: Any, hub_models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`bertkit.push` of this process to the Hub of `world`."""
    endpoint = world["hub"].endpoint
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    constants = {"ENDPOINT": endpoint, "HUGGINGFACE_CO_URL_TEMPLATE": template, "HF_HUB_CACHE": str(tmp_path / "hf")}
    constants["HF_HUB_DISABLE_XET"] = True
    for name, value in constants.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setenv("HF_TOKEN", hub_models.TOKEN)
    return bertkit.push


def pushed(world: Any, repository: str, branch: str = "main") -> dict[str, bytes]:
    return world["hub"].files(repository, branch)


def metadata(card: bytes) -> dict[str, Any]:
    return yaml.safe_load(card.decode().split("---\n")[1])


def test_a_run_whose_upload_fails_is_complete(world):
    outcome = world["outcomes"]["run"]
    assert outcome["error"] == "HubError"
    assert "the push failed: the Hub failed to process the request" in outcome["message"]
    assert outcome["message"].endswith(f"bertkit push {world['run']} ada/film")
    assert json.loads((world["run"] / "run.json").read_text())["finished"]
    for name in ("model.safetensors", "README.md", "all_results.json", "eval_results.json", "recipe.yaml"):
        assert (world["run"] / name).is_file(), name


def test_the_second_try_pushes_these_files(world):
    assert "/ada/film (public): README.md, all_results.json" in world["outcomes"]["again"]["done"]
    files = pushed(world, "ada/film")
    expected = "README.md all_results.json config.json eval_results.json model.safetensors recipe.yaml report.html"
    expected += " tokenizer.json tokenizer_config.json"
    assert sorted(name for name in files if not name.startswith("figures/")) == expected.split()


def test_the_report_is_pushed_unless_left_out(world):
    files = pushed(world, "ada/film")
    assert "report.html shows texts of the scored rows" in world["outcomes"]["again"]["done"]
    assert files["figures/confusion.png"] == (world["run"] / "figures" / "confusion.png").read_bytes()
    assert b"(figures/confusion.png)" in files["README.md"]
    bare = pushed(world, "ada/bare")
    assert not [name for name in bare if "report" in name or name.startswith("figures")]
    assert b"report.html" not in bare["README.md"]
    assert b"figures/" not in bare["README.md"]
    assert b"| accuracy |" in bare["README.md"]


def test_a_fresh_process_predicts_the_same(world):
    (there,) = world["process"](CALLS, [["predict", ["ada/film"], {"texts": TEXTS}]], "fresh")
    here = world["outcomes"]["predict"]
    assert [each["label"] for each in there] == [each["label"] for each in here]
    for one, other in zip(there, here, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


def test_the_card_s_lines_work_without_bertkit(world):
    """Three lines for the stock form; the native form brings its code."""
    here = [list(each["probabilities"].values()) for each in world["outcomes"]["predict"]]
    stock, native = world["process"](READS_CARD, [["ada/film", TEXTS], ["ada/native", TEXTS]], "stranger")
    assert [line for line in stock[0] if line] == [
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
        'model = AutoModelForSequenceClassification.from_pretrained("ada/film")',
        'tokenizer = AutoTokenizer.from_pretrained("ada/film")',
    ]
    assert stock[1] == "transformers.models.bert.modeling_bert"
    assert native[1].startswith("transformers_modules.")
    for found in (stock, native):
        for one, other in zip(found[2], here, strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def test_no_pushed_byte_tells_of_this_machine(world):
    traces = ["tell-tale-home", "tell-tale-folder", "tell-tale-host", "tell-tale-user", "hf_AVery"]
    traces += [str(Path.cwd()), str(Path(bertkit.__file__).parent)]
    repositories = world["hub"].repositories
    assert {"ada/film", "ada/native", "ada/hidden"} <= set(repositories)
    for name, repository in repositories.items():
        for branch in repository.branches.values():
            for path, data in branch.items():
                for trace in traces:
                    assert trace.encode() not in data, f"{name}/{path}: {trace}"
    assert b"train_file: \xe2\x80\xa6/tell-tale-table.csv" in pushed(world, "ada/film")["recipe.yaml"]


def test_the_pushed_card_is_complete(world):
    card = pushed(world, "ada/film")["README.md"]
    about = metadata(card)
    assert (about["license"], about["language"], about["pipeline_tag"]) == ("cc-by-4.0", ["en"], "text-classification")
    assert about["library_name"] == "transformers"
    text = card.decode()
    assert "import bertkit" not in text
    assert "bertkit predict ada/film" in text
    assert "2 steps of 32 inputs, peak learning rate 0.0002, seed 42, with bertkit " in text
    assert "More information needed" not in text
    assert "PATH_OR_HUB_ID" not in text
    assert metadata(pushed(world, "ada/film", "v1")["README.md"])["license"] == "mit"


REASONS = {
    "unknown": "the Hub does not accept the token; log in with `hf auth login`",
    "forbidden": "the token is not allowed to write; it needs write access to ada",
    "conflict": "the repository was changed by someone else at the same time",
    "cut": "the connection failed",
    "torn": "the connection failed",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_failed_upload_leaves_nothing_half_there(name, world):
    outcome = world["outcomes"][name]
    assert outcome["error"] == "HubError"
    assert f"ada/{name}: the push failed: {REASONS[name]}" in outcome["message"]
    assert f"No local files are lost. To try again: bertkit push {world['run']} ada/{name}" in outcome["message"]
    assert world["failed"][name] == {}


@pytest.mark.parametrize("name", REASONS)
def test_the_command_that_is_named_works(name, world, push_here):
    words = shlex.split(world["outcomes"][name]["message"].partition("To try again: ")[2])
    assert words[:2] == ["bertkit", "push"]
    world["hub"].faults.clear()
    push_here(*words[2:])
    assert pushed(world, f"ada/{name}")["model.safetensors"] == pushed(world, "ada/film")["model.safetensors"]


@pytest.mark.parametrize("name", ["shaky", "busy"])
def test_what_passes_by_itself_is_waited_for(name, world):
    assert "done" in world["outcomes"][name]
    assert set(pushed(world, f"ada/{name}")) == set(pushed(world, "ada/film"))


def test_private_holds_for_new_repositories_only(world):
    assert "(private)" in world["outcomes"]["hidden"]["done"]
    assert world["hub"].repositories["ada/hidden"].private
    assert "exists and is public, so nothing was pushed" in world["outcomes"]["too late"]["message"]


def test_only_files_of_another_checkpoint_are_deleted(world):
    files = pushed(world, "ada/used")
    assert set(files) == set(pushed(world, "ada/film")) | set(KEPT)
    assert files["recipe.yaml"] == pushed(world, "ada/film")["recipe.yaml"]
    assert {files[name] for name in KEPT} == {b"mine"}
    assert world["hub"].steps["ada/used", "commit"] == 1


def test_a_failed_export_names_the_command(world, monkeypatch):
    def refuse(checkpoint, folder):
        raise CheckpointError("the exported model is not equivalent")

    monkeypatch.setattr(push_files, "export_stock", refuse)
    monkeypatch.setattr(push_module, "hub_faults", lambda repo_id, command: nullcontext())
    settings = push_module.HubSettings(license="mit", revision="v2")
    with pytest.raises(HubError) as caught:
        push_module.push_finished_run(world["run"], "ada/film", settings)
    assert "before anything was sent: the exported model is not equivalent" in str(caught.value)
    assert str(caught.value).endswith(f"bertkit push {world['run']} ada/film --revision v2")


def test_the_native_form_brings_its_code(world):
    files = pushed(world, "ada/native")
    assert {"modeling_bert.py", "configuration_bert.py", "loss_bert.py", "labels_bert.py"} <= set(files)
    assert json.loads(files["config.json"])["model_type"] == "bertkit"


def test_nothing_is_left_on_the_disk(world):
    assert not list(world["temporary"].glob("bertkit-push-*"))


def test_an_edited_card_is_pushed_as_it_is(world, tmp_path):
    run = shutil.copytree(world["run"], tmp_path / "run")
    with (run / "README.md").open("a") as card:
        card.write("\nMy own words.\n")
    planned = bertkit.push(run, "ada/film", dry_run=True)
    assert planned.card.endswith("My own words.\n")
    assert "differs from the generated model card" in planned.notes[0]


def test_a_refused_card_creates_no_repository(world, push_here, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(world["run"], run)
    (run / "README.md").write_text("---\nlanguage: no\n---\n\nMine.\n")
    with pytest.raises(CheckpointError, match=f'{run}/README.md: its metadata are not valid: "language" must be a str'):
        push_here(run, "ada/refused")
    assert "ada/refused" not in world["hub"].repositories


def test_a_benchmark_score_goes_with_the_next_checkpoint(world, push_here, tmp_path):
    run, record = tmp_path / "scored", json.loads((world["run"] / "run.json").read_text())
    shutil.copytree(world["run"], run)
    recipe = yaml.safe_load(record["card"]["recipe"])
    record["card"]["recipe"] = yaml.safe_dump({**recipe, "hub": {**recipe["hub"], "benchmark_task": "dev"}})

    def push_scored_on(dataset: str) -> Any:
        record["card"]["dataset"] = [dataset, "default", "validation"]
        write_json(run / "run.json", record)
        return push_here(run, "ada/scored")

    tasks = b"name: Films\ntasks:\n- {id: dev, split: validation}\n"
    repositories = world["hub"].repositories
    repositories["datasets/ada/films"] = type(repositories["ada/film"])(branches={"main": {"eval.yaml": tasks}})
    repositories["datasets/ada/other"] = type(repositories["ada/film"])(branches={"main": {"data.csv": b"a"}})
    with pytest.raises(HubError, match=r"ada/other is no benchmark of the Hub: it has no eval\.yaml"):
        push_scored_on("ada/other")
    assert ".eval_results/bertkit.yaml" in push_scored_on("ada/films").files
    assert any(".eval_results/bertkit.yaml" in note for note in bertkit.push(run, "ada/scored", dry_run=True).notes)
    (entry,) = yaml.safe_load(pushed(world, "ada/scored")[".eval_results/bertkit.yaml"])
    accuracy = json.loads((run / "all_results.json").read_text())["eval_accuracy"]
    assert entry["dataset"] == {"id": "ada/films", "task_id": "dev"}
    assert entry["value"] == round(accuracy, 4)
    push_here(world["run"], "ada/scored")
    assert ".eval_results/bertkit.yaml" not in pushed(world, "ada/scored")


def test_a_space_shows_the_checkpoint_s_page(world):
    assert world["outcomes"]["space"]["done"].splitlines()[1].endswith("/spaces/ada/try-film")
    files = pushed(world, "spaces/ada/try-film")
    assert sorted(files) == ["README.md", "app.py", "requirements.txt"]
    card = metadata(files["README.md"])
    assert (card["sdk"], card["app_file"], card["models"]) == ("gradio", "app.py", ["ada/shown"])
    assert (card["title"], card["license"]) == ("try-film", "mit")
    assert files["requirements.txt"].decode() == f"bertkit[demo]=={bertkit.__version__}\n"
    shown: list[Any] = []
    program = files["app.py"].decode().replace("import bertkit", "")
    stand_in = type("Stand", (), {"demo": staticmethod(lambda *given, **named: shown.append((given, named)))})
    exec(program, {"bertkit": stand_in})
    assert shown == [(("ada/shown",), {"host": "0.0.0.0", "port": 7860})]


def test_a_private_page_is_not_pushed_to_a_public_space(world):
    assert "ada/try-film exists and is public" in world["outcomes"]["public space"]["message"]


def test_a_refused_space_names_the_command(world):
    outcome = world["outcomes"]["refused space"]
    assert outcome["error"] == "HubError"
    assert outcome["message"].startswith("ada/broken: the push failed: the token is not allowed to write")
    assert outcome["message"].endswith(f"bertkit push {world['run']} ada/shown --space ada/broken")
