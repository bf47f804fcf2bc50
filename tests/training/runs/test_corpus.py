"""Training on a token store built ahead."""

from __future__ import annotations

import sys

import pytest
import torch
from safetensors.torch import load_file

from bertkit import build_corpus, join_corpus, pretrain, verify_corpus
from bertkit.runtime.errors import BertkitError, DataError, OutputError, PlacementError, RecipeError
from tests.training.conftest import TINY, logged

STORED = {key: value for key, value in TINY.items() if key != "data.vocab_size"}


@pytest.fixture
def store(corpus, tmp_path):
    build_corpus([corpus], tmp_path / "store", vocab_size=TINY["data.vocab_size"], workers=1)
    return tmp_path / "store"


def test_batches_and_losses_are_those_of_the_texts(corpus, store, tmp_path):
    runs = [
        pretrain("bert-tiny", corpus=[given], output_dir=tmp_path / f"on-{name}", overrides=overrides)
        for name, given, overrides in (
            ("texts", corpus, TINY),
            ("store", store, STORED),
            ("url", f"file://{store}", STORED),
        )
    ]
    losses, weights = [], []
    for run in runs:
        losses.append(logged(run.output_dir))
        weights.append(load_file(run.output_dir / "model.safetensors"))
    assert losses[0] == losses[1] == losses[2]
    assert all(torch.equal(weights[0][name], other[name]) for other in weights[1:] for name in weights[0])
    tokenizers = {(run.output_dir / "tokenizer_config.json").read_text() for run in runs}
    assert len(tokenizers) == 1


def test_both_builds_write_the_same_files(corpus, store, tmp_path):
    pretrain("bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides=TINY)
    [cached] = [folder.parent for folder in (tmp_path / "cache").rglob("store.json")]
    for name in ("part-000000-000.arrow", "store.json"):
        assert (cached / name).read_bytes() == (store / name).read_bytes()


def test_parts_of_a_build_are_joined(corpus, store, tmp_path):
    tokenizer = str(store / "tokenizer")
    whole = build_corpus([corpus], tmp_path / "whole", tokenizer=tokenizer, workers=1)
    for part in ("2/2", "1/2"):
        assert build_corpus([corpus], tmp_path / "joined", tokenizer=tokenizer, part=part, workers=1) is None
    joined = join_corpus(tmp_path / "joined")
    assert joined.fingerprint == whole.fingerprint == verify_corpus(tmp_path / "joined").fingerprint
    files = [path.relative_to(whole.folder) for path in whole.folder.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert all((joined.folder / name).read_bytes() == (whole.folder / name).read_bytes() for name in files)


@pytest.mark.parametrize(
    ("package", "option", "kind", "message"),
    [
        ("ray", {"engine": "ray"}, PlacementError, r"--engine ray needs the extra ray: pip install 'bertkit\[ray\]'"),
        ("datasketch", {"deduplicate": "minhash"}, RecipeError, r"minhash needs the extra checks: pip install"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_written(
    corpus, tmp_path, monkeypatch, package, option, kind, message
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(kind, match=message):
        build_corpus([corpus], tmp_path / "store", vocab_size=TINY["data.vocab_size"], **option)
    assert not list(tmp_path.glob("store*"))
    assert not list((tmp_path / "cache").rglob("tokenizer*"))


def test_a_damaged_part_and_another_tokenizer_are_named(store):
    [part] = store.glob("*.arrow")
    data = part.read_bytes()
    part.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(DataError, match=rf"{part.name}: its checksum is .*: this token store is damaged"):
        verify_corpus(store)
    part.write_bytes(data)
    file = store / "tokenizer" / "tokenizer.json"
    file.write_text(file.read_text().replace('"the"', '"teh"'))
    with pytest.raises(DataError, match="tokenizer: is not the tokenizer that made the tokens"):
        verify_corpus(store)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"part": "3", "tokenizer": "x"}, "--part 3: expected I/N"),
        ({"part": "3/2", "tokenizer": "x"}, "--part 3/2: expected I/N with 1 ≤ I ≤ N"),
        ({"part": "0/2", "tokenizer": "x"}, "--part 0/2: expected"),
        ({"part": "1/2", "vocab_size": 90}, "--part: give --tokenizer"),
        (
            {"part": "1/2", "tokenizer": "x", "deduplicate": "exact"},
            "--deduplicate: finds duplicates in the whole text",
        ),
    ],
)
def test_parts_that_cannot_be(corpus, tmp_path, settings, fault):
    with pytest.raises(RecipeError, match=fault):
        build_corpus([corpus], tmp_path / "new", **settings)
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize(
    "overrides",
    [
        {"data.vocab_size": 100},
        {"data.sentence_per_line": True},
        {"data.text_column": "body"},
        {"data.streaming": True, "train.max_steps": 2},
    ],
)
def test_settings_of_the_text_are_refused(store, tmp_path, overrides):
    with pytest.raises(RecipeError, match="is a token store, whose text is already split and tokenized"):
        pretrain("bert-tiny", corpus=[store], output_dir=tmp_path / "run", overrides={**STORED, **overrides})
    assert not (tmp_path / "run").exists()


def test_another_tokenizer_is_refused(corpus, store, tmp_path):
    build_corpus([corpus], tmp_path / "other", vocab_size=60, workers=1)
    overrides = {**STORED, "data.tokenizer": str(tmp_path / "other" / "tokenizer")}
    with pytest.raises(DataError, match="the tokens of this store are of another tokenizer"):
        pretrain("bert-tiny", corpus=[store], output_dir=tmp_path / "run", overrides=overrides)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({}, "give either --tokenizer"),
        ({"vocab_size": 90, "streaming": True}, "--streaming: a store is built"),
        ({"vocab_size": 90, "vocabulary": 1}, "vocabulary: not a setting"),
        ({"vocab_size": 90, "max_seq_length": 64}, "max_seq_length: not a setting of a token store"),
        ({"vocab_size": 90, "tokenizer_type": "bpe"}, "^tokenizer_type: expected one of wordpiece, byte_level_bpe"),
        ({"vocab_size": "90"}, "^vocab_size: expected an integer, got '90'"),
        ({"vocab_size": 90, "cased": "no"}, "^cased: expected a boolean, got 'no'"),
        ({"vocab_size": 90, "workers": 0}, "--workers 0: expected at least 1"),
        ({"tokenizer": "somewhere", "cased": True}, "--cased needs --vocab-size"),
        ({"tokenizer": "somewhere", "tokenizer_type": "byte_level_bpe"}, "--tokenizer-type needs --vocab-size"),
        ({"sentence_per_line": True, "sentence_splitter": "re:split"}, "sentence_splitter: with sentence_per_line"),
    ],
)
def test_arguments_that_are_wrong_write_nothing(corpus, tmp_path, settings, fault):
    with pytest.raises(BertkitError, match=fault):
        build_corpus([corpus], tmp_path / "new", **settings)
    assert not list(tmp_path.glob("new*"))


def test_a_file_in_the_place_of_the_store_is_refused_at_once(corpus, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="a file of that name exists; give a folder"):
        build_corpus([corpus], tmp_path / "file", vocab_size=90)
    assert not (tmp_path / "file.building").exists()


def test_a_store_is_not_built_of_a_store(store, tmp_path):
    with pytest.raises(DataError, match="is a token store already"):
        build_corpus([store], tmp_path / "new", vocab_size=90)
