"""Similarity: forms of data, runs, and vectors and losses beside those of sentence-transformers."""

from __future__ import annotations

import builtins
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertkit
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.recipe.settings import HubSettings
from bertkit.runtime.errors import DataError, PlacementError, RecipeError
from bertkit.tasks.similarity.settings import TaskSettings
from bertkit.tasks.similarity.task import SimilarityTask

pytestmark = pytest.mark.numeric

TEXTS = ["a lovely film", "the plot is good", "the story is awful", "a bad film", "lovely", "the good story", "a plot"]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def rows(number: int, *extra: str) -> str:
    """Lines of CSV with two different texts each, and more columns."""
    return "".join(
        ",".join([TEXTS[row % 7], TEXTS[(row + 1 + row // 7) % 7], *(each.format(row % 5) for each in extra)]) + "\n"
        for row in range(number)
    )


SCORED = "sentence1,sentence2,score\n" + rows(24, "{}")
PAIRS = "query,passage\n" + rows(24)
TRIPLETS = "anchor,positive,negative\n" + rows(24, "the worst film {}")
NLI = "premise,hypothesis,label\n" + "".join(
    line + label + "\n"
    for line, label in zip(rows(24, "").splitlines(), ["neutral", "ENTAILMENT", "contradiction"] * 8, strict=True)
)
CONTENTS = {"scored_pairs": SCORED, "pairs": PAIRS, "triplets": TRIPLETS, "nli": NLI}


@pytest.fixture
def task(task_of_files):
    """Builds a task of files, each given by its content: ``task(train_csv=…, pooling=…)``."""
    return partial(task_of_files, SimilarityTask)


@pytest.fixture(scope="module")
def run(checkpoint, tmp_path_factory):
    """Returns a function that fine-tunes on the rows of a form; the run of one form and its settings is made once."""
    pytest.importorskip("sentence_transformers")
    made: dict[Any, bertkit.training.runs.record.Run] = {}

    def finetune(form: str, folder: Path | None = None, **options: Any):
        overrides = options.pop("overrides", {})
        key = (form, folder, str(overrides))
        if key not in made or options:
            folder = folder or tmp_path_factory.mktemp(form) / "run"
            train = folder.parent / "train.csv"
            train.write_text(CONTENTS[form])
            values = {"data.train_file": str(train), "data.validation_fraction": 0.25, "data.max_seq_length": 16}
            values |= {"train.num_train_epochs": 2, "train.global_train_batch_size": 6, "train.report": False}
            made[key] = bertkit.finetune(
                "finetune/similarity",
                model=str(checkpoint),
                output_dir=folder,
                overrides={**values, **overrides},
                **options,
            )
        return made[key]

    return finetune


# ---- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", CONTENTS)
def test_a_test_set_is_scored(task, form):
    """Pairs and triplets too, which have no column of labels."""
    _, splits = task(train_csv=CONTENTS[form], test_csv=CONTENTS[form]).load(["train", "test"])
    assert splits["test"].examples["labels"][:] == splits["train"].examples["labels"][:]


@pytest.mark.parametrize("form", CONTENTS)
def test_the_form_is_inferred(task, form):
    settled, splits = task(train_csv=CONTENTS[form]).load(["train"])
    assert settled.settings.form == form
    given, _ = task(train_csv=CONTENTS[form], form=form, text_columns=settled.settings.text_columns).load(["train"])
    assert given.settings == settled.settings
    assert any(f"form: {form} " in note for note in splits["train"].notes)
    examples = splits["train"].examples
    assert examples["texts"][0][:2] == TEXTS[:2]
    expected = {"scored_pairs": [0.0, 1.0], "nli": [1, 2]}.get(form, [1.0, 1.0])
    assert examples["labels"][:2] == expected


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a,b\nx,y\n", {}, "cannot determine which of its columns (a, b) contain the texts"),
        ("sentence1,sentence2,score\nx,y,3\nz,y,3\n", {}, "all scores are 3, and the loss learns which pairs"),
        ("sentence1,sentence2,score\nx,y,3\nz,y,high\n", {}, "line 3: score is 'high'; expected a number"),
        ("sentence1,sentence2,score\nx,y,\nz,y,1\n", {}, "line 2: score is ''; expected a number"),
        ("query,passage\nx,y\nz,\n", {}, "line 3: passage is empty"),
        ("anchor,positive,negative\nx,y,y\n", {}, "line 2: negative is the text of positive too"),
        ("anchor,positive,negative\nx,y,x\n", {}, "line 2: negative is the text of anchor too"),
        ("query,passage\nx,y\n", {"form": "nli"}, "nli need a column of scores or labels"),
        ("query,passage,score\nx,y,1\n", {"form": "pairs", "label_column": "score"}, "remove --label-column, or give"),
        ("query,passage\nx,y\n", {"form": "triplets"}, "triplets have three or more texts, not 'query', 'passage'"),
        (
            "sentence1,sentence2,score\nx,y,1\n",
            {"text_columns": ["sentence1"] * 2},
            "'sentence1' is given more than once",
        ),
        (
            "sentence1,sentence2,score\nx,y,1\n",
            {"label_column": "sentence2", "text_columns": ["sentence1", "sentence2"]},
            "more than once",
        ),
        (
            "sentence1,sentence2\nx,y\n",
            {"form": "pairs", "text_columns": ["sentence1"] * 2},
            "'sentence1' is given more than once",
        ),
        (
            "anchor,positive,negative\nx,y,z\n",
            {"form": "triplets", "text_columns": ["anchor", "positive", "negative", "negative"]},
            "'negative' is given more than once",
        ),
        (
            "sentence1,sentence2,score\nx,y,1\n",
            {"form": "scored_pairs", "label_column": "sentence2", "text_columns": ["sentence1", "sentence2"]},
            "'sentence2' is given more than once",
        ),
        ("query,passage\nx,y\n", {"text_columns": ["query", "answer"]}, "no column 'answer'"),
        ("query,passage\nx,y\n", {"text_columns": ["query"]}, "give --text-column twice or more"),
        (
            "sentence1,sentence2,label\nx,y,neutral\nx,z,perhaps\n",
            {"form": "nli"},
            "label is 'perhaps'; expected contr",
        ),
    ],
)
def test_faults_of_the_data_are_named(task, content, settings, message):
    with pytest.raises(DataError) as caught:
        task(train_csv=content, **settings).load(["train"])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "nli", "mini_batch_size": 4}, "mini_batch_size: is for pairs and triplets"),
        ({"form": "nli", "matryoshka_dims": [4]}, "matryoshka_dims: not for NLI"),
        ({"matryoshka_dims": [0]}, "expected numbers from 1, got 0"),
        ({"mini_batch_size": 0}, "mini_batch_size: expected .*, got 0"),
        ({"scale": 0.0}, "scale: expected .*, got 0"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TaskSettings(**settings)


# ---- runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "scores"),
    [
        ("scored_pairs", {"spearmanr", "pearson"}),
        ("pairs", {"ndcg_at_10", "mrr_at_10", "recall_at_10", "accuracy_at_1"}),
        ("triplets", {"ndcg_at_10", "mrr_at_10", "recall_at_10", "accuracy_at_1", "triplet_accuracy"}),
        ("nli", {"spearmanr", "pearson"}),
    ],
)
def test_a_run_of_each_form(run, form, scores):
    metrics = run(form).metrics
    assert {f"eval_{name}" for name in scores} <= metrics.keys()
    assert np.isfinite(metrics["train_loss"])
    again = bertkit.evaluate(str(run(form).output_dir)).metrics
    for name in scores:
        assert again[f"eval_{name}"] == pytest.approx(metrics[f"eval_{name}"], abs=1e-5)


