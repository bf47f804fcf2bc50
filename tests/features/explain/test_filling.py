"""Words that a masked language model fills in, likelihoods of texts, and next sentences."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import torch
import transformers

from bertkit import explain
from bertkit.features.explain.heads import Ranking
from bertkit.features.explain.network import load_network
from bertkit.runtime.errors import CheckpointError

TEXT = "the plot is badly lovely"


def plain_loop(network, pieces):
    """Returns the log-probability of each word: one masked piece at a time, without batches."""
    totals = []
    for word in pieces.words:
        total = 0.0
        for position in range(word.start, word.end):
            ids = torch.tensor(pieces.ids)[None].clone()
            ids[0, position : word.end] = network.tokenizer.mask_token_id
            with torch.no_grad():
                outputs = network.model(input_ids=ids, attention_mask=torch.ones_like(ids))
            logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
            total += float(logits[0, position].log_softmax(-1)[pieces.ids[position]])
        totals.append(total)
    return totals


@pytest.mark.numeric
def test_filling_equals_a_plain_loop(of_family):
    inside = explain(of_family, TEXT)
    expected = plain_loop(load_network(str(of_family)), inside.pieces)
    words = inside.masked.words
    assert [word.text for word in words] == TEXT.split()
    assert max(word.pieces for word in words) > 1
    np.testing.assert_allclose([word.log_probability for word in words], expected, atol=1e-4)
    number = sum(word.pieces for word in words)
    assert inside.masked.perplexity == pytest.approx(math.exp(-sum(expected) / number), rel=1e-4)
    for word in words:
        values = [probability for _, probability in word.best]
        assert values == sorted(values, reverse=True)
        assert len(values) == 5


@pytest.mark.numeric
def test_ranks_do_not_depend_on_the_batch(checkpoint, tmp_path):
    texts = ["a good film", "the plot is lovely or awful, a bad story", "lovely"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n\n")
    ranking = explain(checkpoint, rank=tmp_path / "texts.txt")
    scores = {text: perplexity for text, perplexity, _ in ranking.scores}
    assert list(scores.values()) == sorted(scores.values())
    for text in texts:
        assert scores[text] == pytest.approx(explain(checkpoint, text).masked.perplexity, rel=1e-4)
    assert explain(checkpoint, rank=texts).scores[0][0] == ranking.scores[0][0]


def test_numbers_of_a_page_have_three_digits_or_no_decimals():
    page = Ranking("model", [("one", 12.345, -0.01234), ("two", 999.7, -12345.6)]).html()
    for number in ("12.3", "-0.0123", "1,000", "-12,346"):
        assert f'<td class="n">{number}</td>' in page


@pytest.mark.numeric
def test_minimal_pairs_are_compared(checkpoint, tmp_path):
    texts = ["a good film", "film good a", "the plot is lovely"]
    likelihood = {text: explain(checkpoint, text).masked.log_likelihood for text in texts}
    good, bad = (f(texts[:2], key=likelihood.__getitem__) for f in (max, min))
    (tmp_path / "pairs.tsv").write_text(f"Good\tBAD\n{good}\t{bad}\n{bad}\t{good}\n{good}\t{bad}\n")
    pairs = explain(checkpoint, pairs=tmp_path / "pairs.tsv")
    assert (pairs.right, pairs.share) == (2, pytest.approx(2 / 3))
    assert pairs.rows[0][2] == pytest.approx(likelihood[good], abs=1e-3)
    assert pairs.interval[0] < 2 / 3 < pairs.interval[1]
    assert pairs.html().count("</tr>") == 4


def test_a_fine_tuned_checkpoint_fills_nothing(fine_tuned):
    inside = explain(fine_tuned("film"), "a good film")
    assert "has no masked-LM head" in inside.missing["masked"]
    assert inside.attention is not None
    with pytest.raises(CheckpointError, match="has no masked-LM head"):
        explain(fine_tuned("film"), rank=["a film"])


@pytest.mark.numeric
def test_next_sentence_is_the_heads(checkpoint, tmp_path):
    (tmp_path / "story.txt").write_text("A good film. A bad plot.\nThe story is lovely. It is awful.\n" * 3)
    inside = explain(checkpoint, "the plot is lovely", "a good film", sentences=tmp_path / "story.txt")
    network = load_network(str(checkpoint))

    def follows(first, second):
        batch = network.tokenizer(first, second, return_tensors="pt", return_token_type_ids=True)
        with torch.no_grad():
            return float(network.model(**batch).seq_relationship_logits.softmax(-1)[0, 0])

    part = inside.next_sentence
    assert part.objective == "next"
    assert part.probability == pytest.approx(follows("the plot is lovely", "a good film"), abs=1e-5)
    assert part.swapped == pytest.approx(follows("a good film", "the plot is lovely"), abs=1e-5)
    assert len(part.others) == 5
    for sentence, probability in part.others:
        assert probability == pytest.approx(follows("the plot is lovely", sentence), abs=1e-5)
    spaced = ["A good film.", "The story is lovely.", "A good film.", "It is awful.", "A bad plot."]
    assert [sentence for sentence, _ in part.others] == spaced  # of twelve the numbers 0, 2, 4, 7 and 9


def test_a_bert_that_learnt_the_order_tells_the_order(checkpoint, tmp_path):
    folder = tmp_path / "sop"
    shutil.copytree(checkpoint, folder)
    (folder / "recipe.yaml").write_text("task:\n  kind: pretraining\n  pair_objective: sop\n")
    part = explain(folder, "the plot is lovely", "a good film").next_sentence
    assert part.objective == "order"
    assert "the texts are in this order" in part.lines()[0]


def test_one_text_has_no_next_sentence(checkpoint):
    inside = explain(checkpoint, "the plot is lovely")
    assert "give a second text" in inside.missing["next_sentence"]
    assert "no head has most of its attention on one kind of token" in str(inside)
    assert "leaves no word" in explain(checkpoint, "\u200b", "a film").missing["attention"]


def test_albert_tells_the_order(saved):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    config = transformers.AlbertConfig(vocab_size=60, embedding_size=16, max_position_embeddings=40, **sizes)
    folder = saved(transformers.AlbertForPreTraining(config))
    texts = ("the plot is lovely", "a good film")
    inside, network = explain(folder, *texts), load_network(str(folder))
    with torch.no_grad():
        logits = network.model(**network.tokenizer(*texts, return_tensors="pt", return_token_type_ids=True))
    assert inside.next_sentence.objective == "order"
    assert inside.next_sentence.probability == pytest.approx(float(logits.sop_logits.softmax(-1)[0, 0]), abs=1e-5)
    assert "in this order" in inside.html()
    assert inside.masked is not None


def test_a_masked_lm_has_no_next_sentence(of_family):
    inside = explain(of_family, "the plot", "a film")
    assert "no head for the next sentence" in inside.missing["next_sentence"]
    assert ("Tinted: the second text" in inside.html()) == (1 in inside.pieces.segments)


@pytest.mark.parametrize(
    ("family", "head", "parts", "missing"),
    [
        ("Longformer", "ForMaskedLM", {"pieces", "masked"}, "models of type 'longformer' do not return the attention"),
        ("Electra", "ForPreTraining", {"pieces", "attention"}, "it has no masked-LM head"),  # the discriminator
        ("Bert", "ForNextSentencePrediction", {"pieces", "attention", "next_sentence"}, "it has no masked-LM head"),
        ("MegatronBert", "ForPreTraining", {"pieces", "attention", "masked", "next_sentence"}, "was not fine-tuned"),
    ],
)
def test_parts_that_do_not_fit_are_left_out(saved, family, head, parts, missing):
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 66, "embedding_size": 32}
    if family == "Longformer":
        sizes["attention_window"] = 8
    config = getattr(transformers, f"{family}Config")(**sizes)
    inside = explain(saved(getattr(transformers, f"{family}{head}")(config)), "a good film", "the plot")
    assert inside.parts().keys() == parts
    assert any(missing in reason for reason in inside.missing.values())
    assert "Not shown" in inside.html()
    assert ("vectors that are added up there" in inside.html()) == (family != "Longformer")
