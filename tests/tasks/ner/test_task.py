"""Tags of words: what is found in the data, refused, encoded, decoded, scored and written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertkit import BertConfig, load_recipe
from bertkit.inference.outcome import task_inference
from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.ner.sentences import read_conll
from bertkit.tasks.ner.task import DataSettings, NerTask, TaskSettings
from bertkit.tasks.registry import task_of_recipe
from bertkit.tasks.splits import splits_to_write

from .conftest import outputs_that_say

TRAIN = "a B-PER\nfilm I-PER\nis O\n\nthe O\nplot B-LOC\n"
BY_WORD = {"scheme": "IOB1", "label_names": ["O", "B-X"]}  # for entities of one word


# ---- load -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "scheme", "names", "labels"),
    [
        (TRAIN, "IOB2", "O B-LOC I-LOC B-PER I-PER", [[3, 4, 0], [0, 1]]),
        (TRAIN.replace("B-", "I-"), "IOB1", "O B-LOC I-LOC B-PER I-PER", [[3, 4, 0], [0, 1]]),
        ("a B-X\nb E-X\n\nc S-X\n", "IOBES", "O B-X I-X", [[1, 2], [1]]),
        ("a DT\nb NN\n\nc NN\n", "plain", "NN DT", [[1, 0], [0]]),  # the most frequent first
    ],
)
def test_scheme_and_labels_come_from_training_data(task, through_checkpoint, train, scheme, names, labels):
    unsettled = task(train_conll=train)
    assert unsettled.load(["test"])[1] == {}
    found, splits = unsettled.load(["train"])
    assert splits["train"].examples["labels"][:] == labels
    assert unsettled.settings == TaskSettings()
    assert (found.settings.scheme, found.settings.label_names) == (scheme, names.split())
    assert found.main_metric == ("accuracy" if scheme == "plain" else "overall_f1")
    assert through_checkpoint(found).settings == found.settings
    assert list(found.config()["id2label"].values()) == names.split()


def test_scheme_and_its_violations_are_noted_with_lines(task, tmp_path):
    _, found = task(train_conll=TRAIN, validation_conll="x O\ny I-PER\n\nz I-LOC\n").load()
    line = "tags in IOB2: 2 types of entities ('LOC' 1, 'PER' 1)"
    assert (found["train"].notes, found["train"].labels) == ((line,), line)
    _, warning = found["validation"].notes
    assert warning.replace(f"{tmp_path}/", "") == (
        "warning: tags violate the rules of IOB2 in 2 places, where they are read as by conlleval (a tag that cannot "
        "continue an entity begins one): validation.conll, line 2: I-PER after O; validation.conll, line 4: I-LOC at "
        "the start of a sentence"
    )
    assert found["validation"].examples["labels"][:] == [[0, 3], [1]]
    assert task(train_conll=TRAIN.replace("B-", "I-")).load(["train"])[1]["train"].notes == (
        "tags in IOB1, converted to IOB2: 2 types of entities ('LOC' 1, 'PER' 1)",
    )


def test_plain_tags_are_named_with_their_counts(task):
    assert task(train_conll="a DT\nb NN\n\nc NN\nd nn\n").load(["train"])[1]["train"].notes == (
        "plain tags, which mark no entities: 3 classes ('NN' 2, 'DT' 1, 'nn' 1); warning: 'NN' 2 and 'nn' 1 differ "
        "only in case, white space or Unicode form, and each is a class of its own",
    )


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (str.lower, "tags such as 'b-loc' are read as 'B-loc'"),
        (lambda text: re.sub(r"([BI])-(\w+)", r"\2-\1", text), "tags such as 'LOC-B' are read as 'B-LOC'"),
        (lambda text: text.replace("-", "_"), "tags such as 'B_LOC' are read as 'B-LOC'"),
    ],
)
def test_tags_of_other_forms_are_entities(task, change, note):
    found = task(train_conll=change(TRAIN), validation_conll=change("x O\n\ny B-PER\n"))
    settled, splits = found.load()
    kinds = ("loc", "per") if change is str.lower else ("LOC", "PER")
    assert settled.settings.scheme == "IOB2"
    assert settled.settings.label_names == ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]
    assert splits["train"].examples["labels"][:] == [[3, 4, 0], [0, 1]]
    assert splits["train"].notes[1:] == (note,)
    assert splits["validation"].examples["labels"][:] == [[0], [3]]
    assert settled.main_metric == "overall_f1"
    plain = task(train_conll=change(TRAIN), scheme="plain").load(["train"])[0]
    assert set(plain.settings.label_names) == {line.split()[1] for line in change(TRAIN).splitlines() if line}


def test_tags_unknown_in_training_are_refused_with_places(task, refusal):
    refused = refusal(task(train_conll=TRAIN, validation_conll="x O\ny B-ORG\n", test_conll="z B-MISC\n"))
    remedy = "has no label in the training set; correct it, or list all labels in task.label_names"
    assert refused.splitlines() == [
        "2 faults:",
        f"  - validation.conll, line 2: tag 'B-ORG' {remedy}",
        f"  - test.conll, line 1: tag 'B-MISC' {remedy}",
    ]
    other = refusal(task(train_conll=TRAIN, validation_conll="x O\ny PER\nz S-LOC\n", test_conll="z O\n"))
    assert other == f"validation.conll, line 2: tag 'PER' {remedy}"
    names = "O B-LOC I-LOC B-PER I-PER B-ORG I-ORG".split()
    _, found = task(train_conll=TRAIN, validation_conll="x O\ny B-ORG\n", label_names=names).load()
    assert found["validation"].examples["labels"][:] == [[0, 5]]


@pytest.mark.parametrize("scheme", [None, "IOBES"])
@pytest.mark.parametrize("tag", ["B-", "I- ", "E-\u00a0", "S-", "L- ", "U-\u00a0"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_tag_without_a_type_is_refused_with_line(task, refusal, split, tag, scheme):
    files = {"train_conll": TRAIN, "validation_conll": TRAIN, "test_conll": TRAIN}
    files[f"{split}_conll"] = f"x\tO\n\ny\tB-PER\nz\t{tag}\n"
    refused = refusal(task(**files, scheme=scheme))
    assert refused.startswith(f"{split}.conll, line 4: tag {tag!r} ")
    assert len(refused.splitlines()) == 1


def test_hub_class_without_a_type_is_refused(task, hub, refusal):
    hub({"ner_tags": ["O", "B-PER", "I-"]}, train={"tokens": [["a", "b"]], "ner_tags": [[1, 0]]})
    refused = refusal(task(dataset_name="org/x"), ["train"])
    assert refused.startswith("org/x (train): class 'I-' has no type after its hyphen")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"train_conll": "a O\nb O\n"}, "train.conll: every word has the tag 'O'; expected at least two"),
        ({"train_conll": "a X\nb Y\n", "label_names": ["X"]}, "task.label_names: only 'X'; expected at least two"),
        ({"train_conll": TRAIN, "token_column": 2}, "train.conll: column 2 contains the words; give"),
        (
            {"train_conll": "a O\nb B-X\n\nc O\nd X\ne 0\n"},
            "2 faults:\n  - train.conll, line 5: tag 'X' has none of the prefixes B, I, E, S, L, U, ",
        ),
        (
            {"train_conll": "a S-X\nb E-X\n\nc U-X\n"},
            "train.conll, line 4: tag 'U-X' is from BILOU, but other tags are from IOBES",
        ),
        ({"train_conll": TRAIN, "label_names": ["O", "B-PER", "B-LOC"]}, "task.label_names: expected B-LOC, B-PER, I-"),
        ({"train_conll": TRAIN, "context": "document"}, "train.conll: no -DOCSTART- line"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(task, refusal, given, expected):
    assert refusal(task(**given), ["train"]).startswith(expected)


@pytest.mark.parametrize(
    ("make", "wrong", "expected"),
    [
        (DataSettings, {"stride": 126}, "stride: windows of 128 tokens"),
        (
            DataSettings,
            {"comment_prefix": ""},
            "comment_prefix: expected the start of comment lines, such as '#', got ''",
        ),
        (DataSettings, {"comment_prefix": "# "}, "comment_prefix: expected the start .* got '# '"),
        (TaskSettings, {"token_column": 1, "tag_column": "1"}, "tag_column: 1 is the column of the tokens"),
        (TaskSettings, {"label_names": ["O", "O"]}, "label_names: expected each name once"),
        (TaskSettings, {**BY_WORD, "label_all_subwords": True}, "label_names: expected B-X, I-X, O, got"),
        (TaskSettings, {"scheme": "IOB2", "label_names": ["O", "X"]}, "label_names: 'X' has none of the prefixes"),
    ],
)
def test_impossible_settings_are_refused(make, wrong, expected):
    with pytest.raises(ValueError, match=expected):
        make(**wrong)
    assert TaskSettings(**BY_WORD).label_names == BY_WORD["label_names"]


def test_hub_set_has_the_names_of_its_features(task, hub):
    columns = {"id": [0, 1], "tokens": [["a", "b"], ["c"]], "ner_tags": [[1, 0], [0]], "pos_tags": [[0, 1], [1]]}
    names = {"ner_tags": ["O", "B-PER", "I-PER", "B-ORG"], "pos_tags": ["DT", "NN"]}
    hub(names, train=columns)
    found, splits = task(dataset_name="org/x").load(["train"])
    assert splits["train"].examples["labels"][:] == [[3, 0], [0]]
    assert found.settings.label_names == ["O", "B-ORG", "I-ORG", "B-PER", "I-PER"]  # also one that no row has
    speech, _ = task(dataset_name="org/x", tag_column="pos_tags").load(["train"])
    assert (speech.settings.scheme, speech.settings.label_names) == ("plain", ["NN", "DT"])


def test_validation_is_held_out_without_test_tags(task):
    many = "".join(f"w{row} {'B-X' if row % 2 else 'O'}\n\n" for row in range(40))
    _, found = task(train_conll=many, test_conll="a\nb\n").load()
    assert {name: len(split.examples) for name, split in found.items()} == {"train": 36, "validation": 4, "test": 1}
    assert found["test"].examples.column_names == ["tokens"]


# ---- encode → decode ------------------------------------------------------------------------------------------------

WORDS = st.one_of(
    st.sampled_from(["film", "", "\u200b", "\x07", "plot", "unheard-of", "北京"]), st.text("ab.é", max_size=5)
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sentences=st.lists(
        st.one_of(
            st.lists(WORDS, min_size=1, max_size=8),
            st.tuples(WORDS, st.integers(1, 400)).map(lambda given: [given[0]] * given[1]),
        ),
        min_size=1,
        max_size=4,
    ),
    length=st.integers(4, 20),
    data=st.data(),
)
def test_there_is_exactly_one_tag_for_every_word(tokenizer, sentences, length, data):
    names = ["O", "B-X", "I-X"]
    task = NerTask(TaskSettings(scheme="IOB2", label_names=names), DataSettings(max_seq_length=length))
    labels = [[data.draw(st.integers(0, 2)) for _ in sentence[:20]] for sentence in sentences]
    labels = [(ids * len(words))[: len(words)] for ids, words in zip(labels, sentences, strict=True)]
    examples = {"tokens": sentences, "labels": labels}
    features = task.encode(examples, tokenizer)
    assert set(features["example"]) == set(range(len(sentences)))
    assert max(features["length"]) <= length
    assert features["length"] == features["full_length"]  # nothing is cut
    outputs = outputs_that_say(labels, features, len(names))
    seen = {
        (example, word)
        for example, words in zip(features["example"], features["word_ids"], strict=True)
        for word in words
    }
    for example, prediction in enumerate(task.decode(outputs, features, {"tokens": sentences})):
        assert len(prediction["tags"]) == len(prediction["probabilities"]) == len(sentences[example])
        for word, (tag, label) in enumerate(zip(prediction["tags"], labels[example], strict=True)):
            assert tag == (names[label] if (example, word) in seen else "O")
    trained = [label for row in features["labels"] for label in row if label != -100]
    assert len(trained) == len(seen - {(example, -1) for example in range(len(sentences))})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=4), data=st.data())
def test_entities_of_raw_text_slice_it(tokenizer, texts, data):
    task = NerTask(TaskSettings(scheme="IOB2", label_names=["O", "B-X", "I-X"]), DataSettings(max_seq_length=12))
    examples = task.read_input(texts)
    labels = [[data.draw(st.integers(0, 2)) for _ in tokens] for tokens in examples["tokens"]]
    features = task.encode(examples, tokenizer)
    predictions = task.decode(outputs_that_say(labels, features, 3), features, examples)
    assert len(predictions) == len(texts)
    for text, prediction in zip(texts, predictions, strict=True):
        end = 0
        for entity in prediction["entities"]:
            assert end <= entity["start"] < entity["end"] <= len(text)
            assert text[entity["start"] : entity["end"]] == entity["text"]
            assert 0 < entity["probability"] <= 1
            end = entity["end"]


def test_a_worked_prediction(tokenizer):
    task = NerTask(TaskSettings(scheme="IOB2", label_names=["O", "B-X", "I-X"]), DataSettings())
    examples = task.read_input(["A good film, the plot"])
    features = task.encode(examples, tokenizer)
    outputs = outputs_that_say([[1, 2, 2, 0, 0, 2]], features, 3)
    (prediction,) = task.decode(outputs, features, examples)
    sure = pytest.approx(np.exp(5) / (np.exp(5) + 2))
    assert prediction["entities"] == [
        {"text": "A good film", "type": "X", "probability": sure, "start": 0, "end": 11},
        {"text": "plot", "type": "X", "probability": sure, "start": 17, "end": 21},
    ]
    assert task_inference(task).format_prediction(prediction) == "A good film (X 0.9867); plot (X 0.9867)"
    row = {"text": "A good film, the plot", **prediction}
    green, end = "\x1b[1;32m", "\x1b[0m\x1b[2m[X]\x1b[0m"
    assert task_inference(task).highlight(row) == f"{green}A good film{end}, the {green}plot{end}"


def test_plain_tags_are_scored_by_accuracy(tokenizer):
    task = NerTask(TaskSettings(scheme="plain", label_names=["NN", "DT"]), DataSettings())
    examples = task.read_input(["the film\u00ad"])
    features = task.encode(examples, tokenizer)
    (prediction,) = task.decode(outputs_that_say([[1, 0]], features, 2), features, examples)
    assert task_inference(task).format_prediction(prediction) == "the/DT film\u00ad/NN"
    assert [(word["start"], word["end"]) for word in prediction["words"]] == [(0, 3), (4, 9)]
    assert task_inference(task).highlight({"text": "the film", **prediction}) is None
    examples = {"tokens": [["the", "film"], ["plot", "\u200b"]], "labels": [[1, 0], [0, 1]]}
    features = task.encode(examples, tokenizer)
    assert task.score(outputs_that_say([[1, 1], [0, 0]], features, 2), features, examples) == {"accuracy": 0.5}


def test_documents_give_their_sentences_context(task, tokenizer):
    train = "-DOCSTART- O\n\na B-X\n\nfilm O\n\nplot O\n\n-DOCSTART- O\n\nthe B-X\n"
    found = task(train_conll=train, context="document", max_seq_length=8)
    found, splits = found.load(["train"])
    examples = splits["train"].examples
    features = found.encode(examples.to_dict(), tokenizer)
    read = [tokenizer.convert_ids_to_tokens(ids) for ids in features["input_ids"]]
    assert read == [["[CLS]", "a", "film", "plot", "[SEP]"]] * 3 + [["[CLS]", "the", "[SEP]"]]
    assert features["word_ids"] == [[-1, 0, -1, -1, -1], [-1, -1, 0, -1, -1], [-1, -1, -1, 0, -1], [-1, 0, -1]]
    alone, splits = task(train_conll=train, max_seq_length=8).load(["train"])
    assert alone.encode(splits["train"].examples.to_dict(), tokenizer)["length"] == [3] * 4


def test_every_piece_can_be_trained(tokenizer):
    names = ["O", "I-X", "B-X"]
    task = NerTask(TaskSettings(scheme="IOB2", label_names=names, label_all_subwords=True), DataSettings())
    examples = {"tokens": [["filmlovely", "\u200b", "plotfilm", "filmlovely"]], "labels": [[2, 2, 0, 1]]}
    features = task.encode(examples, tokenizer)
    name, outside = (len(tokenizer(word, add_special_tokens=False)["input_ids"]) for word in ("filmlovely", "plotfilm"))
    assert min(name, outside) > 1
    assert features["labels"] == [[-100, 2, *[1] * (name - 1), *[0] * outside, *[1] * name, -100]]
    assert [word for word in features["word_ids"][0] if word >= 0] == [0, 2, 3]  # predictions are the first piece's


def test_a_batch_is_padded_with_ignored_labels(tokenizer):
    task = NerTask(TaskSettings(scheme="IOB2", label_names=["O", "B-X", "I-X"]), DataSettings())
    features = task.encode({"tokens": [["a", "film"], ["plot"]], "labels": [[1, 0], [2]]}, tokenizer)
    rows = [{name: values[row] for name, values in features.items()} for row in range(2)]
    batch = task.collate(rows, tokenizer, model_inputs(BertConfig()))
    assert batch["labels"].tolist() == [[-100, 1, 0, -100], [-100, 2, -100, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch["labels"].dtype == torch.int64


# ---- score, write ---------------------------------------------------------------------------------------------------


def test_scores_of_a_worked_example(tokenizer):
    names = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    examples = {"tokens": [["a", "film", "is"], ["plot", "the", "\u200b"]], "labels": [[3, 4, 0], [1, 0, 1]]}
    said = [[4, 4, 0], [0, 1, 1]]  # the person, begun with I; a place where there is none
    task = NerTask(TaskSettings(scheme="IOB2", label_names=names), DataSettings())
    features = task.encode(examples, tokenizer)
    scores = task.score(outputs_that_say(said, features, 5), features, examples)
    # Of three references (the last of a word without a piece) one is found, of two predictions it is one.
    assert scores == pytest.approx(
        {"overall_precision": 1 / 2, "overall_recall": 1 / 3, "overall_f1": 2 / 5, "overall_accuracy": 2 / 6}
        | {f"entity/LOC/{name}": 0 for name in ("precision", "recall", "f1")}
        | {f"entity/PER/{name}": 1 for name in ("precision", "recall", "f1")}
    )
    strict = NerTask(TaskSettings(scheme="IOB2", label_names=names, strict=True), DataSettings())
    assert strict.score(outputs_that_say(said, features, 5), features, examples)["entity/PER/f1"] == 0


@pytest.mark.parametrize("kind", ["LOC", "overall", "overall_f1", "a/f1", ""])
def test_a_type_of_any_name_overwrites_no_score(kind):
    names = ["O", *(f"{prefix}-{kind}".rstrip("-") for prefix in "BI"), "B-PER", "I-PER"]
    task = NerTask(TaskSettings(scheme="IOB2", label_names=names), DataSettings())
    scores = task.compute_metrics([[1, 1, 0]], [[1, 0, 3]])
    assert scores[f"entity/{kind}/precision"] == 1 / 2
    assert [scores[name] for name in ("overall_precision", "overall_recall", "overall_f1")] == [1 / 2] * 3


@pytest.mark.parametrize("labelled", [True, False])
def test_predictions_are_what_conlleval_reads(tokenizer, tmp_path, labelled):
    task = NerTask(TaskSettings(scheme="IOB2", label_names=["O", "B-X", "I-X"]), DataSettings())
    examples: dict[str, Any] = {"tokens": [["a", "x y"], ["\u200b"]], **({"labels": [[1, 2], [0]]} if labelled else {})}
    features = task.encode(examples, tokenizer)
    path = task.write_predictions("test", outputs_that_say([[1, 0], [0]], features, 3), features, examples, tmp_path)
    assert path == tmp_path / "predictions.conll"
    expected = ["a B-X B-X", "x_y I-X O", "", "\u200b O O", ""] if labelled else ["a B-X", "x_y O", "", "\u200b O", ""]
    assert path.read_text(encoding="utf-8").split("\n")[:-1] == expected
    assert splits_to_write(task, ["train", "validation", "test"]) == ["test"]
    assert splits_to_write(task, ["train", "validation"]) == ["validation"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("files", "types"),
    [
        (("wnut17/train.conll", "wnut17/dev.conll", "wnut17/test.conll"), 6),
        (("conll2000-chunking/train.txt", None, "conll2000-chunking/test.txt"), 11),
    ],
)
def test_published_sets_are_sound_iob2(real_data, files, types):
    places = zip(("train_file", "validation_file", "test_file"), files, strict=True)
    data = {name: str(real_data / "ner" / file) for name, file in places if file}
    task = task_of_recipe(load_recipe("finetune/ner", {f"data.{name}": place for name, place in data.items()}))
    task, found = task.load()
    assert len(task.settings.label_names) == 2 * types + 1
    for name, split in found.items():
        if name != "validation" or files[1]:
            assert split.notes[0].startswith("tags in IOB2")
            assert len(split.notes) == 1


@pytest.mark.real
def test_dropped_words_of_a_published_set_are_tagged(real_data, tokenizer):
    """Three words of WNUT 17's test set are variation selectors, of which nothing is left."""
    table = read_conll(real_data / "ner" / "wnut17" / "test.conll")
    task = NerTask(TaskSettings(scheme="IOB2", label_names=["O", "B-X", "I-X"]), DataSettings(max_seq_length=32))
    examples = task.columns_of(table)
    features = task.encode(examples, tokenizer)
    seen = sum(word >= 0 for row in features["word_ids"] for word in row)
    words = sum(map(len, examples["tokens"]))
    assert (seen, words) == (23391, 23394)
    assert len(features["example"]) > len(table)  # long ones are read in windows
    predictions = task.decode(np.zeros((len(features["example"]), 32, 3)), features, examples)
    assert sum(len(prediction["tags"]) for prediction in predictions) == words


def test_columns_that_are_one_column_are_refused():
    task = NerTask(TaskSettings(), DataSettings())
    assert task_inference(task).with_columns({"token_column": 1, "tag_column": 2}).settings.tag_column == 2
    with pytest.raises(RecipeError, match=r"task\.tag_column: 1 is the column of the tokens"):
        task_inference(task).with_columns({"token_column": 1, "tag_column": 1})
