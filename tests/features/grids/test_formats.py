"""Tables of results as text, LaTeX, Markdown and CSV; ``--format`` of the commands."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bertkit.cli.app import app
from bertkit.features.grids.results import GridResults, SettingResult
from bertkit.features.grids.table import grid_table
from bertkit.runtime.formats import ResultTable, interval_text, latex_escape

NAME = "a_b & 50 % | {x}"
TABLE = ResultTable(
    {"run_name": [NAME, "c"], "mean ± sd": ["0.3333 ± 0.1", "-"], "median": ["0.3", "-"]},
    [{"run": NAME, "mean": 1 / 3}, {"run": "c", "mean": None}],
    "accuracy of a_b",
    ["note: 50 %\nof it"],
    ("median",),
)


def test_text_leaves_out_what_does_not_fit():
    assert TABLE.formatted(width=80).splitlines()[:3] == [
        "accuracy of a_b",
        "run",
        "name              mean ± sd     median",
    ]
    assert "median" not in TABLE.formatted(width=32)
    assert TABLE.formatted(width=32).endswith("note: 50 %\nof it")


def test_text_keeps_cells_as_they_are():
    """Brackets are no markup, an empty last row is a row, and wide characters take two columns."""
    table = ResultTable({"name": ["[red]東京[/red]", ""], "n": ["1", ""]})
    assert table.formatted().split("\n") == ["name             n", "[red]東京[/red]  1", ""]


def test_latex_by_eye():
    assert TABLE.formatted("latex").splitlines() == [
        "% accuracy of a_b",
        "% note: 50 % of it",
        r"\begin{tabular}{lll}",
        r"\toprule",
        r"run\_name & mean $\pm$ sd & median \\",
        r"\midrule",
        r"a\_b \& 50 \% \textbar{} \{x\} & 0.3333 $\pm$ 0.1 & 0.3 \\",
        r"c & - & - \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_by_eye():
    assert TABLE.formatted("markdown").splitlines() == [
        "accuracy of a_b",
        "",
        "| run_name | mean ± sd | median |",
        "| --- | --- | --- |",
        r"| a_b \& 50 % \| {x} | 0.3333 ± 0.1 | 0.3 |",
        r"| c | \- | \- |",
        "",
        "- note: 50 % of it",
    ]


def test_csv_has_all_digits():
    rows = list(csv.DictReader(io.StringIO(TABLE.formatted("csv"))))
    assert rows == [{"run": NAME, "mean": str(1 / 3)}, {"run": "c", "mean": ""}]


@pytest.mark.parametrize("character", "&%$#_{}\\~^<>")
def test_latex_escapes_what_it_reads(character):
    escaped = latex_escape(f"a{character}b")
    assert escaped != f"a{character}b"
    assert escaped.startswith("a\\")
    assert latex_escape("a\n\tb") == "a b"


def test_latex_keeps_what_begins_a_row_and_minus_signs():
    """LaTeX reads a star or a bracket after the end of a row as its argument, and several hyphens as one dash."""
    table = ResultTable({"": ["", " *", "[x]"], "interval": ["", interval_text(-0.5, -0.25), ""]})
    *_, best, bracket, _, _ = table.formatted("latex").splitlines()
    assert best == r"{*} & -0.5000\textendash{}-0.2500 \\"
    assert bracket == r"{[}x] &  \\"
    assert latex_escape("my---run") == "my-{}-{}-run"


def test_grids_have_these_formats():
    row = SettingResult("01-x", {"train.learning_rate": 2e-5}, 2, 0.5, 0.1, 0.5, 0.4, 0.6, 0.3, 0.7, ("r",), ())
    results = GridResults(Path("out"), "rte", "accuracy", (row,), {}, "01-x", "r", "chosen")
    assert "<b>Grid out: accuracy</b><p>best: 01-x; chosen</p><table><tr><th>" in results._repr_html_()
    [found] = csv.DictReader(io.StringIO(grid_table(results, format="csv")))
    assert (found["train.learning_rate"], found["mean"], found["collapsed"]) == ("2e-05", "0.5", "1")
    assert r"2e-05 & 2 & 0.5000 $\pm$ 0.1000" in grid_table(results, format="latex")
    assert "| 2e-05 | 2 | 0.5000 ± 0.1000 |" in grid_table(results, 20, "markdown")


class TestCommands:
    def run(self, *arguments, code=0):
        outcome = CliRunner().invoke(app, [str(each) for each in arguments])
        assert outcome.exit_code == code, outcome.output
        return outcome

    @pytest.fixture
    def files(self, tmp_path):
        for name, values in (("a_1", ["yes", "no"]), ("b", ["yes", "yes"])):
            rows = [{"prediction": value, "gold": "yes"} for value in values]
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / "a_1.jsonl", tmp_path / "b.jsonl"

    def test_compare(self, files):
        [row] = csv.DictReader(io.StringIO(self.run("compare", *files, "--format", "csv").stdout))
        assert (row["a"], row["mean_a"], row["mean_b"], row["difference"]) == (str(files[0]), "0.5", "1.0", "0.5")
        latex = self.run("compare", *files, "--format", "latex").stdout
        assert r"a\_1.jsonl" in latex
        assert "% Do these models differ on this data?" in latex
        assert "| accuracy of A | accuracy of B |" in self.run("compare", *files, "--format", "markdown").stdout

    def test_runs(self, tmp_path):
        (tmp_path / "my_run").mkdir()
        (tmp_path / "my_run" / "recipe.yaml").write_text("task: {kind: glue, name: rte}\n")
        (tmp_path / "my_run" / "run.json").write_text("{}")
        [row] = csv.DictReader(io.StringIO(self.run("runs", tmp_path, "--format", "csv").stdout))
        assert (row["folder"], row["state"], row["task"]) == (str(tmp_path / "my_run"), "interrupted", "rte")
        assert r"my\_run & interrupted" in self.run("runs", tmp_path, "--format", "latex").stdout

    @pytest.mark.parametrize("command", ["compare", "runs"])
    def test_json_and_a_format_are_refused(self, files, tmp_path, command):
        places = files if command == "compare" else [tmp_path]
        outcome = self.run(command, *places, "--json", "--format", "csv", code=1)
        assert "--json and --format csv: results have one form" in str(outcome.exception)

    def test_one_run_has_no_table(self, tmp_path):
        arguments = ("finetune", "glue", "--task", "rte", "--output-dir", tmp_path / "out", "--format", "csv")
        outcome = self.run(*arguments, code=1)
        assert "--format csv: is for the table of many runs" in str(outcome.exception)
        assert not (tmp_path / "out").exists()
