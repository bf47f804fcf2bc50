"""Recipes: found by name, overridden by key, and every fault of a recipe in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.recipe.fields import fields_of, model_fields, train_fields
from bertkit.recipe.files import absolute, copy_recipe, find_recipe, list_recipes, parse_value, recipe_folder
from bertkit.recipe.load import load_placement
from bertkit.recipe.nearest import ALIASES
from bertkit.runtime.errors import OutputError, RecipeError
from bertkit.runtime.placement.resolve import PlacementSettings
from bertkit.tasks.registry import TASKS, load_recipe, validate_recipes

NAMES = list_recipes()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("placement/")])
def test_every_recipe_equals_that_of_its_dictionary(name):
    recipe = load_recipe(name)
    assert load_recipe(recipe.to_dict()).to_dict() == recipe.to_dict()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("placement/")])
def test_every_placement_loads(name):
    PlacementSettings(**load_placement(name.removeprefix("placement/")))


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_a_header_with_its_command(name):
    header = [line for line in find_recipe(name).read_text().splitlines() if line.startswith("#")]
    assert len(header) > 2
    assert any("bertkit " in line for line in header)


def test_the_papers_values():
    sst2 = load_recipe("finetune/glue/sst2")
    assert sst2.train["global_train_batch_size"] in (16, 32)
    assert 2e-5 <= sst2.train["learning_rate"] <= 5e-5
    assert 2 <= sst2.train["num_train_epochs"] <= 4


SIZES = {  # layers, hidden size, heads, intermediate size
    "bert-tiny": (2, 128, 2, 512),
    "bert-mini": (4, 256, 4, 1024),
    "bert-small": (4, 512, 8, 2048),
    "bert-medium": (8, 512, 8, 2048),
    "bert-base": (12, 768, 12, 3072),
    "bert-large": (24, 1024, 16, 4096),
}


@pytest.mark.parametrize("name", SIZES)
def test_pre_training_follows_the_paper_in_every_size(name):
    recipe = load_recipe(name)
    fields = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    assert tuple(recipe.model[field] for field in fields) == SIZES[name]
    train = recipe.train
    assert (train["learning_rate"], train["global_train_batch_size"], train["max_steps"]) == (1e-4, 256, 1_000_000)
    assert train["warmup_steps"] * train["max_steps"] == 10_000
    assert (train["adam_beta1"], train["adam_beta2"], train["adam_epsilon"]) == (0.9, 0.999, 1e-6)
    assert (train["weight_decay"], train["lr_scheduler_type"]) == (0.01, "linear")
    data = recipe.data
    assert data.lengths() == [(128, 0.9), (512, 0.1)]
    assert [data.examples(length, 0).predictions_per_seq for length, _ in data.lengths()] == [20, 77]
    assert (recipe.task.pair_objective, data.mlm_probability, data.short_seq_prob) == ("nsp", 0.15, 0.1)


def test_other_architectures_follow_their_sources():
    roberta = load_recipe("roberta-base")
    assert (roberta.model["model_type"], roberta.task.pair_objective) == ("roberta", "none")
    assert (roberta.train["learning_rate"], roberta.train["global_train_batch_size"]) == (6e-4, 8192)
    assert roberta.train["warmup_steps"] * roberta.train["max_steps"] == 24_000
    assert (roberta.train["adam_beta2"], roberta.train["adam_epsilon"]) == (0.98, 1e-6)
    assert (roberta.data.lengths(), roberta.data.tokenizer_type) == ([(512, 1.0)], "byte_level_bpe")
    albert = load_recipe("albert-base")
    assert (albert.model["embedding_size"], albert.task.pair_objective) == (128, "sop")
    assert (albert.train["global_train_batch_size"], albert.train["max_steps"]) == (4096, 125_000)
    modern = load_recipe("modernbert-small")
    assert (modern.data.mlm_probability, modern.train["lr_scheduler_type"]) == (0.3, "warmup_stable_decay")


def test_a_checkpoint_may_have_fields_of_its_own():
    """Its configuration decides when it is loaded, such as for this field of DistilBERT."""
    assert load_recipe("sst2", {"model.seq_classif_dropout": 0.3}).model["seq_classif_dropout"] == 0.3


def test_a_shorter_longest_input_cuts_every_phase():
    assert load_recipe("bert-tiny", {"data.max_seq_length": 128}).data.lengths() == [(128, 1.0)]
    assert load_recipe("bert-tiny", {"data.max_seq_length": 256}).data.lengths() == [(128, 0.9), (256, 0.1)]


def test_a_saved_recipe_loads_unchanged(tmp_path):
    values = {"train.learning_rate": 3e-5, "placement.mixed_precision": "no", "data.phases": {64: 0.5, 128: 0.5}}
    recipe = load_recipe("bert-tiny", values)
    recipe.save(tmp_path / "recipe.yaml", "bertkit …")
    assert load_recipe(tmp_path / "recipe.yaml").to_dict() == recipe.to_dict()


def test_citations_are_saved_readably_and_read_back(tmp_path):
    recipe = load_recipe("sst2", {"hub.citations": {"any": "@misc{a,\n  title={B}\n}", "ada/set": " @misc{c,\n}\n\n"}})
    recipe.save(tmp_path / "recipe.yaml", "bertkit …")
    assert "    any: |-\n      @misc{a,\n        title={B}\n      }\n" in (tmp_path / "recipe.yaml").read_text()
    assert load_recipe(tmp_path / "recipe.yaml").hub == recipe.hub


def test_overrides_win_and_reach_every_block():
    recipe = load_recipe(
        "sst2",
        {
            "train.save_steps": 10,
            "train.logging_steps": 1,
            "placement.per_device_train_batch_size": 4,
            "placement.mixed_precision": "no",
            "model.hidden_dropout_prob": 0,
            "data.max_seq_length": 64,
            "task.main_metric": "accuracy",
        },
    )
    assert (recipe.train["save_steps"], recipe.train["logging_steps"]) == (10, 1)
    assert (recipe.placement.per_device_train_batch_size, recipe.placement.mixed_precision) == (4, "no")
    assert recipe.model["hidden_dropout_prob"] == 0
    assert recipe.data.max_seq_length == 64


def test_overrides_reach_into_values_that_are_mappings():
    assert load_recipe("sst2", {"model.lora.r": 8, "model.lora.dropout": 0.1}).model["lora"] == {"r": 8, "dropout": 0.1}
    recipe = load_recipe("sst2", {"train.class_weights": {"0": 1.0}, "train.class_weights.U.S.": 2.0})
    assert recipe.train["class_weights"] == {"0": 1.0, "U.S.": 2.0}
    with pytest.raises(RecipeError, match=r"\(override\) train\.learning_rate\.x: expected a number"):
        load_recipe("sst2", {"train.learning_rate.x": 1})


def test_several_wrong_keys_of_a_value_that_is_a_mapping_are_named():
    lora = {"r": "8", "dropout": 2, "targts": [], "alpha": 4}
    with pytest.raises(RecipeError) as caught:
        load_recipe({"task": {"kind": "classification"}, "model": {"name_or_path": "bert", "lora": lora}})
    faults = {line.strip(" -") for line in str(caught.value).splitlines()[1:]}
    assert faults == {
        "model.lora.r: expected an integer, got '8'",
        "model.lora.dropout: expected at least 0, less than 1, got 2",
        "model.lora.targts: unknown key; did you mean 'targets'?",
    }


def test_configurations_of_transformers_check_their_values_themselves():
    values = {"model.model_type": "modernvbert", "model.text_config": {"hidden_size": 64}}
    assert load_recipe({"task": {"kind": "pretraining"}}, values).model["text_config"] == {"hidden_size": 64}


def test_a_part_of_a_mapping_keeps_its_line_where_another_part_is_overridden(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task:\n  kind: classification\nmodel:\n  name_or_path: bert\n  lora: {r: 4, dropout: 2, alpha: 4}\n"
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, {"model.lora.r": 8, "model.lora.alpha": -1})
    assert f"{path}, line 5: model.lora.dropout: expected at least 0, less than 1, got 2" in str(caught.value)
    assert "(override) model.lora.alpha: expected more than 0, got -1" in str(caught.value)


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("null", None), ("'1'", "1"), ("010", 10)])
def test_values_are_read_as_people_mean_them(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_all_wrong_keys_are_named_with_lines(tmp_path):
    path = tmp_path / "mine.yaml"
    text = find_recipe("sst2").read_text()
    text = text.replace("  learning_rate:", "  learnign_rate:").replace("  max_seq_length:", "  max_length:")
    path.write_text(text + "modle:\n  hidden_size: 3\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    message = str(caught.value)
    lines = path.read_text().splitlines()
    for wrong, right in (("learnign_rate", "train.learning_rate"), ("modle", "model")):
        number = next(index for index, line in enumerate(lines, 1) if wrong in line)
        assert f"{path}, line {number}: " in message
        assert f"did you mean '{right}'?" in message
    assert "data.max_length: unknown key" in message
    assert message.startswith(f"recipe {path}: 3 faults:")


@pytest.mark.parametrize(
    ("name", "key", "value", "expected"),
    [
        ("sst2", "train.learning_rate", "fast", "train.learning_rate: expected a number, got 'fast'"),
        ("sst2", "train.learning_rate", -1, "train.learning_rate: expected more than 0, at most 1000000, got -1"),
        ("sst2", "train.max_steps", 0, "train.max_steps: expected more than 0 or -1, got 0"),
        ("sst2", "train.lr_scheduler_type", "linaer", "did you mean 'linear'?"),
        ("sst2", "train.max_steps", 1e30, "train.max_steps: expected an integer or -1, got 1e+30"),
        ("sst2", "train.bf16", True, "train.bf16: not set in a recipe; use placement.mixed_precision"),
        (
            "sst2",
            "train.do_train",
            True,
            "train.do_train: not set in a recipe; use bertkit finetune or bertkit pretrain",
        ),
        ("sst2", "train.hub_model_id", "x/y", "use --push-to-hub, and the block hub"),
        ("sst2", "hub.license", "Apache 2.0", "hub.license: expected a licence identifier of the Hub, such as mit"),
        ("sst2", "hub.language", ["english"], "hub.language: expected ISO 639 codes such as en or de"),
        ("sst2", "hub.revision", " ", "hub.revision: expected the name of a branch, got an empty text"),
        (
            "sst2",
            "hub.citations",
            {"glue": "@misc{a,}"},
            "hub.citations: expected the Hub id of a data set, or any, got the key 'glue'",
        ),
        (
            "sst2",
            "hub.citations",
            {"any": "see our paper"},
            "hub.citations: expected BibTeX entries for any, such as @misc{key, ",
        ),
        ("sst2", "hub.citations", {"any": "@misc{a, title={B}"}, "hub.citations: expected BibTeX entries for any"),
        ("sst2", "hub.citations", ["@misc{a,}"], "hub.citations: expected a mapping, got ['@misc{a,}']"),
        ("sst2", "train.global_train_batch_size", 0, "train.global_train_batch_size: expected 1 to 1048576, got 0"),
        (
            "sst2",
            "placement.mixed_precision",
            "bf61",
            "expected one of auto, no, bf16, fp16, got 'bf61'; did you mean 'bf16'?",
        ),
        ("sst2", "placement.per_device_train_batch_size", 0, "expected 1 to 1048576, got 0"),
        ("sst2", "data.max_seq_length", 2, "data.max_seq_length: expected 3 to 1048576, or 0, got 2"),
        ("sst2", "data.max_train_samples", 0, "data.max_train_samples: expected at least 1, got 0"),
        ("sst2", "task.text_columns", [1, 2], "task.text_columns: expected a string as each value, got [1, 2]"),
        ("sst2", "hub.widget", [{"text": 1}], "a string as each value of each mapping, got [{'text': 1}]"),
        ("classification", "task.threshold", {0: 0.3}, "or a string as each key, got {0: 0.3}"),
        ("classification", "task.threshold", {"bad": "x"}, "or a number as each value, got {'bad': 'x'}"),
        ("sst2", "task.kind", "gleu", "unknown task 'gleu'"),
        ("sst2", "task.metric", "glue/sst3", "task.metric: unknown metric 'glue/sst3'"),
        ("sst2", "speed.fast", True, "--set speed.fast: expected block.key with a block of task, model"),
        ("sst2", "train", 3, "--set train: expected block.key"),
        ("sst2", "lr", 3, "placement, hub; did you mean 'train.learning_rate'?"),
        ("sst2", "model.hidden_dropout_prob", "much", "model.hidden_dropout_prob: expected a number"),
        ("roberta-small", "model.model_type", "robreta", "got 'robreta'; did you mean 'roberta'?"),
        ("roberta-small", "model.model_type", "gpt2", "masked-LM head"),
        ("roberta-small", "model.model_type", ["roberta"], "masked-LM head"),
        ("roberta-small", "model.hiden_size", 8, "model.hiden_size: unknown key; did you mean 'model.hidden_size'"),
        ("roberta-small", "model.hidden_size", "wide", "model.hidden_size: expected"),
        ("roberta-small", "model.hidden_size", 10**6, "weights; expected at most"),
        ("roberta-small", "model.embedding_size", 8, "unknown key"),
        ("roberta-small", "model.name_or_path", "some/roberta", "is that of the checkpoint; use --recipe continue"),
        ("bert-mini", "model.hidden_sise", 3, "model.hidden_sise: unknown key; did you mean 'model.hidden_size'?"),
        ("bert-mini", "model.hidden_size", 250, "hidden_size"),
        ("bert-mini", "model.hidden_size", 2**20, "model: about 1.8e+13 weights; expected at most 1e+11"),
        ("bert-mini", "model.num_hidden_layers", 10**6, "num_hidden_layers: expected 1 to 1000, got 1000000"),
        ("bert-tiny", "data.mask_replace_prob", 0.95, "random_replace_prob add up to 1.05; expected at most 1"),
        ("bert-tiny", "data.mask_replace_prob", 1.5, "mask_replace_prob: expected 0 to 1, got 1.5"),
        ("bert-tiny", "data.random_replace_prob", -0.1, "random_replace_prob: expected 0 to 1, got -0.1"),
        ("bert-tiny", "data.mask_replace_prob", "most", "mask_replace_prob: expected a number, got 'most'"),
        ("bert-tiny", "data.mlm_probability", 0, "mlm_probability: expected more than 0, at most 1, got 0"),
        ("classification", "train.lr", "1", "train.lr: unknown key; did you mean 'train.learning_rate'"),
        ("classification", "train.batch_size", "1", "did you mean 'train.global_train_batch_size'"),
        ("classification", "data.text_columns", "1", "did you mean 'task.text_columns'"),
        ("classification", "train.label_column", "1", "did you mean 'task.label_column'"),
        ("classification", "train.precision", "bf16", "did you mean 'placement.mixed_precision'"),
        ("classification", "train.max_seq_length", "1", "did you mean 'data.max_seq_length'"),
    ],
)
def test_wrong_values_name_what_is_expected(name, key, value, expected):
    with pytest.raises(RecipeError) as caught:
        load_recipe(name, {key: value})
    assert expected in str(caught.value)


@pytest.mark.parametrize("example", [{"text": "Where?"}, {"context": " ", "text": "Where?"}])
def test_an_example_of_question_answering_needs_a_context(example):
    override = {"hub.widget": [{"text": "Who?", "context": "Ada."}, example]}
    with pytest.raises(RecipeError) as caught:
        load_recipe("squad/v1", override)
    message = f"(override) hub.widget: expected text and context in every example, got {example}"
    assert str(caught.value) == f"recipe squad/v1: {message}"
    assert load_recipe("sst2", override).hub.widget == override["hub.widget"]
    assert load_recipe("bert-tiny", override).hub.widget == override["hub.widget"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("task: [", "not valid YAML"),
        ("- 1\n", "expected the blocks"),
        ("", "expected the blocks"),
        ("train:\n  5: 1\n", "odd.yaml"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path, content, expected):
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError) as fault:
        load_recipe(path)
    assert expected in str(fault.value)


def test_a_missing_key_without_default_is_named():
    with pytest.raises(RecipeError, match=r"task\.name: missing"):
        load_recipe({"task": {"kind": "glue", "folder": "X"}})


def test_an_unknown_recipe_suggests_the_nearest():
    with pytest.raises(RecipeError, match="did you mean 'bert-mini'"):
        load_recipe("bert-mni")
    with pytest.raises(RecipeError, match="no such file"):
        load_recipe("missing.yaml")


def test_recipes_are_found_by_names_and_files():
    path = find_recipe("finetune/glue/sst2")
    assert path == find_recipe("sst2") == find_recipe(path)
    assert path.name == "sst2.yaml"
    with pytest.raises(RecipeError, match=r"'squad' is ambiguous: finetune/squad/v1, finetune/squad/v2; give the full"):
        find_recipe("squad")
    with pytest.raises(RecipeError, match=r"'finetune/squad' is ambiguous"):
        find_recipe("finetune/squad")


def test_a_link_to_a_file_keeps_its_name_in_an_absolute_path(tmp_path, monkeypatch):
    """The cache of the Hub has such links: the file itself has no suffix by which its form is known."""
    (tmp_path / "blob").touch()
    (tmp_path / "rows.csv").symlink_to("blob")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    assert absolute("../rows.csv") == str(tmp_path / "rows.csv")
    assert absolute("..") == str(tmp_path)


def test_copying_keeps_comments_and_never_overwrites(tmp_path):
    target = copy_recipe("sst2", tmp_path)
    assert target == tmp_path / "sst2.yaml"
    (schema, *copied), (_, *shipped) = (path.read_text().splitlines() for path in (target, find_recipe("sst2")))
    assert copied == shipped
    assert Path(schema.partition("$schema=")[2]).samefile(recipe_folder() / "schema.json")
    with pytest.raises(OutputError, match="exists"):
        copy_recipe("sst2", target)
    with pytest.raises(OutputError, match=r"the folder .*missing does not exist"):
        copy_recipe("sst2", tmp_path / "missing" / "a.yaml")


def test_validating_names_the_faults_of_every_file(tmp_path):
    for name, wrong in (("a.yaml", ["one", "two"]), ("b.yaml", ["three"])):
        (tmp_path / name).write_text("task:\n  kind: ner\n" + "".join(f"  {key}: 1\n" for key in wrong))
    with pytest.raises(RecipeError) as caught:
        validate_recipes([tmp_path / "a.yaml", find_recipe("sst2"), tmp_path / "b.yaml"])
    heads = [line for line in str(caught.value).splitlines() if line.startswith("recipe ")]
    assert heads[0].endswith("a.yaml: 2 faults:")
    assert "b.yaml, line 3: task.three: unknown key" in heads[1]
    assert len(heads) == 2
    validate_recipes([find_recipe("sst2"), find_recipe("placement/cpu")])


def test_a_file_of_accelerate_config_is_refused(tmp_path):
    path = tmp_path / "my_accelerate.yaml"
    path.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n")
    message = f"accelerate launch --config_file {path} -m bertkit …, without --placement"
    with pytest.raises(RecipeError, match=message):
        load_placement(path)
    with pytest.raises(RecipeError, match=message):
        validate_recipes([path])


def test_a_wrong_placement_is_refused(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("train:\n  seed: 1\n")
    with pytest.raises(RecipeError, match="expected one block, placement"):
        load_placement(path)
    path.write_text("placement:\n  device: tpu9\n")
    with pytest.raises(
        RecipeError, match=r"line 2: placement\.device: expected one of auto, cpu, gpu, xla, got 'tpu9'"
    ):
        load_placement(path)


def test_given_epochs_replace_the_steps_of_a_recipe():
    recipe = load_recipe("bert-mini", {"train.num_train_epochs": 3})
    assert "max_steps" not in recipe.train
    both = load_recipe("bert-mini", {"train.num_train_epochs": 3, "train.max_steps": 7})
    assert both.train["max_steps"] == 7


def test_an_unknown_placement_lists_the_placements():
    with pytest.raises(RecipeError, match=r"--placement 'gpu': expected .*cpu, .*ddp.* or a file"):
        load_placement("gpu")


def test_aliases_are_names_of_keys():
    task, data = map(fields_of, TASKS.settings("classification"))
    keys = {
        "task": task,
        "data": data,
        "train": train_fields(),
        "model": model_fields(of_checkpoint=False) | model_fields(of_checkpoint=True),
        "placement": fields_of(PlacementSettings),
    }
    wrong = [key for key in ALIASES.values() if key.partition(".")[2] not in keys[key.partition(".")[0]]]
    assert wrong == []
