"""bertkit's pre-training examples beside those of google-research/bert's own ``create_pretraining_data.py``.

    python benchmarks/released_script.py --script create_pretraining_data.py --corpus BOOKS [--passes 10] [--seed 42]
                                         [--tokenizer DIR] [--tokenization tokenization.py] [--whole-word-mask]

The script is the user's own copy: it is not part of bertkit. It runs unchanged, with stand-ins for the few names of
TensorFlow that it uses and, for its ``tokenization`` module, the same tokenizer that bertkit is given. Both sides read
the same file, a sentence a line as bertkit splits the books; both are asked for as many passes. Two forms of it:

- ``books``: a document is a book, and none is cut short: with nine documents, one drawn short would swamp the rest.
- ``parts``: a document is 100 sentences, so that there are enough to see the rate at which they are cut short.

Each number is a mean over the passes; ``deviations`` is the difference over its standard error, so that most lie within
±2 where the two sides follow one rule. One difference is meant: a random replacement is never a special token in
bertkit. (Nor is a random B ever of the document of its A; the script tries ten documents before it gives in.)

It also checks that `plain_pretraining_data.py` gives the script's examples one by one, and times a pass of the script
over the books, up to its examples in memory, with the tokenizer of the tokenizers library and, with ``--tokenization``,
with its own; the ratios are those of as many whole passes to the same passes of bertkit, books prepared and examples
drawn. With ``--whole-word-mask``, whole words are masked on all sides; the script must be a copy that can. Prints one
JSON line.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import plain_pretraining_data as plain
from numpy.typing import NDArray
from pretraining_data import (
    KINDS,
    Stopwatch,
    book_files,
    load_view,
    one_by_one,
    sentences_of,
    set_one_thread,
    time_bertkit,
    tokenizer_for,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PART_SENTENCES = 100
SHORT_SEQ_PROBS = {"books": 0.0, "parts": 0.1}
RULES = plain.Rules()
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
QUANTILES = (1, 5, 25, 50, 75)
DRAWN_AT_ONCE = 1024

Columns = dict[str, NDArray[Any]]


class CachedTokenizer:
    """Tokenizer for the script: pieces of a line, kept for the next pass, and the vocabulary."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast):
        self.vocab = dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
        self._pieces = list(self.vocab)
        self._encode = one_by_one(tokenizer)
        self._known: dict[str, list[str]] = {}

    def tokenize(self, line: str) -> list[str]:
        if line not in self._known:
            self._known[line] = [self._pieces[number] for number in self._encode(line)]
        return self._known[line]


def load_script(path: Path, tokenization: Path | None) -> tuple[ModuleType, ModuleType]:
    """The script and the tokenization module it uses, loaded without TensorFlow, absl and six."""

    def define(name: str, default: Any, *_: Any, **__: Any) -> None:
        setattr(values, name, default)

    values = SimpleNamespace()
    kinds = ("string", "bool", "boolean", "integer", "float")
    flags = SimpleNamespace(FLAGS=values, **{f"DEFINE_{kind}": define for kind in kinds})
    files = SimpleNamespace(GFile=partial(open, encoding="utf-8"))
    names = ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1")
    modules = {name: stand_in(name, flags=flags, gfile=files) for name in names}
    modules |= {"absl": stand_in("absl", flags=flags), "six": stand_in("six", PY2=False, PY3=True)}
    # Only while the script is loaded: other libraries look whether there is a TensorFlow.
    with patch.dict(sys.modules, modules):
        own = stand_in("tokenization", convert_to_unicode=str, printable_text=str)
        if tokenization is not None:
            own = load(tokenization, "tokenization")
        sys.modules |= {"tokenization": own, "bert": stand_in("bert", tokenization=own)}
        return load(path, "create_pretraining_data"), own


