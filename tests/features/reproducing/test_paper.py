"""The file of the paper's scores, and the files of data that its runs look for."""

from __future__ import annotations

from statistics import mean

import pytest

from bertkit.features.reproducing.paper import paper_run, paper_table, table_names
from bertkit.features.reproducing.reproduce import MissingError, data_values
from bertkit.tasks.registry import load_recipe


@pytest.mark.parametrize("name", table_names())
def test_every_row_has_a_run(name):
    table = paper_table(name)
    assert 4171 <= table.page <= 4186  # of the proceedings
    for row in table.rows:
        recipe = load_recipe(paper_run(row.run).recipe)
        assert recipe.task is not None
        assert row.scores
        assert set(row.scores) <= set(table.systems)
        assert all(0 < score < 100 for score in row.scores.values())
        assert row.key.startswith(("eval_", "predict_"))
    assert len({(row.name, row.our_set) for row in table.rows}) == len(table.rows)


@pytest.mark.parametrize(("system", "average"), [("BERT-base", 79.6), ("BERT-large", 82.1)])
def test_the_average_of_glue_is_that_of_its_rows(system, average):
    """Both sets of MNLI count, as the printed mean shows."""
    table = paper_table("table-1")
    assert table.average[system] == average
    assert round(mean(row.scores[system] for row in table.rows), 1) == average


def test_glue_is_found_in_its_folder_or_beside_other_data(data):
    run = paper_run("rte")
    assert data_values(run, data) == {"data.data_dir": str(data / "glue")}
    assert data_values(run, data / "glue") == {"data.data_dir": str(data / "glue")}
    with pytest.raises(MissingError, match=r"no CoLA/train\.tsv in"):
        data_values(paper_run("cola"), data)


def test_files_are_found_by_their_names(tmp_path):
    run = paper_run("squad")
    with pytest.raises(MissingError, match=r"no train-v1\.1\.json or train-v1\.1\*\.json in"):
        data_values(run, tmp_path)
    part = tmp_path / "train-v1.1-part.json"
    part.write_text("{}")
    with pytest.raises(MissingError, match=r"no dev-v1\.1\.json in"):
        data_values(run, tmp_path)
    (tmp_path / "dev-v1.1.json").write_text("{}")
    assert data_values(run, tmp_path)["data.train_file"] == str(part)
    (tmp_path / "train-v1.1.json").write_text("{}")  # the whole set is preferred to a part of it
    assert data_values(run, tmp_path)["data.train_file"] == str(tmp_path / "train-v1.1.json")


def test_a_test_set_is_optional(data):
    assert data_values(paper_run("ner"), data)["data.test_file"] == str(data / "conll2003" / "test.txt")
    (data / "conll2003" / "test.txt").unlink()
    assert "data.test_file" not in data_values(paper_run("ner"), data)


def test_without_a_folder_data_are_on_the_hub():
    assert data_values(paper_run("swag"), None) == {
        "data.dataset_name": "allenai/swag",
        "data.dataset_config": "regular",
    }
    assert data_values(paper_run("rte"), None) == {}
