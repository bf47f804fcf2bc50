"""Names of strangers change nothing of a card but the text that they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK

from bertkit.features.sharing.card_facts import CardFacts
from bertkit.features.sharing.model_card import model_card
from bertkit.runtime.markdown import code, escape
from tests.runtime.test_markdown import NAMES, PARSER

from .conftest import FACTS


def facts(name: str) -> CardFacts:
    return replace(
        FACTS,
        title=f"BERT fine-tuned on {name}",
        task=f"BERT, fine-tuned for {escape(name)} with bertkit, starting from {code(name)}.",
        data={"train": f"{name}, 9 examples", f"validation_{name}": name},
        metrics={f"eval_class/{name}/f1": 0.5, "eval_f1": 0.25},
        main_metrics=("eval_f1", f"eval_class/{name}/f1"),
        recipe={
            "task": {"kind": "ner", "name": name},
            "train": {"global_train_batch_size": 8},
            "hub": {"citations": {"any": f"@misc{{x,\n  title={{{name}}}\n}}"}},
        },
        truncation={name: "3 inputs cut"},
        base_model=name or None,
        dataset=("a/b", name, "validation"),
    )


def structure(text: str) -> list[str]:
    """The kinds of blocks and spans of a text, without the text itself."""
    kinds: list[str] = []
    for token in PARSER.parse(text):
        kinds.append(token.type)
        kinds += [child.type for child in token.children or () if child.type not in ("text", "text_special")]
    return kinds


def parts(card: str) -> tuple[str, str]:
    """The metadata and the text of a card, as the Hub's client finds them."""
    found = REGEX_YAML_BLOCK.search(card)
    return found[2], card[found.end() :]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_changes_no_structure_of_the_card(name):
    metadata, text = parts(model_card(facts(name)))
    benign_metadata, benign_text = parts(model_card(facts("harmless")))
    assert structure(text) == structure(benign_text)
    given, benign = yaml.safe_load(metadata), yaml.safe_load(benign_metadata)
    assert given.keys() >= benign.keys() - {"base_model"}
    assert "license" not in given
    assert given["model-index"][0]["name"] == f"BERT fine-tuned on {name}"
