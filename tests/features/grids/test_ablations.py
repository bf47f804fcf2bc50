"""Ablations of pre-training: three variants pre-trained alike, fine-tuned on tasks, and one table."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml

from bertkit import load_recipe
from bertkit.features.grids.ablations import VARIANTS, Ablations, TaskResult, ablations, ablations_table
from bertkit.features.grids.results import SettingResult
from bertkit.metrics.statistics import Test, holm
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.runtime.errors import BertkitError, DataError, RecipeError
from bertkit.tasks.pretraining import load_corpus


@pytest.fixture
def data(tmp_path):
    """Eight rows of SST-2 for training and for validation."""
    folder = tmp_path / "glue" / "SST-2"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        rows = "".join(f"a {['good', 'bad'][row % 2]} film {row}\t{row % 2}\n" for row in range(8))
        (folder / f"{split}.tsv").write_text(f"sentence\tlabel\n{rows}")
    return tmp_path / "glue"


@pytest.fixture
def corpus(tmp_path):
    """Twelve documents of six sentences."""
    document = "\n".join(f"The film number {number} was good. It was long and rather bad." for number in range(3))
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join([document] * 12))
    return path


PRETRAINING = {
    "data.vocab_size": 120,
    "data.document_separator": "blank-line",
    "data.max_seq_length": 32,
    "data.phases": {},
    "train.max_steps": 2,
    "train.global_train_batch_size": 4,
    "placement.device": "cpu",
    "placement.mixed_precision": "no",
    **{f"model.{key}": value for key, value in {"num_hidden_layers": 1, "hidden_size": 16}.items()},
    "model.num_attention_heads": 2,
    "model.intermediate_size": 32,
}


def test_the_variants_differ_in_the_ablated_values_only():
    full, no_nsp, left_to_right = (load_recipe(f"pretrain/ablations/{name}").to_dict() for name in VARIANTS)
    paper = load_recipe("pretrain/bert-base").to_dict()
    assert {**full, "hub": paper["hub"]} == paper
    # NSP holds out two documents at least, and so do the variants without it.
    assert [each["data"].pop("min_validation_documents") for each in (full, no_nsp, left_to_right)] == [1, 2, 2]
    assert no_nsp["task"].pop("pair_objective") == left_to_right["task"].pop("pair_objective") == "none"
    assert full["task"].pop("pair_objective") == "nsp"
    assert left_to_right["model"].pop("attention") == "left_to_right"
    assert {name: no_nsp[name] for name in ("task", "model", "data", "train")} == {
        name: full[name] for name in ("task", "model", "data", "train")
    }
    assert left_to_right["train"] == full["train"]
    assert left_to_right["model"] == full["model"]


@pytest.mark.parametrize("number", [2, 3, 5, 12])
def test_the_variants_have_the_same_documents(checkpoint, tmp_path, number):
    (tmp_path / "corpus.txt").write_text("\n\n".join(f"a good film. the plot {n} is lovely." for n in range(number)))
    tokenizer, corpus = load_tokenizer(str(checkpoint)), {"data.corpus": [str(tmp_path / "corpus.txt")]}
    facts = []
    for variant in VARIANTS:
        recipe = load_recipe(f"pretrain/ablations/{variant}", {**corpus, "data.document_separator": "blank-line"})
        objective = recipe.task.pair_objective
        facts.append(load_corpus(recipe.data, tokenizer, 42, tmp_path / "cache", pair_objective=objective).facts)
    assert facts[0] == facts[1] == facts[2]
    assert facts[0]["train_documents"] + facts[0]["held_out_documents"] == facts[0]["documents"] == number


def result(mean, p=None, collapsed=()):
    """A result of two runs, with the difference 0.1 from the first variant if there is a p-value."""
    scores = SettingResult("01", {}, 2, mean, 0.01, mean, mean, mean, mean - 0.09, mean + 0.09, tuple(collapsed), ())
    return TaskResult("accuracy", scores, None if p is None else Test(0.1, 0.05, 0.15, p, 0.0, (8,), adjusted_p=2 * p))


@pytest.mark.parametrize("width", [60, 140])
def test_the_table_names_collapsed_runs_and_adjusted_p(width):
    tasks = {"full": {"sst2": result(0.5)}, "no-nsp": {"sst2": result(0.6, 0.02, ["01-seed=42", "01-seed=43"])}}
    results = Ablations(Path("out"), {}, {}, tasks, {}, ("one pre-training of each variant",))
    heading, full, no_nsp, note = ablations_table(results, width).splitlines()
    assert heading.endswith("p     notes")
    assert "collapsed" not in full
    assert no_nsp.endswith("0.04  2 collapsed")
    assert ("0.5100–0.6900" in no_nsp) == (width == 140)
    assert note == "note: one pre-training of each variant"
    assert ablations_table(results, format="csv").splitlines()[-1].endswith("0.1,0.05,0.15,0.02,0.04,2")


@pytest.mark.slow
def test_each_variant_is_pre_trained_and_fine_tuned(tmp_path, data, corpus, quick):
    def run(seeds=2):
        given = {"size": "bert-tiny", "tasks": ["sst2"], "seeds": seeds, "overrides": PRETRAINING, "finetuning": quick}
        return ablations([corpus], data_dir=data, output_dir=tmp_path / "out", **given)

    results = run()
    for variant in VARIANTS:
        recipe = yaml.safe_load((tmp_path / "out" / "pretrain" / variant / "recipe.yaml").read_text())
        assert recipe["task"]["pair_objective"] == ("nsp" if variant == "full" else "none")
        name = "next_token" if variant == "ltr-no-nsp" else "masked_lm"
        assert f"eval_{name}_loss" in results.pretraining[variant]
        cells = list((tmp_path / "out" / "finetune" / variant / "sst2" / "runs").glob("*/config.json"))
        attention = {json.loads(path.read_text())["attention"] for path in cells}
        assert attention == {"left_to_right" if variant == "ltr-no-nsp" else "bidirectional"}
        assert results.tasks[variant]["sst2"].scores.n == 2
        assert (results.tasks[variant]["sst2"].difference is None) == (variant == "full")
        record = json.loads((tmp_path / "out" / "pretrain" / variant / "run.json").read_text())["data"]["corpus"]
        assert results.documents[variant].items() <= record.items()
    assert results.documents["full"] == results.documents["no-nsp"] == results.documents["ltr-no-nsp"]
    assert (results.documents["full"]["train_documents"], results.documents["full"]["held_out_documents"]) == (10, 2)
    cards = [(tmp_path / "out" / "pretrain" / variant / "README.md").read_text() for variant in VARIANTS]
    assert ["fill_mask" in card for card in cards] == [True, True, False]
    with (tmp_path / "out" / "ablations.csv").open() as stream:
        assert [row["variant"] for row in csv.DictReader(stream)] == list(VARIANTS)
    assert all(variant in ablations_table(results) for variant in VARIANTS)
    tests = [results.tasks[variant]["sst2"].difference for variant in VARIANTS[1:]]
    assert [test.adjusted_p for test in tests] == holm([test.p for test in tests])
    one, compared, documents, *_ = results.notes
    assert one.startswith("one pre-training of each variant, so the differences are those of these 3 models")
    assert compared == "2 comparisons with full; p has Holm's correction for their number"
    assert documents == "the same documents for all variants, by digest: 10 to train on, 2 held out"
    weights = tmp_path / "out" / "pretrain" / "full" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert run() == results
    assert weights.stat().st_mtime_ns == written

    # A corpus that has changed since is not that of the other variants; other seeds are refused before any run.
    shutil.rmtree(tmp_path / "out" / "pretrain" / "no-nsp")
    shutil.rmtree(tmp_path / "out" / "finetune" / "full")
    with pytest.raises(
        RecipeError, match=r"ltr-no-nsp/sst2 holds another grid: --seeds was \[42, 43\] and is now \[42"
    ):
        run(seeds=3)
    assert not (tmp_path / "out" / "finetune" / "full").exists()
    corpus.write_text(corpus.read_text() + "\n\nAnother document.")
    with pytest.raises(DataError, match="full and no-nsp were not pre-trained on the same documents"):
        run()


def test_all_faults_are_told_at_once(tmp_path, corpus):
    given = {"size": "bert-minni", "tasks": ["sst2", "sst3"], "seeds": 0}
    given["overrides"] = {**PRETRAINING, "model.attention": "bidirectional"}
    with pytest.raises(RecipeError) as failure:
        ablations([corpus], data_dir=tmp_path / "nowhere", output_dir=tmp_path / "out", **given)
    for part in ("mean 'bert-mini'", "recipe 'finetune/glue/sst3'", "seeds: 0", "model.attention", "nowhere"):
        assert part in str(failure.value)
    assert not (tmp_path / "out").exists()


def test_an_unknown_size_is_the_only_fault_beside_an_earlier_run(tmp_path, data, corpus):
    given = {key: value for key, value in PRETRAINING.items() if not key.startswith("model.")}
    size = {f"model.{key}": value for key, value in load_recipe("pretrain/bert-tiny").model.items()}
    earlier = load_recipe("pretrain/ablations/full", {**size, **given, "data.corpus": [str(corpus)]})
    folder = tmp_path / "out" / "pretrain" / "full"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(earlier.to_dict()))
    given = {"data_dir": data, "output_dir": tmp_path / "out", "tasks": ["sst2"], "overrides": given}
    with pytest.raises(RecipeError, match="hidden_size was 128 and is now 256"):
        ablations([corpus], size="bert-mini", **given)
    with pytest.raises(RecipeError, match=r"^--size: unknown size"):
        ablations([corpus], size="bert-tyni", **given)


@pytest.mark.parametrize(
    ("finetuning", "message"),
    [
        ({"placement.strategy": "ddp"}, "each run in one process"),
        ({"task.metrics": ["odd"]}, "'odd' cannot be loaded"),
        ({"lr": 1}, "--finetune-set lr: expected block.key"),
        ({"model.name_or_path": "other"}, "--finetune-set model.name_or_path: the variants are fine-tuned; remove it"),
        ({"data.data_dir": "other"}, "--finetune-set data.data_dir: --data-dir gives the folder; remove it"),
    ],
)
def test_a_fine_tuning_that_cannot_run_is_refused_before_the_pre_training(tmp_path, data, corpus, finetuning, message):
    given = {"tasks": ["sst2"], "overrides": PRETRAINING, "finetuning": finetuning}
    with pytest.raises(BertkitError, match=message):
        ablations([corpus], data_dir=data, output_dir=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_refused(tmp_path, data, corpus):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(BertkitError, match=r"contains notes\.txt"):
        ablations([corpus], data_dir=data, output_dir=tmp_path / "out", tasks=["sst2"], overrides=PRETRAINING)
