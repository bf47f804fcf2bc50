"""The feature-based use of BERT: layers combined as told, padding unread, the encoder fixed, all of it kept."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForTokenClassification

from bertkit import BertConfig, BertForTokenClassification
from bertkit.model.features_bert import BertFeatures

pytestmark = pytest.mark.numeric

WIDTH = 4


@pytest.fixture
def config(tiny_sizes):
    """Makes a configuration; dropout is on, so that it would show."""

    def make(layers, combination="concatenate"):
        sizes = {**tiny_sizes, "hidden_dropout_prob": 0.5, "classifier_dropout": 0.0}
        features = {"feature_layers": layers, "feature_combination": combination, "feature_lstm_size": WIDTH}
        return BertConfig(**sizes, **features, num_labels=3)

    return make


def inputs(length=6, rows=2):
    torch.manual_seed(1)
    ids = torch.randint(5, 99, (rows, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_layers_are_concatenated_or_weighted(config):
    states = tuple(torch.full((1, 2, 32), float(layer)) for layer in range(3))
    joined, summed = BertFeatures(config([0, -1])), BertFeatures(config([0, -1], "weighted_sum"))
    assert joined.lstm.input_size == 64
    seen = []
    for features in (joined, summed):
        features.lstm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
        assert features.read(states).shape == (1, 2, 2 * WIDTH)
    assert seen[0][0, 0].tolist() == [0.0] * 32 + [2.0] * 32
    assert seen[1][0, 0].tolist() == [1.0] * 32  # (0 + 2) / 2: equal weights at the start


def test_padding_is_not_read(config):
    model = BertForTokenClassification(config([-2, -1])).eval()
    short = inputs(4)
    padding = torch.full((2, 3), 7)
    long = {
        "input_ids": torch.cat([short["input_ids"], padding], dim=1),
        "attention_mask": torch.cat([short["attention_mask"], torch.zeros_like(padding)], dim=1),
    }
    torch.testing.assert_close(model(**long).logits[:, :4], model(**short).logits)
    torch.testing.assert_close(model(input_ids=short["input_ids"]).logits, model(**short).logits)


def test_the_encoder_stays_and_the_rest_learns(config):
    model = BertForTokenClassification(config([-1], "weighted_sum"))
    assert not any(weight.requires_grad for weight in model.bert.parameters())
    assert model.features.training
    assert not model.bert.training
    assert not model.train().bert.training
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    batch = inputs()
    torch.testing.assert_close(model(**batch).logits, model(**batch).logits)  # no dropout in the features
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch, labels=torch.zeros_like(batch["input_ids"])).loss
    loss.backward()
    optimizer.step()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(name.startswith("bert.") for name in changed)
    assert {"classifier.weight", "features.lstm.weight_ih_l0", "features.lstm.weight_hh_l1_reverse"} <= changed


def test_new_weights_are_drawn_and_saved(config, tiny_sizes, tmp_path):
    encoder = BertForTokenClassification(BertConfig(**tiny_sizes, num_labels=3))
    encoder.save_pretrained(tmp_path / "encoder")
    torch.manual_seed(0)
    model = BertForTokenClassification.from_pretrained(
        tmp_path / "encoder", config=config([1, 2]), ignore_mismatched_sizes=True
    ).eval()
    torch.testing.assert_close(model.bert.state_dict(), encoder.bert.state_dict())
    assert not any(parameter.requires_grad for parameter in model.bert.parameters())
    for parameter in model.features.lstm.parameters():
        assert parameter.abs().max() <= WIDTH**-0.5
        assert parameter.std() > 0.1 * WIDTH**-0.5
    model.save_pretrained(tmp_path / "features")
    again = AutoModelForTokenClassification.from_pretrained(tmp_path / "features").eval()
    torch.testing.assert_close(again(**inputs()).logits, model(**inputs()).logits)
    assert again(**inputs()).hidden_states is None
    assert len(again(**inputs(), output_hidden_states=True).hidden_states) == 3


@pytest.mark.parametrize("layers", [[], [3], [0, -4]])
def test_layers_that_there_are_not_are_refused(config, layers):
    with pytest.raises(ValueError, match=r"`feature_layers` are .* expected -3 to 2, one or more"):
        config(layers)
