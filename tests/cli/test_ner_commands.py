"""``bertkit finetune ner`` by the commands a user types: columns and lists, predictions, wrong input, going on."""

from __future__ import annotations

import json
from itertools import chain

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForTokenClassification

from bertkit.data.corpus.vocabulary.tokenizer import train_byte_level
from bertkit.inference.files import predict_stream
from bertkit.metrics.entities import count_entities
from bertkit.tasks.ner.sentences import read_conll

SMALL = """--max-seq-length 12 --num-train-epochs 12 --learning-rate 3e-3 --placement cpu
    --set placement.mixed_precision=no --set train.global_train_batch_size=4 --set data.folds=0""".split()


def sentences(count: int) -> list[list[tuple[str, str]]]:
    """Words with tags; "lovely" alone and "good bad" together are names."""
    found = []
    for row in range(count):
        name = [("lovely", "B-NAME")] if row % 2 else [("good", "B-NAME"), ("bad", "I-NAME")]
        before = [("the", "O"), ("film", "O"), ("is", "O")][: row % 4]
        found.append([*before, *name, ("or", "O"), ("plot", "O")])
    return found


def conll(path, rows, tags=True):
    """A file of columns."""
    path.write_text(
        "\n".join("".join(f"{word} {tag}\n" if tags else f"{word}\n" for word, tag in each) for each in rows)
    )
    return path


@pytest.fixture
def tag(bertkit, checkpoint, tmp_path):
    """``bertkit finetune ner`` to ``run``."""

    def run(*more: object, train=None):
        train = train or conll(tmp_path / "train.conll", sentences(24))
        return bertkit("finetune", "ner", "--train-file", train, "--model", checkpoint, "--output-dir",
                       tmp_path / "run", "--json", *SMALL, *more)  # fmt: skip

    return run


def test_a_tagged_test_set_is_scored_by_name_and_counts_are_of_the_training_rows(bertkit, checkpoint, tmp_path):
    files = {name: conll(tmp_path / f"{name}.conll", sentences(24)) for name in ("train", "validation", "test")}
    given = [part for name, path in files.items() for part in (f"--{name}-file", path)]
    outcome = bertkit("finetune", "ner", *given, "--max-train-samples", 10, "--model", checkpoint, "--output-dir",
                      tmp_path / "run", *SMALL, "--num-train-epochs", 1, "--set", "train.report=true")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "train: tags in IOB2: 1 type of entities ('NAME' 10)" in outcome.err
    results = json.loads((tmp_path / "run" / "all_results.json").read_text())
    lines = outcome.out.splitlines()
    for name, key in (("validation", "eval"), ("test", "predict")):
        assert f"{name} overall_f1 {results[f'{key}_overall_f1']:.4f}" in lines
    assert any(line.startswith("On the test set of 24 inputs the ") for line in lines)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["verdict"] == [line for line in record["verdict"] if line in lines]
    assert ("to try" in outcome.out) == (record["proposal"] is not None)
    assert "Test set" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
def test_columns_are_trained_on_scored_and_predicted(bertkit, tag, tmp_path):
    dev = conll(tmp_path / "dev.conll", sentences(8))
    outcome = tag("--validation-file", dev)
    assert outcome.code == 0, outcome.err
    assert "train: tags in IOB2" in outcome.err
    result, out = json.loads(outcome.out), tmp_path / "run"
    assert result["eval_overall_f1"] > 0.9
    assert result["eval_entity/NAME/f1"] == result["eval_overall_f1"]
    config = json.loads((out / "config.json").read_text())
    assert config["id2label"] == {"0": "O", "1": "B-NAME", "2": "I-NAME"}

    # The written tags are those that are scored, and those of predict for the same words.
    written = read_conll(out / "predictions.conll").columns
    assert [list(zip(*pair, strict=True)) for pair in zip(written["1"], written["2"], strict=True)] == sentences(8)
    (counts,) = count_entities(written["3"], written["2"]).values()
    assert counts.scores() == pytest.approx([result[f"eval_overall_{name}"] for name in ("precision", "recall", "f1")])
    predicted = json.loads(bertkit("predict", out, "--input", dev, "--json").out)["predictions"]
    assert [row["tokens"] for row in predicted] == written["1"]
    assert [row["tags"] for row in predicted] == written["3"]

    evaluated = json.loads(bertkit("evaluate", out, "--validation-file", dev, "--json").out)
    assert evaluated["metrics"]["eval_overall_f1"] == pytest.approx(result["eval_overall_f1"])
    assert evaluated["truncation"]["tokens"] == 0


