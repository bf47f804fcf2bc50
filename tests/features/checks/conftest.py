"""Clean data of every kind, and a tiny checkpoint that knows their words."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SYLLABLES = [a + b for a in "bdfgklmnprstvw" for b in "aeiou"]
SETTINGS = {
    "data.max_seq_length": 32,
    "train.learning_rate": 5e-4,
    "train.global_train_batch_size": 8,
    "train.num_train_epochs": 2,
    "placement.device": "cpu",
    "placement.mixed_precision": "no",
}
NO_CHECKPOINTS = {key: value for key, value in SETTINGS.items() if key.startswith(("placement", "train"))}


def pseudo_words(number: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < number:
        words["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4)))] = None
    return list(words)


WORDS = pseudo_words(300, 0)


def all_codes() -> set[str]:
    """Returns the codes of all findings: those of the rules, and those of errors of a run."""
    from bertkit.features.checks.check import ERRORS
    from bertkit.features.checks.findings import rules

    return {*(rule.code for rule in rules()), *(code for code, _ in ERRORS.values())}


def sentence(rng: random.Random, length: int = 12) -> str:
    return " ".join(rng.choices(WORDS, k=length))


def rows(number: int, seed: int) -> list[dict[str, str]]:
    """Random texts; no word decides the label."""
    rng = random.Random(seed)
    return [{"text": sentence(rng), "label": ("no", "yes")[row % 2]} for row in range(number)]


def write_csv(path: Path, content: list[dict[str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(content[0]))
        writer.writeheader()
        writer.writerows(content)
    return str(path)


def write_json_lines(path: Path, content: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))
    return str(path)


@dataclass
class Case:
    """A run to check; a plant damages it."""

    folder: Path
    recipe: str
    model: str | None
    train: Any
    validation: Any = None
    overrides: dict[str, Any] = field(default_factory=dict)
    corpus: list[str] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def report(self, **more: Any) -> Any:
        import bertkit

        self.write()
        return bertkit.check(
            self.recipe,
            model=self.model,
            overrides=self.overrides,
            corpus=self.corpus,
            **{"output_dir": self.folder / "run", **self.arguments, **more},
        )

    def codes(self) -> set[str]:
        return {finding.code for finding in self.report().findings}

    def write(self) -> None:
        raise NotImplementedError

    def of(self, name: str, path: str) -> None:
        self.overrides.setdefault(f"data.{name}_file", path)


class TableCase(Case):
    def write(self) -> None:
        for name in ("train", "validation"):
            self.of(name, write_csv(self.folder / f"{name}.csv", getattr(self, name)))


class NerCase(Case):
    def write(self) -> None:
        for name in ("train", "validation"):
            path = self.folder / f"{name}.conll"
            blocks = ["".join(f"{word} {tag}\n" for word, tag in words) for words in getattr(self, name)]
            path.write_text("\n".join(blocks))
            self.of(name, str(path))


class QuestionCase(Case):
    def write(self) -> None:
        for name in ("train", "validation"):
            self.of(name, write_json_lines(self.folder / f"{name}.jsonl", getattr(self, name)))


class CorpusCase(Case):
    def write(self) -> None:
        folder = self.folder / "corpus"
        folder.mkdir(exist_ok=True)
        write_json_lines(folder / "text.jsonl", [{"text": text} for text in self.train])
        self.corpus = [str(folder)]


def save_model(folder: Path, head: str, words: list[str], lowercase: bool = True, **config: Any) -> str:
    import torch

    from bertkit import BertConfig
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer
    from bertkit.model import modeling_bert

    text = [" ".join(words) + " . 0123456789 9876543210", " ".join(words).title()] * 3
    tokenizer = train_tokenizer(text, 4000, lowercase=lowercase, model_max_length=64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    built = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes, **config)
    getattr(modeling_bert, head)(built).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def uncased(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("uncased"), "BertForPreTraining", WORDS)


@pytest.fixture(scope="session")
def cased(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("cased"), "BertForPreTraining", WORDS, lowercase=False)


@pytest.fixture
def table(tmp_path: Path, uncased: str) -> TableCase:
    return TableCase(tmp_path, "finetune/classification", uncased, rows(400, 1), rows(40, 2), dict(SETTINGS))


@pytest.fixture
def ner(tmp_path: Path, uncased: str) -> NerCase:
    rng = random.Random(3)

    def sentences(number: int) -> list[list[tuple[str, str]]]:
        found = []
        for row in range(number):
            words = sentence(rng).split()
            tags = ["O"] * len(words)
            kind = ("PER", "LOC")[row % 2]
            # Words of a type are its own, so that no span has two types.
            words[4:6] = [WORDS[row % 100 + 100 * (row % 2)], WORDS[(row + 7) % 100 + 100 * (row % 2)]]
            tags[4:6] = [f"B-{kind}", f"I-{kind}"]
            found.append(list(zip(words, tags, strict=True)))
        return found

    return NerCase(tmp_path, "finetune/ner", uncased, sentences(400), sentences(40), dict(SETTINGS))


@pytest.fixture
def questions(tmp_path: Path, uncased: str) -> QuestionCase:
    rng = random.Random(4)

    def asked(split: str, number: int) -> list[dict[str, Any]]:
        found = []
        for row in range(number):
            context = sentence(rng, 20)
            words = context.split()
            start = len(" ".join(words[:5])) + 1
            answers = {"text": [" ".join(words[5:7])], "answer_start": [start]}
            found.append({"id": f"{split}{row}", "question": sentence(rng, 5), "context": context, "answers": answers})
        return found

    sizes = {"data.max_seq_length": 40, "data.doc_stride": 8, "data.max_query_length": 12}
    return QuestionCase(tmp_path, "finetune/squad/v1", uncased, asked("t", 400), asked("v", 40), {**SETTINGS, **sizes})


@pytest.fixture
def corpus(tmp_path: Path, uncased: str, monkeypatch: pytest.MonkeyPatch) -> CorpusCase:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "hf"))
    rng = random.Random(5)
    texts = [" ".join(sentence(rng, 8).capitalize() + "." for _ in range(20)) for _ in range(120)]
    settings = {**NO_CHECKPOINTS, "data.max_seq_length": 32, "train.max_steps": 120, "train.warmup_steps": 0.1}
    settings.pop("train.num_train_epochs")
    return CorpusCase(tmp_path, "pretrain/continue", uncased, texts, None, settings)


@pytest.fixture
def no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the forward and backward passes, which most tests do not look at."""
    monkeypatch.setattr("bertkit.features.checks.check.make_trial", lambda *_: None)
