"""Checkpoints that bertkit did not write, against transformers' pipelines and a decoder of logits in plain Python."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, pipeline

import bertkit
from bertkit import metrics
from bertkit.runtime.errors import CheckpointError, DataError, RecipeError

FAMILIES = "bert distilbert electra mpnet roberta deberta modernbert albert deberta-v2 xlm-roberta".split()
ENTITIES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
family = pytest.mark.parametrize("family", FAMILIES)


def classifier(stock_models, folder, labels=("neg", "neu", "pos"), family="bert", **fields):
    return stock_models.stock_checkpoint(folder, family, "AutoModelForSequenceClassification", labels, **fields)


def tagger(stock_models, folder, labels=ENTITIES, family="bert", **fields):
    return stock_models.stock_checkpoint(folder, family, "AutoModelForTokenClassification", labels, **fields)


def answerer(stock_models, folder, family="bert", **fields):
    return stock_models.stock_checkpoint(folder, family, "AutoModelForQuestionAnswering", **fields)


# ---- classification ------------------------------------------------------------------------------------------------


@family
def test_classes_are_those_of_the_pipeline(stock_models, tmp_path, family):
    folder, texts = classifier(stock_models, tmp_path, family=family), [*stock_models.TEXTS, "a " * 100]
    found = bertkit.load(folder).predict(texts)
    limits = {"truncation": True, "max_length": stock_models.POSITIONS}
    expected = pipeline("text-classification", str(folder), top_k=None, **limits)(texts)
    for prediction, scores in zip(found, expected, strict=True):
        assert prediction["label"] == scores[0]["label"]
        assert prediction["probabilities"] == pytest.approx({each["label"]: each["score"] for each in scores}, abs=1e-4)


@pytest.mark.parametrize(
    ("labels", "problem", "function"),
    [
        (("a", "b", "c"), "multi_label_classification", "sigmoid"),
        (("a", "b", "c"), "single_label_classification", "softmax"),
        (("LABEL_0",), None, "none"),  # the pipeline's default is a sigmoid, the loss of training that of numbers
        (("score",), "regression", "none"),
        (("yes",), "multi_label_classification", "sigmoid"),
    ],
)
def test_the_problem_type_decides_the_form_of_predictions(stock_models, tmp_path, labels, problem, function):
    folder = classifier(stock_models, tmp_path, labels, problem_type=problem)
    texts = list(stock_models.TEXTS)
    expected = pipeline("text-classification", str(folder), top_k=None, function_to_apply=function)(texts)
    for prediction, scores in zip(bertkit.load(folder).predict(texts), expected, strict=True):
        if "score" in prediction:
            assert prediction["score"] == pytest.approx(scores[0]["score"], abs=1e-4)
            continue
        probabilities = {each["label"]: each["score"] for each in scores}
        assert prediction["probabilities"] == pytest.approx(probabilities, abs=1e-4)
        if function == "sigmoid":
            assert set(prediction["labels"]) == {label for label, score in probabilities.items() if score >= 0.5}


def test_pairs_are_given_as_fields_or_columns(stock_models, tmp_path):
    folder = classifier(stock_models, tmp_path / "c")
    pair = {"text": stock_models.TEXTS[0], "text_pair": stock_models.TEXTS[2]}
    [expected] = pipeline("text-classification", str(folder), top_k=None)([pair])
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"premise": pair["text"], "hypothesis": pair["text_pair"]}))
    [by_table] = [row for block in bertkit.predict(folder, input_file=tmp_path / "pairs.jsonl") for row in block.rows]
    [by_fields] = bertkit.load(folder).predict(**pair)
    for found in (by_table, by_fields):
        probabilities = {each["label"]: each["score"] for each in expected}
        assert found["probabilities"] == pytest.approx(probabilities, abs=1e-4)
    with pytest.raises(DataError, match="expected text, or text and text_pair, got question"):
        bertkit.load(folder).predict(question="who?")


def test_labels_of_inference_tell_that_a_line_is_a_pair(stock_models, tmp_path):
    loaded = bertkit.load(classifier(stock_models, tmp_path, ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")))
    assert "pairs of texts" in loaded.task.assumptions
    [by_line], [by_fields] = loaded.predict("a film\ta plot"), loaded.predict(text="a film", text_pair="a plot")
    assert by_line == by_fields
    with pytest.raises(DataError, match="two texts separated by a tab"):
        loaded.predict("a film")


def test_what_is_assumed_is_one_line(stock_models, tmp_path, capsys):
    folder = classifier(stock_models, tmp_path)
    capsys.readouterr()
    loaded = bertkit.load(folder)
    said = capsys.readouterr().err.splitlines()
    assumed = "text-classification, one of 3 labels, single texts, cut at 64 tokens"
    assert said == [f"{tmp_path} records no task; assumed from its head: {assumed}"]
    assert loaded.task.assumptions == ("one of 3 labels", "single texts", "cut at 64 tokens")
    assert loaded.is_fine_tuned


@pytest.mark.parametrize(
    ("names", "written", "says"),
    [
        (("neg", "pos"), ("neg", "pos"), ""),
        (("NEG", "Pos"), ("neg", "pos"), "labels matched without regard to case"),
        (("LABEL_0", "LABEL_1"), ("0", "1"), "labels matched by number, 0 is LABEL_0"),
        (("LABEL_0", "LABEL_1"), ("0.0", "1.0"), "labels matched by number, 0 is LABEL_0"),
        (("0", "1"), ("0.0", "1.0"), "'0.0', '1.0' are read as '0', '1'"),
    ],
)
def test_labels_of_data_are_matched_by_name(stock_models, tmp_path, capsys, names, written, says):
    folder, texts = classifier(stock_models, tmp_path / "c", names), list(stock_models.TEXTS)
    best = [each["label"] for each in pipeline("text-classification", str(folder))(texts)]
    true = [names[number % 2] for number in range(len(texts))]
    rows = [f"{text},{written[names.index(label)]}" for text, label in zip(texts, true, strict=True)]
    (tmp_path / "dev.csv").write_text("\n".join(["sentence,label", *rows]))
    result = bertkit.evaluate(folder, test_file=tmp_path / "dev.csv", split="test")
    assert result.metrics["eval_accuracy"] == np.mean([one == other for one, other in zip(best, true, strict=True)])
    assert (says in capsys.readouterr().err) if says else ("matched" not in capsys.readouterr().err)


def test_other_labels_are_refused_with_both_lists(stock_models, tmp_path):
    folder = classifier(stock_models, tmp_path / "c", ("NEGATIVE", "POSITIVE"))
    (tmp_path / "dev.csv").write_text("review,stars\ngood,1\nbad,0\n")
    columns = {"text_columns": ["review"], "label_column": "stars"}
    with pytest.raises(DataError, match=r"(?s)data: +'0', '1'\n +checkpoint: 'NEGATIVE', 'POSITIVE'\n.*id2label"):
        bertkit.evaluate(folder, validation_file=tmp_path / "dev.csv", columns=columns)


def test_a_missing_label_is_not_the_class_none(stock_models, tmp_path):
    folder = classifier(stock_models, tmp_path / "c", ("None", "some"))
    rows = [{"text": "a", "label": "None"}, {"text": "b", "label": None}, {"text": "c", "label": "some"}]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"line 2: no value for 'label'"):
        bertkit.evaluate(folder, validation_file=tmp_path / "dev.jsonl")


def test_several_labels_of_a_field_are_read_by_their_separator(stock_models, tmp_path):
    folder = classifier(stock_models, tmp_path, ("a", "b"), problem_type="multi_label_classification")
    (tmp_path / "x.csv").write_text("text,label\nx,a;b\ny,b\n")
    (tmp_path / "x.jsonl").write_text('{"text": "x", "label": ["a", "b"]}\n{"text": "y", "label": ["b"]}\n')
    found = bertkit.evaluate(folder, validation_file=tmp_path / "x.csv", columns={"label_separator": ";"})
    assert found.metrics == bertkit.evaluate(folder, validation_file=tmp_path / "x.jsonl").metrics


# ---- token classification ------------------------------------------------------------------------------------------


def spans_of(text, entities, key):
    """Entities of the pipeline: type, characters without white space at the ends, probability; none without text."""
    found = {}
    for each in entities:
        start, end = each["start"], each["end"]
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if text[start:end].strip():
            found[each[key], start, end] = float(each["score"])
    return found


@family
@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def test_entities_are_those_of_the_pipeline(stock_models, tmp_path, family):
    folder, texts = tagger(stock_models, tmp_path, family=family), list(stock_models.TEXTS)
    reference = pipeline("token-classification", str(folder))
    for aggregation in ("none", "simple", "first", "average", "max"):
        expected = reference(texts, aggregation_strategy=aggregation)
        found = bertkit.load(folder, aggregation=aggregation).predict(texts)
        key = "entity" if aggregation == "none" else "entity_group"
        assert any(expected)
        for text, prediction, entities in zip(texts, found, expected, strict=True):
            ours = {(each["type"], each["start"], each["end"]): each["probability"] for each in prediction["entities"]}
            assert ours == pytest.approx(spans_of(text, entities, key), abs=1e-4), aggregation
            assert all(each["text"] == text[each["start"] : each["end"]] for each in prediction["entities"])


def test_tokens_that_are_not_joined_have_the_colours_of_their_tags(stock_models, tmp_path):
    folder, texts = tagger(stock_models, tmp_path), list(stock_models.TEXTS)
    [block] = bertkit.predict(folder, texts, aggregation="none", colours=True)
    found = {each["type"] for row in block.rows for each in row["entities"]}
    assert found
    assert all(any(f"[{kind}]\x1b[0m" in line for line in block.lines) for kind in found)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_a_full_stop_is_not_part_of_the_word_before_it(stock_models, tmp_path, family):
    loaded = bertkit.load(tagger(stock_models, tmp_path, ("NOUN", "VERB", "PUNCT"), family))
    [prediction] = loaded.predict("I live in Berlin.")
    assert [each["text"] for each in prediction["words"]] == ["I", "live", "in", "Berlin", "."]
    assert all(each["tag"] in ("NOUN", "VERB", "PUNCT") for each in prediction["words"])


@pytest.mark.parametrize("aggregation", ["simple", "first"])
def test_long_texts_are_read_in_windows(stock_models, tmp_path, aggregation):
    folder, text = tagger(stock_models, tmp_path), " ".join(stock_models.TEXTS * 10)
    [found] = bertkit.load(folder, aggregation=aggregation).predict(text)
    last = max(each["end"] for each in found["entities"])
    assert last > len(text) - 100
    short = stock_models.TEXTS[0]
    [alone], [beside, _] = (
        bertkit.load(folder, aggregation=aggregation).predict(each) for each in ([short], [short, text])
    )
    for one, other in zip(alone["entities"], beside["entities"], strict=True):
        assert one["probability"] == pytest.approx(other.pop("probability"), abs=1e-4)
        assert other.items() <= one.items()


def test_texts_of_a_table_are_read_as_others(stock_models, tmp_path):
    folder, texts = tagger(stock_models, tmp_path), list(stock_models.TEXTS)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"id": 7, "text": each}) + "\n" for each in texts))
    rows = [row for block in bertkit.predict(folder, input_file=tmp_path / "texts.jsonl") for row in block.rows]
    assert [row["entities"] for row in rows] == [each["entities"] for each in bertkit.load(folder).predict(texts)]


@pytest.mark.parametrize(("aggregation", "key"), [("simple", "entity_group"), ("none", "entity")])
def test_types_without_prefixes_are_entities(stock_models, tmp_path, aggregation, key):
    text, folder = stock_models.TEXTS[0], tagger(stock_models, tmp_path, ("PER", "LOC", "O"))
    [expected] = pipeline("token-classification", str(folder), aggregation_strategy=aggregation)([text])
    assert expected
    [found] = bertkit.load(folder, aggregation=aggregation).predict([text])
    ours = {(each["type"], each["start"], each["end"]): each["probability"] for each in found["entities"]}
    assert ours == pytest.approx(spans_of(text, expected, key), abs=1e-4)


def test_other_schemes_are_entities(stock_models, tmp_path):
    folder = tagger(stock_models, tmp_path, ("O", "B-PER", "I-PER", "E-PER", "S-PER"))
    [found] = bertkit.load(folder).predict([stock_models.TEXTS[0]])
    assert {each["type"] for each in found["entities"]} == {"PER"}


def test_suffixes_are_read_as_prefixes(stock_models, tmp_path):
    text, folder = (
        stock_models.TEXTS[0],
        tagger(stock_models, tmp_path / "a", ("O", "PER-B", "PER-I", "LOC-B", "LOC-I")),
    )
    loaded = bertkit.load(folder)
    assert "labels such as 'PER-B' read as 'B-PER'" in loaded.task.assumptions
    assert loaded.predict(text) == bertkit.load(tagger(stock_models, tmp_path / "b")).predict(text)


@pytest.mark.parametrize(
    "labels", [ENTITIES, ("O", "per", "loc"), ("O", *(f"{p}-{t}" for t in ("PER", "LOC") for p in "BIES"))]
)
def test_tags_are_scored_as_entities_of_iob2(stock_models, tmp_path, capsys, labels):
    """References are what the model predicts, written in IOB2: every score is 1."""
    folder = tagger(stock_models, tmp_path / "c", labels)
    words = [text.split() for text in stock_models.TEXTS]
    (tmp_path / "words.jsonl").write_text("\n".join(json.dumps({"tokens": each}) for each in words))
    rows = [row for block in bertkit.predict(folder, input_file=tmp_path / "words.jsonl") for row in block.rows]
    assert any(tag != "O" for row in rows for tag in row["tags"])
    with pytest.raises(DataError, match=r"has words, .* aggregation max is for raw texts"):
        list(bertkit.predict(folder, input_file=tmp_path / "words.jsonl", aggregation="max"))
    lines = [json.dumps({"tokens": row["tokens"], "ner_tags": [tag.upper() for tag in row["tags"]]}) for row in rows]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines))
    found = bertkit.evaluate(folder, validation_file=tmp_path / "dev.jsonl").metrics
    assert found["eval_overall_f1"] == found["eval_overall_accuracy"] == 1
    assert ("labels matched without regard to case" in capsys.readouterr().err) == ("per" in labels)
    (tmp_path / "dev.jsonl").write_text(json.dumps({"tokens": ["a", "b"], "ner_tags": ["B-ORG", "O"]}))
    with pytest.raises(DataError, match=r"(?s)data: +'ORG'\n +checkpoint: '(LOC|loc|PER|per)'"):
        bertkit.evaluate(folder, validation_file=tmp_path / "dev.jsonl")


@pytest.mark.parametrize(
    ("labels", "tags", "scheme"),
    [
        (
            ("O", "S-PER", "B-PER", "I-PER", "E-PER"),
            ["S-PER", "O", "B-PER", "E-PER"],
            "tags in IOBES, converted to IOB2",
        ),
        (ENTITIES, ["I-PER", "O", "I-PER", "I-PER"], "tags in IOB1, converted to IOB2"),
        (ENTITIES, ["B-PER", "O", "B-PER", "I-PER"], "tags in IOB2"),
        (("O", "PER"), ["PER", "O", "PER", "PER"], "tags such as 'PER' are read as 'I-PER'"),
    ],
)
def test_the_scheme_of_the_data_is_named(stock_models, tmp_path, capsys, labels, tags, scheme):
    folder = tagger(stock_models, tmp_path / "c", labels)
    (tmp_path / "dev.jsonl").write_text(json.dumps({"tokens": ["a", "film", "the", "plot"], "ner_tags": tags}))
    bertkit.evaluate(folder, validation_file=tmp_path / "dev.jsonl")
    said = capsys.readouterr().err
    assert f"validation: {scheme}\n" in said
    assert "violate" not in said


def test_tags_without_prefixes_are_those_of_such_a_checkpoint(stock_models, tmp_path):
    folder, scores = tagger(stock_models, tmp_path / "c", ("O", "PER", "LOC")), []
    for tags in (["PER", "O", "LOC", "LOC"], ["B-PER", "O", "B-LOC", "I-LOC"]):
        (tmp_path / "dev.jsonl").write_text(json.dumps({"tokens": ["a", "film", "the", "plot"], "ner_tags": tags}))
        scores.append(bertkit.evaluate(folder, validation_file=tmp_path / "dev.jsonl").metrics)
    assert scores[0].keys() == scores[1].keys()
    assert {name: scores[0][name] for name in scores[0] if "overall" in name} == {
        name: scores[1][name] for name in scores[1] if "overall" in name
    }


@pytest.mark.parametrize("name", ["words.jsonl", "words.parquet", "words.xlsx", "words.xlsx#Sheet1"])
def test_tables_of_words_are_predicted_by_sentence(stock_models, tmp_path, name):
    folder, file = tagger(stock_models, tmp_path / "c"), tmp_path / name.partition("#")[0]
    table = pandas.DataFrame({"sentence_id": [1, 1, 2], "word": ["a", "film", "the"]})
    if file.suffix == ".jsonl":
        table.to_json(file, orient="records", lines=True)
    else:
        getattr(table, "to_parquet" if file.suffix == ".parquet" else "to_excel")(file, index=False)
    rows = [row for block in bertkit.predict(folder, input_file=tmp_path / name) for row in block.rows]
    assert [row["word"] for row in rows] == [["a", "film"], ["the"]]


def test_prefixes_alone_are_tags_of_one_type(stock_models, tmp_path):
    folder = tagger(stock_models, tmp_path / "c", ("O", "B", "I"))
    assert "entities of 1 type" in bertkit.load(folder).task.assumptions
    (tmp_path / "dev.jsonl").write_text(json.dumps({"tokens": ["a", "film"], "ner_tags": ["B", "I"]}))
    assert bertkit.evaluate(folder, validation_file=tmp_path / "dev.jsonl").metrics["eval_overall_accuracy"] <= 1


# ---- question answering --------------------------------------------------------------------------------------------

QUESTION = "where do I live"


def reference_answer(folder, context, sizes, longest=30):
    """The best span over all windows, by the logits of plain transformers: (score, start, end)."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForQuestionAnswering.from_pretrained(folder)
    inputs = tokenizer(
        QUESTION,
        context,
        truncation="only_second",
        max_length=sizes.max_seq_length,
        stride=sizes.doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,  # ALBERT's gives them only if asked
    )
    names = [*tokenizer.model_input_names, *(["token_type_ids"] if model.config.model_type == "albert" else [])]
    best = (-np.inf, 0, 0)
    for window, ids in enumerate(inputs["input_ids"]):
        given = {name: torch.tensor([inputs[name][window]]) for name in names}
        with torch.no_grad():
            outputs = model.eval()(**given)
        starts, ends = outputs.start_logits[0].tolist(), outputs.end_logits[0].tolist()
        inside = [token for token, part in enumerate(inputs.sequence_ids(window)) if part == 1]
        assert len(ids) == len(starts)
        for first, last in product(inside, inside):
            if first <= last < first + longest:
                begin, end = inputs["offset_mapping"][window][first][0], inputs["offset_mapping"][window][last][1]
                best = max(best, (starts[first] + ends[last], begin, end))
    return best


