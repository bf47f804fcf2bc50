"""Question and sentence pairs in the format of GLUE's QNLI, made from SQuAD 1.1 where QNLI itself is not at hand.

    python benchmarks/qnli_from_squad.py --train TRAIN.json --dev DEV.json --output-dir GLUE [--dev-examples 2000]

As QNLI is described (Wang et al. 2018, §3.2): a question is paired with a sentence of its paragraph, and the label says
whether that sentence contains the answer. A question gives one pair. For every second one, by its number, it is the
sentence in which the first answer begins; for the others, the sentence without any answer that shares the most words
with the question. Questions whose paragraph has one sentence only are left out. These are not QNLI's own pairs, so
scores are not comparable with published ones.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from bertkit.corpus.sentences import split_sentences

WORD = re.compile(r"\w+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--dev-examples", type=int, default=2000)
    given = parser.parse_args()
    folder = given.output_dir / "QNLI"
    folder.mkdir(parents=True, exist_ok=True)
    for name, source, most in (("train", given.train, None), ("dev", given.dev, given.dev_examples)):
        pairs = list(pairs_of(json.loads(source.read_text(encoding="utf-8"))))
        step = 1 if most is None else max(1, len(pairs) // most)  # evenly spaced, so from all articles
        chosen = pairs[::step][:most]
        with (folder / f"{name}.tsv").open("w", encoding="utf-8") as stream:
            stream.write("index\tquestion\tsentence\tlabel\n")
            for number, (question, sentence, label) in enumerate(chosen):
                stream.write(f"{number}\t{question}\t{sentence}\t{label}\n")
        print(f"{name}: {len(chosen)} pairs, {sum(pair[2] == 'entailment' for pair in chosen)} with the answer")


def pairs_of(squad: dict) -> Iterator[tuple[str, str, str]]:
    """Yields question, sentence and label."""
    number = 0
    for article in squad["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            sentences = located(context)
            if len(sentences) < 2:
                continue
            for question in paragraph["qas"]:
                starts = {answer["answer_start"] for answer in question["answers"]}
                places = range(len(sentences))
                with_answer = {p for p in places if any(sentences[p][0] <= start < sentences[p][1] for start in starts)}
                others = [place for place in places if place not in with_answer]
                if not with_answer or not others:
                    continue
                number += 1
                if number % 2:
                    first = min(answer["answer_start"] for answer in question["answers"][:1])
                    place = next(p for p, (start, end, _) in enumerate(sentences) if start <= first < end)
                    label = "entailment"
                else:
                    words = set(WORD.findall(question["question"].lower()))
                    place = max(others, key=lambda p: len(words & set(WORD.findall(sentences[p][2].lower()))))
                    label = "not_entailment"
                yield flat(question["question"]), flat(sentences[place][2]), label


def located(context: str) -> list[tuple[int, int, str]]:
    """Returns first character, end and text of each sentence; the end is where the next one begins."""
    found, position = [], 0
    for sentence in split_sentences(context):
        position = context.index(sentence, position)
        found.append((position, sentence))
        position += len(sentence)
    ends = [start for start, _ in found[1:]] + [len(context)]
    return [(start, end, sentence) for (start, sentence), end in zip(found, ends, strict=True)]


def flat(text: str) -> str:
    """Returns the text on one line and without tabs."""
    return " ".join(text.split())


if __name__ == "__main__":
    main()
