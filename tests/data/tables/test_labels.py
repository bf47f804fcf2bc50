"""Labels of a table: types, classes, and the line of each invalid label."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.tables import Table
from bertkit.data.tables.annotated import PROPOSED, keep_accepted, keep_answered, split_labels, unwrap_labels
from bertkit.data.tables.classes import (
    class_ids,
    class_names,
    class_sets,
    is_missing,
    look_alikes,
    other_classes_in_words,
    other_spellings,
    rows_of_other_classes,
)
from bertkit.data.tables.labels import (
    decide,
    faults_of_kinds,
    infer_problem,
    named,
    texts,
)
from bertkit.runtime.errors import DataError, times_of
from tests.data.conftest import refusal


def table(values: list[Any], class_names: list[str] | None = None) -> Table:
    """Rows at lines 2, 3, …"""
    known = {"label": class_names} if class_names else {}
    return Table({"label": values}, "x.csv", "", lines=range(2, 2 + len(values)), class_names=known)


def message(call, *given) -> list[str]:
    return refusal(call, *given).splitlines()


def test_columns_of_objects_are_no_texts():
    table = Table({"review": [{"title": "a", "body": "b"}, None]}, "x.jsonl", "")
    with pytest.raises(DataError, match=r"so that 'review\.title', 'review\.body' are columns"):
        texts(table, "review")


def test_labels_of_objects_are_refused_with_what_to_do():
    with pytest.raises(DataError, match=r"label has objects; expected labels: .* so that 'label\.score' is a column"):
        decide(table([{"score": "good"}, None]), "label")


def test_an_empty_object_is_no_label():
    rows = table([{}, "good", "bad"])
    assert decide(rows, "label").names == ["bad", "good"]
    assert message(class_ids, rows, "label", ["bad", "good"]) == ["x.csv, line 2: label is {}; expected one label"]


def test_decimal_commas_are_refused_once_with_what_to_do():
    numbers = [f"{number},{decimals}" for number in range(5) for decimals in range(1, 9)]
    for values in (numbers, [*numbers, *"12345"]):
        [line] = message(infer_problem, table(values), "label")
        assert line.startswith("x.csv: 'label' has numbers with commas, such as '0,1'; write them with decimal points")
        assert not faults_of_kinds(table(values), "label")
    [line] = message(infer_problem, table([*map(str, range(40)), "1,5"]), "label")
    assert line.startswith("x.csv, line 42: 'label' is '1,5', where 40 other labels are finite numbers")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["pos", "neg"], "single_label"),
        (["0", "1"], "single_label"),
        ([0, 1], "single_label"),
        (["-1", "+1"], "single_label"),
        ([True, False], "single_label"),
        (["nan", "inf"], "single_label"),  # words: no numbers to predict
        (["1_2", "2_3"], "single_label"),
        (["1.0", "0.0", ""], "single_label"),  # 1 and 0 as pandas writes them beside a missing value
        ([1.0, 0.0, float("nan")], "single_label"),
        (["1.", "2."], "single_label"),
        (["1e5", "2e5"], "single_label"),
        (["007", "010", "100"], "single_label"),
        ([f"{number:03}" for number in range(50)], "single_label"),  # written as names
        (["2024-01-31", "2024-02-01"], "single_label"),
        ([date(2024, 1, 31), date(2024, 2, 1)], "single_label"),
        ([Decimal("1.0"), Decimal("2.0")], "single_label"),
        (["None", "NA", "nan"], "single_label"),
        (list(range(20)), "single_label"),
        (list(range(21)), "regression"),
        ([f"{number}.0" for number in range(21)], "regression"),
        ([number / 4 for number in range(21)], "regression"),
        ([*(number / 4 for number in range(21)), "", None, float("nan")], "regression"),
        ([["a"], ["a", "b"]], "multi_label"),
        ([["a"], None], "multi_label"),
        ([[], []], "multi_label"),
        (["", None], "single_label"),
    ],
)
def test_the_form_of_the_labels_tells_the_problem(values, problem):
    inferred, reason = infer_problem(table(values), "label")
    assert inferred == problem
    assert reason.startswith(f"inferred from {sum(not is_missing(value) for value in values):,} label")


def test_words_like_none_are_unchanged_texts():
    words = ["None", "NA", "null", "nan", " a\tb ", "0"]
    assert texts(table(words), "label") == words


@pytest.mark.parametrize("values", [["3.10", "3.1"], ["1", "2.5"], [0.5, 1.5, None], [n / 7 for n in range(20)]])
def test_a_few_numbers_with_decimals_are_asked_for(values):
    (line,) = message(infer_problem, table(values), "label")
    assert line.startswith("x.csv: 'label' has ")
    assert "different numbers, some with decimals (" in line
    assert "--problem regression" in line
    assert "--problem single_label" in line
    assert decide(table(values), "label", "single_label").names == class_names(values)
    assert decide(table(values), "label", "regression").problem == "regression"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["b", "a", "b"], "problem: single_label with 2 classes ('a' 1, 'b' 2), inferred from 3 labels: words"),
        (["1.0", "0.0", "1.0", ""], "single_label with 2 classes ('0' 1, '1' 2), … '0.0', '1.0' are read as '0', '1'"),
        ([1, 1.0, 0], "single_label with 2 classes ('0' 1, '1' 2), … warning: '1' 1 and '1.0' 1 are one class"),
        (["NA", "x", "None"], "3 classes ('NA' 1, 'None' 1, 'x' 1), … 'NA', 'None' are names of classes"),
        ([["b"], ["a", "b"], []], "problem: multi_label with 2 classes ('a' 1, 'b' 2), inferred from 3 labels: lists"),
        ([["b"], ["a"]], "multi_label with 2 classes ('a' 1, 'b' 1), … each of one label; give --problem single_label"),
        (["a", "a#c", "b"], "single_label with 3 classes ('a' 1, 'a#c' 1, 'b' 1), … give --label-separator '#' if"),
        (
            [number / 2 for number in range(21)],
            "regression (21 different numbers from 0 to 10), inferred from 21 labels; … --problem single_label if",
        ),
        (
            [999_999.75 + number for number in range(21)],
            "regression (21 different numbers from 999999.75 to 1000019.75)",
        ),
    ],
)
def test_one_line_names_problem_classes_and_counts(values, line):
    found = decide(table(values), "label").line
    assert "\n" not in found
    assert all(part in found for part in line.split("… "))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (["pos", "Pos"], "'Pos' 1 and 'pos' 1"),
        (["pos", "pos "], "'pos' 1 and 'pos ' 1"),
        (["pos", "pos\u00a0"], r"'pos' 1 and 'pos\xa0' 1"),
        (["pos", "po\u200bs"], r"'pos' 1 and 'po\u200bs' 1"),
        (["cafe\u0301", "caf\u00e9"], r"'cafe\u0301' 1 and 'caf\xe9' 1"),
    ],
)
def test_labels_that_look_alike_are_named_with_escapes(values, named):
    found = decide(table(values), "label")
    assert found.names == sorted(values)
    assert f"warning: {named} differ only in case, white space or Unicode form, and each is a class" in found.line


def test_numbers_of_one_value_are_named():
    line = decide(table(["3.1", "3.10", "3.2"]), "label", "single_label").line
    assert "warning: '3.1' 1 and '3.10' 1 are the same number, and each is a class of its own" in line


def test_long_ids_that_differ_are_not_the_same_number():
    """Their floats are equal."""
    ids = ["9007199254740993", "9007199254740992", "9007199254740993.0"]
    assert look_alikes(ids) == [[ids[0], ids[2]]]


@pytest.mark.parametrize("label", ["ab", 3])
def test_a_label_outside_of_a_list_is_refused_though_it_is_of_no_class(label):
    rows = table([["a"], label])
    others = rows_of_other_classes(rows, "label", ["a", "b"])
    assert message(class_sets, rows, "label", ["a", "b"], others) == [
        f"x.csv, line 3: expected a list of labels, got {label!r}; if a field contains several, give the separator "
        "with --label-separator"
    ]


def test_all_other_classes_of_a_row_are_counted():
    rows = table([["a"], ["y", "a", "x", "y"], ["x"], []])
    others = rows_of_other_classes(rows, "label", ["a"])
    assert other_classes_in_words(rows, others, ["a"]) == (
        "2 of 4 rows have a class that is not in training: 'y' 1, first in line 3; 'x' 2, first in line 3"
    )


def test_given_names_are_counted_in_their_order():
    assert decide(table(["b", "a", "b"]), "label", names=["b", "a", "c"]).line == (
        "problem: single_label with 3 classes ('b' 2, 'a' 1, 'c' 0), with names that are given"
    )
    assert "(21 classes" not in decide(table([str(n) for n in range(21)]), "label", "single_label").line
    many = decide(table([f"c{n:02}" for n in range(30)]), "label").line
    assert "'c04' 1 and 25 more, each 1)" in many


@pytest.mark.parametrize(
    ("names", "labels"), [(["0", "1"], ["0.0", 1.0, "1", 0]), (["0.0", "1.0"], ["0", 1, "1.0", 0.0])]
)
def test_other_splits_may_spell_whole_numbers_otherwise(names, labels):
    assert class_ids(table(labels), "label", names) == [0, 1, 1, 0]
    assert class_sets(table([[label] for label in labels[:2]]), "label", names) == [[1.0, 0.0], [0.0, 1.0]]
    assert "are read as" in other_spellings(labels, names)
    assert other_spellings(names, names) == ""


NO_FINITE_NUMBERS = ["N/A", "nan", "-inf", "Infinity", "none", "1,5", "7_5", "?", True, float("inf"), 10**400]
NUMBERS = [*(str(half / 2) for half in range(2, 11)), 1.5, 3, "4", "2e0"]


@pytest.mark.parametrize("seed", range(30))
def test_numbers_with_some_words_are_refused_with_lines(seed):
    """Whatever the numbers, the dirt and the places: no dirty score makes classes of the numbers."""
    draw = random.Random(seed)
    values: list[Any] = [draw.choice(NUMBERS) for _ in range(draw.randint(5, 600))]
    dirty = sorted(draw.sample(range(len(values)), draw.randint(1, 2)))
    for row in dirty:
        values[row] = draw.choice(NO_FINITE_NUMBERS)
    lines = message(infer_problem, table(values), "label")
    lines = lines[1:] if len(dirty) > 1 else lines
    assert len(lines) == len(dirty)
    for row, line in zip(dirty, lines, strict=True):
        assert f"x.csv, line {row + 2}: 'label' is " in line
        assert f"where {len(values) - len(dirty)} other labels are finite numbers, such as " in line
        assert "--problem single_label" in line


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        (["10", "9", "-1"], ["-1", "9", "10"]),
        ([10, 9, 9], ["9", "10"]),
        (["10", "9", "many"], ["10", "9", "many"]),
        (["null", "NA", "None", "", None, " "], ["NA", "None", "null"]),
        ([["b", "a"], [], ["c"]], ["a", "b", "c"]),
        ([["a", None, ""], [["nested"]], {"a": 1}], ["a"]),  # the rest is refused when the rows are read
        ([True, False], ["False", "True"]),
        (["1", "01", "1"], ["01", "1"]),
        (["1.0", "0.0"], ["0", "1"]),
        ([1.0, 0, 10.0], ["0", "1", "10"]),
        ([["1.0", "0.0"], ["1.0"]], ["0", "1"]),
        (["2e5", "1e6", "3e4"], ["3e4", "2e5", "1e6"]),
        (["+1", "-1"], ["-1", "+1"]),
        (["1.0", "1.1"], ["1.0", "1.1"]),
        (["007", "7", "7.0"], ["007", "7", "7.0"]),
        ([date(2024, 2, 1), date(2024, 1, 31)], ["2024-01-31", "2024-02-01"]),
    ],
)
def test_classes_are_those_of_the_data_in_order(values, names):
    assert class_names(values) == names


@given(st.lists(st.one_of(st.integers(-50, 50), st.sampled_from(["7", "07", "x", "None"])), min_size=1), st.randoms())
def test_classes_do_not_depend_on_row_order(values, shuffler: random.Random):
    names = class_names(values)
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    assert class_names(shuffled) == names
    assert sorted(set(names)) == sorted({str(value) for value in values}) == sorted(names)
    if all(isinstance(value, int) for value in values):
        assert [int(name) for name in names] == sorted(set(values))


@pytest.mark.parametrize(
    ("convert", "values", "names", "converted"),
    [
        (class_ids, ["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        (class_ids, [9, "10"], ["9", "10"], [0, 1]),
        (class_ids, ["+1", "1", "1.0", "-1"], ["-1", "+1", "1"], [1, 2, 2, 0]),
        (class_sets, [["b"], [], ["b", "a"], ["a", "a"]], ["a", "b"], [[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]),
    ],
)
def test_ids_are_positions_among_the_names(convert, values, names, converted):
    assert convert(table(values), "label", names) == converted
    assert class_names(values) == names


@pytest.mark.parametrize("value", [None, float("nan"), "", " \t", "\u200b", "\u00a0\ufeff"])
def test_what_cannot_be_seen_is_missing(value):
    assert is_missing(value)
    assert message(class_ids, table(["a", value]), "label", ["a"]) == ["x.csv, line 3: no value for 'label'"]


def test_at_most_ten_classes_and_faults_are_listed():
    names = [str(number) for number in range(13)]
    (first, *rest) = message(class_ids, table([f"?{row}" for row in range(12)]), "label", names)
    assert first == "12 faults:"
    assert rest[0].endswith("'8', '9' and 3 more")
    assert len(rest) == 11
    assert rest[-1] == "  - … and 2 more"
    [same] = message(class_ids, table(["?"] * 12), "label", names)
    assert same.startswith("x.csv, line 2: label '?' is not one of '0', ")
    assert same.endswith("line 9, line 10, line 11, …)")


def test_fields_of_several_labels_are_parted():
    assert split_labels(table(["a; b", "a", "", " ; "]), "label", ";").columns["label"] == [["a", "b"], ["a"], [], []]
    assert split_labels(table([None, 5, [6]]), "label", ";").columns["label"] == [None, ["5"], [6]]
    assert split_labels(table([date(2026, 1, 2), {}]), "label", ";").columns["label"] == [["2026-01-02"], {}]


@pytest.mark.parametrize(
    ("values", "problem", "labels"),
    [
        (["a", {"choices": ["a", "b"]}, None], None, [["a"], ["a", "b"], None]),
        (['{"choices": ["a", "b"]}', '{"choices": '], None, [["a", "b"], ['{"choices": ']]),
        (['{"choices": []}', {"choices": []}, {"choices": ["a"]}], None, [[], [], ["a"]]),
        (['{"choices": ' + "[" * 100_000, "a"], None, ['{"choices": ' + "[" * 100_000, "a"]),
        ([["a"], ["b"]], None, [["a"], ["b"]]),
        ([["a"], [], ["a", "b"], "c"], "single_label", ["a", None, ["a", "b"], "c"]),
    ],
)
def test_labels_of_annotation_tools_are_unwrapped(values, problem, labels):
    assert unwrap_labels(table(values), "label", problem).columns["label"] == labels


@pytest.mark.parametrize(
    ("call", "values", "names", "faults"),
    [
        (class_ids, ["a", None, "c", "", " ", ["a"], float("nan")], [["a", "b"]], [
            "line 3: no value for 'label' (4 times, also line 5, line 6, line 8)",
            "line 4: label 'c' is not one of 'a', 'b'", "line 7: label is ['a']; expected one label",
        ]),
        (class_ids, ["7"], [["007", "1"]], [
            "line 2: label '7' is not one of '007', '1'; '7' and '007' are the same number",
        ]),
        (class_sets, [["a", "c"], "a;b", None, ["a", None], float("nan")], [["a", "b"]], [
            "line 2: label 'c' is not one of 'a', 'b'",
            "line 3: expected a list of labels, got 'a;b'; if a field contains several, give the separator with "
            "--label-separator",
            "line 4: no value for 'label' (3 times, also line 5, line 6)",
        ]),
        (infer_problem, ["good", "bad", "0.5", "bad"], [], [
            "line 4: 'label' is '0.5', where 3 other labels are no finite numbers, such as 'good'; mend or remove the "
            "row, or give --problem single_label if all are names of classes",
        ]),
        (texts, ["a", "", None, " \u00a0\n", 5], [], [
            "line 3: label is empty; write a text, or remove the row (2 times, also line 5)",
            "line 4: no value for 'label'", "line 6: label is 5; expected text",
        ]),
    ],
)  # fmt: skip
def test_faults_are_named_together_with_lines(call, values, names, faults):
    lines = message(call, table(values), "label", *names)
    expected, number = [f"x.csv, {fault}" for fault in faults], sum(map(times_of, faults))
    assert lines == (expected if len(faults) == 1 else [f"{number} faults:", *(f"  - {fault}" for fault in expected)])


def test_ids_of_no_class_are_refused():
    assert message(named, table([2, 0, -2, [5]], ["no", "yes"]), "label") == [
        "3 faults:",
        *(
            f"  - x.csv, line {line}: label is {label}; expected 0 to 1, a class of 'no', 'yes'"
            for line, label in ((2, "2"), (4, "-2"), (5, "[5]"))
        ),
    ]
    assert message(class_ids, table(["a"]), "labels", ["a"]) == [
        "x.csv: no column 'labels'; available: 'label'; did you mean 'label'?"
    ]


def test_rows_that_an_annotator_rejected_are_left_out(capsys):
    answers = ["accept", "reject", "ignore", None, "accept"]
    of_prodigy = Table({"label": list("abcde"), "answer": answers}, "x.jsonl", "", lines=range(1, 6))
    kept = keep_accepted(of_prodigy)
    assert kept.columns["label"] == ["a", "d", "e"]
    assert kept.place(1) == "x.jsonl, line 4"
    assert capsys.readouterr().err == "x.jsonl: 2 of 5 rows with the answer reject or ignore left out\n"
    in_csv = Table({"label": list("abcde"), "answer": ["accept", "reject", "", float("nan"), "ignore"]}, "x.csv", "")
    assert keep_accepted(in_csv).columns["label"] == ["a", "c", "d"]  # an empty field is no answer
    for others in (["accept"] * 5, ["reject", "I reject it", "yes", "no", ["no"]]):  # no answers of Prodigy
        assert len(keep_accepted(Table({"label": list("abcde"), "answer": others}, "x.jsonl", ""))) == 5
    assert message(keep_accepted, Table({"answer": ["reject"]}, "x.jsonl", "")) == [
        "x.jsonl: no row has the answer accept"
    ]


@pytest.mark.parametrize(("label", "warned"), [("1", 0), ("3", 1)])
def test_a_whole_number_is_no_new_class_beside_its_decimal_form(capsys, label, warned):
    guesses = [("", "", ""), ("", "", ""), ("1", "0.6", "unsure between 1 and 0")]
    of_guesses = dict(zip(PROPOSED, zip(*guesses, strict=True), strict=True))
    keep_answered(Table({"label": ["1.0", "0.0", label], **of_guesses}, "x.csv", ""), "label")
    assert capsys.readouterr().err.count("of no row that was labelled before") == warned
