"""Vectors of texts and tokens: against the encoder called by hand, windows and offsets included."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bertkit
from bertkit.inference import embedding, vector_files
from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.runtime.errors import CheckpointError, DataError, OutputError, PlacementError, RecipeError

pytestmark = pytest.mark.numeric

TEXTS = ["the film is lovely", "a plot", "the good, bad or awful story of a film"]


@pytest.fixture(scope="module")
def bert(checkpoint: Path):
    return bertkit.load(checkpoint, batch_size=2)


def states(checkpoint: Path, text: str) -> list[torch.Tensor]:
    """Every layer's states (S, H) of one text that fits the model."""
    model = bertkit.BertModel.from_pretrained(checkpoint).eval()
    with torch.no_grad():
        hidden = model(**load_tokenizer(checkpoint)(text, return_tensors="pt"), output_hidden_states=True).hidden_states
    return [layer[0] for layer in hidden]


def close(one: np.ndarray, other: torch.Tensor) -> None:
    np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=2e-6)


def assert_close(found, expected):
    """Vectors of the same texts from two loads of a checkpoint, whose weights lie in two places of memory."""
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_pooling_ignores_what_shares_the_batch(bert, checkpoint):
    for pooling, of in (("mean", lambda s: s.mean(0)), ("max", lambda s: s.amax(0)), ("cls", lambda s: s[0])):
        found = bert.embed(TEXTS, pooling=pooling)
        assert (found.shape, found.dtype) == ((3, 32), np.float32)
        for text, vector in zip(TEXTS, found, strict=True):
            close(vector, of(states(checkpoint, text)[-1]))


def test_texts_that_are_tokenized_during_the_work_of_a_gpu_keep_their_places(bert, monkeypatch):
    texts = ["a good film", "bad", "the plot is lovely or awful", "a film", "story"]
    expected = bert.embed(texts)
    monkeypatch.setattr(embedding, "TEXTS_AT_ONCE", 2)
    monkeypatch.setattr(embedding, "computes_beside_cores", lambda model: True)
    np.testing.assert_allclose(bert.embed(texts), expected, rtol=1e-3, atol=1e-5)
    assert bert.embed([]).shape == (0, expected.shape[1])


def test_layers_are_joined_in_the_order_given(bert, checkpoint):
    found = bert.embed(TEXTS[0], layers=[-1, 0, 1], pooling="cls")
    hidden = states(checkpoint, TEXTS[0])
    close(found[0], torch.cat([hidden[2][0], hidden[0][0], hidden[1][0]]))


def test_tokens_have_offsets_and_no_special_tokens(bert, checkpoint):
    """Accents are stripped by the tokenizer, and offsets still point into the text as it was given."""
    text = "The FÎLM, story"
    (found,) = bert.embed(text, pooling="none")
    tokenizer = load_tokenizer(checkpoint)
    assert found.tokens == tokenizer.tokenize(text)
    close(found.vectors, states(checkpoint, text)[-1][1:-1])
    words = [text[start:end] for start, end in found.offsets]
    assert words[0] == "The"
    assert "".join(words) == text.replace(" ", "")


def test_windows_give_every_token_its_best_context(bert, checkpoint):
    """Windows of 6 tokens, 4 of them the text's, that share 2: tokens 0-3, 2-5, 4-7, ….

    Token 2 has one token after it in the first window, and nothing before it in the second: min(2, 1) against
    min(0, 3), so it is the first window's. Token 3 has nothing after it in the first and one before it in the second.
    """
    text = " ".join(["film", "plot", "bad", "good", "awful", "lovely", "film"])
    (found,) = bert.embed(text, pooling="none", max_seq_length=6, stride=2)
    tokenizer = load_tokenizer(checkpoint)
    pieces = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert found.tokens == tokenizer.convert_ids_to_tokens(pieces)
    model = bertkit.BertModel.from_pretrained(checkpoint).eval()
    best: dict[int, tuple[int, torch.Tensor]] = {}
    for start in range(0, len(pieces) - 2, 2):
        window = pieces[start : start + 4]
        ids = torch.tensor([[tokenizer.cls_token_id, *window, tokenizer.sep_token_id]])
        with torch.no_grad():
            hidden = model(ids).last_hidden_state[0, 1:-1]
        for at in range(len(window)):
            context = min(at, len(window) - 1 - at)
            if context > best.get(start + at, (-1, hidden))[0]:
                best[start + at] = (context, hidden[at])
    close(found.vectors, torch.stack([best[at][1] for at in range(len(pieces))]))


