"""Whole data and tiny checkpoints, made once by the commands themselves: what the cases damage copies of."""

from __future__ import annotations

import json
import random
import shutil
import signal
from functools import cached_property
from pathlib import Path
from typing import Any

from .running import Outcome, Runner, Stop

WORDS = "the cat dog sees likes a small old red house tree river near under and".split()
PLACE = ["--placement", "cpu", "--global-train-batch-size", "8", "--set", "placement.mixed_precision=no"]
SIZES = "num_hidden_layers=1 hidden_size=16 num_attention_heads=2 intermediate_size=32 max_position_embeddings=64"
MODEL = [word for size in SIZES.split() for word in ("--set", f"model.{size}")]
STEPS = "lr_scheduler_type=constant warmup_steps=0 save_steps=2 save_total_limit=9 logging_steps=1"
STEPS += " load_best_model_at_end=false"
SCHEDULE = [word for value in STEPS.split() for word in ("--set", f"train.{value}")]


class Materials:
    """Makes each thing when it is first asked for.

    Args:
        folder: gets everything.
        runner: of the commands.
    """

    def __init__(self, folder: Path, runner: Runner):
        self.folder, self.runner = folder, runner

    def prepare(self) -> None:
        """Makes what nearly all cases need, so that the time of the cases is theirs."""
        _ = self.bert, self.classifier

    @cached_property
    def other_runner(self) -> Runner:
        """A second runner with the same HF_HOME, for commands at the same time."""
        return Runner(self.runner.home)

    def close(self) -> None:
        """Ends the processes that run the commands."""
        for runner in (self.runner, *([self.other_runner] if "other_runner" in vars(self) else [])):
            runner.close()

    def command(self, *arguments: object, **conditions: Any) -> Outcome:
        """Runs a command that has to succeed, unless it is stopped."""
        outcome = self.runner.run(*arguments, folder=self.folder, limit=300, **conditions)
        if outcome.code and not conditions.get("stop"):
            raise RuntimeError(f"bertkit {outcome.command}: exit code {outcome.code}\n{outcome.err}")
        return outcome

    @cached_property
    def corpus(self) -> Path:
        """Six documents of plain text."""
        rng, folder = random.Random(0), self.folder / "corpus"
        folder.mkdir()
        for number in range(6):
            sentences = [" ".join(rng.choices(WORDS, k=6)).capitalize() + "." for _ in range(12)]
            (folder / f"{number}.txt").write_text("\n".join(sentences))
        return folder

    def pretraining(self, steps: int = 2) -> list[object]:
        """Arguments that pre-train a tiny BERT on the corpus."""
        data = ["--corpus", self.corpus, "--vocab-size", "80", "--max-seq-length", "24", "--max-steps", steps]
        return ["pretrain", "--recipe", "bert-tiny", *data, *PLACE, *MODEL, *SCHEDULE]

    @cached_property
    def bert(self) -> Path:
        """A pre-trained BERT."""
        self.command(*self.pretraining(), "--output-dir", self.folder / "bert")
        return self.folder / "bert"

    def training(self, task: str, file: Path, steps: int = 1, schedule: bool = True) -> list[object]:
        """Arguments that fine-tune that BERT on a file."""
        data = ["--train-file", file, "--max-seq-length", "32", "--max-steps", steps]
        if task == "squad":
            data += ["--max-query-length", "8", "--doc-stride", "4", "--validation-file", self.questions]
        return ["finetune", task, *data, "--model", self.bert, *PLACE, *(SCHEDULE if schedule else [])]

    @cached_property
    def rows(self) -> list[tuple[str, str]]:
        """Texts and classes."""
        rng = random.Random(1)
        return [
            (f"the {rng.choice(WORDS)} {'likes' if n % 2 else 'sees'} a dog", "bad good".split()[n % 2])
            for n in range(40)
        ]

    @cached_property
    def table(self) -> Path:
        """The rows as CSV."""
        return self._file("rows.csv", "".join(f"{row[0]},{row[1]}\n" for row in [("text", "label"), *self.rows]))

    @cached_property
    def scores(self) -> Path:
        """The texts with scores, of more different numbers than classes may have."""
        rows = [f"{text} {n},{n % 25 / 4}\n" for n, (text, _) in enumerate(self.rows * 5)]
        return self._file("scores.csv", "text,label\n" + "".join(rows))

    @cached_property
    def tagged(self) -> Path:
        """Sentences in CoNLL's columns."""
        tags = {"cat": "B-ANIMAL", "dog": "B-ANIMAL", "house": "B-PLACE"}
        sentences = ["\n".join(f"{word} {tags.get(word, 'O')}" for word in text.split()) for text, _ in self.rows]
        return self._file("tagged.conll", "\n\n".join(sentences) + "\n")

    @cached_property
    def questions(self) -> Path:
        """Questions in SQuAD's JSON."""
        entries = []
        for n, (text, _) in enumerate(self.rows[:20]):
            answers = [{"text": "dog", "answer_start": text.index("dog")}]
            entries.append({"context": text, "qas": [{"id": f"q{n}", "question": "what?", "answers": answers}]})
        content = {"version": "1.1", "data": [{"title": "t", "paragraphs": entries}]}
        return self._file("questions.json", json.dumps(content))

    def _file(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        return path

    def _fine_tuned(self, task: str, file: Path) -> Path:
        out = self.folder / f"{task}-{file.stem}"
        self.command(*self.training(task, file), "--output-dir", out, "--set", "train.save_strategy=no")
        return out

    @cached_property
    def classifier(self) -> Path:
        """A classifier of two classes."""
        return self._fine_tuned("classification", self.table)

    @cached_property
    def tagger(self) -> Path:
        """A tagger of words."""
        return self._fine_tuned("ner", self.tagged)

    @cached_property
    def reader(self) -> Path:
        """A model that answers questions."""
        return self._fine_tuned("squad", self.questions)

    @cached_property
    def whole_run(self) -> Path:
        """A run of ten steps that nothing has disturbed."""
        self.command(*self.ten_steps, "--output-dir", self.folder / "whole")
        return self.folder / "whole"

    @cached_property
    def ten_steps(self) -> list[object]:
        """Arguments of that run, which saves a checkpoint every other step: folds may find that no step helps."""
        return [*self.training("classification", self.table, steps=10), "--folds", "0"]

    @cached_property
    def broken_run(self) -> Path:
        """The same run as a SIGKILL has left it, with the checkpoints of steps 2, 4 and 6."""
        out = self.folder / "broken"
        stop = Stop(signal.SIGKILL, folder=out, pattern="checkpoint-8")
        self.command(*self.ten_steps, "--output-dir", out, stop=stop)
        for path in [*out.glob("checkpoint-8*"), *out.glob("checkpoint-10*")]:
            shutil.rmtree(path)
        return out
