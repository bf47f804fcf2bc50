"""Pre-training with a teacher: the losses by the formulas of the papers, exact runs, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch.nn import functional as F

from bertkit import BertForMaskedLM, check, distill, load, pretrain
from bertkit.data.corpus.examples.dataset import collate
from bertkit.runtime.errors import BertkitError, CheckpointError, PlacementError, TrainingError
from bertkit.training.distillation.pretraining import pretrained_teacher
from bertkit.training.runs.distill import distillation_recipe
from bertkit.training.runs.pretrain import prepare_pretraining
from tests.stock_models import stock_checkpoint
from tests.training import conftest
from tests.training.conftest import SMALL, as_if_killed, assert_same_runs, same_weights

RUN = {
    **{key: value for key, value in SMALL.items() if key != "train.num_train_epochs"},
    "data.max_seq_length": 32,
    "train.max_steps": 3,
    "train.save_strategy": "no",
}
SHORT = {"data.max_seq_length": 32}
STILL = {"train.max_steps": 1, "train.learning_rate": 1e-12}  # leaves the weights as they are
BOTH = {"alpha": 0.5, "hidden": 0.5, "temperature": 3.0}
MINILM = {"objective": "minilm", "relation_heads": 2}
SIZE = {"model.num_hidden_layers": 1, "model.hidden_size": 16, "model.intermediate_size": 32}
SIZE |= {"model.num_attention_heads": 2, "data.phases": {}}


@pytest.fixture
def run(corpus, checkpoint, student, tmp_path):
    """``run(name, key=value)`` pre-trains a student of the checkpoint; returns the finished run."""

    def start(name, resume=False, overrides=None, **given):
        given = {"teacher": checkpoint, "student": student, "corpus": [corpus], **given}
        return distill(**given, output_dir=tmp_path / name, overrides={**RUN, **(overrides or {})}, resume=resume)

    return start


def logged(done, name="loss"):
    return conftest.logged(done.output_dir, name)


@pytest.fixture
def prepared(corpus, checkpoint, student, tmp_path):
    """``prepared(key=value)``: the same run, before its first step."""

    def prepare(overrides=None, **given):
        changes = {**RUN, **(overrides or {})}
        recipe = distillation_recipe(checkpoint, student, corpus=[corpus], overrides=changes, **given)
        return prepare_pretraining(recipe, tmp_path / "prepared")

    return prepare


# ---- the loss -------------------------------------------------------------------------------------------------------


@pytest.mark.numeric
@pytest.mark.parametrize("pair_objective", ["none", "nsp"])
def test_without_weight_the_run_is_a_plain_one_bit_for_bit(run, corpus, student, tmp_path, pair_objective):
    pairs = {"task.pair_objective": pair_objective}
    distilled = run("distilled", alpha=0, overrides=pairs)
    plain = pretrain(corpus=[corpus], model=student, output_dir=tmp_path / "plain", overrides={**RUN, **pairs})
    assert same_weights(distilled.output_dir, plain.output_dir)
    assert logged(distilled) == logged(plain)


def batch_and_models(ready, *checkpoints):
    """The first batch of a run, and the outputs of two checkpoints for each of its inputs, without padding."""
    data = ready.trainer.train_dataset
    batch = collate(data.__getitems__(range(8)))
    models = [BertForMaskedLM.from_pretrained(each).eval() for each in checkpoints]
    rows = []
    for row in range(8):
        length = int(batch["attention_mask"][row].sum())
        inputs = {name: batch[name][row : row + 1, :length] for name in ("input_ids", "token_type_ids")}
        used = batch["labels"][row] != -100
        with torch.no_grad():
            outputs = [model(**inputs, output_hidden_states=True) for model in models]
        rows.append((batch["masked_positions"][row][used], batch["labels"][row][used], outputs))
    return rows, models


@pytest.mark.numeric
def test_the_loss_is_the_triple_loss_of_distilbert(run, prepared, student, checkpoint):
    rows, _ = batch_and_models(prepared(**BOTH), student, checkpoint)
    masked, soft, cosines = [], [], []
    for positions, labels, (ours, theirs) in rows:
        logits, targets = ours.logits[0, positions], F.softmax(theirs.logits[0, positions] / 3, dim=-1)
        masked += F.cross_entropy(logits, labels, reduction="none").tolist()
        soft += (9 * -(targets * F.log_softmax(logits / 3, dim=-1)).sum(-1)).tolist()
        cosines += (1 - F.cosine_similarity(ours.hidden_states[-1][0], theirs.hidden_states[-1][0])).tolist()
    of_labels, of_teacher, of_hidden = (torch.tensor(each).mean().item() for each in (masked, soft, cosines))
    done = run("run", **BOTH, overrides=STILL)
    assert logged(done)[0] == pytest.approx(0.5 * of_labels + 0.5 * (of_teacher + 0.5 * of_hidden), rel=1e-4)
    assert logged(done, "masked_lm_loss")[0] == pytest.approx(of_labels, rel=1e-4)


@pytest.mark.numeric
@pytest.mark.parametrize(("alpha", "layer"), [(None, None), (0.25, 0)])
def test_the_loss_is_that_of_minilm(run, prepared, student, checkpoint, alpha, layer):
    given = {**MINILM, "alpha": alpha, "teacher_layer": layer}
    rows, models = batch_and_models(prepared(**given), student, checkpoint)
    layers = [models[0].bert.encoder.layer[-1], models[1].bert.encoder.layer[-1 if layer is None else layer]]
    masked, total, tokens = [], 0.0, 0
    for positions, labels, (ours, theirs) in rows:
        masked += F.cross_entropy(ours.logits[0, positions], labels, reduction="none").tolist()
        states = [ours.hidden_states[-2][0], theirs.hidden_states[-2 if layer is None else layer][0]]
        tokens += len(states[0])
        for kind in ("query", "key", "value"):
            both = [getattr(at.attention.self, kind)(each) for at, each in zip(layers, states, strict=True)]
            for head in range(2):
                width = slice(head * 16, (head + 1) * 16)
                q, p = (F.softmax(each[:, width] @ each[:, width].T / 4, dim=-1) for each in both)
                total += (p * (p / q).log()).sum().item() / 2
    weight = 1 if alpha is None else alpha
    expected = (1 - weight) * torch.tensor(masked).mean().item() + weight * total / tokens
    assert logged(run("run", **given, overrides=STILL))[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("given", [BOTH, MINILM], ids=["distilbert", "minilm"])
def test_only_the_student_is_trained(prepared, given):
    ready = prepared(**given)
    trainer, teacher = ready.trainer, ready.trainer.objective._objective._teacher
    assert not teacher.model.training
    before = {name: value.clone() for name, value in teacher.model.state_dict().items()}
    started = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    assert all(torch.equal(value, before[name]) for name, value in teacher.model.state_dict().items())
    assert all(weight.grad is None for weight in teacher.model.parameters())
    trained = {name for name, value in trainer.model.state_dict().items() if not torch.equal(value, started[name])}
    assert "bert.encoder.layer.1.attention.self.query.weight" in trained
    assert "bert.embeddings.word_embeddings.weight" in trained
    beyond = {"bert.encoder.layer.1.output.dense.weight", "cls.predictions.transform.dense.weight"}
    assert trained & beyond == (set() if given is MINILM else beyond)


@pytest.mark.slow
@pytest.mark.parametrize("given", [BOTH, MINILM], ids=["distilbert", "minilm"])
@pytest.mark.parametrize("family", ["roberta", "distilbert", "albert", "mpnet"])
def test_other_encoders_are_teachers_and_students(corpus, tmp_path, family, given):
    teacher = stock_checkpoint(tmp_path / "teacher", family, "AutoModelForMaskedLM")
    changes = {key: value for key, value in RUN.items() if not key.startswith("model.")}
    done = distill(teacher, teacher, corpus=[corpus], output_dir=tmp_path / "run", overrides=changes, **given)
    assert logged(done)[-1] > 0  # with dropout the student is not its own teacher


@pytest.mark.parametrize(
    ("family", "name"), [("modernbert", "ModernBert"), ("deberta-v2", "DebertaV2"), ("longformer", "Longformer")]
)
def test_an_attention_without_separate_projections_is_refused(corpus, tmp_path, family, name):
    folder = stock_checkpoint(tmp_path / "start", family, "AutoModelForMaskedLM")
    with pytest.raises(CheckpointError, match=f"needs dense layers of queries, .*, which {name}"):
        distill(folder, folder, corpus=[corpus], output_dir=tmp_path / "run", overrides=SHORT, objective="minilm")


@pytest.mark.slow
def test_gradient_checkpointing_changes_nothing(run):
    checkpointing = {"placement.gradient_checkpointing": True}
    given = {**MINILM, "alpha": 0.5}
    assert_same_runs(run("plain", **given), run("again", **given, overrides=checkpointing))


# ---- the run --------------------------------------------------------------------------------------------------------


def test_the_run_is_an_ordinary_one_and_can_be_repeated(run, checkpoint, tmp_path):
    done = run("run", **BOTH)
    recipe = yaml.safe_load((done.output_dir / "recipe.yaml").read_text())
    assert recipe["train"]["distill"]["teacher"] == str(checkpoint)
    assert recipe["task"]["pair_objective"] == "none"
    card = (done.output_dir / "README.md").read_text()
    assert (
        "by masked LM. Distilled from `…/checkpoint0` with α 0.5, temperature 3, cosine of hidden states 0.5." in card
    )
    assert str(tmp_path) not in card
    record = json.loads((done.output_dir / "run.json").read_text())
    assert record["data"]["teacher"]["source"] == str(checkpoint)
    assert load(done.output_dir).fill_mask("a [MASK] film")
    again = pretrain(done.output_dir / "recipe.yaml", output_dir=tmp_path / "again")
    assert same_weights(again.output_dir, done.output_dir)


SAVED = {"train.save_strategy": "steps", "train.save_steps": 1, "train.save_total_limit": 10, "train.max_steps": 4}


@pytest.mark.numeric
@pytest.mark.parametrize("given", [BOTH, pytest.param(MINILM, marks=pytest.mark.slow)], ids=["distilbert", "minilm"])
def test_a_killed_run_continues_bit_for_bit(run, tmp_path, given):
    dropout = {**SAVED, "model.hidden_dropout_prob": 0.1}
    whole = run("whole", **given, overrides=dropout)
    run("killed", **given, overrides=dropout)
    as_if_killed(tmp_path / "killed", before=3)
    resumed = run("killed", **given, overrides=dropout, resume=True)
    assert same_weights(whole.output_dir, resumed.output_dir)
    assert logged(resumed) == logged(whole)


def test_a_student_of_the_teachers_layers_starts_with_their_weights(run, checkpoint):
    done = run("run", student=None, student_layers=[1], overrides=STILL)
    before, after = (load_file(folder / "model.safetensors") for folder in (checkpoint, done.output_dir))
    for name, value in after.items():
        torch.testing.assert_close(value, before[name.replace("layer.0.", "layer.1.")], rtol=0, atol=1e-6)
    assert "further from `…/checkpoint0`, layers 1 of it, by" in (done.output_dir / "README.md").read_text()


def test_a_student_of_a_size_has_the_tokenizer_of_the_teacher(run, checkpoint):
    done = run("run", student="bert-mini", overrides=SIZE)
    ours, theirs = (
        json.loads((folder / "tokenizer.json").read_text())["model"] for folder in (done.output_dir, checkpoint)
    )
    assert ours == theirs
    recipe = distillation_recipe(checkpoint, "bert-mini", corpus=["x"])
    assert (recipe.name, recipe.data.tokenizer) == ("pretrain/bert-mini", str(checkpoint))
    assert recipe.model["hidden_size"] == 256


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"alpha": 1.0, "hidden": 1.0}, MINILM], ids=["distilbert", "minilm"])
def test_a_student_comes_near_the_teacher(run, given):
    losses = logged(run("run", **given, overrides={"train.max_steps": 40, "train.learning_rate": 5e-3}))
    assert losses[-1] < losses[0] - (0.5 if given is not MINILM else 0.5 * losses[0])


def test_a_check_counts_the_teacher(corpus, checkpoint, student, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.check.make_trial", lambda *_: None)  # measures for seconds
    plans = [
        check(distillation_recipe(checkpoint, student, corpus=[corpus], alpha=alpha, overrides=RUN)).plan
        for alpha in (0, 0.5)
    ]
    teacher = sum(value.nbytes for value in BertForMaskedLM.from_pretrained(checkpoint).parameters())
    assert plans[1]["memory_bytes"] - plans[0]["memory_bytes"] == teacher


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"corpus": None}, "is a masked language model, which teaches in pre-training: give --corpus"),
        ({"student": "continue"}, "--student continue: this recipe gives no size of a BERT"),
        ({"objective": "minilmv2"}, "objective: expected one of distilbert, minilm, got 'minilmv2'"),
        ({"objective": "minilm", "temperature": 3.0}, "temperature: has no effect with the objective minilm"),
        ({"objective": "minilm", "teacher_layer": 2}, "teacher_layer: .* has the layers 0 to 1, got 2"),
        ({"objective": "minilm", "relation_heads": 3}, "relation_heads: 3 heads do not divide .* such as"),
        ({"student": "bert-mini", "hidden": 1.0, "overrides": SIZE}, "hidden: .* is 32 wide and the student 16"),
        ({"overrides": {"data.max_seq_length": 128}}, "128 tokens, but .* has 64 positions"),
        ({"overrides": {"model.attention": "left_to_right"}}, "the student predicts the next token"),
        (
            {"objective": "minilm", "overrides": {"train.activation_checkpointing_kwargs": {"use_reentrant": True}}},
            "train.activation_checkpointing_kwargs: use_reentrant does not work with minilm",
        ),
        ({"data_dir": "glue"}, "data.data_dir: unknown key"),
        ({"student": "bert-mini", "overrides": {**SIZE, "model.vocab_size": 200}}, "model.vocab_size: .* logits of"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(run, tmp_path, given, message):
    with pytest.raises(BertkitError, match=message):
        run("run", **given)
    assert not (tmp_path / "run").exists()


def test_placements_without_teachers_are_refused(prepared):
    ready = prepared()
    for changes, name in (({"strategy": "fsdp"}, "fsdp"), ({"device": "xla"}, "XLA")):
        placement = dataclasses.replace(ready.setup.placement, **changes)
        with pytest.raises(PlacementError, match=f"a teacher in pre-training is not supported on {name}"):
            pretrained_teacher(ready.record.recipe, ready.start, placement)


def test_a_teacher_without_a_masked_lm_head_is_refused_unless_relations_need_none(run, fine_tuned):
    with pytest.raises(CheckpointError, match=r"has the head BertForSequenceClassification, not that of a masked"):
        run("run", teacher=fine_tuned("film"))
    assert logged(run("relations", teacher=fine_tuned("film"), **MINILM))[0] > 0


def test_an_output_of_the_teacher_that_is_not_finite_does_not_pass_for_a_missing_one(prepared):
    trainer = prepared(**BOTH).trainer
    with torch.no_grad():
        trainer.objective._objective._teacher.model.base_model.encoder.layer[1].output.dense.weight[0, 0] = torch.nan
    with pytest.raises(TrainingError, match="the loss is nan"):
        trainer.train()


@pytest.mark.parametrize("given", [BOTH, MINILM], ids=["distilbert", "minilm"])
def test_a_step_that_is_repeated_keeps_no_graph(prepared, given):
    trainer = prepared(**given).trainer
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.train()
    trainer.model(**{name: batch[name] for name in ("input_ids", "attention_mask", "masked_positions")})
    recorder = trainer.objective._objective._recorder
    assert recorder._outputs
    trainer.objective.forget()
    assert not recorder._outputs


def test_of_albert_a_lower_layer_can_teach(corpus, tmp_path):
    teacher = stock_checkpoint(tmp_path / "teacher", "albert", "AutoModelForMaskedLM")
    changes = {key: value for key, value in RUN.items() if not key.startswith("model.")}
    given = {**MINILM, "teacher_layer": 0}
    done = distill(teacher, teacher, corpus=[corpus], output_dir=tmp_path / "run", overrides=changes, **given)
    assert logged(done)[-1] > 0


def test_the_card_of_a_student_of_relations_alone_does_not_fill_masks(run):
    card = (run("run", **MINILM).output_dir / "README.md").read_text()
    assert "pipeline_tag: feature-extraction" in card
    assert "Its masked-LM head was not trained in this run." in card
    assert "pipeline_tag: fill-mask" in (run("both", **MINILM, alpha=0.5).output_dir / "README.md").read_text()


@pytest.mark.parametrize("change", ["vocabulary", "case", "accents"])
def test_a_student_with_another_tokenizer_is_refused(run, student, tmp_path, change):
    other = shutil.copytree(student, tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    if change == "vocabulary":
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    else:
        name, in_file = {"case": ("do_lower_case", "lowercase"), "accents": ("strip_accents", "strip_accents")}[change]
        tokenizer["normalizer"][in_file] = False
        settings = json.loads((other / "tokenizer_config.json").read_text())
        (other / "tokenizer_config.json").write_text(json.dumps({**settings, name: False}))
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    found = "2 pieces" if change == "vocabulary" else "they split a text differently"
    with pytest.raises(CheckpointError, match=f"and the student, .*other, have different tokenizers: {found}"):
        run("run", student=str(other))
    assert not (tmp_path / "run").exists()
