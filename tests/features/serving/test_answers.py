"""Answers over HTTP are those of predict, fill-mask and embed, in the forms of the Inference API and of TEI."""

from __future__ import annotations

import base64
import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import bertkit
from bertkit.features.serving.demo import form_of
from bertkit.features.serving.requests import Limits
from bertkit.features.serving.served import Served, served
from bertkit.features.serving.server import service_of
from bertkit.features.serving.services import PredictService
from bertkit.inference.options import PredictOptions
from bertkit.inference.predictor import Predictor
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.model.configuration_bert import BertkitConfig
from bertkit.model.modeling_bert import BertForSequenceClassification
from bertkit.runtime.errors import CheckpointError, RecipeError

from .conftest import Client

pytestmark = pytest.mark.numeric
TEXTS = ["the film is lovely", "a bad plot", "awful story, good film!", "x"]
CONTEXT = "the story is good, the film is a lovely plot and the good story is awful or bad, a lovely film"


def near(value):
    return pytest.approx(value, abs=1e-4)


def answer(response):
    assert response.status_code == 200, response.text
    return response.json()


def stock(stock_models, folder, head, *labels, **fields):
    return stock_models.stock_checkpoint(folder, "bert", f"AutoModelFor{head}", list(labels) or None, **fields)


def test_text_classification(client_of, fine_tuned):
    folder = fine_tuned("film")
    client, predictions = client_of(folder), bertkit.load(folder).predict(TEXTS)
    found = answer(client.post("/", {"inputs": TEXTS}))
    for of_text, prediction in zip(found, predictions, strict=True):
        assert {each["label"]: each["score"] for each in of_text} == near(prediction["probabilities"])
        assert of_text[0]["label"] == prediction["label"]
        assert [each["score"] for each in of_text] == sorted((each["score"] for each in of_text), reverse=True)
    assert answer(client.post("/", {"inputs": TEXTS[0]}))[0][0]["label"] == found[0][0]["label"]
    raw = answer(client.post("/", {"inputs": TEXTS[:1], "parameters": {"function_to_apply": "none", "top_k": 1}}))
    assert len(raw[0]) == 1
    assert raw[0][0]["score"] != near(found[0][0]["score"])
    logits = answer(client.post("/predict", {"inputs": TEXTS[0], "raw_scores": True}))
    shares = np.exp([each["score"] for each in logits])
    assert (shares / shares.sum()).tolist() == near([each["score"] for each in found[0]])
    assert [row[0]["label"] for row in answer(client.post("/predict", {"inputs": [[text] for text in TEXTS]}))] == [
        each["label"] for each in predictions
    ]


@pytest.mark.parametrize("kind", ["threshold", "topics", "subjects"])
def test_labels_that_predict_gives_are_marked(kind, client_of, fine_tuned):
    folder = fine_tuned(kind)
    found = answer(client_of(folder).post("/", {"inputs": TEXTS}))
    for of_text, prediction in zip(found, bertkit.load(folder).predict(TEXTS), strict=True):
        expected = prediction.get("labels", [prediction.get("label")])
        assert {each["label"] for each in of_text if each["predicted"]} == set(expected)
        assert [each["score"] for each in of_text] == sorted((each["score"] for each in of_text), reverse=True)
    few = answer(client_of(folder).post("/", {"inputs": TEXTS, "parameters": {"top_k": 2}}))
    assert [len(of_text) for of_text in few] == [2] * len(TEXTS)  # also where more are predicted


