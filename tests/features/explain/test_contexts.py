"""A word in its contexts: vectors, pictures, groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertkit import explain, load
from bertkit.features.explain.contexts import WordContexts, describe_layer

ROWS = [
    ("the plot is a good film", "one"),
    ("a film or a plot", "two"),
    ("Plot is lovely", "one"),
    ("awful or bad story", "two"),
    ("bad plot, awful plot", "two"),
]


@pytest.fixture
def table(tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in ROWS))
    return tmp_path / "texts.csv"


@pytest.mark.numeric
def test_vectors_are_those_of_embed(checkpoint, table):
    contexts = explain(checkpoint, word="plot", texts=table)
    assert contexts.labels == ["one", "two", "one", "two", "two"]
    assert contexts.without == 1
    assert contexts.vectors.shape == (3, 5, 32)
    (one, (within, between)), (other, _) = contexts.cosines_of_labels(2)
    cosines = contexts.layers[2].cosines
    assert (one, other) == ("one", "two")
    assert within == pytest.approx(cosines[0, 2])
    assert between == pytest.approx(cosines[[0, 2]][:, [1, 3, 4]].mean())
    for layer in range(3):
        tokens = load(checkpoint).embed(ROWS[0][0], pooling="none", layers=[layer])[0]
        np.testing.assert_allclose(contexts.vectors[layer, 0], tokens.vectors[tokens.tokens.index("plot")], atol=1e-5)


def test_a_file_of_lines_has_no_labels(checkpoint, tmp_path):
    (tmp_path / "texts.txt").write_text("\n\n".join(text for text, _ in ROWS) + "\n \n")
    contexts = explain(checkpoint, word="plot", texts=tmp_path / "texts.txt")
    assert contexts.without == 1  # blank lines are no texts
    assert contexts.labels is None
    assert contexts.best_layer is None
    assert contexts.html().count('class="layer"') == 3


def test_the_ends_of_long_texts_are_not_read(checkpoint, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("a good plot\n" * 3 + "film " * 80 + "plot\n")
    contexts = explain(checkpoint, word=" plot ", texts=tmp_path / "texts.txt")
    assert (contexts.word, contexts.without) == ("plot", 1)
    assert "texts.txt: 1 text of more than 64 tokens, whose ends are not read\n" in capsys.readouterr().err


def test_groups_that_differ_are_separated():
    generator = np.random.default_rng(0)
    labels = ["a"] * 10 + ["b"] * 10
    apart = generator.normal(size=(20, 8)) * 0.1 + 5
    apart[10:, 0] += 3
    layer = describe_layer(apart, labels, np.arange(20))
    assert layer.accuracy == 1
    assert layer.within > 0.8
    assert layer.between < -0.8
    assert layer.variance[0] > 0.9
    points = layer.points[:, 0]
    assert points[:10].max() < points[10:].min() or points[:10].min() > points[10:].max()
    same = describe_layer(generator.normal(size=(20, 8)) + 5, labels, np.arange(20))
    assert same.accuracy < 0.9
    assert abs(same.within - same.between) < 0.4


def test_copies_with_two_labels_may_leave_nothing_to_tell_apart():
    labels = list("111000101")  # of three texts; the first, alone in a fold, has one label
    layer = describe_layer(np.random.default_rng(0).normal(size=(9, 3)), labels, np.repeat([0, 1, 2], 3))
    assert layer.accuracy is None


def test_a_probe_has_not_seen_a_copy_of_the_text():
    """Vectors of random labels: a probe knows those whose copies it was fitted to."""
    generator = np.random.default_rng(0)
    vectors, labels = np.tile(generator.normal(size=(20, 64)), (5, 1)), list("ab" * 10) * 5
    assert describe_layer(vectors, labels, np.arange(100)).accuracy > 0.95
    assert describe_layer(vectors, labels, np.tile(np.arange(20), 5)).accuracy < 0.8


@pytest.mark.parametrize(
    ("accuracy", "said"), [(0.9, "layer 0 separates the labels best"), (0.5, "no layer separates")]
)
def test_a_layer_is_best_if_it_is_better_than_the_most_frequent_label(accuracy, said):
    layer = replace(describe_layer(np.eye(4), list("aabb"), np.arange(4)), accuracy=accuracy)
    contexts = WordContexts("model", "plot", list("wxyz"), list("aabb"), np.eye(4)[None], [layer], 0)
    assert contexts.lines()[-1].startswith(said)
    assert said.capitalize() in contexts.html().replace("<b>", "").replace("</b>", "")


def test_equal_vectors_give_no_directions():
    vector = np.random.default_rng(0).normal(size=64)  # the mean of seven of them is another by rounding
    layer = describe_layer(np.tile(vector, (7, 1)), list("aabbaab"), np.arange(7))
    assert layer.variance == (0, 0)
    assert not layer.points.any()
    assert layer.cosines.tolist() == np.zeros((7, 7)).tolist()


def test_a_page_has_every_text_escaped(checkpoint, tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n" + '"the plot <b>x</b>",<i>y</i>\n' * 4)
    page = explain(checkpoint, word="plot", texts=tmp_path / "texts.csv").html()
    assert "<b>x" not in page
    assert "<i>y" not in page
    assert "&lt;i&gt;y" in page