@family
def test_answers_are_those_of_the_logits(stock_models, tmp_path, family):
    folder = answerer(stock_models, tmp_path, family)
    loaded = bertkit.load(folder)
    for repeats in (1, 4):  # one window, and several
        context = " ".join(stock_models.TEXTS[:3] * repeats)
        _, start, end = reference_answer(folder, context, loaded.task.data.sizes)
        [found] = loaded.predict(question=QUESTION, context=context)
        assert context[found["start"] : found["end"]] == found["answer"]
        assert found["answer"].strip() == context[start:end].strip()


def test_questions_without_answers_are_scored_as_squad_2(stock_models, tmp_path, capsys):
    folder, context = answerer(stock_models, tmp_path / "c"), " ".join(stock_models.TEXTS)
    loaded = bertkit.load(folder)
    [answer] = loaded.predict(question=QUESTION, context=context)
    text = {"text": [answer["answer"]], "answer_start": [answer["start"]]}
    none = {"text": [], "answer_start": []}
    path = tmp_path / "dev.jsonl"

    def scores(*answers, max_samples=None):
        rows = [
            {"id": str(number), "question": QUESTION, "context": context, "answers": each}
            for number, each in enumerate(answers)
        ]
        path.write_text("\n".join(map(json.dumps, rows)))
        return bertkit.evaluate(folder, validation_file=path, max_samples=max_samples).metrics

    predictions, references = [{"id": "0", "prediction_text": answer["answer"]}], [{"id": "0", "answers": text}]
    expected = metrics.compute("squad", predictions, references)  # an answer of articles alone has F1 0
    assert scores(text) == {f"eval_{name}": score for name, score in expected.items()}
    capsys.readouterr()
    found = scores(text, none)
    assert "1 of 2 questions has no answer: scored as SQuAD 2.0" in capsys.readouterr().err
    [both] = bertkit.load(folder, version_2_with_negative=True).predict(question=QUESTION, context=context)
    predictions = [
        {"id": key, "prediction_text": both["answer"], "no_answer_probability": both["no_answer_probability"]}
        for key in ("0", "1")
    ]
    references = [{"id": "0", "answers": text}, {"id": "1", "answers": none}]
    expected = metrics.load("squad_v2").compute(predictions=predictions, references=references)
    assert found["eval_f1"] == pytest.approx(expected["f1"])
    assert found["eval_exact"] == pytest.approx(expected["exact"])
    assert scores(text, " ") == found  # as an empty cell of a table
    capsys.readouterr()
    assert scores(text, none, max_samples=1) == scores(text)  # what is left out decides nothing
    assert "SQuAD 2.0" not in capsys.readouterr().err


