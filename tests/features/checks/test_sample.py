"""Checks of large corpora read a sample, and say what of their plan is an estimate."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import find_sources
from bertkit.features.checks import sampling
from bertkit.features.checks.sampling import Sample, sample
from bertkit.training.runs import pretrain as pretrain_module

from .conftest import sentence

LINE = "a line of text that has sixty-four characters with its newline.\n"


@pytest.fixture
def small_parts(monkeypatch):
    """Samples of 64 KiB, in four parts."""
    monkeypatch.setattr(sampling, "SAMPLED_BYTES", 1 << 16)
    monkeypatch.setattr(sampling, "_PART", 1 << 14)
    monkeypatch.setattr("bertkit.runtime.reading.text.read_blocks.__defaults__", (lambda position: None, 1 << 14))


def write(folder: Path, *kilobytes: int) -> list[Path]:
    files = [folder / f"{number}.txt" for number in range(len(kilobytes))]
    for file, size in zip(files, kilobytes, strict=True):
        file.write_text(LINE * (16 * size))
    return files


def text_of(parts: Sample) -> dict[str, int]:
    """Bytes of text that are read, by name of the source."""
    found = {}
    for source in parts.sources:
        lines = sum(len(line) + 1 for line in source.lines())
        paragraphs = sum(
            len(paragraph.text) + 1 for paragraph in source.paragraphs(DocumentForm(sentence_per_line=True))
        )
        assert lines == paragraphs
        found[Path(source.name).name] = lines
    return found


def test_a_small_corpus_is_read_as_a_whole(tmp_path, small_parts):
    assert sample(find_sources(write(tmp_path, 32, 32))) is None


def test_parts_are_at_equal_distances(tmp_path, small_parts):
    parts = sample(find_sources(write(tmp_path, 1, 200, 1, 600)))
    assert (parts.total_bytes, parts.read_bytes, parts.num_sources) == (802 << 10, 1 << 16, 4)
    assert text_of(parts) == {"1.txt": 1 << 14, "3.txt": 3 << 14}


def test_a_sample_has_two_sources(tmp_path, small_parts):
    parts = sample(find_sources(write(tmp_path, 2000, 1, 20)))
    assert text_of(parts) == {"0.txt": 4 << 14, "2.txt": 1 << 14}


def test_documents_of_the_corpus_are_estimated():
    beginnings = [None] * 10
    assert Sample(beginnings, 1, 100, 20).documents(10) == 20  # each file is a document
    assert Sample(beginnings, 1, 100, 10).documents(110) == 10010


@pytest.fixture
def large(corpus, small_parts):
    """A corpus of 400 documents, 470 kB, of which a check reads 64 KiB."""
    rng = random.Random(6)
    corpus.train = [" ".join(sentence(rng, 8).capitalize() + "." for _ in range(20)) for _ in range(400)]
    return corpus


def write_files(case, number: int) -> int:
    """Writes the corpus as several files; returns their size."""
    folder = case.folder / "corpus"
    folder.mkdir()
    for file in range(number):
        texts = case.train[file::number]
        (folder / f"{file}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    case.corpus = [str(folder)]
    return sum(file.stat().st_size for file in folder.iterdir())


@pytest.mark.parametrize("number", [1, 8])
def test_plan_of_a_sample_is_near_the_whole(large, no_trial, monkeypatch, number):
    size = write_files(large, number)
    monkeypatch.setattr(large, "write", lambda: None)
    del large.overrides["train.max_steps"]
    large.overrides["train.num_train_epochs"] = 2
    read = []
    load = pretrain_module.load_corpus
    monkeypatch.setattr(
        pretrain_module,
        "load_corpus",
        lambda *a, sources, **more: read.append(sources) or load(*a, sources=sources, **more),
    )
    sampled = large.report()
    [finding] = sampled.findings
    assert (finding.code, finding.level) == ("sample", "note")
    assert sum(source.size for source in read[0]) <= 1 << 16 < size
    monkeypatch.setattr(sampling, "SAMPLED_BYTES", 1 << 30)
    whole = large.report()
    assert whole.findings == ()
    for name in ("steps", "tokens", "store_bytes"):
        assert sampled.plan[name] == pytest.approx(whole.plan[name], rel=0.15), name
    for name, examples in whole.plan["examples"].items():
        assert sampled.plan["examples"][name] == pytest.approx(examples, rel=0.25), name


def test_few_documents_of_a_sample(large, no_trial, monkeypatch):
    files = [large.folder / "long.txt", large.folder / "short.txt"]
    for file, texts in zip(files, (large.train, large.train[:20]), strict=True):
        file.write_text("\n\n".join(texts))  # a document of these paragraphs
    large.corpus = list(map(str, files))
    monkeypatch.setattr(large, "write", lambda: None)
    codes = {finding.code: finding.message for finding in large.report().findings}
    assert set(codes) == {"sample", "few-documents"}
    assert codes["few-documents"].startswith("about 2 training documents")