def test_the_result_loads_in_sentence_transformers(run):
    from sentence_transformers import SentenceTransformer

    folder = str(run("scored_pairs", overrides={"task.pooling": "cls"}).output_dir)
    theirs = SentenceTransformer(folder, device="cpu").encode(TEXTS, show_progress_bar=False)
    loaded = bertkit.load(folder)
    np.testing.assert_allclose(loaded.embed(TEXTS, pooling="cls"), theirs, rtol=0, atol=1e-5)
    cosine = theirs[0] @ theirs[1] / np.linalg.norm(theirs[0]) / np.linalg.norm(theirs[1])
    [prediction] = loaded.predict([f"{TEXTS[0]}\t{TEXTS[1]}"])
    assert prediction["similarity"] == pytest.approx(float(cosine), abs=1e-5)
    [several] = loaded.predict(["\t".join(TEXTS[:3])])
    assert len(several["similarities"]) == 2
    assert several["similarity"] == pytest.approx(prediction["similarity"], abs=1e-5)


@pytest.mark.parametrize("form", ["bert", "bertkit"])
def test_a_pushed_checkpoint_keeps_its_pooling(run, tmp_path, form):
    from sentence_transformers import SentenceTransformer

    folder = str(run("scored_pairs", overrides={"task.pooling": "cls"}).output_dir)
    pytest.importorskip("bertkit.features.sharing.push_files").write_push(
        folder, tmp_path, "me/similar", HubSettings(form=form)
    )
    theirs = SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(bertkit.load(folder).embed(TEXTS, pooling="cls"), theirs, rtol=0, atol=1e-5)
    assert 'SentenceTransformer("me/similar")' in (tmp_path / "README.md").read_text()
    assert ("import bertkit" in (tmp_path / "README.md").read_text()) == (form == "bertkit")


