"""FSDP is what it says: each of two processes has half of every layer, on CPUs too."""

from __future__ import annotations

import pytest

from .conftest import TORCHRUN

pytestmark = pytest.mark.multiprocess

# The command line, which tells before its first step how much of the weights this process has.
TELLING = """\
import sys
from bertkit.cli.app import main
from bertkit.training.trainer import BertkitTrainer

get_batch_samples = BertkitTrainer.get_batch_samples

def telling(self, *args):
    weights = list(self.model.parameters())
    here = sum(each.to_local().numel() for each in weights)
    print(f"share: {here / sum(each.numel() for each in weights):.1f}", file=sys.stderr)
    return get_batch_samples(self, *args)

BertkitTrainer.get_batch_samples = telling
main()
"""


def test_each_process_has_its_share(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "telling.py").write_text(TELLING)
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, "--max-steps", "1"]
    command += ["--placement", "cpu", "--set", "placement.strategy=fsdp", "--output-dir", tmp_path / "out"]
    done = bertkit(command, TORCHRUN, [tmp_path / "telling.py"])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("share: 0.5") == 2
