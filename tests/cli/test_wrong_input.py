"""Wrong input: one message that names what, where and the fix, exit code 2, nothing written."""

from __future__ import annotations

import shutil

import pytest

SENTENCES = "A first sentence. A second one follows it. And a third one ends it.\n"


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(SENTENCES * 5)
    return folder


@pytest.fixture
def glue(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    (folder / "train.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t0\n")
    (folder / "dev.tsv").write_text("sentence\tlabel\ngood\t1\n")
    return tmp_path


WRONG_FINE_TUNING = {
    "--task sst3": ["--task: unknown glue task 'sst3'", "did you mean 'sst2'?"],
    "": ["give either --task (one of cola, mnli, "],
    "--recipe bert-mini": ["--recipe bert-mini: is of the task pretraining, and this command of the task glue"],
    "--task sst2 --model ./none": ["./none: no such folder; expected a folder with config.json, or a Hub id"],
    "--task sst2 --model {gpt}": ["a checkpoint of type 'gpt2'"],
    "--task sst2 --model {broken}": ["broken/model.safetensors: a pointer of Git LFS"],
    "--task sst2 --model {bert} --set model.feature_layers=[-1]": ["feature_layers: supported for word tagging only"],
    "--task sst2 --model {bert} --max-seq-length 5000": ["5000 tokens, but", "has 64 positions"],
    "--task sst2 --model {bert} --set model.num_attention_heads=3": ["model:", "num_attention_heads"],
    "--task sst2 --model {bert} --resume": ["contains no run"],
    "--task sst2 --model {bert} --data-dir=": ["--data-dir: is empty, as an unset variable"],
    "--task sst2 --model {bert} --placement=": ["--placement '': expected auto, cpu, "],
    "--task sst2 --model {bert} --data-dir {other}": ["SST-2/train.tsv, line 3: label '2' is not one of '0', '1'"],
}


@pytest.mark.parametrize("words", WRONG_FINE_TUNING)
def test_wrong_fine_tuning(bertkit, tmp_path, glue, checkpoint, words):
    out, gpt, broken, other = (tmp_path / name for name in ("out", "gpt", "broken", "other"))
    gpt.mkdir()
    (gpt / "config.json").write_text('{"model_type": "gpt2"}')
    shutil.copytree(checkpoint, broken)
    (broken / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    shutil.copytree(glue / "SST-2", other / "SST-2")
    (other / "SST-2" / "train.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t2\n")
    places = {"gpt": gpt, "broken": broken, "other": other, "bert": checkpoint}
    given = [] if "--data-dir" in words else ["--data-dir", glue]
    given += [] if "--max-seq-length" in words else ["--max-seq-length", 32]
    outcome = bertkit("finetune", "glue", *given, *words.format(**places).split(), "--output-dir", out)
    outcome.refuses(*WRONG_FINE_TUNING[words], without=out)


WRONG_PRE_TRAINING = {
    "--corpus missing --vocab-size 99": "missing",
    "--vocab-size 99": "give --corpus",
    "--corpus {corpus}": "give either --tokenizer (a folder or a Hub id) or --vocab-size",
    "--corpus {corpus} --tokenizer x --vocab-size 99": "give either --tokenizer (a folder or a Hub id) or --vocab-size",
    "--corpus {corpus} --tokenizer ./none": "none: no such folder",
    "--corpus {corpus} --vocab-size 99 --text-column body": "'body' is for rows, and this corpus has none",
    "--corpus {corpus} --vocab-size 99 --recipe sst2": "--recipe sst2: is of the task glue, and this command of the",
}


@pytest.mark.parametrize("words", WRONG_PRE_TRAINING)
def test_wrong_pre_training(bertkit, tmp_path, corpus, words):
    out = tmp_path / "out"
    outcome = bertkit("pretrain", *words.format(corpus=corpus).split(), "--output-dir", out)
    outcome.refuses(WRONG_PRE_TRAINING[words], without=out)


def test_text_that_is_not_utf8(bertkit, tmp_path, corpus):
    out = tmp_path / "out"
    (corpus / "latin.txt").write_bytes("Ein Café.".encode("latin-1"))
    outcome = bertkit("pretrain", "--corpus", corpus, "--vocab-size", 100, "--output-dir", out)
    outcome.refuses("latin.txt", "UTF-8", "7", without=out)


def test_an_output_directory_in_use(bertkit, tmp_path, glue, checkpoint):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    for command in (
        ("finetune", "glue", "--task", "sst2", "--model", checkpoint, "--data-dir", glue),
        ("pretrain", "--corpus", glue, "--vocab-size", "100"),
        ("distill", "--teacher", checkpoint, "--corpus", glue, "--student-layers", "0"),
        ("tokenizer", "train", "--corpus", glue, "--vocab-size", "100"),
        ("quickstart",),
    ):
        bertkit(*command, "--output-dir", out).refuses(f"--output-dir {out}: already contains thesis.txt")
        assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_a_recipe_with_three_wrong_keys(bertkit, tmp_path, corpus):
    out, recipe = tmp_path / "out", tmp_path / "mine.yaml"
    recipe.write_text("task:\n  kind: pretraining\ntrain:\n  lr: 1\n  epochs: 2\ndata:\n  length: 3\n")
    outcome = bertkit("pretrain", "--recipe", recipe, "--corpus", corpus, "--vocab-size", 99, "--output-dir", out)
    places = [
        f"{recipe}, line {line}: {key}: unknown key"
        for line, key in ((4, "train.lr"), (5, "train.epochs"), (7, "data.length"))
    ]
    outcome.refuses("3 faults", *places, without=out)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("train.learning_rate", "expected block.key=value"),
        ("train.learning_rate=fast", "train.learning_rate: expected a number, got 'fast'"),
        ("train.lerning_rate=1", "did you mean 'train.learning_rate'?"),
        ("train.seed=1", "train.seed is given twice: 2 and 1"),
        ("train.warmup_steps=-1", "warmup_steps"),
    ],
)
def test_a_wrong_override(bertkit, tmp_path, corpus, setting, expected):
    out = tmp_path / "out"
    command = ("pretrain", "--recipe", "bert-tiny", "--corpus", corpus, "--vocab-size", 99, "--seed", 2)
    bertkit(*command, "--set", setting, "--output-dir", out).refuses(expected, without=out)


