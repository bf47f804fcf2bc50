"""Planted faults of tables of similarity and reranking: each is found with its line, and clean tables have none."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import SETTINGS, TableCase, sentence

Plant = Callable[[TableCase], None]

SCORES = ("0.1", "0.4", "0.7", "1.0")
CLASSES = ("entailment", "neutral", "contradiction")
# Kind of table → its recipe, and the columns of a row after its two texts.
TABLES: dict[str, tuple[str, dict[str, Callable[[int, random.Random], str]]]] = {
    "scored_pairs": ("similarity", {"score": lambda row, _: SCORES[row % 4]}),
    "pairs": ("similarity", {}),
    "triplets": ("similarity", {"negative": lambda _, rng: sentence(rng)}),
    "nli": ("similarity", {"label": lambda row, _: CLASSES[row % 3]}),
    "labelled passages": ("reranking", {"label": lambda row, _: str((row + 1) % 2)}),
    "negative passages": ("reranking", {"negative": lambda _, rng: sentence(rng)}),
}


@pytest.fixture
def case(tmp_path, uncased):
    """Returns a function that makes the run of a kind of table without faults."""
    pytest.importorskip("sentence_transformers")

    def make(kind: str) -> TableCase:
        recipe, more = TABLES[kind]

        def rows(number: int, seed: int) -> list[dict[str, str]]:
            rng = random.Random(seed)
            found: list[dict[str, str]] = []
            for row in range(number):
                # A query of labelled passages has two of them.
                is_second = kind == "labelled passages" and row % 2
                query = found[-1]["query"] if is_second else sentence(rng)
                values = {name: write(row, rng) for name, write in more.items()}
                found.append({"query": query, "passage": sentence(rng), **values})
            return found

        settings = {**SETTINGS, "data.max_seq_length": 40}
        return TableCase(tmp_path, f"finetune/{recipe}", uncased, rows(400, 1), rows(40, 2), settings)

    return make


def put(column: str, value: str, row: int = 6, split: str = "train") -> Plant:
    return lambda case: getattr(case, split)[row].update({column: value})


def everywhere(column: str, value: str) -> Plant:
    def plant(case: TableCase) -> None:
        for row in case.train:
            row[column] = value

    return plant


def copy(column: str, source: str) -> Plant:
    return lambda case: case.train[6].update({column: case.train[6][source]})


def repeat(**changes: str) -> Plant:
    def plant(case: TableCase) -> None:
        case.train += [{**row, **changes} for row in case.train[:10]]

    return plant


def share(case: TableCase) -> None:
    for row in range(2):
        case.validation[row] = dict(case.train[row])


def lengthen(case: TableCase) -> None:
    for row in case.train[:40]:
        row["passage"] = " ".join([row["passage"]] * 5)


# Name → table, fault, code of the finding, place and words of its message.
PLANTS: dict[str, tuple[str, Plant, str, str]] = {
    "a negative that is the anchor": (
        "triplets", copy("negative", "query"), "data", "line 8: negative is the text of query too"
    ),
    "one-sided scores": ("scored_pairs", everywhere("score", "1"), "data", "all scores are 1, and the loss learns"),
    "an infinite score": ("scored_pairs", put("score", "inf"), "data", "line 8: score is 'inf'; expected a number"),
    "a missing positive": ("pairs", put("passage", ""), "data", "line 8: passage is empty"),
    "a fault of the validation set": (
        "pairs", put("passage", "", split="validation"), "data", "validation.csv, line 8: passage is empty"
    ),
    "a misspelt label": ("nli", put("label", "neutrl"), "data", "line 8: label is 'neutrl'; expected contradiction"),
    "a query without a positive": (
        "labelled passages", put("label", "0"), "data", "line 8: 1 query has no relevant passage"
    ),
    "a negative that is the query": (
        "negative passages", copy("negative", "query"), "data", "line 8: negative is the text of query too"
    ),
    "repeated pairs": ("pairs", repeat(), "duplicates", "10 of 410 examples"),
    "repeated passages": ("labelled passages", repeat(), "duplicates", "10 of 410 examples"),
    "pairs with several scores": ("scored_pairs", repeat(score="0.2"), "label-conflict", "have several labels"),
    "passages with several labels": ("labelled passages", repeat(label="0.9"), "label-conflict", "have several labels"),
    "pairs of both splits": ("pairs", share, "split-overlap", "2 of 40 examples"),
    "long texts": ("pairs", lengthen, "truncation", "40 "),
}  # fmt: skip
IMPLIED = {"label-conflict": {"duplicates"}}  # other codes of the same fault


@pytest.mark.parametrize("kind", TABLES)
def test_clean_tables_have_no_finding(case, no_trial, kind):
    assert case(kind).report().findings == ()


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(case, no_trial, name):
    kind, plant, code, sentence_of_it = PLANTS[name]
    planted = case(kind)
    plant(planted)
    findings: Any = planted.report().findings
    assert {each.code for each in findings} == {code, *IMPLIED.get(code, ())}, findings
    [finding] = [each for each in findings if each.code == code]
    assert sentence_of_it in finding.message
    assert finding.remedy