@pytest.mark.parametrize("overrides", [{}, {"task.mini_batch_size": 2}], ids=["plain", "cached"])
def test_a_killed_run_continues_exactly(run, tmp_path, overrides):
    saved = {**overrides, "train.save_strategy": "steps", "train.save_steps": 2}
    whole = run("pairs", overrides=saved)

    class Killer(bertkit.training.runs.finetune.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 3:
                raise KeyboardInterrupt

    killed = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run("pairs", killed, overrides=saved, callbacks=[Killer()])
    resumed = run("pairs", killed, overrides=saved, resume=True)
    assert resumed.metrics["train_loss"] == pytest.approx(whole.metrics["train_loss"], rel=1e-6)
    weights = [bertkit.BertModel.from_pretrained(each.output_dir).state_dict() for each in (whole, resumed)]
    for name, values in weights[0].items():
        torch.testing.assert_close(values, weights[1][name], msg=name)


def test_a_teacher_is_refused(run, tmp_path):
    with pytest.raises(RecipeError, match="compares the examples of a batch, and that of a teacher"):
        run("pairs", tmp_path / "run", overrides={"train.distill.teacher": str(run("pairs").output_dir)})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("form", ["pairs", "triplets"])
def test_a_text_is_no_negative_of_itself(run, monkeypatch, form):
    adjectives, nouns = "lovely good bad awful".split(), "film plot story".split()
    fresh = map(" ".join, product(adjectives, nouns, adjectives, nouns))
    content, texts = CONTENTS[form].splitlines()[0], [""]
    for row in range(30):
        before, texts = texts, list(islice(fresh, content.splitlines()[0].count(",") + 1))
        if row % 2:  # its first or second text is that of the row before
            texts[row // 2 % 2] = before[row // 2 % 2]
        content += "\n" + ",".join(texts)
    monkeypatch.setitem(CONTENTS, form, content)
    repeats: list[int] = []
    original = SimilarityTask.loss

    def loss(self, outputs, batch, count):
        if torch.is_grad_enabled():
            texts = [tuple(ids) for ids in batch["input_ids"].flatten(0, 1).tolist()]
            repeats.append(len(texts) - len(set(texts)))
        return original(self, outputs, batch, count)

    monkeypatch.setattr(SimilarityTask, "loss", loss)
    run(form, overrides={"data.validation_fraction": 0.1})
    assert len(repeats) >= 8
    assert set(repeats) == {0}


def test_a_batch_that_does_not_fit_is_not_divided(run, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")

    monkeypatch.setattr(bertkit.training.trainer.BertkitTrainer, "compute_part", full)
    with pytest.raises(PlacementError, match="which cannot be computed in parts; use a smaller"):
        run("pairs", tmp_path / "run")


def test_a_missing_extra_is_named(task, monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "sentence_transformers":
            raise ModuleNotFoundError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RecipeError, match=r"pip install 'bertkit\[sentence-transformers\]'"):
        task(train_csv=PAIRS).load(["train"])


def test_another_family(stock_models, tmp_path):
    from sentence_transformers import SentenceTransformer

    stock = stock_models.stock_checkpoint(tmp_path / "stock", "distilbert", "AutoModel")
    (tmp_path / "train.csv").write_text(PAIRS)
    values = {"data.train_file": str(tmp_path / "train.csv"), "data.max_seq_length": 16, "train.report": False}
    values |= {"train.num_train_epochs": 1, "data.validation_fraction": 0.25}
    run = bertkit.finetune("finetune/similarity", model=str(stock), output_dir=tmp_path / "run", overrides=values)
    theirs = SentenceTransformer(str(run.output_dir), device="cpu").encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(bertkit.load(run.output_dir).embed(TEXTS), theirs, rtol=0, atol=1e-5)


def test_a_batch_that_cannot_be_compared_is_refused(run, tmp_path):
    with pytest.raises(PlacementError, match="compares all 6 examples of a batch"):
        run("pairs", tmp_path / "run", overrides={"placement.per_device_train_batch_size": 3})
    with pytest.raises(RecipeError, match="compares the examples of a batch; give at least 2"):
        run("pairs", tmp_path / "run", overrides={"train.global_train_batch_size": 1})
    assert not (tmp_path / "run").exists()


def test_more_numbers_than_a_vector_are_refused(run, tmp_path):
    with pytest.raises(DataError, match="64 numbers of a vector, which has 32"):
        run("pairs", tmp_path / "run", overrides={"task.matryoshka_dims": [64]})
    assert not (tmp_path / "run").exists()


def test_the_model_is_still_an_encoder(run):
    folder = str(run("pairs").output_dir)
    assert bertkit.load(folder).embed(TEXTS[:2], layers=[0, -1]).shape == (2, 64)
    bertkit.explain(folder, TEXTS[0])  # layers and attention of one text


# ---- losses ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def network(checkpoint):
    """Returns a function that loads the encoder of the checkpoint without dropout, and its tokenizer."""

    def load():
        config = load_config(str(checkpoint))
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        model, _ = load_model("BertModel", str(checkpoint), config, new_head=True)
        return model.train(), load_tokenizer(str(checkpoint), config=config)

    return load


def gradients(task: SimilarityTask, network: Any) -> tuple[float, dict[str, torch.Tensor]]:
    """Returns the loss of the training set of a task as one batch, and its gradients."""
    settled, splits = task.load(["train"])
    model, tokenizer = network()
    settled.prepare(model)
    columns = {name: splits["train"].examples[name] for name in ("texts", "labels")}
    features = settled.encode(columns, tokenizer)
    batch = settled.collate(
        [dict(zip(features, row, strict=True)) for row in zip(*features.values(), strict=True)], tokenizer, INPUTS
    )
    outputs = model(**{name: values for name, values in batch.items() if name != "labels"})
    loss = settled.loss(outputs, batch, settled.count(batch))
    loss.backward()
    return loss.item(), {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("nested", [[], [32, 8]], ids=["whole", "matryoshka"])
def test_cached_gradients_are_those_of_the_batch(task, network, nested):
    pytest.importorskip("sentence_transformers")
    plain, cached = (
        gradients(task(train_csv=TRIPLETS, mini_batch_size=size, matryoshka_dims=nested), network) for size in (None, 5)
    )
    assert cached[0] == pytest.approx(plain[0], rel=1e-5)
    assert plain[1].keys() == cached[1].keys()
    for name, values in plain[1].items():
        torch.testing.assert_close(cached[1][name], values, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("size", [None, 5])
def test_whole_vectors_are_trained_beside_their_beginnings(task, network, size):
    pytest.importorskip("sentence_transformers")
    of_beginning, of_both = (
        gradients(task(train_csv=TRIPLETS, mini_batch_size=size, matryoshka_dims=dims), network)[0]
        for dims in ([8], [32, 8])
    )
    assert of_beginning == pytest.approx(of_both, rel=1e-6)


@pytest.mark.parametrize(("form", "loss"), [("scored_pairs", "CoSENTLoss"), ("pairs", "MultipleNegativesRankingLoss")])
def test_losses_are_those_of_sentence_transformers(task, network, checkpoint, tmp_path, form, loss):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses

    bertkit.export(checkpoint, tmp_path / "theirs", to="sentence-transformers")
    model = SentenceTransformer(str(tmp_path / "theirs"), device="cpu").eval()
    columns = [line.split(",") for line in CONTENTS[form].splitlines()[1:]]
    features = [model.preprocess([row[place] for row in columns]) for place in (0, 1)]
    labels = torch.tensor([float(row[2]) for row in columns]) if form == "scored_pairs" else None
    expected = getattr(losses, loss)(model)(features, labels).item()
    assert gradients(task(train_csv=CONTENTS[form]), network)[0] == pytest.approx(expected, rel=1e-5)
