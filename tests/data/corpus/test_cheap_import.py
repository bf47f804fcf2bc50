"""Reading text and checking settings must not cost the start of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_only_examples_needs_torch():
    program = """
import sys
from bertkit.data.corpus import documents, settings, sources
from bertkit.data.corpus.examples import masking, pairs
from bertkit.data.corpus.store import streaming, writer
from bertkit.data.corpus.vocabulary import tokenizer
from bertkit.tasks import pretraining
print(*sorted({"torch", "transformers", "tokenizers", "datasets", "pyarrow"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