def test_raw_text_gets_entities_with_offsets(bertkit, tag, tmp_path):
    dev = conll(tmp_path / "dev.conll", sentences(8))
    assert tag("--validation-file", dev).code == 0
    out, text = tmp_path / "run", "the film  is good bad or plot"
    (row,) = json.loads(bertkit("predict", out, text, "--json").out)["predictions"]
    assert row["text"] == text
    assert [(each["text"], each["type"]) for each in row["entities"]] == [("good bad", "NAME")]
    assert all(text[each["start"] : each["end"]] == each["text"] for each in row["entities"])

    plain = bertkit("predict", out, text).out
    assert plain.startswith("good bad (NAME 0.")
    assert "\x1b" not in plain
    lines = tmp_path / "texts.txt"
    lines.write_text(f"{text}\n\n{text}\n")
    assert bertkit("predict", out, "--input", lines, "--output", tmp_path / "found.jsonl").code == 0
    found = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [len(each["entities"]) for each in found] == [1, 0, 1]
    assert found[0]["entities"][0].items() >= {"start": 13, "end": 21}.items()


def test_a_table_of_words_is_trained_on_and_predicted(tag, tmp_path):
    """The column of words has a name other than ``tokens``, and the terminal has colours."""
    rows = [(number, *pair) for number, sentence in enumerate(sentences(24)) for pair in sentence]
    table = tmp_path / "words.csv"
    table.write_text("".join(f"{','.join(map(str, row))}\n" for row in [("Sentence #", "Word", "Tag"), *rows]))
    outcome = tag(train=table)
    assert outcome.code == 0, outcome.err
    (block,) = predict_stream(tmp_path / "run", input_file=table, colours=True)
    assert [row["Sentence #"] for row in block.rows] == [str(number) for number in range(24)]
    assert block.rows[1]["Word"] == ["the", "lovely", "or", "plot"]
    assert "lovely\x1b[0m\x1b[2m[NAME]" in block.lines[1]


def test_another_column_of_three_and_a_test_set(tag, tmp_path):
    lines = ("".join(f"{word} {'X' if tag == 'O' else 'ADJ'} {tag}\n" for word, tag in each) for each in sentences(24))
    train, test = tmp_path / "train.txt", conll(tmp_path / "test.txt", sentences(3), tags=False)
    train.write_text("\n".join(lines))
    outcome = tag("--tag-column", "2", "--test-file", test, train=train)
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert 0 <= result["eval_accuracy"] <= 1  # parts of speech are scored as such
    written = read_conll(tmp_path / "run" / "predictions.conll").columns
    assert written["1"] == [[word for word, _ in sentence] for sentence in sentences(3)]
    assert set(chain(*written["2"])) <= {"ADJ", "X"}
    assert "3" not in written


