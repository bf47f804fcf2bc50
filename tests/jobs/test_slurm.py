"""The scripts for Slurm under a stand-in for it: variables, steps, the signal before the time limit, one requeue."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "jobs"

# A step records its process; the signal goes to all of its processes, as with Slurm's proctrack/linuxproc.
COMMANDS = {
    "bertkit": f'exec "{sys.executable}" -m bertkit "$@"',
    "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
    "srun": 'echo $$ >> "$STAND_IN/steps"; echo "$SRUN_CPUS_PER_TASK" >> "$STAND_IN/cpus"; exec "$@"',
    "scontrol": 'if [ "$1" = requeue ]; then echo "$2" >> "$STAND_IN/requeued"; else echo 127.0.0.1; fi',
    "scancel": 'test "$1" = --signal=TERM && touch "$STAND_IN/signal_steps"',
}
PRETRAIN = """pretrain --recipe bert-tiny --corpus {corpus} --document-separator blank-line --vocab-size 60
    --placement cpu --max-seq-length 32 --global-train-batch-size 8 --max-steps {steps} --set train.save_steps=20
    --set train.logging_steps=20 --set model.num_hidden_layers=1 --set model.hidden_size=32
    --set model.num_attention_heads=2 --set model.intermediate_size=32 --set train.report=false"""


class Job:
    """A job of a script in ``scripts/jobs``; ``folder`` has what the commands of the stand-in leave.

    ``commands`` replaces some of them. In an array, each job has a number of its own, one of them that of the array.
    """

    def __init__(
        self, script: str, folder: Path, number: int = 7, commands: Mapping[str, str] | None = None, **variables: str
    ):
        (folder / "bin").mkdir(parents=True)
        for name, text in {**COMMANDS, **(commands or {})}.items():
            path = folder / "bin" / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        self.script, self.folder = SCRIPTS / script, folder
        self.to_script = "--signal=B:" in self.script.read_text()
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        slurm = {"SLURM_JOB_ID": str(number), "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "node[0]"}
        slurm |= {"SLURM_CPUS_PER_TASK": "3", **variables}
        root = str(Path(__file__).parents[2])
        self.environment = {**os.environ, **slurm, "PATH": path, "STAND_IN": str(folder), "OMP_NUM_THREADS": "1"}
        self.environment |= {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": root}

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(["bash", self.script, *words], env=self.environment, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def noted(self, name: str) -> list[str]:
        """Returns what a command of the stand-in has written to a file: ``requeued``, ``cpus`` or ``words``."""
        file = self.folder / name
        return file.read_text().split() if file.exists() else []

    def requeued(self) -> list[str]:
        return self.noted("requeued")

    def signal_steps(self) -> None:
        for pid in map(int, (self.folder / "steps").read_text().split()):
            if psutil.pid_exists(pid):
                step = psutil.Process(pid)
                for process in [*step.children(recursive=True), step]:
                    process.send_signal(signal.SIGTERM)

    def reach_limit(self, running: subprocess.Popen[bytes]) -> None:
        """Sends what the script asks for before the time limit."""
        if self.to_script:
            running.send_signal(signal.SIGUSR1)
            wait_for(lambda: (self.folder / "signal_steps").exists(), running)
        self.signal_steps()


def wait_for(is_so, running: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 240
    while not is_so():
        assert running.poll() is None, "the script has ended"
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join("A good film. The plot is lovely. A bad story. It is awful." for _ in range(60)))
    return file


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("script", ["one_machine.sbatch", "several_machines.sbatch"])
def test_run_at_its_limit_is_requeued(script, corpus, tmp_path):
    out = tmp_path / "out"
    variables = {"SLURM_GPUS_ON_NODE": "2", "PORT": "29511"} if script.startswith("several") else {}
    job = Job(script, tmp_path / "slurm", **variables)
    running = job.start([str(out), *PRETRAIN.format(corpus=corpus, steps=100_000).split()])
    wait_for(lambda: any(out.glob("checkpoint-*/manifest.json")), running)
    job.reach_limit(running)
    assert running.wait(timeout=120) != 0
    assert job.requeued() == ["7"], job.log
    assert "continues from" in job.log
    saved = max(int(each.name.partition("-")[2]) for each in out.glob("checkpoint-*"))
    again = job.start([str(out), *PRETRAIN.format(corpus=corpus, steps=saved + 5).split()])
    assert again.wait(timeout=240) == 0, job.log
    assert job.requeued() == ["7"]
    assert json.loads((out / "trainer_state.json").read_text())["global_step"] == saved + 5


@pytest.mark.slow
def test_an_error_is_not_requeued(tmp_path):
    job = Job("one_machine.sbatch", tmp_path / "slurm")
    assert job.start([str(tmp_path / "out"), "pretrain", "--corpus", str(tmp_path / "missing")]).wait(timeout=120) == 2
    assert job.requeued() == []


@pytest.mark.slow
@pytest.mark.multiprocess
def test_array_workers_share_a_grid(checkpoint, tmp_path):
    table = tmp_path / "films.csv"
    rows = [f"a {word} film,{label}" for word, label in (("good", "pos"), ("lovely", "pos"), ("bad", "neg")) * 6]
    table.write_text("\n".join(["text,label", *rows]) + "\n")
    words = f"{tmp_path / 'out'} finetune classification --model {checkpoint} --train-file {table} --placement cpu"
    words += " --max-steps 2 --seeds 4 --max-seq-length 16 --set train.report=false"
    jobs = [
        Job(
            "grid.sbatch", tmp_path / f"slurm-{task}", 10 + task, SLURM_ARRAY_JOB_ID="10", SLURM_ARRAY_TASK_ID=str(task)
        )
        for task in (0, 1)
    ]
    codes = [each.wait(timeout=300) for each in [job.start(words.split()) for job in jobs]]
    assert codes == [0, 0], "\n".join(job.log for job in jobs)
    finished = [json.loads(file.read_text())["finished"] for file in (tmp_path / "out" / "runs").glob("*/run.json")]
    assert finished == [True] * 4


@pytest.mark.parametrize(("code", "requeued"), [(143, ["10_1"]), (1, []), (0, [])])
def test_array_worker_is_requeued_alone(code, requeued, tmp_path):
    array = {"SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "1"}
    # The last task of an array has its number: `scontrol requeue 10` would requeue all tasks.
    job = Job("grid.sbatch", tmp_path / "slurm", 10, {"bertkit": f"exit {code}"}, **array)
    assert job.start([str(tmp_path / "out"), "finetune"]).wait(timeout=60) == code
    assert job.requeued() == requeued, job.log


@pytest.mark.parametrize("script", ["one_machine.sbatch", "several_machines.sbatch", "grid.sbatch"])
def test_a_step_gets_the_cores_of_its_job(script, tmp_path):
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"}
    job = Job(script, tmp_path / "slurm", commands={"bertkit": "exit 0", "torchrun": "exit 0"}, **array)
    assert job.start([str(tmp_path / "out"), "finetune"]).wait(timeout=60) == 0, job.log
    assert job.noted("cpus") == ["3"]


@pytest.mark.parametrize("given", [None, "280"])
def test_time_to_save_can_be_increased(given, tmp_path):
    variables = {} if given is None else {"SHUTDOWN_TIMEOUT": given}
    words = {"torchrun": 'echo "$@" > "$STAND_IN/words"'}
    job = Job("several_machines.sbatch", tmp_path / "slurm", commands=words, **variables)
    assert job.start([str(tmp_path / "out"), "pretrain"]).wait(timeout=60) == 0, job.log
    found = job.noted("words")
    assert found[found.index("--shutdown-timeout") + 1] == (given or "100")


def test_one_machine_resumes_a_run(tmp_path):
    words = {"bertkit": 'printf "%s\\n" "$@" > "$STAND_IN/words"'}
    out = tmp_path / "out"
    out.mkdir()
    job = Job("one_machine.sbatch", tmp_path / "slurm", commands=words)
    for more in ([], ["--resume"]):
        assert job.start([str(out), "pretrain"]).wait(timeout=60) == 0, job.log
        assert (job.folder / "words").read_text().splitlines() == ["pretrain", "--output-dir", str(out), *more]
        (out / "recipe.yaml").touch()


def test_scripts_ask_for_signal_and_requeue():
    scripts = sorted(SCRIPTS.glob("*.sbatch"))
    assert len(scripts) == 4
    for script in scripts:
        text = script.read_text()
        assert re.search(r"^#SBATCH --signal=(B:USR1|TERM)@120$", text, re.M), script
        assert "#SBATCH --requeue" in text
        assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.multiprocess
def test_an_array_builds_the_parts_of_a_store(corpus, tmp_path):
    from bertkit import build_corpus, join_corpus, train_tokenizer

    texts = [corpus]
    for number in range(3):  # each fills a unit
        texts.append(corpus.with_name(f"more-{number}.txt"))
        texts[-1].write_text("A good film. The plot is lovely.\n\n" * 65_000)
    form = {"document_separator": "blank-line"}
    tokenizer = train_tokenizer([corpus], 60, tmp_path / "tokenizer") and tmp_path / "tokenizer"
    whole = build_corpus([tmp_path / "*.txt"], tmp_path / "whole", tokenizer=str(tokenizer), **form)
    out = tmp_path / "out"
    words = f"{out} corpus build --corpus {tmp_path}/*.txt --tokenizer {tokenizer} --workers 1"
    words += " --document-separator blank-line"
    array = {"SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_JOB_ID": "7"}
    ended = Job("parts.sbatch", tmp_path / "slurm", commands={"bertkit": "exit 143"}, SLURM_ARRAY_TASK_ID="3", **array)
    assert ended.start(words.split()).wait(timeout=60) == 143
    assert ended.requeued() == ["7_3"]
    for number in (4, 3):
        job = Job("parts.sbatch", tmp_path / f"slurm-{number}", SLURM_ARRAY_TASK_ID=str(number), **array)
        assert job.start(words.split()).wait(timeout=240) == 0, job.log
        assert f"part {number - 2}/2 is finished" in job.log
    joined = join_corpus(out)
    assert len(joined.parts) == len(whole.parts) > 2
    assert all((out / part.file.name).read_bytes() == part.file.read_bytes() for part in whole.parts)