@settings(max_examples=25)
@given(
    words=st.lists(st.sampled_from(["film", "unheard-of", "Plot,", "é", "x\u200b"]), min_size=1, max_size=40),
    length=st.integers(4, 20),
    share=st.floats(0, 0.9),
)
def test_windows_lose_and_repeat_no_token(bert, checkpoint, words, length, share):
    text = " ".join(words)
    (found,) = bert.embed(text, pooling="none", max_seq_length=length, stride=int(share * (length - 2)))
    whole = load_tokenizer(checkpoint)(text, add_special_tokens=False, return_offsets_mapping=True)
    assert [tuple(each) for each in found.offsets] == [tuple(each) for each in whole["offset_mapping"]]
    assert len(found.vectors) == len(found.tokens)
    assert np.isfinite(bert.embed(text, max_seq_length=length)).all()


def test_every_family_has_an_encoder_below_its_head(encoder, checkpoint, tmp_path):
    tokenizer = load_tokenizer(checkpoint)
    encoder.vocab_size = len(tokenizer)
    head_class("BertForTokenClassification", encoder, "here")(encoder).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert bertkit.load(tmp_path).embed(TEXTS, layers=[0, -1]).shape == (3, 64)


def test_an_incomplete_encoder_is_refused(checkpoint, tmp_path):
    config = load_config(str(checkpoint), {"num_hidden_layers": 3})
    bertkit.BertForPreTraining.from_pretrained(checkpoint).save_pretrained(tmp_path)
    config.save_pretrained(tmp_path)
    load_tokenizer(checkpoint).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"the weights lack encoder\.layer\.2"):
        bertkit.load(tmp_path).embed("a film")


def test_vectors_are_those_of_the_encoder_below_a_head_of_features(fine_tuned, tmp_path):
    plain = fine_tuned("entities")
    shutil.copytree(plain, tmp_path / "features")
    config = load_config(str(plain), {"feature_layers": [0, -1], "feature_lstm_size": 8})
    model = bertkit.BertForTokenClassification.from_pretrained(plain, config=config, ignore_mismatched_sizes=True)
    model.save_pretrained(tmp_path / "features")
    expected, found = (bertkit.load(place).embed(TEXTS) for place in (plain, tmp_path / "features"))
    assert_close(found, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [3]}, r"layers 3: .* has 2; expected 0 \(the embeddings\) to 2, or -1 \(the last\) to -3"),
        ({"layers": []}, "layers none"),
        ({"layers": [1.5]}, r"layers 1\.5: "),
        ({"max_seq_length": 65}, "has 64 positions"),
        ({"max_seq_length": 10, "stride": 8}, "stride 8: expected 0 to 7, as a window of 10 has room for 8"),
        ({"max_seq_length": 2}, "max_seq_length 2: expected at least 3, the 2 special tokens and one more"),
        ({"pooling": "first"}, "pooling 'first': expected cls, mean, max or none"),
    ],
)
def test_impossible_wishes_are_refused(bert, options, message):
    with pytest.raises(RecipeError, match=message):
        bert.embed("a film", **options)


@pytest.mark.parametrize("options", [{"device": "gpu"}, {"precision": "half"}, {"device": "cpu", "precision": "fp16"}])
def test_an_impossible_device_or_precision_is_refused_before_the_first_use(checkpoint, options):
    with pytest.raises(PlacementError):
        bertkit.load(checkpoint, **options)


def test_values_of_data_may_be_paths(fine_tuned, tmp_path):
    assert bertkit.load(fine_tuned("film"), train_file=tmp_path / "x.csv").task.data.train_file == str(
        tmp_path / "x.csv"
    )


def test_what_was_not_fine_tuned_has_no_task(bert):
    assert not hasattr(bert, "task")


def test_an_error_of_loading_is_not_taken_for_a_missing_attribute(checkpoint, monkeypatch):
    monkeypatch.setattr("bertkit.inference.loaded.load_encoder", lambda *_: monkeypatch.nothing)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bertkit.load(checkpoint).embed("a film")


