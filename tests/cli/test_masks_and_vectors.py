"""``bertkit fill-mask`` and ``bertkit embed``: what they print."""

from __future__ import annotations

import json


def test_fill_mask_prints_probability_token_and_text(bertkit, checkpoint):
    done = bertkit("fill-mask", checkpoint, "The [MASK] is lovely", "--top-k", 2)
    assert done.code == 0
    probability, token, text = done.out.splitlines()[0].split("\t")
    assert 0 < float(probability) < 1
    assert text == f"The {token} is lovely" or token.startswith("##")
    as_json = bertkit("fill-mask", checkpoint, "The [MASK] is lovely", "--top-k", 2, "--json")
    [[[first, second]]] = json.loads(as_json.out)
    assert first["token"] == token
    assert first["probability"] >= second["probability"]


def test_embed_describes_the_file_it_writes(bertkit, checkpoint, tmp_path):
    done = bertkit("embed", checkpoint, "a film", "the plot", "--output", tmp_path / "x.npz", "--layers", "-1,-2")
    assert (done.code, done.out) == (0, f"2 texts, 64 numbers each: {tmp_path / 'x.npz'}\n")
    wrong = bertkit("embed", checkpoint, "a film", "--output", tmp_path / "y.npz", "--layers", "last")
    wrong.refuses("--layers last: expected whole numbers separated by commas, such as -1,-2")
