"""``bertkit explain``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json


def test_a_few_lines_and_a_page(bertkit, checkpoint, tmp_path):
    done = bertkit("explain", checkpoint, "a lovely film", "the plot", "--output", tmp_path / "page.html")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "pieces: [CLS] a lovely film [SEP] the plot [SEP]"
    assert any(line.startswith("attention: 2 layers × 4 heads: ") for line in lines)
    assert lines[-1] == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_pairs_print_a_share_and_ranks_a_line_each(bertkit, checkpoint, tmp_path):
    (tmp_path / "pairs.tsv").write_text("good\tbad\na film\tfilm a\n")
    done = bertkit("explain", checkpoint, "--pairs", tmp_path / "pairs.tsv")
    assert done.code == 0, done.err
    assert done.out.startswith("the good text is more probable in ")
    (tmp_path / "texts.txt").write_text("a film\nthe plot\n")
    done = bertkit("explain", checkpoint, "--rank", tmp_path / "texts.txt", "--output", tmp_path / "page.html")
    assert len(done.out.splitlines()) == 3
    assert "pseudo-perplexity" in (tmp_path / "page.html").read_text()


def test_a_word_in_its_contexts(bertkit, checkpoint, tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n" + "a film,one\nthe film plot,two\n" * 3)
    page = tmp_path / "page.html"
    done = bertkit("explain", checkpoint, "--word", "film", "--texts", tmp_path / "texts.csv", "--output", page)
    assert done.code == 0, done.err
    assert done.out.startswith("film: 6 occurrences; 0 texts without it\n  layer 0: ")
    assert page.read_text().count('class="layer"') == 3


def test_a_store_needs_no_checkpoint(bertkit, tmp_path):
    bertkit("explain", "--corpus", tmp_path).refuses("no token store")


def test_every_result_is_json(bertkit, checkpoint, fine_tuned, tmp_path):
    (tmp_path / "pairs.tsv").write_text("good\tbad\na film\tfilm a\n")
    (tmp_path / "texts.txt").write_text("a film\nthe film\nfilm plot\n")

    def result(*arguments):
        done = bertkit("explain", *arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    text = result(checkpoint, "a lovely film", "the plot")
    assert text.keys() == {"checkpoint", "family", "pieces", "attention", "masked", "next_sentence", "missing"}
    assert [len(layer) for layer in text["attention"]["heads"]] == [4, 4]
    assert [word["text"] for word in text["masked"]["words"]] == ["a", "lovely", "film", "the", "plot"]
    why = result(fine_tuned("film"), "a lovely film", "--label", "good")["attributions"]
    assert (why["words"], why["reasons"][0]["name"]) == (["a", "lovely", "film"], "good")
    assert len(why["reasons"][0]["occlusion"]) == 3
    for kind, second in (("maybe", "a lovely film"), ("choices", "a film\tthe plot")):
        assert result(fine_tuned(kind), "the plot", second)["attributions"]["reasons"]
    for model in (fine_tuned("film"), checkpoint):
        refused = bertkit("explain", model, "a film", "--label", "nope")
        assert (refused.code, refused.out) == (2, "")
    assert len(result(checkpoint, "--pairs", tmp_path / "pairs.tsv")["pairs"]) == 1
    assert len(result(checkpoint, "--rank", tmp_path / "texts.txt")["ranking"]) == 3
    word = result(checkpoint, "--word", "film", "--texts", tmp_path / "texts.txt")
    assert [len(layer["points"]) for layer in word["layers"]] == [3, 3, 3]