def test_predicting_without_or_with_two_inputs(bertkit, tmp_path, checkpoint):
    out, file = tmp_path / "out.jsonl", tmp_path / "in.txt"
    file.write_text("good\n")
    nothing = bertkit("predict", checkpoint, "--output", out)
    nothing.refuses("give texts as arguments, or a file of texts with --input", without=out)
    both = bertkit("predict", checkpoint, "good", "--input", file, "--output", out)
    both.refuses(f"give texts as arguments or a file of texts with --input {file}, not both", without=out)


def test_predicting_without_fine_tuning(bertkit, checkpoint):
    bertkit("predict", checkpoint, "good").refuses("does not say which task", "BertForPreTraining")
    bertkit("evaluate", checkpoint).refuses("does not say which task")


def test_usage_errors_are_wrong_input_too(bertkit):
    bertkit("pretrain").refuses("--output-dir")
    bertkit("finetune", "glue", "--learning-rate", "fast").refuses("'--learning-rate'")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("finetun", "Did you mean 'bertkit finetune'?"),
        ("classification", "Did you mean 'bertkit finetune classification'?"),
        ("clasification", "Did you mean 'bertkit finetune classification'?"),
        ("sst2", "Did you mean 'bertkit finetune glue --task sst2'?"),
        ("build", "Did you mean 'bertkit corpus build'?"),
        ("finetune pretrain", "Did you mean 'bertkit pretrain'?"),
        ("train", "Did you mean 'bertkit finetune' or 'bertkit pretrain'?"),
        ("xyzzy", "No such command 'xyzzy'.\n"),
    ],
)
def test_an_unknown_command_gets_the_nearest_one(bertkit, words, expected):
    bertkit(*words.split()).refuses(expected)


@pytest.mark.parametrize("below", ["file/run", "file", "s3://bucket/file"])
def test_an_output_directory_that_cannot_be(bertkit, tmp_path, glue, checkpoint, below, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    command = ("finetune", "glue", "--task", "sst2", "--model", checkpoint, "--data-dir", glue)
    bertkit(*command, "--output-dir", below).refuses("file")
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "s3:").exists()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("placement.attn_implementation=foo", "placement.attn_implementation: 'foo' is not available"),
        ("placement.attn_implementation=flex_attention", "'flex_attention' has no gradients on CPUs; use sdpa"),
        ("placement.attn_implementation=paged|eager", "'paged|eager' is for generated text; use eager"),
        ("train.report_to=wandb", "wandb"),
        ("train.seed=-1", "train.seed: expected 0 to 4294967295, got -1"),
        ("train.learning_rate=.nan", "train.learning_rate: expected finite numbers, got nan"),
        ("model.problem_type=foo", "model.problem_type: unknown key"),
        ("model.vocab_size=50", "model.vocab_size: 50, but the tokenizer's ids need"),
        ("data.document_separator=(", "data.document_separator"),
        ("train.train_sampling_strategy=random", "pre-training sets this"),
        ("train.train_sampling_strategy=shuffled", "expected one of random, sequential, group_by_length"),
        ("train.save_strategy=best", "train.save_strategy: best compares evaluations"),
        ("train.label_names=[x]", "train.label_names: not set in a recipe"),
        ("train.class_weights=balanced", "train.class_weights: is for fine-tuning"),
        ("train.vocabulary_steps=-1", "train.vocabulary_steps"),
        ("train.layer_lr_decay=0.9", "train.layer_lr_decay: is for fine-tuning"),
        ("train.early_stopping_patience=2", "train.early_stopping_patience: is for fine-tuning"),
    ],
)
def test_a_value_that_only_another_library_would_refuse(bertkit, tmp_path, corpus, setting, expected, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "cache"))
    out = tmp_path / "out"
    command = ("pretrain", "--recipe", "bert-tiny", "--corpus", corpus, "--vocab-size", 99, "--max-steps", 2)
    bertkit(*command, "--set", setting, "--output-dir", out).refuses(expected, without=out)


def test_evaluating_with_impossible_limits(bertkit, tmp_path, fine_tuned):
    (tmp_path / "rows.csv").write_text("text,label\na film,good\n")
    command = ("evaluate", fine_tuned("film"), "--validation-file", tmp_path / "rows.csv")
    bertkit(*command, "--max-eval-samples", 0).refuses("data.max_eval_samples: expected at least 1, got 0")
    bertkit(*command, "--max-seq-length", 900).refuses("900 tokens, but")
    bertkit(*command, "--split", "dev").refuses("--split dev: expected one of test, train, valid")


def test_resuming_on_other_data(bertkit, tmp_path, glue, checkpoint):
    from bertkit import finetune

    out = tmp_path / "run"
    overrides = {"data.max_seq_length": 32, "train.max_steps": 1, "placement.device": "cpu"}
    finetune("sst2", model=str(checkpoint), data_dir=glue, output_dir=out, overrides=overrides)
    with (glue / "SST-2" / "train.tsv").open("a") as file:
        file.write("fine\t1\n")
    outcome = bertkit("finetune", "glue", "--recipe", out / "recipe.yaml", "--output-dir", out, "--resume")
    outcome.refuses("have changed since it began (train)")
