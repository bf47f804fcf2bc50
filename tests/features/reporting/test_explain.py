"""``bertkit report --explain``: the words of wrong predictions, and runs that have none to explain."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bertkit
from bertkit.features.explain.attribution import attribution_of, subject_to_explain
from bertkit.features.explain.network import load_network
from bertkit.features.reporting import explain as explained
from bertkit.features.reporting import report
from bertkit.features.reporting.content import content_of
from bertkit.features.reporting.run_files import read_run
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.outcome import OUT_OF_FOLD
from bertkit.runtime.errors import RecipeError
from tests.features.reporting.conftest import HOSTILE

WORD = re.compile(r'<span class="word (?:for|against)" style="--weight: [\d.]+%">')


@pytest.mark.slow
def test_words_of_the_first_mistakes_are_marked(copied, tmp_path):
    folder = copied()
    page = report.report(folder, output=tmp_path / "page.html", explain=4).read_text(encoding="utf-8")
    plain = report.report(folder, output=tmp_path / "plain.html").read_text(encoding="utf-8")
    assert page.count('<p class="words">') == 4
    assert WORD.search(page)
    assert not WORD.search(plain)
    assert HOSTILE not in page


def test_words_have_the_values_of_an_explanation(copied):
    folder = copied()
    outcome = outcome_of(folder, with_training=True)
    mistakes = content_of(read_run(folder), outcome, texts=True).mistakes
    first, second, *others = explained.with_words(mistakes, folder, 2)
    assert others == list(mistakes[2:])
    network = load_network(str(folder))
    attribution = attribution_of(network, subject_to_explain(network, [first.texts[0][1]]))
    assert [word for word, _ in first.words] == [word.text for word in attribution.words]
    gradients = attribution.reasons[0].gradients
    np.testing.assert_allclose([part for _, part in first.words], gradients / abs(gradients).max(), atol=1e-4)
    assert max(abs(part) for _, part in second.words) == pytest.approx(1)
    assert first.words_of == attribution.reasons[0].name == first.predicted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"explain": -1}, "expected a number of wrong predictions"),
        ({"explain": 2, "texts": False}, "--no-texts leaves out"),
    ],
)
def test_what_does_not_go_together_is_refused(hostile_run, tmp_path, arguments, message):
    with pytest.raises(RecipeError, match=message):
        bertkit.report(hostile_run.output_dir, output=tmp_path / "page.html", **arguments)
    assert not (tmp_path / "page.html").exists()


def test_runs_without_wrong_texts_are_refused():
    with pytest.raises(RecipeError, match=r"--explain 2: runs/old: .* has no wrong predictions"):
        explained.check_explained(2, True, Path("runs/old"), None)


def test_predictions_of_models_of_folds_are_refused(copied):
    outcome = replace(outcome_of(copied()), scored=OUT_OF_FOLD)
    with pytest.raises(RecipeError, match=r"models of folds, which are not kept.*--folds 0"):
        explained.check_explained(2, True, Path("run"), outcome)


def test_doubts_about_words_are_shown(copied, tmp_path, monkeypatch):
    from bertkit.features.explain.attribution import Reason

    monkeypatch.setattr(Reason, "warnings", lambda self: ["the values of <b>words</b> are doubtful"])
    folder = copied()
    page = report.report(folder, output=tmp_path / "page.html", explain=2).read_text(encoding="utf-8")
    assert page.count("The values of &lt;b&gt;words&lt;/b&gt; are doubtful.") == 2
