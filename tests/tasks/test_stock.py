"""Names of labels in the data and in a checkpoint that records no task."""

from __future__ import annotations

import pytest

from bertkit.runtime.errors import DataError
from bertkit.tasks.stock import matched_names


@pytest.mark.parametrize(
    ("data", "names"), [(["us"], ["US", "Us"]), (["us", "US"], ["Us", "b"]), (["1", "2"], ["LABEL_0", "LABEL_1"])]
)
def test_labels_that_may_be_several_are_not_guessed(data, names):
    with pytest.raises(DataError, match="differ"):
        matched_names(data, names, "x")


def test_white_space_is_part_of_a_label():
    names, _ = matched_names(["a"], ["A", "a "], "x")
    assert names == {"a": "A"}
