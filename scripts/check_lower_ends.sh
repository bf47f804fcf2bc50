#!/usr/bin/env bash
# Installs the lowest version that pyproject.toml admits of each package it names, and runs the tests with them.
#
#   scripts/check_lower_ends.sh [FOLDER]     the virtual environment is made in FOLDER (default: a temporary one)
#   KEEP_TORCH=1 scripts/check_lower_ends.sh keeps constraints.txt's torch, where only one build of torch is to be had
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-$(mktemp -d)}
python3 -m venv --clear "$folder"
lowest=$(python3 - <<'PY'
import os, re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for requirement in project["dependencies"]:
    name, lower = re.match(r"([\w-]+)>=([\w.]+)", requirement).groups()
    if name == "torch" and os.environ.get("KEEP_TORCH"):
        lower = re.search(r"^torch==(\S+)", open("constraints.txt").read(), re.M).group(1)
    print(f"{name}=={lower}")
PY
)
echo "$lowest"
# torch first: its CPU build has to be chosen before another package asks for any torch
"$folder/bin/pip" install --quiet "$(grep '^torch==' <<<"$lowest")"
"$folder/bin/pip" install --quiet $lowest pytest hypothesis seqeval
"$folder/bin/pip" install --quiet --no-deps -e .
"$folder/bin/pytest"
