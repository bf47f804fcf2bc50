"""Modules in the working folder: no process that a command starts imports them, unless the user names them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]

MODULES = ("torch", "json", "random", "tokenizers")
PLANTED = "import os\nopen(os.environ['PLANTED'], 'a').write(__name__ + '\\n')\nraise ImportError(__name__)\n"
# As the command `bertkit` starts: the first entry of its path is the folder of this program.
PROGRAM = """\
import sys
from bertkit.__main__ import main
if "--two-gpus" in sys.argv:
    sys.argv.remove("--two-gpus")
    from bertkit.features.grids import grid
    grid.visible_gpus = lambda: 2
main()
"""
TABLE = "text,label\n" + "a good film,good\nan awful plot,bad\n" * 8
SHORT = "--output-dir out --max-steps 2 --max-seq-length 16 --set train.report=false"
TWO = f"{SHORT} --placement cpu --set placement.num_processes=2"
TRAINED = "finetune classification --train-file in/table.csv --set data.folds=0 --model {pretrained}"
BLOCKS = "--corpus texts.txt --document-separator blank-line"
FOLDER = "{fine_tuned} --input in --output-dir out --shard-rows 8"
OWN = """\
import pathlib, acme_sentences
def split(paragraph):
    pathlib.Path(__file__).with_name("has split").touch()
    return acme_sentences.split(paragraph)
split.version = "1"
"""
COMMANDS = {
    "pretrain": f"pretrain {BLOCKS} --model {{pretrained}} --sentence-splitter own.py:split {TWO}",
    "grid": f"{TRAINED} {SHORT} --seeds 2 --two-gpus",
    "predict": f"predict {FOLDER} --num-processes 2",
    "predict ray": f"predict {FOLDER} --engine ray --workers 2",
    "corpus": f"corpus build {BLOCKS} --tokenizer {{pretrained}} --output-dir out --workers 2",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_process_runs_planted_modules(checkpoint, fine_tuned, tmp_path, name):
    if name.endswith("ray") and find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    work, elsewhere, seen = tmp_path / "work", tmp_path / "elsewhere", tmp_path / "seen"
    (work / "in").mkdir(parents=True)
    (work / "in" / "table.csv").write_text(TABLE)
    (work / "texts.txt").write_text("A good film. A lovely story.\n\nAn awful plot. It is bad.\n\n" * 20)
    for module in MODULES:
        (work / f"{module}.py").write_text(PLANTED)
    (work / "own.py").write_text(OWN)
    (elsewhere / "packages").mkdir(parents=True)
    (elsewhere / "packages" / "acme_sentences.py").write_text("def split(text):\n    return text.split('. ')\n")
    (elsewhere / "run.py").write_text(PROGRAM)
    places = {"pretrained": str(checkpoint), "fine_tuned": str(fine_tuned("film"))}
    # Without empty entries, each of which is the working folder.
    paths = os.pathsep.join(filter(None, [str(elsewhere / "packages"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, elsewhere / "run.py", *COMMANDS[name].format(**places).split()],
        cwd=work,
        env={**os.environ, "PYTHONPATH": paths, "PLANTED": str(seen), "HF_HOME": str(elsewhere), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not seen.exists(), seen.read_text()
    assert done.returncode == 0, done.stderr
    assert (work / "has split").exists() == ("own.py:split" in COMMANDS[name])
