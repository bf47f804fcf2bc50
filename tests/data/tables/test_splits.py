"""Splits: of a Hub on this machine; rows in two sets."""

from __future__ import annotations

import pytest

from bertkit.data.tables import hub_splits, load_hub_table
from bertkit.data.tables.splits import find_repeated
from bertkit.runtime.errors import DataError
from tests.data.conftest import LANGUAGES, parquet
from tests.hub_server import HubServer

PROGRAM = """
import json, sys
from bertkit.runtime.errors import DataError
from bertkit.data.tables import hub_splits, load_hub_table

for given in json.loads(sys.argv[1]):
    try:
        if len(given) == 2:
            print(json.dumps(hub_splits(*given)))
            continue
        table = load_hub_table(*given)
        parts = ("columns", "source", "fingerprint", "class_names")
        print(json.dumps({**{part: getattr(table, part) for part in parts}, "place": table.place(1)}))
    except DataError as error:
        print(json.dumps(str(error)))
"""


def parquet_of_classes() -> bytes:
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    rows = Dataset.from_dict({"text": ["NA", None, "c"], "label": [1, 0, -1]}, features=features)
    return parquet(rows.with_format("arrow")[:])


@pytest.fixture(scope="module")
def hub():
    reviews = {"data/train-00000-of-00001.parquet": parquet_of_classes()}
    with HubServer({"org/reviews": reviews, "org/languages": LANGUAGES}) as server:
        yield server


@pytest.fixture
def ask(hub, with_hub):
    """``ask([id, config], [id, config, split], …)`` gives splits and tables of another process, since the address of
    the Hub is read at import."""
    return lambda *calls, **environment: with_hub(hub.endpoint, PROGRAM, calls, **environment)


@pytest.mark.slow
class TestHub:
    def test_ids_of_classes_their_names_and_missing_texts(self, ask):
        [table] = ask(["org/reviews", None, "train"])
        assert table["columns"] == {"text": ["NA", None, "c"], "label": [1, 0, -1]}
        assert table["class_names"] == {"label": ["bad", "good"]}
        assert table["source"] == "org/reviews (train)"
        assert table["place"] == "org/reviews (train), row 2"

    def test_configurations_splits_and_parts_of_splits(self, ask):
        train, test, part, german, splits = ask(
            ["org/languages", "english", "train"],
            ["org/languages", "english", "test"],
            ["org/languages", "english", "train+test"],
            ["org/languages", "german", "train"],
            ["org/languages", "english"],
        )
        assert train["columns"]["text"] == ["An English row.", "Two."]
        assert test["columns"]["text"] == ["Another.", "Row."]
        assert test["place"] == "org/languages (english, test), row 2"
        assert part["columns"]["text"] == ["An English row.", "Two.", "Another.", "Row."]
        assert german["columns"]["text"] == ["Eine Zeile.", "Zwei."]
        assert splits == ["train", "test"]
        assert len({table["fingerprint"] for table in (train, test, part, german)}) == 4
        assert train["class_names"] == {}

    def test_all_splits_are_no_part_of_an_expression(self, ask):
        whole, *faults = ask(*(["org/languages", "english", split] for split in ("all", "all[:1]", "train+all")))
        assert whole["columns"]["text"] == ["An English row.", "Two.", "Another.", "Row."]
        assert faults == ["org/languages: no split 'all'; available: 'train', 'test'"] * 2

    def test_from_the_cache_it_is_the_same(self, ask, hub):
        [fresh] = ask(["org/reviews", None, "train"])
        cached, splits = ask(["org/reviews", None, "train"], ["org/reviews", None], HF_HUB_OFFLINE="1")
        assert (cached, splits) == (fresh, ["train"])
        hub.requests.clear()  # the names of splits need no download
        assert ask(["org/reviews", None]) == [["train"]]
        assert not [request for request in hub.requests if request.startswith("GET") and "parquet" in request]


@pytest.mark.parametrize("ask", [hub_splits, lambda *given: load_hub_table(*given, "train")])
def test_a_folder_is_no_set_of_the_hub(tmp_path, ask):
    """The library would cache it by its name, and go on giving the cached rows when the files change."""
    (tmp_path / "train.csv").write_text("text,label\na,1\n")
    with pytest.raises(DataError, match="expected the id of a Hub data set, but this is a local file or folder"):
        ask(str(tmp_path), None)


def test_repeated_rows_have_all_texts_equal():
    assert find_repeated([["a", "b", "c"]], [["x", "b", "a", "b"]]) == [1, 2, 3]
    assert find_repeated([["a", "b"], ["1", "2"]], [["a", "a", "b"], ["2", "1", "2"]]) == [1, 2]
    assert find_repeated([["a"]], [["A", "a "]]) == [1]
