"""Completion in the shell: what the tab key proposes, asked as bash, zsh and fish ask."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bertkit import list_recipes, load_recipe


@pytest.fixture
def complete(bertkit, monkeypatch):
    """Returns the completions that bash gets for a list of words, of which the last one is incomplete."""

    def ask(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_BERTKIT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        outcome = bertkit()
        assert outcome.code == 0
        return outcome.out.split()

    return ask


def test_commands_options_and_choices(complete):
    assert complete("bertkit fin") == ["finetune"]
    assert "classification" in complete("bertkit finetune ")
    assert complete("bertkit finetune ner --learning-r") == ["--learning-rate"]
    assert complete("bertkit predict x --precision b") == ["bf16"]


def test_recipes_tasks_and_placements(complete):
    assert complete("bertkit predict texts/") == []  # the shell completes names of files
    assert complete("bertkit recipes show finetune/glue/ss") == ["finetune/glue/sst2"]
    assert complete("bertkit finetune glue --task sst") == ["sst2"]
    assert complete("bertkit finetune glue --task sst2,mr") == ["sst2,mrpc"]
    assert complete("bertkit finetune ner --placement d") == ["ddp"]
    assert set(complete("bertkit pretrain --recipe ")) == set(list_recipes())


def test_recipe_keys_of_the_task(complete):
    assert complete("bertkit finetune ner --set train.learning_r") == ["train.learning_rate="]
    assert complete("bertkit finetune squad --set task.null") == ["task.null_score_diff_threshold="]
    assert complete("bertkit finetune ner --set task.null") == []
    assert complete("bertkit finetune ner --grid model.freeze_l") == ["model.freeze_layers="]
    assert complete("bertkit pretrain --set model.freeze_l") == []


@pytest.mark.parametrize(
    ("command", "recipe"),
    [("finetune ner", "finetune/ner"), ("pretrain", "bert-tiny"), ("finetune squad", "finetune/squad/v1")],
)
def test_every_proposed_key_is_one_of_the_recipe(complete, command, recipe):
    """Keys that no recipe of the task has would be refused as unknown."""
    blocks = load_recipe(recipe).to_dict()
    for block in ("task", "data", "placement", "hub"):
        keys = {
            key.removeprefix(f"{block}.").removesuffix("=") for key in complete(f"bertkit {command} --set {block}.")
        }
        assert keys == blocks[block].keys() - {"kind"}


@pytest.mark.parametrize(("shell", "expected"), [("zsh", '"sst2"'), ("fish", "sst2")])
def test_other_shells(bertkit, monkeypatch, shell, expected):
    monkeypatch.setenv("_BERTKIT_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "bertkit finetune glue --task ss")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert expected in bertkit().out


@pytest.mark.slow
def test_the_installed_script_completes_in_bash(tmp_path):
    """``--install-completion`` writes below the home folder; bash then completes through it."""
    folder = os.path.dirname(sys.executable)
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{folder}:{os.environ['PATH']}"}
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    shown = subprocess.run(
        ["bertkit", "--show-completion", "bash"], env=environment, capture_output=True, text=True, check=True
    )
    script = tmp_path / "completion.sh"
    script.write_text(shown.stdout)
    program = (
        f"source {script}; COMP_WORDS=(bertkit finetune glue --task ss); COMP_CWORD=4; "
        "_bertkit_completion bertkit; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["sst2"]
