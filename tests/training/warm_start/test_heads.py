"""Heads that start from a linear probe, and the contrast before it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import padded
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.training.warm_start.contrast import contrast_loss, kept_loss, means_of_tokens, pairs_of_classes
from bertkit.training.warm_start.heads import find_head, read_vectors, standardize, write_line
from bertkit.training.warm_start.linear_head import fit_head
from bertkit.training.warm_start.phases import check_warm_start
from tests.stock_models import FAMILIES, TEXTS, stock_checkpoint

pytestmark = pytest.mark.numeric

NORMALIZES = "modernbert"  # between the dense layer and the classifier
ROWS = [text + end for text in TEXTS for end in ("", " in Berlin", " with a river", " and a company")]


@pytest.fixture(params=FAMILIES)
def classifier(request, tmp_path):
    """``family, model, rows, collate`` of a stock checkpoint of each family with a new head of three classes."""
    folder = stock_checkpoint(tmp_path / "model", request.param, "AutoModelForSequenceClassification", ["a", "b", "c"])
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = dict(tokenizer(ROWS))
    rows = [
        {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": place % 3, "length": len(ids)}
        for place, ids in enumerate(encoded["input_ids"])
    ]

    def collate(batch):
        inputs = padded(batch, tokenizer, ("input_ids", "attention_mask"))
        return {**inputs, "labels": torch.tensor([row["labels"] for row in batch])}

    return request.param, model, Rows(rows), collate


class Rows(list):
    """Rows as a data set has them: by number, and columns by name."""

    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


def inputs_of(rows, collate):
    return {name: values for name, values in collate(list(rows)).items() if name != "labels"}


def test_the_first_forward_pass_is_the_fitted_line(classifier):
    family, model, rows, collate = classifier
    head = find_head(model, inputs_of(rows[:2], collate))
    assert (head.dense is not None) == (family != NORMALIZES)
    assert head.classifier.out_features == 3
    if head.dense is not None:
        standardize(head, read_vectors(model, head.dense, rows, collate, 4, family)[0])
    vectors, of_rows = read_vectors(model, head.classifier, rows, collate, 4, family)
    assert of_rows.tolist() == list(range(len(ROWS)))
    line = fit_head(vectors, np.arange(len(ROWS)) % 3, 3, 1.0)
    write_line(head, line)
    with torch.inference_mode():
        logits = model.eval()(**inputs_of(rows, collate)).logits
    np.testing.assert_allclose(logits.numpy(), line.logits(vectors), atol=1e-3)


def test_the_standardized_head_is_nearly_linear(classifier):
    family, model, rows, collate = classifier
    head = find_head(model, inputs_of(rows[:2], collate))
    if head.dense is None:
        pytest.skip(f"{family} has no dense layer before its classifier")
    read, _ = read_vectors(model, head.dense, rows, collate, 4, family)
    standardize(head, read)
    passed, _ = read_vectors(model, head.classifier, rows, collate, 4, family)
    for before, after in zip(read.T, passed.T, strict=True):
        assert np.corrcoef(before, after)[0, 1] > 0.93


def test_a_head_without_a_linear_layer_is_refused(classifier):
    _, model, rows, collate = classifier
    model.config.num_labels = 7
    with pytest.raises(RecipeError, match=r"train\.head: the logits .* set train\.head to random"):
        find_head(model, inputs_of(rows[:2], collate))


def test_contrast_is_the_mean_of_the_log_shares_of_the_own_class():
    vectors, classes = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 1, 2])
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    cosines = (unit @ unit.T / 0.1).double()
    losses = []
    for row in range(5):  # the last one is alone in its class
        others = [other for other in range(6) if other != row]
        total = torch.logsumexp(cosines[row, others], dim=0)
        own = [other for other in others if classes[other] == classes[row]]
        losses.append(torch.stack([total - cosines[row, other] for other in own]).mean())
    assert contrast_loss(vectors, classes).item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)


def test_rows_of_several_labels_count_by_the_part_that_they_share():
    vectors = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0]])  # the last row has none
    parts = {(0, 1): 1 / 2, (0, 2): 1 / 3, (1, 0): 1 / 2, (2, 0): 1 / 3}
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    cosines = (unit @ unit.T / 0.1).double()
    losses = []
    for row in range(3):
        others = [other for other in range(4) if other != row]
        total = torch.logsumexp(cosines[row, others], dim=0)
        weights = {other: parts[row, other] for other in others if (row, other) in parts}
        means = sum(weight * (total - cosines[row, other]) for other, weight in weights.items())
        losses.append(means / sum(weights.values()))
    assert contrast_loss(vectors, labels).item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)
    exclusive = torch.tensor([0, 1, 1, 0])
    of_classes = contrast_loss(vectors, exclusive).item()
    assert contrast_loss(vectors, torch.eye(2)[exclusive]).item() == pytest.approx(of_classes, rel=1e-4)


def test_known_neighbours_are_kept_where_the_loss_is_least():
    known, other = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(0))
    known = known[:5]
    turned = (known @ torch.linalg.qr(other)[0]).requires_grad_()
    least = kept_loss(turned, known)
    [gradient] = torch.autograd.grad(least, turned)
    assert gradient.abs().max() < 1e-4
    unit = known / known.norm(dim=1, keepdim=True)
    shares = [(unit[row] @ unit[[other for other in range(5) if other != row]].T / 0.05).softmax(0) for row in range(5)]
    entropy = torch.stack([-(each * each.log()).sum() for each in shares]).mean()
    assert least.item() == pytest.approx(entropy.item(), rel=1e-3)
    assert kept_loss(known[[1, 0, 2, 3, 4]], known) > least


def test_rows_of_several_labels_have_partners():
    labels = np.random.default_rng(0).random((40, 6)) < 0.2
    batches = pairs_of_classes(labels.astype(np.int64), 8, seed=0)
    for _ in range(30):
        batch = labels[next(batches)].astype(int)
        assert len(batch) == 8
        assert ((batch @ batch.T - np.diag(batch.sum(axis=1))).max(axis=1) > 0).all()


@pytest.mark.parametrize("counts", [[50, 50], [2, 90, 3], [2] * 40, [1, 1, 5, 4]])
def test_rows_of_a_batch_have_partners(counts):
    classes = np.repeat(np.arange(len(counts)), counts)
    batches = pairs_of_classes(classes, 16, seed=0)
    seen = set()
    for _ in range(60):
        batch = next(batches)
        assert len(set(batch)) == len(batch) <= 16
        of_batch, times = np.unique(classes[batch], return_counts=True)
        assert len(of_batch) > 1
        assert (times > 1).sum() >= len(of_batch) - 1
        seen |= set(batch)
    assert seen == set(np.flatnonzero(np.array(counts)[classes] > 1))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "films.csv"
    words = {"good": "lovely film", "bad": "awful plot", "fair": "some story"}
    lines = [f"a {text} number {place},{label}" for place in range(20) for label, text in words.items()]
    path.write_text("text,label\n" + "\n".join(lines))
    return path


RUN = {
    "data.max_seq_length": 16,
    "data.folds": 0,
    "train.max_steps": 2,
    "train.learning_rate": 1e-6,  # a tiny encoder with random weights hardly tells texts apart
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


def test_a_run_begins_with_contrast_and_probe(tuned, table, capsys):
    warm = RUN | {"train.head": "probe", "train.contrast_steps": 6, "train.head_learning_rate": 1e-5}
    run = tuned("classification", warm, train_file=table)
    assert run.metrics["eval_accuracy"] == 1.0
    assert "head: a linear probe of 54 vectors" in capsys.readouterr().err
    again = tuned("classification", warm, "again", train_file=table)
    assert again.metrics["eval_loss"] == pytest.approx(run.metrics["eval_loss"], rel=1e-4)
    cold = tuned("classification", RUN, "cold", train_file=table)
    assert cold.metrics["eval_loss"] > 2 * run.metrics["eval_loss"]


def test_the_probe_of_a_large_table_reads_a_part_of_its_rows(tuned, table, capsys, monkeypatch):
    monkeypatch.setattr("bertkit.training.warm_start.phases._MOST_PROBED", 30)
    run = tuned("classification", RUN | {"train.head": "probe"}, train_file=table)
    assert "head: a linear probe of 30 vectors" in capsys.readouterr().err
    assert run.metrics["eval_accuracy"] == 1.0


def test_several_labels_begin_with_contrast(tuned, tmp_path, capsys):
    kinds = [(a, b) for a in ("lovely", "awful") for b in ("love", "war", "plot")]
    lines = [f"a {a} film of {b} {place},{a}|{b}" for place in range(8) for a, b in kinds]
    (tmp_path / "labels.csv").write_text("text,label\n" + "\n".join(lines))
    warm = RUN | {"train.head": "probe", "train.contrast_steps": 6}
    run = tuned("classification", warm, train_file=tmp_path / "labels.csv", label_separator="|")
    assert "contrast: 6 steps" in capsys.readouterr().err
    assert run.metrics["eval_average_precision"] > 0.9


def test_several_labels_and_numbers_begin_with_a_probe(tuned, tmp_path):
    kinds = [(a, b) for a in ("lovely", "awful") for b in ("love", "war", "plot")]
    lines = [f"a {a} film of {b} {place},{a}|{b}" for place in range(8) for a, b in kinds]
    labels, numbers = tmp_path / "labels.csv", tmp_path / "numbers.csv"
    labels.write_text("text,label\n" + "\n".join(lines))
    numbers.write_text("text,label\n" + "\n".join(f"{line.split(',')[0]},{0.5 + ('awful' in line)}" for line in lines))
    probe = {**RUN, "train.head": "probe"}
    run = tuned("classification", probe, "a", train_file=labels, label_separator="|")
    assert run.metrics["eval_average_precision"] > 0.9
    given = {"train_file": numbers, "problem": "regression"}
    assert tuned("classification", probe, "b", **given).metrics["eval_pearson"] > 0.9
    with pytest.raises(RecipeError, match=r"train\.contrast_steps: needs classes of texts"):
        tuned("classification", {**probe, "train.contrast_steps": 3}, "c", **given)
    assert not (tmp_path / "c").exists()


def test_tags_and_glue_tasks_begin_with_a_probe(tuned, glue, tmp_path, capsys):
    sentences = [
        f"a\tO\n{word}\tO\nfilm\tB-FILM\n{place}\tI-FILM\n" for place in range(9) for word in ("lovely", "awful")
    ]
    (tmp_path / "tags.conll").write_text("\n".join(sentences))
    probe = {**RUN, "train.head": "probe"}
    run = tuned("ner", probe, "a", train_file=tmp_path / "tags.conll")
    assert "head: a linear probe of 64 vectors" in capsys.readouterr().err
    assert run.metrics["eval_overall_f1"] > 0.9
    tuned("sst2", probe, "b", data_dir=glue)
    assert "head: a linear probe" in capsys.readouterr().err


def test_tasks_without_a_head_of_classes_are_refused():
    for name in ("finetune/multiple-choice", "finetune/squad/v1", "finetune/similarity"):
        recipe = load_recipe(name, {"train.head": "probe", "data.train_file": "x.csv"})
        with pytest.raises(RecipeError, match=r"train\.head: \w+ has no head of classes; remove it"):
            check_warm_start(recipe, task_of_recipe(recipe))


def test_copies_do_not_choose_the_strength(tuned, capsys):
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcdefgh"), 6)) for _ in range(30)]
    rows = [(text, label) for text, label in zip(texts, random.integers(0, 2, 30), strict=True)]
    table = [{"text": text, "label": ("heads", "tails")[label]} for text, label in rows * 5]
    tuned("classification", {**RUN, "train.head": "probe"}, train_file=table, validation_file=table[:30])
    assert "fitted with a penalty of 100\n" in capsys.readouterr().err  # labels of coins: nothing is to be learned
    # Vectors that a contrast has taught the labels say so in all folds, more in some than in others.
    warm = {**RUN, "train.head": "probe", "train.contrast_steps": 2}
    tuned("classification", warm, "contrast", train_file=table, validation_file=table[:30])
    assert "fitted with a penalty of 1\n" in capsys.readouterr().err


def test_means_of_tokens_are_those_of_a_text_with_all_its_windows():
    states, mask = torch.randn(3, 4, 5), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    torch.testing.assert_close(means_of_tokens(states, mask)[0], states[0, :2].mean(dim=0))
    means = means_of_tokens(states, mask, torch.tensor([1, 2]))
    expected = torch.cat([states[1], states[2, :1]]).mean(dim=0)
    torch.testing.assert_close(means, torch.stack([states[0, :2].mean(dim=0), expected]))


def test_contrast_goes_before_a_random_head_too(tuned, table):
    weights = []
    for steps in (0, 3):
        values = {**RUN, "train.learning_rate": 1e-3, "train.contrast_steps": steps}
        run = tuned("classification", values, str(steps), train_file=table)
        weights.append(load_file(run.output_dir / "model.safetensors")["bert.encoder.layer.0.output.dense.weight"])
    assert (weights[0] - weights[1]).abs().max() > 1e-3


@pytest.mark.parametrize("family", ["bert", "roberta"])  # whose heads read windows before and after they are pooled
def test_texts_in_several_windows_are_contrasted(tuned, family, tmp_path, capsys):
    table = [{"text": "the river in Berlin " * (1 + number % 5), "label": "ab"[number % 2]} for number in range(24)]
    model = stock_checkpoint(tmp_path / "model", family, "AutoModel")
    values = {**RUN, "train.contrast_steps": 3, "train.head": "probe", "data.long_text": "chunk"}
    values["data.max_seq_length"] = 12
    tuned("classification", values, model=model, train_file=table, validation_file=table)
    assert "contrast: 3 steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("classes", "batch", "why"),
    [(24, 8, "two classes have two rows"), (2, 2, "three rows are in a batch")],
)
def test_rows_without_others_to_compare_are_not_contrasted(tuned, capsys, classes, batch, why):
    table = [{"text": f"film {number}", "label": f"c{number % classes}"} for number in range(24)]
    values = {**RUN, "train.contrast_steps": 3, "train.global_train_batch_size": batch}
    tuned("classification", values, train_file=table, validation_file=table)
    said = capsys.readouterr().err
    assert f"no contrast: fewer than {why}" in said
    assert "contrast: 3 steps" not in said


def test_a_teacher_goes_with_a_random_head():
    values = {"data.train_file": "x.csv", "train.head": "probe", "train.distill.teacher": "teacher"}
    recipe = load_recipe("finetune/classification", values)
    with pytest.raises(RecipeError, match=r"train\.head: does not go with a teacher"):
        check_warm_start(recipe, task_of_recipe(recipe))