@pytest.mark.slow
def test_json_lines_in_documents(bertkit, tag, tmp_path):
    def rows(count):
        return "".join(
            json.dumps({"tokens": [w for w, _ in each], "ner_tags": [t for _, t in each], "document_id": row // 4})
            + "\n"
            for row, each in enumerate(sentences(count))
        )

    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    train.write_text(rows(24))
    dev.write_text(rows(8))
    options = ("--context", "document", "--validation-file", dev, "--label-all-subwords")
    assert tag(*options, train=train).code == 0
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["bertkit_task"]
    assert (kept["data"]["context"], kept["task"]["label_all_subwords"]) == ("document", True)
    predicted = json.loads(bertkit("predict", tmp_path / "run", "--input", dev, "--json").out)["predictions"]
    columns = {"tokens", "ner_tags", "document_id"}  # of the file
    assert [set(row) for row in predicted] == [{*columns, "tags", "probabilities"}] * 8
    written = read_conll(tmp_path / "run" / "predictions.conll").columns["3"]
    assert [row["tags"] for row in predicted] == written


def annotated(path, rows):
    """A file of texts with spans, as doccano has them."""
    found = []
    for row in rows:
        text = " ".join(word for word, _ in row)
        label = [
            [text.index(word), text.index(word) + len(word), "NAME"] for word in ("lovely", "good bad") if word in text
        ]
        found.append({"text": text, "label": label})
    path.write_text("".join(json.dumps(each) + "\n" for each in found))
    return path, found


@pytest.mark.slow
def test_spans_are_read_and_predicted_alike(bertkit, tag, tmp_path):
    train, rows = annotated(tmp_path / "train.jsonl", sentences(24))
    assert tag(train=train).code == 0
    out = tmp_path / "again.jsonl"
    done = bertkit("predict", tmp_path / "run", "--input", train, "--output", out, "--as", "doccano")
    assert done.code == 0, done.err
    assert [json.loads(line) for line in out.read_text().splitlines()] == rows
    shown = bertkit("predict", tmp_path / "run", "the film is lovely", "--as", "spans")
    assert json.loads(shown.out) == {
        "text": "the film is lovely",
        "spans": [{"start": 12, "end": 18, "label": "NAME"}],
    }
    for given, expected in (
        (("--as", "conll"), "--as conll: ner writes doccano or spans; give one of them"),
        (
            ("--as", "spans", "--output", tmp_path / "x.csv"),
            "--as spans: is JSON, for --output FILE.jsonl or FILE.json",
        ),
    ):
        bertkit("predict", tmp_path / "run", "the film", *given).refuses(expected, without=tmp_path / "x.csv")


def test_an_encoder_that_writes_spaces_into_its_pieces(bertkit, tag, tmp_path):
    """RoBERTa's tokenizer; its checkpoint loads without bertkit, and says the same of the pieces it was trained on."""
    start = tmp_path / "start"
    tokenizer = train_byte_level([" the film is good bad lovely or plot"] * 5, 340)
    tokenizer.save_pretrained(start)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = AutoConfig.for_model("roberta", vocab_size=len(tokenizer), max_position_embeddings=40, **sizes)
    torch.manual_seed(0)
    AutoModelForMaskedLM.from_config(config).save_pretrained(start)
    outcome = tag("--model", start)
    assert outcome.code == 0, outcome.err

    (row,) = json.loads(bertkit("predict", tmp_path / "run", "the film is lovely", "--json").out)["predictions"]
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "run")
    ids = tokenizer.convert_tokens_to_ids(["<s>", "Ġthe", "Ġfilm", "Ġis", "Ġlovely", "</s>"])
    assert tokenizer.unk_token_id not in ids
    tags = [model.config.id2label[label] for label in model(torch.tensor([ids])).logits[0, 1:-1].argmax(-1).tolist()]
    words = ["the", "film", "is", "lovely"]
    assert [each["text"] for each in row["entities"]] == [
        word for word, of_word in zip(words, tags, strict=True) if of_word != "O"
    ]


@pytest.mark.slow
def test_only_bert_has_a_fixed_encoder(bertkit, tag, checkpoint, tmp_path):
    options = ("--recipe", "finetune/ner-features", "--set", "model.feature_layers=[-1,-2]")
    narrow = ("--set", "model.feature_lstm_size=64", "--num-train-epochs", 40)
    assert tag(*options, *narrow).code == 0
    start, tuned = (load_file(path / "model.safetensors") for path in (checkpoint, tmp_path / "run"))
    assert all(torch.equal(tuned[name], start[name]) for name in tuned if name.startswith("bert."))
    assert tuned["features.lstm.weight_ih_l0"].shape == (4 * 64, 2 * 32)
    dev = conll(tmp_path / "dev.conll", sentences(8))
    evaluated = json.loads(bertkit("evaluate", tmp_path / "run", "--validation-file", dev, "--json").out)
    assert evaluated["metrics"]["eval_overall_f1"] > 0.9

    other = tmp_path / "roberta"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "roberta"}')
    (tmp_path / "run").rename(tmp_path / "first")
    tag(*options, "--model", other).refuses(without=tmp_path / "run")


REFUSED = [
    ("a B-X\nb PER\n", (), "train.conll, line 2: tag 'PER' has none of the prefixes"),
    ("a B-X\nb O\n", ("--stride", "40"), "stride: windows of 12 tokens"),
    ("", (), "train.conll: no words"),
]


@pytest.mark.parametrize(("text", "options", "expected"), REFUSED)
def test_wrong_input_is_refused_before_anything_is_written(tag, tmp_path, text, options, expected):
    train = tmp_path / "train.conll"
    train.write_text(text)
    outcome = tag(*options, train=train)
    outcome.refuses(expected, without=tmp_path / "run")
