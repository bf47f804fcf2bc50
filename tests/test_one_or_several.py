"""Functions take one path or name where they take several, and a path as text or as `Path`."""

from __future__ import annotations

import pytest

import bertkit
from bertkit.runtime.errors import RecipeError


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("A bird flew. It sang.\n\nThe dog ran.\n" * 50)
    return file


@pytest.mark.parametrize("kind", [str, lambda file: file, lambda file: [file]], ids=["text", "path", "list"])
def test_a_corpus_is_one_file_or_several(text, tmp_path, kind):
    tokenizer = bertkit.train_tokenizer(kind(text), 60, tmp_path / "tokenizer")
    assert "bird" in tokenizer.get_vocab()
    assert bertkit.build_corpus(kind(text), tmp_path / "store", tokenizer=str(tmp_path / "tokenizer")) is not None
    report = bertkit.check("bert-tiny", corpus=kind(text), overrides={"data.sentence_splitter": "none.py:split"})
    assert "none.py" in report.findings[0].message


def test_names_are_one_or_several(tmp_path):
    bertkit.validate_recipes("sst2")
    with pytest.raises(RecipeError, match=r"'finetune/glue/sst3'"):
        bertkit.finetune_glue("sst3", output_dir=tmp_path / "out")
    with pytest.raises(RecipeError, match=r"no task 'sst3'"):
        bertkit.reproduce("table-1", model="m", tasks="sst3", output_dir=tmp_path / "out")


def test_columns_and_languages_are_one_or_several(fine_tuned, text, tmp_path):
    run, table = fine_tuned("film"), tmp_path / "x.csv"
    table.write_text("review,text\na,b\n")
    assert len(bertkit.load(run).predict([{"review": "a"}], text_columns="review")) == 1
    assert bertkit.predict_folder(run, table, tmp_path / "out", text_columns="review").rows == 1
    assert bertkit.push(run, "ada/film", language="en", dry_run=True).repo_id == "ada/film"


def test_input_files_are_texts_or_paths(fine_tuned, text, tmp_path):
    run = fine_tuned("film")
    for number, kind in enumerate((str, lambda file: file)):
        (block,) = bertkit.predict(run, input_file=kind(text), on_error="skip")
        assert len(block.rows) == 150
        count, _ = bertkit.embed(run, kind(tmp_path / f"{number}.npz"), input_file=kind(text))
        assert count == 150
        result = bertkit.predict_folder(run, kind(text), kind(tmp_path / f"out-{number}"), on_error="skip")
        assert result.rows == 150
