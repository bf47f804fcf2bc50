"""The arithmetic of docs/guides/scale.md."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def scale_plan():
    spec = importlib.util.spec_from_file_location("scale_plan", ROOT / "benchmarks" / "scale_plan.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["scale_plan"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["scale_plan"]


def test_the_page_has_the_output_of_the_script(scale_plan):
    page = (ROOT / "docs" / "guides" / "scale.md").read_text(encoding="utf-8")
    for name, table in scale_plan.plan(scale_plan.Measured(), scale_plan.Assumed()).items():
        assert f"<!-- {name} -->\n{table}\n" in page


def test_sizes_are_those_of_the_paper(scale_plan):
    assert scale_plan.BASE.weights == pytest.approx(110e6, rel=0.02)
    assert scale_plan.LARGE.weights == pytest.approx(340e6, rel=0.02)


def test_a_step_by_hand(scale_plan):
    """One layer of width 2, with a vocabulary of 10: 48 weights; 4·S·H of attention; a head of 2·H·(H + V) at 15 %."""
    size = scale_plan.Size("one", 1, 2, vocabulary=10)
    assert size.layer_weights == 48
    assert size.training_flops(8) == pytest.approx(3 * (2 * 48 + 4 * 8 * 2 + 0.15 * 2 * 2 * 12))
