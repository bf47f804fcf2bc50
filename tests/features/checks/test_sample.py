"""Checks of large corpora read a sample, and say what of their plan is an estimate."""

from __future__ import annotations

import random

import pytest

import bertkit
from bertkit.features.checks import sampling
from bertkit.training.runs import pretrain as pretrain_module

from .conftest import sentence, write_json_lines


@pytest.fixture
def small_parts(monkeypatch):
    """Samples of 64 KiB, in four parts."""
    monkeypatch.setattr(sampling, "SAMPLED_BYTES", 1 << 16)
    monkeypatch.setattr(sampling, "_PART", 1 << 14)
    monkeypatch.setattr("bertkit.runtime.reading.text.read_blocks.__defaults__", (lambda position: None, 1 << 14))


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
        write_json_lines(folder / f"{file}.jsonl", [{"text": text} for text in case.train[file::number]])
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


@pytest.mark.parametrize("is_store", [False, True])
def test_a_full_cache_is_enough_for_tokens_that_are_there(large, no_trial, monkeypatch, is_store):
    """The tokens are in the cache, where an earlier run left them, or in a token store; the rest is to be built."""
    large.overrides["train.max_steps"] = 1
    large.write()
    monkeypatch.setattr(large, "write", lambda: None)
    given = {"model": large.model, "corpus": large.corpus, "overrides": large.overrides}
    monkeypatch.setattr("bertkit.features.checks.plan.free_space", lambda folder: 10)
    assert "store" in {finding.code for finding in large.report(output_dir=None).findings}
    if is_store:
        bertkit.build_corpus(large.corpus, large.folder / "store", tokenizer=large.model)
        large.corpus = [str(large.folder / "store")]
    else:
        bertkit.pretrain(large.recipe, output_dir=large.folder / "earlier", **given)
    assert "store" not in {finding.code for finding in large.report(output_dir=None).findings}
