# /// script
# requires-python = ">=3.11"
# dependencies = ["bertkit @ git+https://github.com/OWNER/bertkit"]
# ///
"""Runs a bertkit command on Hugging Face Jobs, and continues it if the folder already has a run.

Fill in OWNER above: the machine of the job installs bertkit from there. A job gets no signal before its timeout, so
train.save_steps determines where it continues.

hf jobs uv run --flavor a10g-small --timeout 6h --secrets HF_TOKEN -v hf://buckets/OWNER/runs:/runs \
    scripts/jobs/hf_jobs.py finetune glue --task sst2 --output-dir /runs/sst2 --push-to-hub OWNER/sst2

The arguments are those of ``bertkit``; see docs/guides/jobs.md. On this machine: ``uv run scripts/jobs/hf_jobs.py …``.
"""

import sys
from pathlib import Path

from bertkit.cli.app import main


def output_dir(arguments: list[str]) -> Path | None:
    """Returns the value of ``--output-dir``, given in one word or in two; None if it is not given."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--output-dir":
            return Path(following)
        if word.startswith("--output-dir="):
            return Path(word.partition("=")[2])
    return None


if __name__ == "__main__":
    folder = output_dir(sys.argv[1:])
    if folder is not None and (folder / "recipe.yaml").is_file() and "--resume" not in sys.argv:
        sys.argv.append("--resume")
    main()
