from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from huggingface_hub.errors import StrictDataclassClassValidationError, StrictDataclassFieldValidationError

from bertkit import BertConfig


def test_defaults_are_bert_base_as_transformers_has_it() -> None:
    ours, stock = BertConfig().to_dict(), transformers.BertConfig().to_dict()
    without_meaning = {"is_decoder", "add_cross_attention", "use_cache", "bos_token_id", "eos_token_id"}
    assert ours.pop("model_type") == "bertkit"
    own = [ours.pop(name) for name in ("feature_layers", "feature_combination", "feature_lstm_size", "attention")]
    assert own == [None, "concatenate", 768, "bidirectional"]
    assert stock.pop("model_type") == "bert"
    assert {**ours, **dict.fromkeys(without_meaning)} == {**stock, **dict.fromkeys(without_meaning)}


def test_a_saved_config_loads_as_the_same_values(tmp_path: Path) -> None:
    config = BertConfig(
        vocab_size=77,
        hidden_size=24,
        num_attention_heads=3,
        hidden_act="relu",
        classifier_dropout=0.25,
        layer_norm_eps=1e-6,
        tie_word_embeddings=False,
        attention="left_to_right",
        id2label={0: "no", 1: "perhaps", 2: "yes"},
        label2id={"no": 0, "perhaps": 1, "yes": 2},
        problem_type="single_label_classification",
    )
    config.save_pretrained(tmp_path)
    loaded = BertConfig.from_pretrained(tmp_path)
    assert loaded.to_dict() == config.to_dict()
    assert loaded.id2label == {0: "no", 1: "perhaps", 2: "yes"}


def test_every_field_is_saved_even_at_its_default(tmp_path: Path) -> None:
    BertConfig().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    fields = {"tie_word_embeddings", "classifier_dropout", "pad_token_id", "layer_norm_eps", "type_vocab_size"}
    assert fields <= saved.keys()
    assert saved["tie_word_embeddings"] is True
    assert saved["pad_token_id"] == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"hidden_size": 10, "num_attention_heads": 4}, ["`hidden_size` (10)", "`num_attention_heads` (4)"]),
        ({"hidden_size": 0}, ["`hidden_size` must be at least 1, got 0"]),
        ({"num_attention_heads": 0}, ["`num_attention_heads` must be at least 1, got 0"]),
        ({"num_hidden_layers": -1}, ["`num_hidden_layers` must be at least 1, got -1"]),
        ({"vocab_size": 0}, ["`vocab_size`"]),
        ({"max_position_embeddings": 0}, ["`max_position_embeddings`"]),
        ({"type_vocab_size": 0}, ["`type_vocab_size`"]),
        ({"intermediate_size": 0}, ["`intermediate_size`"]),
        ({"hidden_dropout_prob": 1.0}, ["`hidden_dropout_prob` must be in [0, 1), got 1.0"]),
        ({"attention_probs_dropout_prob": -0.1}, ["`attention_probs_dropout_prob`", "-0.1"]),
        ({"classifier_dropout": 2}, ["`classifier_dropout`", "got 2"]),
        ({"hidden_act": "gelo"}, ["`hidden_act` is 'gelo'", "gelu_new"]),
        ({"pad_token_id": 30522}, ["`pad_token_id` (30522)", "0 to 30521"]),
        ({"pad_token_id": -1}, ["`pad_token_id` (-1)"]),
        ({"initializer_range": 0.0}, ["`initializer_range` must be above 0, got 0.0"]),
        ({"layer_norm_eps": 0.0}, ["`layer_norm_eps`"]),
        ({"is_decoder": True}, ["`is_decoder` is True", "encoder"]),
        ({"add_cross_attention": True}, ["`add_cross_attention` is True"]),
        ({"position_embedding_type": "relative_key"}, ["`position_embedding_type` is 'relative_key'", "'absolute'"]),
        ({"is_encoder_decoder": True}, ["`is_encoder_decoder` is True"]),
        ({"chunk_size_feed_forward": 8}, ["`chunk_size_feed_forward` is 8"]),
    ],
)
def test_impossible_values_are_refused(values: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ValueError, match="impossible BertConfig") as caught:
        BertConfig(**values)
    assert all(part in str(caught.value) for part in said)


def test_all_impossible_values_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"vocab_size.*hidden_dropout_prob.*hidden_act"):
        BertConfig(vocab_size=0, pad_token_id=None, hidden_dropout_prob=7.0, hidden_act="gelo")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("hidden_size", "12", "expected int, got str.*'12'"),
        ("attention", "right_to_left", r"expected one of \('bidirectional', 'left_to_right'\), got right_to_left"),
    ],
)
def test_wrong_types_are_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(StrictDataclassFieldValidationError, match=rf"{field}(?s:.*){said}"):
        BertConfig(**{field: value})


def test_a_config_made_impossible_later_is_not_saved(tmp_path: Path) -> None:
    config = BertConfig()
    config.hidden_size = 769
    with pytest.raises(StrictDataclassClassValidationError, match=r"`hidden_size` \(769\)"):
        config.save_pretrained(tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_no_padding_token_is_a_possible_choice() -> None:
    assert BertConfig(pad_token_id=None).pad_token_id is None


STOCK_EXTRAS = {
    "architectures": ["BertForMaskedLM"],
    "position_embedding_type": "absolute",
    "gradient_checkpointing": False,
    "use_cache": True,
    "transformers_version": "4.6.0.dev0",
    "pooler_fc_size": 768,
    "is_decoder": False,
}


@pytest.fixture
def stock_directory(tmp_path: Path) -> Path:
    """A ``config.json`` as released BERT checkpoints have it, model type "bert"."""
    transformers.BertConfig(hidden_size=24, num_attention_heads=3).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **STOCK_EXTRAS}))
    return tmp_path


@pytest.fixture
def warnings_of_transformers(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """A function that returns what the library has warned of so far; its logger does not propagate."""
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    logger.removeHandler(caplog.handler)


def test_a_stock_config_loads_without_a_word(
    stock_directory: Path, warnings_of_transformers: Callable[[], list[str]]
) -> None:
    config = BertConfig.from_pretrained(stock_directory)
    assert warnings_of_transformers() == []
    assert (config.model_type, config.hidden_size, config.num_attention_heads) == ("bertkit", 24, 3)


def test_fixed_values_are_not_written_again(stock_directory: Path, tmp_path: Path) -> None:
    BertConfig.from_pretrained(stock_directory).save_pretrained(tmp_path / "again")
    saved = json.loads((tmp_path / "again" / "config.json").read_text())
    assert saved.keys().isdisjoint({"is_decoder", "position_embedding_type", "use_cache", "gradient_checkpointing"})
    assert saved["model_type"] == "bertkit"
    assert saved["pooler_fc_size"] == 768


def test_a_stock_decoder_is_refused_when_loaded(stock_directory: Path) -> None:
    path = stock_directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "is_decoder": True}))
    with pytest.raises(ValueError, match="`is_decoder` is True"):
        BertConfig.from_pretrained(stock_directory)


def test_other_model_types_are_warned_of(tmp_path: Path, warnings_of_transformers: Callable[[], list[str]]) -> None:
    transformers.RobertaConfig().save_pretrained(tmp_path)
    BertConfig.from_pretrained(tmp_path)
    assert "model of type `roberta`" in "".join(warnings_of_transformers())