def stand_in(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(contents)
    return module


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def script_pass(
    script: ModuleType, text: Path, tokenizer: Any, short_seq_prob: float, seed: int
) -> Iterator[plain.Example]:
    """The examples of one pass of the script, as ids."""
    instances = script.create_training_instances(
        [str(text)],
        tokenizer,
        RULES.max_seq_length,
        1,
        short_seq_prob,
        RULES.masked_lm_prob,
        RULES.max_predictions_per_seq,
        Random(seed),
    )
    ids = tokenizer.vocab
    for instance in instances:
        yield plain.Example(
            [ids[token] for token in instance.tokens],
            list(instance.segment_ids),
            list(instance.masked_lm_positions),
            [ids[token] for token in instance.masked_lm_labels],
            instance.is_random_next,
        )


def plain_pass(
    documents: list[plain.Document], pieces: plain.Pieces, short_seq_prob: float, whole_words: bool, seed: int
) -> list[plain.Example]:
    """The examples of the plain implementation, shuffled where the script shuffles."""
    random, documents = Random(seed), list(documents)
    random.shuffle(documents)
    rules = plain.Rules(short_seq_prob=short_seq_prob, whole_words=whole_words)
    examples = list(plain.one_pass(documents, rules, pieces, random))
    random.shuffle(examples)
    return examples


def columns_of(examples: list[plain.Example]) -> Columns:
    """Lengths, labels and predictions of the script's examples; ``written`` and ``original`` are flat."""
    return {
        "length": np.array([len(example.input_ids) for example in examples]),
        "b_length": np.array([sum(example.segment_ids) - 1 for example in examples]),
        "is_random": np.array([example.is_random_next for example in examples]),
        "predictions": np.array([len(example.positions) for example in examples]),
        "written": np.array([e.input_ids[position] for e in examples for position in e.positions]),
        "original": np.array([label for example in examples for label in example.labels]),
    }


def bertkit_pass(view: Any, tokenizer: PreTrainedTokenizerFast, settings: Any, epoch: int) -> Columns:
    """The same of bertkit's examples of an epoch."""
    from bertkit.corpus.examples.dataset import PretrainingExamples
    from bertkit.corpus.settings import Vocabulary

    examples = PretrainingExamples(view, Vocabulary.of(tokenizer), settings, None, fixed_epoch=epoch)
    parts: list[Columns] = []
    for start in range(0, len(examples), DRAWN_AT_ONCE):
        batch = examples.__getitems__(range(start, min(start + DRAWN_AT_ONCE, len(examples))))
        used = batch["labels"] != -100
        parts.append(
            {
                "length": batch["attention_mask"].sum(axis=1),
                "b_length": batch["token_type_ids"].sum(axis=1) - 1,
                "is_random": batch["next_sentence_label"],
                "predictions": used.sum(axis=1),
                "written": np.take_along_axis(batch["input_ids"], batch["masked_positions"], axis=1)[used],
                "original": batch["labels"][used],
            }
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def statistics_of(columns: Columns, vocabulary: dict[str, int]) -> dict[str, float]:
    """Statistics of one pass that are compared."""
    length, b_length = columns["length"], columns["b_length"]
    written, original = columns["written"], columns["original"]
    a_length = length - 3 - b_length
    is_mask = written == vocabulary["[MASK]"]
    replaced = ~is_mask & (written != original)
    return {
        "examples": len(length),
        "length_mean": length.mean(),
        **{f"length_quantile_{q}": np.percentile(length, q) for q in QUANTILES},
        "share_at_full_length": (length == RULES.max_seq_length).mean(),
        "share_under_half_length": (length < RULES.max_seq_length / 2).mean(),
        "tokens_of_a_mean": a_length.mean(),
        "tokens_of_b_mean": b_length.mean(),
        "share_of_a": (a_length / (a_length + b_length)).mean(),
        "random_next": columns["is_random"].mean(),
        "tokens_of_random_b_mean": b_length[columns["is_random"].astype(bool)].mean(),
        "masks_mean": columns["predictions"].mean(),
        "masks_sd": columns["predictions"].std(),
        "masks_least": columns["predictions"].min(),
        "masks_most": columns["predictions"].max(),
        "masks_per_token": columns["predictions"].sum() / length.sum(),
        "became_mask": is_mask.mean(),
        "became_another": replaced.mean(),
        "stayed": (written == original).mean(),
        "became_special": np.isin(written[replaced], [vocabulary[name] for name in SPECIAL_TOKENS]).mean(),
    }


def beside(script: list[dict[str, float]], ours: list[dict[str, float]]) -> dict[str, dict[str, float | None]]:
    """Means over the passes, their difference, and that in standard errors (None where nothing varies)."""
    table: dict[str, dict[str, float | None]] = {}
    for name in script[0]:
        sides = np.array([[one[name] for one in side] for side in (script, ours)], np.float64)
        theirs, mine = sides.mean(axis=1).tolist()
        error = float(np.sqrt((sides.var(axis=1, ddof=1) / sides.shape[1]).sum())) if sides.shape[1] > 1 else 0.0
        table[name] = {
            "script": round(theirs, 5),
            "bertkit": round(mine, 5),
            "difference": round(mine - theirs, 5),
            "deviations": round((mine - theirs) / error, 1) if error else None,
        }
    return table


def write_text(form: str, books: list[list[str]], file: Path) -> None:
    """A sentence a line, a blank line between documents."""
    step = PART_SENTENCES if form == "parts" else max(map(len, books))
    documents = [book[start : start + step] for book in books for start in range(0, len(book), step)]
    file.write_text("\n\n".join("\n".join(document) for document in documents) + "\n", encoding="utf-8")


def compare(
    script: ModuleType,
    books: list[list[str]],
    tokenizer: PreTrainedTokenizerFast,
    args: argparse.Namespace,
    folder: Path,
) -> dict[str, Any]:
    from bertkit.corpus.settings import PretrainingData

    cached, pieces = CachedTokenizer(tokenizer), plain.Pieces.of(tokenizer.get_vocab())
    result: dict[str, Any] = {}
    for form, short_seq_prob in SHORT_SEQ_PROBS.items():
        text = folder / f"{form}.txt"
        write_text(form, books, text)
        settings = PretrainingData(short_seq_prob=short_seq_prob, whole_word_mask=args.whole_word_mask, seed=args.seed)
        view = load_view([text], tokenizer, folder / "cache", sentence_per_line=True)
        with text.open(encoding="utf-8") as lines:
            documents = plain.documents_of(lines, one_by_one(tokenizer))
        script_side, our_side = [], []
        for number in range(args.passes):
            examples = list(script_pass(script, text, cached, short_seq_prob, args.seed + number))
            if number == 0:
                same = examples == plain_pass(documents, pieces, short_seq_prob, args.whole_word_mask, args.seed)
            script_side.append(statistics_of(columns_of(examples), cached.vocab))
            our_side.append(statistics_of(bertkit_pass(view, tokenizer, settings, number), cached.vocab))
        result[form] = {
            "documents": view.num_documents,
            "short_seq_prob": short_seq_prob,
            "plain_gives_the_same_examples": same,
            **beside(script_side, our_side),
        }
    return result


def time_sides(
    script: ModuleType, own: Callable[[], Any] | None, text: Path, files: list[Path], tokenizer: Any, args: Any
) -> dict[str, Any]:
    """Seconds of a pass of the script with either tokenizer, tokenization included, and of all passes of bertkit."""
    watch = Stopwatch()
    for name, make in {
        "script_fast_tokenizer": lambda: CachedTokenizer(tokenizer),
        "script_own_tokenizer": own,
    }.items():
        if make is not None:
            its_tokenizer = make()
            with watch.time(name):
                list(script_pass(script, text, its_tokenizer, RULES.short_seq_prob, args.seed))
    ours, _, _ = time_bertkit(files, tokenizer, args.passes, args.seed)
    ratios = {
        f"{name}_ratio": {kind: round(args.passes * seconds[kind] / ours.total(kind), 1) for kind in KINDS}
        for name, seconds in watch.parts.items()
    }
    return {**watch.rounded(), "bertkit_all_passes": ours.rounded(), **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", required=True, type=Path)
    parser.add_argument("--corpus", nargs="+", required=True, type=Path, help="text files, or folders that hold some")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--tokenizer", type=Path, default=None, help="folder of a tokenizer")
    parser.add_argument("--tokenization", type=Path, default=None, help="the script's own tokenization.py")
    parser.add_argument("--whole-word-mask", action="store_true")
    args = parser.parse_args()
    set_one_thread()

    script, tokenization = load_script(args.script, args.tokenization)
    if args.whole_word_mask and not hasattr(script.FLAGS, "do_whole_word_mask"):
        raise SystemExit(f"{args.script}: this copy has no --do_whole_word_mask; take a later one")
    script.FLAGS.do_whole_word_mask = args.whole_word_mask
    files = book_files(args.corpus)
    tokenizer = tokenizer_for(files, args.tokenizer)
    books = [sentences_of(file) for file in files]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = compare(script, books, tokenizer, args, folder)
        vocabulary = folder / "vocab.txt"
        vocabulary.write_text("\n".join(CachedTokenizer(tokenizer).vocab) + "\n", encoding="utf-8")
        own = None if args.tokenization is None else lambda: tokenization.FullTokenizer(str(vocabulary))
        times = time_sides(script, own, folder / "books.txt", files, tokenizer, args)
    print(json.dumps({**result, "times": times, "passes": args.passes, "seed": args.seed}))


if __name__ == "__main__":
    main()
