"""``bertkit tokenizer extend``: other words for a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps

if TYPE_CHECKING:
    from bertkit.adaptation.extend import Extension

OF_EXTENSIONS = ("data.text_column", "data.dataset_config", "data.dataset_split", "data.streaming")


def extend(
    model: options.Checkpoint,
    corpus: options.Corpus,
    output_dir: Annotated[
        Path, options.option("--output-dir", help="Folder of the new checkpoint; new or empty.", panel=options.OUTPUT)
    ],
    settings: Settings,
    more: options.MorePaths = None,
    add: Annotated[int, typer.Option(help="Maximum number of new pieces.", min=1)] = 2000,
    min_frequency: Annotated[int, typer.Option(help="Minimum number of uses of a new piece in the text.", min=1)] = 5,
    revision: options.Revision = None,
    json: options.AsJson = False,
) -> None:
    """Add the words of a text to a checkpoint."""
    extension = bertkit.extend_tokenizer(
        model,
        [*(corpus or []), *(more or [])],
        output_dir,
        add=add,
        min_frequency=min_frequency,
        revision=revision,
        **settings.block("data"),
    )
    if json:
        print_text(dumps(extension.record(), ensure_ascii=False))
        return
    for line in _lines(extension):
        print_text(line)


def _lines(extension: Extension) -> Iterator[str]:
    effect = extension.effect
    before, after = effect.before, effect.after
    rows = [
        ("", "before", "after"),
        ("pieces per word", f"{before.pieces_per_word:.3f}", f"{after.pieces_per_word:.3f}"),
        ("pieces per line", f"{before.pieces_per_text:.1f}", f"{after.pieces_per_text:.1f}"),
        *(
            (f"{name} words", *(f"{getattr(usage, name) / usage.words:.2%}" for usage in (before, after)))
            for name in ("split", "unknown")
        ),
    ]
    for name, one, other in rows:
        yield f"{name:<16}{one:>8}{other:>9}"
    yield f"{effect.change:+.1%} pieces; {effect.changed / after.words:.2%} of the words have new pieces"
    if effect.not_shorter:
        yield f"{effect.not_shorter / after.words:.2%} of the words are split in another way without fewer pieces"
    for _, old, new in effect.examples:
        yield f"  {' '.join(old)} → {' '.join(new)}"
    yield f"other texts: the same ids; {extension.comparison}"
    last_id = extension.first_id + len(extension.pieces) - 1
    yield f"{len(extension.pieces)} pieces added, ids {extension.first_id} to {last_id}: {extension.folder}"
