#!/usr/bin/env bash
# Makes a virtual environment with torch_xla and the lowest torch that bertkit admits, and runs there what needs XLA, on
# PJRT's CPU: no TPU is needed.
#
#   scripts/xla_environment.sh FOLDER              makes the environment, where there is none yet, and runs the tests
#                                                  marked xla
#   scripts/xla_environment.sh FOLDER tests/model  runs these tests with its torch, without XLA
#   TORCH_INDEX=URL scripts/xla_environment.sh …   takes torch from that index: PyPI's build for Linux brings 5 GB of
#                                                  CUDA along, https://download.pytorch.org/whl/cpu has one without
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?give the folder of the environment}
shift
if [ ! -e "$folder/bin/pytest" ]; then
  python3 -m venv --clear "$folder"
  constraints=$folder/constraints.txt
  { grep -v '^torch==' constraints.txt; echo torch==2.9.1; echo torch_xla==2.9.0; } >"$constraints"
  # torch first: its build has to be chosen before another package asks for any torch
  "$folder/bin/pip" install --quiet ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch==2.9.1
  "$folder/bin/pip" install --quiet -c "$constraints" torch_xla -e . pytest pytest-xdist hypothesis seqeval
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
if [ $# -gt 0 ]; then
  USE_TORCH_XLA=0 "$folder/bin/pytest" "$@"
else
  PJRT_DEVICE=CPU "$folder/bin/pytest" -m xla tests
fi