# ---- masked words --------------------------------------------------------------------------------------------------


@family
def test_masked_words_are_those_of_the_pipeline(stock_models, tmp_path, family):
    folder = stock_models.stock_checkpoint(tmp_path, family, "AutoModelForMaskedLM")
    mask = AutoTokenizer.from_pretrained(folder).mask_token
    texts = [f"My name {mask} Wolfgang", f"a lovely {mask} with an awful plot"]
    expected = pipeline("fill-mask", str(folder), top_k=7)(texts)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for [found], guesses in zip(bertkit.load(folder).fill_mask(texts, top_k=7), expected, strict=True):
        assert [each.probability for each in found] == pytest.approx([each["score"] for each in guesses], abs=1e-4)
        named = tokenizer.convert_ids_to_tokens([each["token"] for each in guesses])
        assert {each.token for each in found[:3]} == set(named[:3])


# ---- wrong inputs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auto_class", "says"),
    [
        ("AutoModel", r"\(BertModel\).*without a head, which embed uses; give such a checkpoint"),
        ("AutoModelForMaskedLM", r"\(BertForMaskedLM\).*fill-mask and embed use its masked language model"),
        ("AutoModelForMultipleChoice", r"\(BertForMultipleChoice\) was fine-tuned for, and its head is not that of"),
    ],
)
def test_a_checkpoint_without_such_a_head_is_refused(stock_models, tmp_path, auto_class, says):
    folder = stock_models.stock_checkpoint(tmp_path, "bert", auto_class)
    assert not bertkit.load(folder).is_fine_tuned
    with pytest.raises(CheckpointError, match=says):
        bertkit.load(folder).predict("a film")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}},
            r"classifier.* has the shape \(3,.*config\.json does not belong",
        ),
        ({"id2label": {"0": "a", "2": "b"}}, r"id2label in config\.json has the ids 0, 2; expected 0 to 1"),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "has the name 'a' more than once"),
        ({"problem_type": "regression"}, "problem_type is regression with 3 outputs"),
    ],
)
def test_label_names_that_do_not_fit_are_refused(stock_models, tmp_path, fields, says):
    config = classifier(stock_models, tmp_path) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **fields}))
    with pytest.raises(CheckpointError, match=says):
        bertkit.load(tmp_path)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"aggregation": "first"}, r"data\.aggregation: .* is used for classification, which has no such"),
        ({"max_seq_length": 65}, r"65 tokens, but .* has 64 positions"),
        ({"long_text": "windows"}, "data.long_text: expected one of cut, chunk, got 'windows'"),
        ({"max_seq_length": "12"}, "data.max_seq_length: expected an integer, got '12'"),
        ({"max_seq_length": 0}, "data.max_seq_length: 0 is for a training"),
    ],
)
def test_settings_that_do_not_fit_are_refused(stock_models, tmp_path, setting, message):
    folder = classifier(stock_models, tmp_path)
    with pytest.raises(RecipeError, match=message):
        bertkit.load(folder, **setting)


def test_a_task_whose_training_fits_no_length_says_its_range(stock_models, tmp_path):
    folder = stock_models.stock_checkpoint(tmp_path, "bert", "AutoModelForTokenClassification", ("O", "B-PER", "I-PER"))
    with pytest.raises(RecipeError, match=r"data\.max_seq_length: expected 3 to 1048576, got 0"):
        bertkit.load(folder, max_seq_length=0)
