"""Texts longer than the encoder's inputs: their windows, batches of these, and one prediction a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from bertkit import BertConfig, BertForSequenceClassification
from bertkit.inference.predictor import Predictor
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import truncation_hint
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.encoding import encode_split, fit_length

pytestmark = pytest.mark.numeric

WORDS = [f"w{number}" for number in range(50)]
PAD, CLS, SEP, FIRST = 0, 2, 3, 5  # ids; w0 is FIRST
TOKENIZER = BertTokenizer(
    vocab={word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def text(length: int, start: int = 0) -> str:
    """So many words, one token each, no two neighbours alike."""
    return " ".join(WORDS[(start + position) % 50] for position in range(length))


def split(tokens: list[int], size: int, stride: int) -> list[list[int]]:
    """Windows by their definition: each begins ``size - stride`` after the one before, the last one reaches the end."""
    windows, start = [tokens[:size]], 0
    while start + size < len(tokens):
        start += size - stride
        windows.append(tokens[start : start + size])
    return windows


def task(*texts: str, **data: Any) -> ClassificationTask:
    found = TaskSettings(
        problem="single_label", text_columns=list(texts or ["text"]), label_column="label", label_names=["a", "b", "c"]
    )
    return ClassificationTask(found, DataSettings(**{"max_seq_length": 8, "long_text": "chunk", **data}))


def model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    sizes["initializer_range"] = 0.3  # large, so that logits differ clearly
    config = BertConfig(vocab_size=55, max_position_embeddings=16, num_labels=3, **sizes)
    return BertForSequenceClassification(config).eval()


def predictor(chosen: ClassificationTask, batch_size: int = 64) -> Predictor:
    network = model()
    chosen.prepare(network)
    return Predictor(chosen, network, TOKENIZER, batch_size)


# ---- length ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "given", "reads", "length"),
    [
        ([3, 20], 0, 512, 128),
        ([3, 126], 0, 512, 128),  # with [CLS] and [SEP]
        ([3, 127], 0, 512, 192),
        ([900, 20], 0, 512, 512),
        ([900, 20], 0, 8192, 512),
        ([900, 20], 0, 300, 300),
        ([3, 20], 0, 64, 64),
        ([900, 20], 96, 512, 96),
    ],
)
@pytest.mark.parametrize("long_text", ["cut", "chunk"])
def test_the_length_of_inputs_is_given_or_that_of_the_longest_text(words, given, reads, length, long_text):
    texts = {"text": list(map(text, words)), "labels": [0] * len(words)}
    open_to_data = task(max_seq_length=given, long_text=long_text)
    assert fit_length(open_to_data, texts, TOKENIZER, reads).max_seq_length == length
    assert open_to_data.data.max_seq_length == given


@pytest.mark.parametrize("stride", [150, 600])
def test_an_overlap_that_does_not_go_with_the_length_is_refused(stride):
    texts = {"text": [text(100)], "labels": [0]}
    with pytest.raises(RecipeError, match=rf"data\.stride: windows of .* cannot share {stride}.*give --max-seq-length"):
        fit_length(task(max_seq_length=0, stride=stride), texts, TOKENIZER, 512)


def test_other_errors_of_an_encoding_are_no_fault_of_the_length(monkeypatch):
    def fails(*args):
        raise ValueError("of the tokenizer")

    open_to_data = task(max_seq_length=0)
    monkeypatch.setattr(type(open_to_data), "encode", fails)
    with pytest.raises(ValueError, match="of the tokenizer"):
        fit_length(open_to_data, {"text": ["a"]}, TOKENIZER, 512)


def test_both_texts_of_a_pair_count():
    pair = {"text": [text(100)], "other": [text(60)], "labels": [0]}
    assert (
        fit_length(task("text", "other", max_seq_length=0, long_text="cut"), pair, TOKENIZER, 512).max_seq_length == 192
    )


# ---- windows --------------------------------------------------------------------------------------------------------


def test_a_worked_example():
    """Nine words in windows of six with two shared: w0 … w5, w4 … w8."""
    features = task(stride=2).encode({"text": [text(9), text(2)], "labels": [1, 0]}, TOKENIZER)
    assert features["input_ids"] == [
        [[CLS, 5, 6, 7, 8, 9, 10, SEP], [CLS, 9, 10, 11, 12, 13, SEP]],
        [[CLS, 5, 6, SEP]],
    ]
    assert features["attention_mask"] == [[[1] * 8, [1] * 7], [[1] * 4]]
    assert features["token_type_ids"] == [[[0] * 8, [0] * 7], [[0] * 4]]
    assert features["length"] == [15, 4]
    assert features["labels"] == [1, 0]


def test_a_text_that_fits_has_one_window_equal_to_the_plain_encoding():
    examples = {"text": [text(6), text(1), ""]}
    windows, plain = (task(long_text=way).encode(examples, TOKENIZER) for way in ("chunk", "cut"))
    for name in INPUTS:
        assert windows[name] == [[row] for row in plain[name]]
    assert windows["length"] == plain["length"]


def test_a_quarter_is_shared_where_no_stride_is_given():
    (windows,) = task().encode({"text": [text(10)]}, TOKENIZER)["input_ids"]
    assert [window[1:-1] for window in windows] == split(list(range(5, 15)), 6, 2)


def test_nothing_counts_as_cut():
    from datasets import Dataset

    from bertkit.tasks.splits import Split

    examples = Split(Dataset.from_dict({"text": [text(30), text(2)], "labels": [0, 1]}), "x.csv", "")
    encoded, cut = encode_split(task(stride=2), examples, TOKENIZER)
    assert (cut.examples, cut.tokens) == (0, 0)
    assert str(cut) == "nothing cut"
    # Windows of 6 words of which 4 are new: 30 words are 6 + 6 · 4, seven windows of 8 tokens; and one of 4.
    assert [len(windows) for windows in encoded["input_ids"][:]] == [7, 1]
    assert encoded["length"][:] == [56, 4]
    _, cut = encode_split(task(long_text="cut"), examples, TOKENIZER)
    assert (cut.examples, cut.tokens) == (1, 24)


# ---- batches --------------------------------------------------------------------------------------------------------


def test_a_batch_is_all_windows_with_their_counts():
    chunked = task(stride=2)
    features = chunked.encode({"text": [text(9), text(2)], "labels": [1, 0]}, TOKENIZER)
    rows = [{name: values[row] for name, values in features.items()} for row in range(2)]
    batch = chunked.collate(rows, TOKENIZER, INPUTS)
    assert list(batch)[:2] == ["labels", "window_counts"]  # the first has a row for each text
    assert batch["labels"].tolist() == [1, 0]
    assert (batch["window_counts"].dtype, batch["window_counts"].tolist()) == (torch.int64, [2, 1])
    assert batch["input_ids"].tolist() == [
        [CLS, 5, 6, 7, 8, 9, 10, SEP],
        [CLS, 9, 10, 11, 12, 13, SEP, PAD],
        [CLS, 5, 6, SEP, PAD, PAD, PAD, PAD],
    ]
    assert batch["attention_mask"].sum(dim=1).tolist() == [8, 7, 4]
    without = chunked.collate([{name: row[name] for name in INPUTS[:2]} for row in rows], TOKENIZER, INPUTS[:2])
    assert list(without) == ["window_counts", "input_ids", "attention_mask"]


# ---- predictions ----------------------------------------------------------------------------------------------------

LENGTHS = [3, 20, 6, 9, 1, 35]
TEXTS = [text(length, start) for start, length in enumerate(LENGTHS)]


def naive(network: BertForSequenceClassification, document: str, stride: int, pooling: str) -> np.ndarray:
    """Logits of one text: each window through the encoder by itself, pooled, then the classifier."""
    ids = TOKENIZER(document, add_special_tokens=False)["input_ids"]
    vectors = []
    for window in split(ids, 6, stride):
        output = network.bert(input_ids=torch.tensor([[CLS, *window, SEP]]))
        vectors.append(output.pooler_output[0].detach().numpy())
    pooled = np.mean(vectors, axis=0) if pooling == "mean" else np.max(vectors, axis=0)
    return network.classifier(torch.tensor(pooled)).detach().numpy()


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("stride", [0, 3])
def test_logits_are_those_of_a_naive_loop_over_windows(stride, pooling):
    chunked = predictor(task(stride=stride, pooling=pooling))
    logits = chunked.outputs(chunked.task.encode({"text": TEXTS}, TOKENIZER))
    expected = np.stack([naive(model(), document, stride, pooling) for document in TEXTS])
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    assert np.abs(expected - expected.mean(axis=0)).max() > 0.1  # texts do differ


def test_the_checkpoint_keeps_how_texts_are_chunked(through_checkpoint):
    chunked = task(stride=3, pooling="max")
    assert through_checkpoint(chunked).data == chunked.data
    with pytest.raises(RecipeError, match=r"data\.stride: windows of 5 tokens, .* cannot share 3; expected 0 to 2"):
        through_checkpoint(chunked, max_seq_length=5)


# ---- what is refused, and what is said ------------------------------------------------------------------------------


def test_pairs_are_refused():
    with pytest.raises(RecipeError, match=r"chunk is for single texts, and classification has pairs \(first, second\)"):
        task("first", "second").encode({"first": ["w1"], "second": ["w2"]}, TOKENIZER)


@pytest.mark.parametrize("stride", [-1, 6, 100])
def test_windows_cannot_share_all_their_tokens(stride):
    with pytest.raises(ValueError, match=rf"^stride: windows of 8 tokens, .* cannot share {stride}; expected 0 to 5$"):
        DataSettings(max_seq_length=8, long_text="chunk", stride=stride)
    assert DataSettings(max_seq_length=8, long_text="chunk", stride=5).overlap == 5


@pytest.mark.parametrize(("name", "value"), [("stride", 4), ("stride", 0), ("pooling", "mean")])
def test_settings_of_windows_without_windows_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name}: {value!r} needs long_text: chunk; set it, or remove {name}$"):
        DataSettings(**{name: value})


def test_what_to_do_about_cuts_names_windows_for_single_texts_only():
    assert "--long-text chunk" in truncation_hint(task(long_text="cut"))
    assert "--long-text" not in truncation_hint(task("first", "second", long_text="cut"))
    assert "--long-text" not in truncation_hint(task())
