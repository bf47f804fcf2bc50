"""Only the beginning of a very long text is tokenized, and the inputs are those of the whole text."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import bertkit
from bertkit.inference.outcome import task_inference
from bertkit.tasks.windows import cut_rows, first_part

ROLES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
SENTENCE = "The naïve café's 3,000 films: [MASK] lovely, e\u0301tude 北京 don't 😀 well-known\t\n  plots!"
KINDS = ("wordpiece", "byte-level", "unigram", "unigram without words")


def words(count: int, seed: int = 0) -> str:
    source = random.Random(seed)
    return " ".join(source.choice(SENTENCE.split(" ")) for _ in range(count))


TEXTS = {
    "words": words(9000),
    "one word": "abcabd" * 9000,
    "no blanks": "北京,film." * 9000,
    "blanks first": " " * 20_000 + words(5000),
    "an added token at the cut": "ab[MASK]" * 7000,
    "marks": "e\u0301\u0300" * 9000,
    "blanks only": " " * 60_000,
    "one word, then others": "a" * 30_000 + " film" * 5000,
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    special = list(ROLES.values())
    if request.param == "wordpiece":
        backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    elif request.param == "byte-level":
        backend = Tokenizer(models.BPE())
        backend.normalizer, backend.pre_tokenizer = normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        backend = Tokenizer(models.Unigram())
        backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()])
        backend.pre_tokenizer = pre_tokenizers.Metaspace(split=request.param == "unigram")
        trainer = trainers.UnigramTrainer(
            vocab_size=150, special_tokens=special, unk_token="[UNK]", show_progress=False
        )
    backend.train_from_iterator([words(50, seed) for seed in range(4)], trainer)
    backend.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]",
        "[CLS] $A [SEP] $B:1 [SEP]:1",
        [(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES)


def ids(tokenizer: Any, *texts: str, **options: Any) -> list[int]:
    return tokenizer(*texts, verbose=False, **options)["input_ids"]


@pytest.mark.parametrize("name", TEXTS)
def test_first_tokens_of_a_part(name, tokenizer):
    text = TEXTS[name]
    for tokens in (3, 64, 500):
        (part,) = first_part([text], tokenizer, tokens)
        assert text.startswith(part)
        whole, of_part = (ids(tokenizer, each, add_special_tokens=False) for each in (text, part))
        assert of_part[:tokens] == whole[:tokens]
        assert (len(part) < len(text)) <= (len(of_part) > tokens)
        assert first_part([part], tokenizer, tokens) == [part]
    if name == "words":
        assert len(first_part([text], tokenizer, 64)[0]) < 3000


def test_short_texts_stay(tokenizer):
    assert first_part(["", "film", words(20)], tokenizer, 64) == ["", "film", words(20)]
    assert cut_rows([["film", "plot"], ["", words(20)]], tokenizer, 64) == [["film", "plot"], ["", words(20)]]


@pytest.mark.parametrize(
    "pair",
    [
        (words(400), "film"),
        ("film", words(400)),
        (words(200), words(400)),
        (words(201), words(200, 1)),
        (words(200), words(201, 1)),
        (words(400), words(75)),
        (words(400), "北京" * 400),
        ("北京" * 400, words(400)),
    ],
)
def test_pairs_are_truncated_as_whole_ones(pair, tokenizer):
    """The longest text is truncated first, and the one with more tokens keeps the odd one."""
    for max_length in (32, 33, 64):
        (cut,) = cut_rows([pair], tokenizer, max_length)
        expected = ids(tokenizer, *pair, truncation=True, max_length=max_length)
        assert ids(tokenizer, *cut, truncation=True, max_length=max_length) == expected
        assert len(expected) == max_length


def test_truncation_on_the_left_reads_to_the_end(tokenizer):
    text = words(3000)
    tokenizer.truncation_side = "left"
    try:
        assert cut_rows([[text]], tokenizer, 32) == [[text]]
    finally:
        tokenizer.truncation_side = "right"


@pytest.mark.parametrize("kind", ["film", "pairs", "choices", "similar"])
def test_predict_tokenizes_the_beginning_only(kind, fine_tuned, monkeypatch):
    """A line of 5 MB took 35 seconds."""
    predictor = bertkit.load(fine_tuned(kind), device="cpu").predictor
    text = "the film is lovely or awful " * 20_000
    pairs = [f"{text}\tfilm", f"film\t{text}"]
    lines = {"film": [text], "pairs": pairs, "choices": [f"film\t{text}\tbad"], "similar": pairs}[kind]
    columns = predictor.task.read_input(lines)
    whole = predictor.task.encode(columns, predictor.tokenizer)
    expected = predictor.task.decode(predictor.outputs(whole), whole, columns)
    read = []
    call = type(predictor.tokenizer).__call__

    def watched(self: Any, *texts: Any, **options: Any) -> Any:
        read.extend(len(each) for column in texts for each in ([column] if isinstance(column, str) else column))
        return call(self, *texts, **options)

    monkeypatch.setattr(type(predictor.tokenizer), "__call__", watched)
    assert predictor.predict(lines) == expected
    assert max(read) < 2000


def test_of_a_question_and_its_text_only_the_question_is_cut(fine_tuned):
    loaded = bertkit.load(fine_tuned("answers"), device="cpu")
    columns = {"question": ["is it good " * 400], "context": ["the film is lovely or awful " * 400]}
    cut = task_inference(loaded.task).cut_texts(columns, loaded.tokenizer)
    assert cut["context"] == columns["context"]
    assert len(cut["question"][0]) < 1000
    features = (loaded.task.encode(each, loaded.tokenizer) for each in (cut, columns))
    assert next(features)["input_ids"] == next(features)["input_ids"]


def test_texts_to_tag_are_not_cut(fine_tuned):
    loaded = bertkit.load(fine_tuned("entities"), device="cpu")
    columns = loaded.task.read_input(["the film is lovely or awful " * 400])
    assert task_inference(loaded.task).cut_texts(columns, loaded.tokenizer) == columns