@pytest.fixture
def run(fine_tuned, tmp_path):
    """A run whose rows of folds support answers for the more probable half of `TEXTS`."""
    folder = tmp_path / "run"
    shutil.copytree(fine_tuned("film"), folder)
    one, other = sorted(row["probability"] for row in bertkit.load(folder, device="cpu").predict(TEXTS))[1:3]
    rows = [{"gold": "bad", "label": "bad", "probability": other}] * 80
    rows += [{"gold": "bad", "label": "fair", "probability": one}] * 40
    (folder / "out_of_fold.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


@pytest.mark.usefixtures("serve_extra")
def test_answers_say_what_is_unsure(run, capsys):
    from bertkit.features.serving.app import build_app

    loaded = bertkit.load(run, device="cpu")
    service = service_of(loaded, None, Limits(), PredictOptions(max_error=0.05))
    assert "80 of the 120 rows that models of folds scored" in capsys.readouterr().err
    expected = loaded.predict(TEXTS, max_error=0.05)
    assert {row["label"] == "unsure" for row in expected} == {True, False}
    with Client(build_app(service, "run", Limits())) as client:
        answers = [
            answer(client.post("/", {"inputs": TEXTS})),
            answer(client.post("/", {"inputs": TEXTS, "parameters": {"function_to_apply": "none"}})),
            answer(client.post("/predict", {"inputs": [[text] for text in TEXTS]})),
        ]
    for found in answers:
        for of_text, row in zip(found, expected, strict=True):
            given = [each["label"] for each in of_text if each["predicted"]]
            assert given == ([] if row["label"] == "unsure" else [row["label"]])


def test_a_probability_just_below_the_threshold_is_unsure_as_in_predict(fine_tuned):
    """Compared in double precision: in that of the probabilities, float32, the two are equal."""
    task = bertkit.load(fine_tuned("film"), device="cpu").task
    (row,) = task.decode(np.array([[0, 1, 2]], np.float32), {}, {})
    options = PredictOptions(unsure_below=row["probability"] + 1e-12)
    of_server = served(task)
    of_server.options = options
    (answers,) = of_server.answers(np.array([[0, 1, 2]], np.float32), {}, {}, of_server.parameters())
    assert [each["label"] for each in options.mark_unsure([row])] == ["unsure"]
    assert not any(each["predicted"] for each in answers)


def test_another_use_is_refused(checkpoint):
    with pytest.raises(RecipeError, match="--as classify: expected one of predict, fill-mask, embed"):
        service_of(bertkit.load(checkpoint, device="cpu"), "classify", Limits())


def test_a_server_refuses_promises_that_it_cannot_keep(run, checkpoint):
    for level, as_, message in ((0.01, None, "do not support it"), (0.05, "embed", "served as embed")):
        with pytest.raises(RecipeError, match=message):
            service_of(bertkit.load(run, device="cpu"), as_, Limits(), PredictOptions(max_error=level))
    with pytest.raises(RecipeError, match="served as fill-mask"):
        service_of(bertkit.load(checkpoint, device="cpu"), None, Limits(), PredictOptions(max_error=0.05))
    with pytest.raises(RecipeError, match=r"--by-class: .* served as fill-mask"):
        service_of(bertkit.load(checkpoint, device="cpu"), None, Limits(), PredictOptions(by_class=True))


def test_a_page_offers_the_shares_of_errors_that_the_rows_support(run, fine_tuned):
    loaded = bertkit.load(run, device="cpu")
    form = form_of(loaded, "predict")
    assert [name.split(" (")[0] for name in form.choices] == [
        f"at most {each} % of answers wrong" for each in (20, 10, 5)
    ]
    *_, strictest = form.choices.values()
    for text, row in zip(TEXTS, loaded.predict(TEXTS, max_error=0.05), strict=True):
        expected = f"unsure; the most probable is {row['best_label']}" if row["label"] == "unsure" else row["label"]
        assert strictest([text]).title == expected
        assert form.view([text]).title == row["best_label"]
    for kind in ("film", "topics", "entities"):
        assert not form_of(bertkit.load(fine_tuned(kind), device="cpu"), "predict").choices


def test_pairs_are_scored(client_of, fine_tuned):
    folder = fine_tuned("pairs")
    client = client_of(folder)
    scores = [row["score"] for row in bertkit.load(folder).predict([f"film\t{text}" for text in TEXTS])]
    inputs = [{"text": "film", "text_pair": text} for text in TEXTS]
    assert [row[0]["score"] for row in answer(client.post("/", {"inputs": inputs}))] == near(scores)
    assert answer(client.post("/predict", {"inputs": ["film", TEXTS[1]]}))[0]["score"] == near(scores[1])
    assert client.post("/", {"inputs": "only one"}).status_code == 422
    assert client.get("/info").json()["model_type"].keys() == {"reranker"}


@pytest.mark.parametrize(("kind", "is_raw"), [("pairs", True), ("reranker", False), ("stock", True)])
def test_passages_are_ranked_as_scored(kind, is_raw, client_of, fine_tuned, stock_models, tmp_path):
    """Raw scores are those of predictions, except of a reranker, whose predictions are between 0 and 1."""
    folder = stock(stock_models, tmp_path, "SequenceClassification", "LABEL_0") if kind == "stock" else fine_tuned(kind)
    columns = {"text": ["a good film"] * len(TEXTS), "text_pair": TEXTS}
    given = columns if kind == "stock" else {"texts": [f"a good film\t{text}" for text in TEXTS]}
    scores = [row["score"] for row in bertkit.load(folder).predict(**given)]
    asked = {"query": "a good film", "texts": TEXTS, "raw_scores": is_raw, "return_text": True}
    client = client_of(folder)
    ranked = answer(client.post("/rerank", asked))
    assert [row["text"] for row in ranked] == [TEXTS[row["index"]] for row in ranked]
    assert {row["index"]: row["score"] for row in ranked} == near(dict(enumerate(scores)))
    assert [row["score"] for row in ranked] == sorted((row["score"] for row in ranked), reverse=True)
    [[of_pair]] = answer(client.post("/predict", {"inputs": [["a good film", TEXTS[0]]]}))
    assert of_pair["score"] == near(scores[0])
    assert of_pair["label"] == {"reranker": "relevance", "stock": "LABEL_0"}.get(kind, of_pair["label"])


def test_entities(client_of, fine_tuned):
    folder = fine_tuned("entities")
    client, predictions = client_of(folder), bertkit.load(folder).predict(TEXTS)
    assert any(row["entities"] for row in predictions)
    found = answer(client.post("/", {"inputs": TEXTS}))
    for entities, prediction in zip(found, predictions, strict=True):
        assert [(each["entity_group"], each["word"], each["start"], each["end"]) for each in entities] == [
            (each["type"], each["text"], each["start"], each["end"]) for each in prediction["entities"]
        ]
        assert [each["score"] for each in entities] == near([each["probability"] for each in prediction["entities"]])
    every = {"aggregation_strategy": "none", "ignore_labels": []}
    words = answer(client.post("/", {"inputs": TEXTS[2], "parameters": every}))
    assert [TEXTS[2][word["start"] : word["end"]] for word in words] == ["awful", "story", ",", "good", "film", "!"]
    assert [word["index"] for word in words] == [1, 2, 3, 4, 5, 6]
    assert client.post("/", {"inputs": "x", "parameters": {"aggregation_strategy": "max"}}).status_code == 422


def test_entities_of_a_page_are_counted(fine_tuned):
    task = bertkit.load(fine_tuned("entities")).task
    found = [{"start": 0, "end": 3, "type": "A"}, {"start": 4, "end": 8, "type": "B"}]
    titles = [served(task).view({"entities": found[:number]}, ["the film"]).title for number in range(3)]
    assert titles == ["no entities", "1 entity", "2 entities"]


def test_tags_of_words(client_of, fine_tuned):
    folder = fine_tuned("tags")
    (prediction,) = bertkit.load(folder).predict(TEXTS[:1])
    found = answer(client_of(folder).post("/", {"inputs": TEXTS[0]}))
    assert [each["entity_group"] for each in found] == [each["tag"] for each in prediction["words"]]


@pytest.mark.parametrize("kind", ["answers", "maybe"])
def test_question_answering(kind, client_of, fine_tuned):
    """Contexts of one window and of several, of different requests at the same time."""
    folder = fine_tuned(kind)
    client, loaded = client_of(folder), bertkit.load(folder)
    asked = [("what is good", CONTEXT), ("a film", "the film is lovely"), ("bad", CONTEXT[30:])]
    requests = [("/", {"inputs": {"question": question, "context": context}}) for question, context in asked]
    for (question, context), response in zip(asked, client.together(requests), strict=True):
        (expected,) = loaded.predict(question=question, context=context)
        found = answer(response)
        assert (found["answer"], found["score"]) == (expected["answer"], near(expected["probability"]))
        assert context[found["start"] : found["end"]] == found["answer"]
    several = answer(client.post("/", {**requests[0][1], "parameters": {"top_k": 3}}))
    assert len(several) == 3
    assert several[0] == near(answer(client.post(*requests[0])))
    possible = {"handle_impossible_answer": True, "top_k": 20}
    assert "" in [each["answer"] for each in answer(client.post("/", {**requests[0][1], "parameters": possible}))]
    never = {"handle_impossible_answer": False, "max_answer_len": 1}
    shortest = answer(client.post("/", {**requests[0][1], "parameters": never}))
    assert shortest["answer"]
    assert len(shortest["answer"].split()) == 1


def test_multiple_choice_answers_as_predict(client_of, fine_tuned):
    folder = fine_tuned("choices")
    line = "the film\tis lovely\tis bad"
    found = answer(client_of(folder).post("/", {"inputs": line}))
    assert found["probabilities"] == near(bertkit.load(folder).predict(line)[0]["probabilities"])


def test_masks(client_of, checkpoint):
    client = client_of(checkpoint)
    (guesses,) = bertkit.load(checkpoint).fill_mask("the [MASK] is")[0]
    found = answer(client.post("/", {"inputs": "the [MASK] is"}))
    assert [each["sequence"] for each in found] == [guess.text for guess in guesses]
    assert [each["score"] for each in found] == near([guess.probability for guess in guesses])
    two = answer(client.post("/", {"inputs": "a [MASK] [MASK]", "parameters": {"top_k": 2}}))
    assert [len(mask) for mask in two] == [2, 2]
    chosen = answer(client.post("/", {"inputs": ["a [MASK]"], "parameters": {"targets": ["film", "plot"]}}))
    assert {each["token_str"] for each in chosen[0]} == {"film", "plot"}
    long = {"inputs": "[MASK] " + "film " * 70}
    assert client.post("/", long).status_code == 413
    service = client.app.state.server.service
    computed = service.tokens
    assert len(answer(client.post("/", {**long, "truncate": True}))) == 5
    assert service.tokens - computed == service.longest  # of /metrics: those that were cut are not among them
    wrong = {"inputs": "a [MASK]", "parameters": {"targets": ["nopiece"]}}
    assert client.post("/", wrong).status_code == 422
    assert service.tokens - computed == service.longest  # nothing was computed


def test_a_discriminator_is_served_for_vectors(client_of, stock_models, tmp_path):
    """It has no logits over the vocabulary, though transformers calls it a model for pre-training."""
    folder = stock_models.stock_checkpoint(tmp_path / "electra", "electra", "AutoModelForPreTraining")
    assert len(answer(client_of(folder).post("/", {"inputs": "a film"}))) == 32
    with pytest.raises(CheckpointError, match="not that of a sequence classifier") as caught:
        bertkit.predict(folder, "a film")
    assert "fill-mask" not in str(caught.value)


def test_vectors(client_of, checkpoint):
    client, loaded = client_of(checkpoint, "embed"), bertkit.load(checkpoint)
    texts = [*TEXTS, "film " * 100]  # the last one in windows
    expected = loaded.embed(texts)
    unit = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    assert np.array(answer(client.post("/", {"inputs": texts}))) == near(expected)
    assert np.array(answer(client.post("/", {"inputs": texts[0]}))) == near(expected[0])
    assert np.array(answer(client.post("/embed", {"inputs": texts}))) == near(unit)
    assert np.array(answer(client.post("/embed", {"inputs": texts[0], "normalize": False}))) == near(expected[:1])
    similar = {"inputs": {"source_sentence": texts[0], "sentences": texts[1:]}}
    for path in ("/", "/similarity"):
        assert answer(client.post(path, similar)) == near((unit[1:] @ unit[0]).tolist())
    found = answer(client.post("/v1/embeddings", {"input": texts[:2], "model": "any"}))
    assert np.array([each["embedding"] for each in found["data"]]) == near(unit[:2])
    assert found["usage"]["prompt_tokens"] == sum(map(len, loaded.embedder.tokenizer(texts[:2])["input_ids"]))
    coded = answer(client.post("/v1/embeddings", {"input": texts[0], "encoding_format": "base64"}))["data"][0]
    assert np.frombuffer(base64.b64decode(coded["embedding"]), "<f4") == near(unit[0])


def test_requests_together_get_their_own_answers(client_of, fine_tuned):
    """Texts of many requests are computed in the same batches, and requests that are refused are among them."""
    folder = fine_tuned("film")
    words = "a good bad film story the plot is lovely or awful".split()
    texts = [" ".join(words[(start + step) % 11] for step in range(start % 15 + 1)) for start in range(60)]
    requests = [("/", {"inputs": texts[at : at + 1 + at % 3]}) for at in range(57)]
    requests += [("/", {"inputs": "film " * 30})] * 3
    expected = [row["probabilities"] for row in bertkit.load(folder).predict(texts)]
    responses = client_of(folder).together(requests)
    for at, response in enumerate(responses[:57]):
        found = [{each["label"]: each["score"] for each in row} for row in answer(response)]
        assert found == [near(row) for row in expected[at : at + 1 + at % 3]]
    assert [response.status_code for response in responses[57:]] == [413] * 3


def test_ensembles_are_served(client_of, fine_tuned, tmp_path):
    folder = fine_tuned("film")
    members = tmp_path / "ensemble"
    members.mkdir()
    for name in ("one", "two"):
        (members / name).symlink_to(folder, target_is_directory=True)
    for file in folder.iterdir():
        if file.suffix == ".json":
            (members / file.name).write_bytes(file.read_bytes())
    (members / "ensemble.json").write_text('{"members": ["one", "two"]}')
    expected = answer(client_of(folder).post("/", {"inputs": TEXTS}))
    found = answer(client_of(members).post("/", {"inputs": TEXTS}))
    assert [row[0] for row in found] == [near(row[0]) for row in expected]


@pytest.mark.parametrize("labels", [("bad", "good"), ("entailment", "neutral", "contradiction")])
def test_classifiers_of_others(labels, client_of, stock_models, tmp_path):
    folder = stock(stock_models, tmp_path / "stock", "SequenceClassification", *labels)
    client, loaded = client_of(folder), bertkit.load(folder)
    if len(labels) == 2:
        inputs, predictions = TEXTS, loaded.predict(TEXTS)
    else:
        inputs = [{"text": "a film", "text_pair": text} for text in TEXTS]
        predictions = loaded.predict(text=["a film"] * len(TEXTS), text_pair=TEXTS)
    found = answer(client.post("/", {"inputs": inputs}))
    assert [row[0]["label"] for row in found] == [each["label"] for each in predictions]
    assert answer(client.post("/predict", {"inputs": [["a film", TEXTS[0]]]}))
    mixed = client.post("/predict", {"inputs": [["a film", TEXTS[0]], ["a film"]]})
    assert mixed.status_code == 422
    assert "since this checkpoint reads text" in mixed.text


def test_taggers_of_others(client_of, stock_models, tmp_path):
    tagger = stock(stock_models, tmp_path / "tagger", "TokenClassification", "O", "B-PER", "I-PER")
    text = "My name is Wolfgang and I live in Berlin"
    found = answer(client_of(tagger).post("/", {"inputs": text}))
    entities = bertkit.load(tagger).predict(text)[0]["entities"]
    assert [(each["start"], each["end"]) for each in found] == [(each["start"], each["end"]) for each in entities]
    by_strategy = []
    for strategy in ("first", "simple", "average", "max", "none"):
        tag = "entity" if strategy == "none" else "entity_group"
        body = {"inputs": list(stock_models.TEXTS), "parameters": {"aggregation_strategy": strategy}}
        by_strategy.append(answer(client_of(tagger).post("/", body)))
        predictions = bertkit.load(tagger, aggregation=strategy).predict(list(stock_models.TEXTS))
        for tagged, prediction in zip(by_strategy[-1], predictions, strict=True):
            assert [(each[tag], each["word"], each["score"]) for each in tagged] == [
                (each["type"], each["text"], near(each["probability"])) for each in prediction["entities"]
            ]
    assert by_strategy[0] != by_strategy[1]
    every = {"aggregation_strategy": "none", "ignore_labels": []}
    tokens = answer(client_of(tagger).post("/", {"inputs": text, "parameters": every}))
    assert [each["index"] for each in tokens] == [*range(1, len(tokens) + 1)]
    assert "".join(each["word"] for each in tokens) == text.replace(" ", "")


def test_readers_of_others(client_of, stock_models, tmp_path):
    reader, text = stock(stock_models, tmp_path / "reader", "QuestionAnswering"), "My name is Wolfgang, of Berlin"
    given = {"question": "Where does Wolfgang live?", "context": text}
    found = answer(client_of(reader).post("/", {"inputs": given}))
    assert text[found["start"] : found["end"]] == found["answer"]
    [expected] = bertkit.load(reader).predict(**given)
    assert expected["answer"] == found["answer"]


@pytest.fixture
def client_of_levels(checkpoint, serve_extra, monkeypatch):
    """Returns a function that serves random weights for a class of tasks derived from that of another package."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "third_party")
    base = importlib.import_module("acme_levels").LevelTask

    from bertkit.features.serving.app import build_app

    def client(served_class=None):
        task_class = type("LevelTask", (base,), {})
        if served_class is not None:
            served.register(task_class, served_class)
        config = BertkitConfig.from_pretrained(checkpoint, num_labels=3)
        task = task_class(task_class.Settings(levels=3), task_class.data_settings(max_seq_length=12))
        predictor = Predictor(task, BertForSequenceClassification(config), load_tokenizer(str(checkpoint)), 8)
        return Client(build_app(PredictService(predictor, 32, 1000), "levels", Limits())), predictor

    return client


def test_other_tasks_take_texts_and_give_predictions(client_of_levels):
    client, predictor = client_of_levels()
    with client:
        assert answer(client.post("/", {"inputs": TEXTS})) == [near(row) for row in predictor.predict(TEXTS)]
        assert answer(client.post("/", {"inputs": TEXTS[0]})) == near(predictor.predict(TEXTS[0])[0])
        assert client.post("/predict", {"inputs": TEXTS[0]}).status_code == 424


def test_other_packages_register_how_theirs_are_served(client_of_levels):
    class ServedLevels(Served):
        nests = True

        def answers(self, outputs, features, examples, parameters):
            return [f"level {row['level']:.4f}" for row in self.task.decode(outputs, features, examples)]

    client, predictor = client_of_levels(ServedLevels)
    with client:
        [expected] = predictor.predict(TEXTS[0])
        assert answer(client.post("/", {"inputs": TEXTS[0]})) == [f"level {expected['level']:.4f}"]