class TestFiles:
    def test_pooled_vectors_are_the_same_in_all_forms(self, bert, checkpoint, tmp_path):
        expected = bert.embed(TEXTS)
        for form in ("npz", "parquet", "jsonl"):
            assert bertkit.embed(checkpoint, tmp_path / f"out.{form}", TEXTS) == (3, 32)
        arrays = np.load(tmp_path / "out.npz")
        assert arrays["texts"].tolist() == TEXTS
        assert_close(arrays["embeddings"], expected)
        table = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        for rows in (table, lines):
            assert [row["text"] for row in rows] == TEXTS
            assert_close([row["embedding"] for row in rows], expected)

    def test_token_vectors_are_the_same_in_all_forms(self, bert, checkpoint, tmp_path):
        expected = bert.embed(TEXTS, pooling="none")
        for form in ("npz", "parquet", "jsonl"):
            bertkit.embed(checkpoint, tmp_path / f"out.{form}", TEXTS, pooling="none")
        arrays = np.load(tmp_path / "out.npz")
        table = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
        for number, line in enumerate((tmp_path / "out.jsonl").read_text().splitlines()):
            rows = [row for row in table if row["text"] == number]
            assert json.loads(line)["text"] == TEXTS[number]
            for found in (json.loads(line)["tokens"], rows):
                assert [row["token"] for row in found] == expected[number].tokens
                assert [[row["start"], row["end"]] for row in found] == expected[number].offsets.tolist()
                assert_close([row["embedding"] for row in found], expected[number].vectors)
            assert_close(arrays["embeddings"][arrays["text"] == number], expected[number].vectors)

    def test_texts_come_from_lines_and_tables(self, checkpoint, tmp_path):
        (tmp_path / "lines.txt").write_text("a film\n\nthe plot\n")
        (tmp_path / "rows.csv").write_text("id,wording\n1,a film\n2,the plot\n")
        assert bertkit.embed(checkpoint, tmp_path / "one.npz", input_file=tmp_path / "lines.txt")[0] == 3
        assert bertkit.embed(checkpoint, tmp_path / "two.npz", None, tmp_path / "rows.csv", "wording")[0] == 2
        with pytest.raises(DataError, match="text"):
            bertkit.embed(checkpoint, tmp_path / "three.npz", None, tmp_path / "rows.csv")

    def test_nothing_is_overwritten_and_unknown_endings_are_refused(self, tmp_path):
        (tmp_path / "here.npz").write_text("mine")
        with pytest.raises(OutputError, match="exists; give another name"):
            bertkit.embed("no-checkpoint", tmp_path / "here.npz", ["a"])
        with pytest.raises(OutputError, match=r"expected a name that ends in \.npz, \.parquet, \.jsonl"):
            bertkit.embed("no-checkpoint", tmp_path / "out.txt", ["a"])

    def test_blocks_of_texts_leave_no_trace(self, checkpoint, tmp_path, monkeypatch):
        monkeypatch.setattr(vector_files, "BLOCK", 2)
        monkeypatch.setattr(vector_files, "TEXTS_AT_ONCE", 2)
        texts = [TEXTS[0], "\u200b", *TEXTS[1:]]  # the second has no token
        for pooling in ("mean", "none"):
            bertkit.embed(checkpoint, tmp_path / f"{pooling}.parquet", texts, pooling=pooling)
            bertkit.embed(checkpoint, tmp_path / f"{pooling}.npz", texts, pooling=pooling)
        table = pyarrow.parquet.read_table(tmp_path / "none.parquet").to_pydict()
        arrays = np.load(tmp_path / "none.npz")
        assert table["text"] == arrays["text"].tolist()
        assert sorted(set(table["text"])) == [0, 2, 3]
        text, start, end = (table[name][-1] for name in ("text", "start", "end"))
        assert texts[text][start:end] == table["token"][-1].removeprefix("##")
        pooled = pyarrow.parquet.read_table(tmp_path / "mean.parquet").to_pydict()
        assert pooled["text"] == texts
        np.testing.assert_allclose(pooled["embedding"], bertkit.load(checkpoint).embed(texts), atol=2e-6)

    def test_a_table_object_is_written_in_blocks(self, checkpoint, tmp_path, monkeypatch):
        monkeypatch.setattr(vector_files, "BLOCK", 2)
        rows = [{"text": text} for text in TEXTS]
        bertkit.embed(checkpoint, tmp_path / "out.parquet", rows)
        written = pyarrow.parquet.ParquetFile(tmp_path / "out.parquet")
        assert [written.metadata.row_group(group).num_rows for group in range(2)] == [2, 1]
        assert written.read()["text"].to_pylist() == TEXTS
        with pytest.raises(DataError, match="row 3: text is empty"):
            bertkit.embed("no-checkpoint", tmp_path / "none.parquet", [*rows[:2], {"text": ""}])

    def test_only_the_encoder_of_a_fine_tuned_checkpoint_is_loaded(self, fine_tuned, tmp_path, monkeypatch):
        expected = bertkit.load(fine_tuned("film")).embed(TEXTS)
        monkeypatch.delattr("bertkit.inference.loaded.build_predictor")
        bertkit.embed(fine_tuned("film"), tmp_path / "out.npz", TEXTS)
        assert_close(np.load(tmp_path / "out.npz")["embeddings"], expected)

    def test_what_breaks_off_can_be_read(self, checkpoint, tmp_path, monkeypatch):
        """The third row is of the second block, and has no text."""
        monkeypatch.setattr(vector_files, "BLOCK", 2)
        lines = tmp_path / "in.csv"
        lines.write_text('text,id\na plot,1\na film,2\n"",3\n')
        for name in ("out.parquet", "out.npz", "out.jsonl"):
            with pytest.raises(DataError, match=r"line 4: text is empty; .*\nThe 2 inputs before it were processed"):
                bertkit.embed(checkpoint, tmp_path / name, input_file=lines)
        assert pyarrow.parquet.read_table(tmp_path / "out.parquet.partial")["text"].to_pylist() == ["a plot", "a film"]
        with (tmp_path / "out.npz.partial").open("rb") as file:
            assert np.load(file)["texts"].tolist() == ["a plot", "a film"]
        assert len((tmp_path / "out.jsonl.partial").read_text().splitlines()) == 2

    def test_texts_that_numpy_cannot_hold_are_refused(self, checkpoint, tmp_path, monkeypatch):
        """One long text among many: the vectors of the blocks before it are kept."""
        monkeypatch.setattr(vector_files, "BLOCK", 2)
        monkeypatch.setattr("bertkit.inference.vector_files._MOST_TEXT_BYTES", 10_000)
        texts = ["a film", "the plot", "a film " * 500]
        with pytest.raises(OutputError, match=r"3 texts would take 42\.0 kB, .* 3,500 characters .*FILE\.parquet"):
            bertkit.embed(checkpoint, tmp_path / "out.npz", texts)
        with (tmp_path / "out.npz.partial").open("rb") as file:
            assert np.load(file)["texts"].tolist() == texts[:2]


