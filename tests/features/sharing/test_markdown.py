"""Names of strangers change nothing of a card but the text that they are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from markdown_it import MarkdownIt

from bertkit.features.sharing.card_facts import CardFacts
from bertkit.features.sharing.model_card import model_card
from bertkit.runtime.markdown import code, code_block, escape

from .conftest import FACTS

HOSTILE = [
    "plain", "a|b", "a\nb", "\n\n# Heading", "\n---\nlicense: mit\n---\n", "<script>alert(1)</script>",
    "<!-- hidden", "[x](javascript:alert(1))", "![x](http://tracker/x.png)", "[x]: http://evil", "`code`", "``",
    "```\n# out of the block\n```", "~~~\nx", "**bold**", "_emphasis_", "snake_case_name", "&lt;&#60;", "$x$", "C#",
    "# ", "- item", "1. item", "\\", "\\|", "\x1b[31m", "\u2028x", "'\"", "{{x}}", "+ ", "1)", "-", "---", "===",
]  # fmt: skip
PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def names(number: int) -> list[str]:
    rng = random.Random(17)
    return [*HOSTILE, *("".join(rng.choices(HOSTILE, k=rng.randint(2, 4))) for _ in range(number))]


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


@pytest.mark.parametrize("name", names(60), ids=repr)
def test_a_name_changes_no_structure_of_the_card(name):
    metadata, text = parts(model_card(facts(name)))
    benign_metadata, benign_text = parts(model_card(facts("harmless")))
    assert structure(text) == structure(benign_text)
    given, benign = yaml.safe_load(metadata), yaml.safe_load(benign_metadata)
    assert given.keys() >= benign.keys() - {"base_model"}
    assert "license" not in given
    assert given["model-index"][0]["name"] == f"BERT fine-tuned on {name}"


@pytest.mark.parametrize("name", names(60), ids=repr)
def test_a_name_is_shown_as_it_is(name):
    shown = " ".join(name.replace("\x1b", " ").split())
    (_, inline, _) = PARSER.parse(f"a {escape(name)} b")
    assert " ".join("".join(child.content for child in inline.children).split()) == f"a {shown} b".replace("  ", " ")
    if shown:
        (_, inline, _) = PARSER.parse(f"a {code(name)} b")
        assert [child.content for child in inline.children if child.type == "code_inline"] == [shown]
    block, *rest = PARSER.parse(code_block(name, "yaml"))
    assert (block.type, rest) == ("fence", [])


def test_ordinary_names_stay_as_they_are():
    for name in ("…/train_file.csv, 9 of 90 rows", "f1_ORG", "nyu-mll/glue (sst2), 67349 examples", "SST-2: größer"):
        assert escape(name) == name
