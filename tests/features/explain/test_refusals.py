"""What `explain` refuses, each with one message that says what was expected; no page is written or replaced."""

from __future__ import annotations

import pytest

from bertkit import explain
from bertkit.runtime.errors import BertkitError

FILES = {
    "pairs.tsv": "good\tworse\na\tb\n",
    "texts.csv": "text,label\na plot,one\nthe plot,two\nplot,\nplot lovely,two\n",
    "other.csv": "passage,author\na,b\n",
    "few.txt": "a film\nthe plot\n",
    "long.txt": "a film\n\n" + "a good film " * 21,
    "long.tsv": "good\tbad\na film\tfilm a\na\t" + "a good film " * 21,
    "none.tsv": "text\na film\n\u200b\n",
    "kept.html": "kept",
}
# Arguments, of which those with the name of a file are files, and what the message says.
REFUSED = [
    ({}, "give one of text, rank, pairs, word, corpus, got none"),
    ({"text": "a film", "rank": ["a film"]}, "got text and rank"),
    ({"text": "  \n"}, "text 1: empty"),
    ({"text": "a film", "output": "kept.html"}, "kept.html"),
    ({"text": "a film", "output": "a.pdf"}, "a.pdf: expected a name that ends in .html or .htm"),
    ({"text": "a film", "label": "god"}, "expected one of the labels 'bad', 'fair', 'good'; did you mean 'good'"),
    ({"text": "a film", "unit": "odds"}, "unit: expected 'logit' or 'probability', got 'odds'"),
    ({"text": "a film", "label": 1}, "label: expected a text, got int"),
    ({"rank": ["a film", "a good film " * 40]}, "text 2: 58 tokens more than the 64"),
    ({"rank": "long.txt"}, "long.txt, line 3: 1 token more than the 64"),
    ({"pairs": "pairs.tsv"}, "bad"),
    ({"pairs": "long.tsv"}, "long.tsv, line 3: bad: 1 token more than the 64"),
    ({"word": "film", "texts": "none.tsv"}, "none.tsv, line 3: the tokenizer leaves no word of it"),
    ({"word": "plot", "texts": "texts.csv"}, "texts.csv, line 4: no value for 'label'"),
    ({"word": "plot", "texts": "other.csv"}, "no column 'text'; available: 'passage', 'author'; give the column of"),
    ({"word": "film", "texts": "few.txt"}, "1 occurrence of 'film' as a word; expected three or more"),
    ({"word": "plot"}, "word needs texts"),
    ({"text": "a plot", "texts": "texts.csv"}, "texts: only with word; give word instead of text"),
    ({"text": "a plot", "epoch": 1}, "only with corpus"),
    ({"corpus": "."}, "corpus takes no checkpoint"),
    ({"model": None, "corpus": "."}, "no token store; build one with bertkit corpus build"),
    ({"model": None, "corpus": "store", "revision": "main"}, "corpus takes none"),
    ({"model": None, "corpus": "store", "trust_remote_code": True}, "trust_remote_code: is of a checkpoint"),
    ({"model": None, "corpus": "store", "example": "1"}, "example: expected a whole number, got str"),
    ({"word": "film", "texts": ["a film", "the film"]}, "texts: expected a file, got list"),
    ({"pairs": [("a film", "film a")]}, "pairs: expected a file, got list"),
    ({"text": "a film", "text_b": "the plot", "sentences": ["one"]}, "sentences: expected a file, got list"),
    ({"text": "a film", "text_b": "the plot", "sentences": "none.txt"}, "none.txt: cannot be read"),
    ({"text": "a film", "sentences": "few.txt"}, "give a second text"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_is_refused(checkpoint, fine_tuned, tmp_path, given, message):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    files = {key: tmp_path / value for key, value in given.items() if value in [*FILES, "a.pdf", "."]}
    model = fine_tuned("film") if "label" in given or "unit" in given else checkpoint
    with pytest.raises(BertkitError) as caught:
        explain(**{"model": model, **given, **files})
    assert message in str(caught.value)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == FILES