def test_vectors_are_pooled_as_the_checkpoint_records(checkpoint, tmp_path):
    """A checkpoint in the form of sentence-transformers names its pooling; an option wins over it."""
    folder = tmp_path / "sentences"
    shutil.copytree(checkpoint, folder)
    pooling = folder / "1_Pooling" / "config.json"
    pooling.parent.mkdir()
    steps = [
        {"idx": number, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling")])
    ]
    (folder / "modules.json").write_text(json.dumps(steps))
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True}))
    loaded, texts = bertkit.load(folder), ["a b", "b"]
    np.testing.assert_allclose(loaded.embed(texts), loaded.embed(texts, pooling="cls"))
    assert not np.allclose(loaded.embed(texts), loaded.embed(texts, pooling="mean"))
    pooling.write_text(json.dumps({"pooling_mode_lasttoken": True}))
    with pytest.raises(CheckpointError, match=r"lasttoken.*--pooling"):
        bertkit.load(folder).embed(texts)
    pooling.write_text(json.dumps({"pooling_mode": ["mean", "lasttoken"]}))
    with pytest.raises(CheckpointError, match=r"its pooling is mean, lasttoken; expected one"):
        bertkit.load(folder).embed(texts)
    assert bertkit.load(folder).embed(texts, pooling="max").shape == (2, 32)
