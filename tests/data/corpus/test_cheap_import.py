"""Reading text and tables and checking settings must not cost the start of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_only_examples_needs_torch(tmp_path):
    (tmp_path / "x.csv").write_text("text,label\na,1\n")
    program = """
import sys
from bertkit.data.corpus import documents, settings, sources
from bertkit.data.corpus.examples import masking, pairs
from bertkit.data.corpus.store import streaming, writer
from bertkit.data.corpus.vocabulary import tokenizer
from bertkit.data.tables import read_table
from bertkit.tasks import pretraining
read_table(sys.argv[1])
print(*sorted({"torch", "transformers", "tokenizers", "datasets", "pyarrow", "pandas"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "x.csv")]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
