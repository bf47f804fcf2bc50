"""Reading text and checking settings must not cost the start of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_only_examples_needs_torch():
    program = """
import sys
import bertkit.corpus.documents, bertkit.corpus.examples.masking, bertkit.corpus.examples.pairs, bertkit.corpus.settings
import bertkit.corpus.store.writer, bertkit.corpus.vocabulary.tokenizer, bertkit.corpus.sources
import bertkit.corpus.settings
import bertkit.corpus.store.streaming, bertkit.tasks.pretraining
print(*sorted({"torch", "transformers", "tokenizers", "datasets", "pyarrow"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
