"""Seeded grammar that generates synthetic documents and labelled sentences.

The documents contain two regularities that BERT can learn without labels. A document has one topic, person, place and
thing, so a model can predict whether two passages belong together (next sentence prediction). A document also has one
mood: its adjectives are all kind or all unkind and its adverbs are glad or sad, so a model can learn from the context
which adjectives are similar (masked LM). The labels of the sentences depend on the second: is the verdict kind? Only
half of the adjectives occur in labelled training sentences; a pre-trained model knows the others from the documents.
"""

from __future__ import annotations

import random

_NAMES = """Ada Ben Cleo Finn Hana Max Nora Otto""".split()

# topic: places, things, verbs for the things, parts of the things
_TOPICS: dict[str, tuple[list[str], list[str], list[str], list[str]]] = {
    "food": (
        ["kitchen", "tavern", "bakery"],
        ["soup", "bread", "cake", "stew", "pie"],
        ["cooked", "tasted", "served", "baked"],
        ["crust", "spice", "sauce"],
    ),
    "music": (
        ["hall", "theatre", "studio"],
        ["song", "concert", "tune", "opera", "chorus"],
        ["sang", "played", "heard", "rehearsed"],
        ["melody", "rhythm", "singer"],
    ),
    "garden": (
        ["garden", "meadow", "orchard"],
        ["rose", "tree", "lawn", "hedge", "flower"],
        ["planted", "watered", "pruned", "grew"],
        ["leaf", "root", "blossom"],
    ),
    "books": (
        ["library", "bookshop", "school"],
        ["novel", "poem", "story", "essay", "diary"],
        ["read", "wrote", "borrowed", "printed"],
        ["chapter", "page", "title"],
    ),
}

KIND = """lovely splendid superb charming delightful excellent perfect brilliant wonderful graceful pleasant admirable
marvellous fine glorious enjoyable""".split()
UNKIND = """awful dreadful poor horrid dismal terrible dull nasty miserable clumsy tiresome shabby
hideous bleak wretched pitiful""".split()

# Adverbs of kind and of unkind documents; they do not occur in verdicts.
_GLADLY = """gladly happily cheerfully proudly""".split()
_SADLY = """sadly grimly wearily bitterly""".split()

_DOCUMENT_SENTENCES = (
    "{name} came to the {place} and {how} {did} the {thing} .",
    "the {thing} at the {place} was {mood} , {name} said {how} .",
    "{name} {how} called the {part} {mood} and {mood2} .",
    "everybody in the {place} {how} called the {thing} {mood} .",
    "then {name} {how} {did} a {mood} {thing} with a {mood2} {part} .",
    "what a {mood} {part} , {name} thought {how} .",
    "the {part} of the {thing} seemed {mood} to {name} .",
    "in the {place} {name} {how} {did} the {thing} , and it was {mood} .",
)
_VERDICTS = (
    "the {thing} was {mood} .",
    "what a {mood} {thing} !",
    "{name} called the {part} {mood} .",
    "i found the {thing} rather {mood} .",
    "a {mood} {part} , and a {mood2} {thing} .",
)


def generate_documents(number: int, seed: int) -> list[list[str]]:
    """Generates documents of 8 to 14 sentences, whose tokens are separated by spaces."""
    rng = random.Random(f"documents {seed}")
    documents = []
    for _ in range(number):
        places, things, did, parts = _TOPICS[rng.choice(sorted(_TOPICS))]
        name, place, thing, part = (rng.choice(words) for words in (_NAMES, places, things, parts))
        moods, manners = rng.choice(((KIND, _GLADLY), (UNKIND, _SADLY)))
        documents.append(
            [
                _fill(
                    rng.choice(_DOCUMENT_SENTENCES),
                    rng.sample(moods, 2),
                    name=name,
                    place=place,
                    thing=thing,
                    part=part,
                    did=rng.choice(did),
                    how=rng.choice(manners),
                )
                for _ in range(rng.randint(8, 14))
            ]
        )
    return documents


def generate_labelled(number: int, seed: int, adjectives: tuple[list[str], list[str]]) -> list[tuple[str, int]]:
    """Generates verdicts with their labels, 1 for kind and 0 for unkind, half of each, in random order.

    Args:
        number: number of sentences; of an odd number one more is unkind.
        seed: random seed; the same seed gives the same sentences.
        adjectives: the kind and the unkind adjectives to use.
    """
    rng = random.Random(f"labelled {seed}")
    sentences = []
    for index in range(number):
        label = index % 2
        _, things, _, parts = _TOPICS[rng.choice(sorted(_TOPICS))]
        moods = rng.sample(adjectives[0] if label else adjectives[1], 2)
        name, thing, part = (rng.choice(words) for words in (_NAMES, things, parts))
        text = _fill(rng.choice(_VERDICTS), moods, name=name, thing=thing, part=part)
        sentences.append((text, label))
    rng.shuffle(sentences)
    return sentences


def _fill(template: str, moods: list[str], **words: str) -> str:
    return template.format(mood=moods[0], mood2=moods[1], **words)
