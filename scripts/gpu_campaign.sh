#!/usr/bin/env bash
# What needs a GPU, in two calls of up to 10 minutes:  scripts/gpu_campaign.sh DATA CHECKPOINT OUT [cuda|cpu] [STEP…]
#   DATA        folder with glue/SST-2 and text/books
#   CHECKPOINT  a pre-trained BERT of 6 layers, 384 wide, with its tokenizer
#   OUT         a folder for the logs, one a step, the summary, steps.txt, and the numbers, GPU.json
#   STEP        of: environment plain joined compiled tests; all of them in this order, the most telling first
# The first call takes all but the tests, at most 9.7 minutes; the second call the tests, at most 3.4. Then, in the clone:
#   cp OUT/GPU.json benchmarks/ && python benchmarks/run_all.py --render      writes RESULTS.md, with card and commit
# Needs bertkit with its extras dev, lora and similarity in the environment of `python`, a C compiler for torch.compile, and no
# network; where the code is no clone, COMMIT with its number. Every step has its limit in seconds, and runs whether or not an
# earlier one failed; the last lines say which failed. With cpu everything is small: the campaign is tried without a GPU.
set -uo pipefail
usage() { sed -n '2s/^# //p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
all=(environment plain joined compiled tests)
data=$1 checkpoint=$2 out=$3 device=${4:-cuda} steps=("${@:5}")
[ "$device" = cuda ] || [ "$device" = cpu ] || usage
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")
for name in "${steps[@]}"; do
  [[ " ${all[*]} " == *" $name "* ]] || { echo "no step $name; the steps are: ${all[*]}" >&2; exit 2; }
done
for path in "$data/glue/SST-2" "$data/text/books" "$checkpoint"; do
  [ -d "$path" ] || { echo "no folder $path" >&2; exit 2; }
done
mkdir -p "$out" || exit 2
data=$(cd "$data" && pwd) checkpoint=$(cd "$checkpoint" && pwd) out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.." || exit 2
export HF_HUB_OFFLINE=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} HF_HOME
HF_HOME=$(mktemp -d)  # tokenized corpora and compiled kernels, so that first steps are those of a new machine
failed=()
trap 'kill "$!" 2>/dev/null; exit 130' INT TERM
trap 'rm -rf "$HF_HOME"' EXIT

# step NAME SECONDS COMMAND…   runs a command for at most this time; its output is OUT/NAME.log
step() {
  local name=$1 limit=$2 begun=$SECONDS status=0
  shift 2
  [[ " ${steps[*]} " == *" $name "* ]] || return 0
  timeout -k 15 "$limit" "$@" > "$out/$name.log" 2>&1 &
  wait "$!" || { status=$?; failed+=("$name"); }
  echo "$name: $((SECONDS - begun)) s, exit code $status" | tee -a "$out/steps.txt"
}

# way NAME SECONDS   measures a way of training; no row begins in the last 40 seconds
way() {
  step "$1" "$2" $one python benchmarks/gpu.py "$1" --data "$data" --model "$checkpoint" --output "$out/GPU.json" \
    --seconds "$(($2 - 40))" ${COMMIT:+--commit "$COMMIT"} $small
}

if [ "$device" = cuda ]; then
  one="env CUDA_VISIBLE_DEVICES=$(cut -d, -f1 <<< "${CUDA_VISIBLE_DEVICES:-0}")" small="" longer=1  # but for tests of two GPUs
else
  one=env small=--small longer=5
fi
step environment $((30 * longer)) python -m bertkit env
way plain $((220 * longer))
way joined $((110 * longer))
way compiled $((220 * longer))
step tests $((200 * longer)) env BERTKIT_TEST_DEVICE="$device" python -m pytest -n 4 -W default --durations=10 -m gpu tests

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}; see $out/NAME.log" | tee -a "$out/steps.txt"
  exit 1
fi
echo "all steps ended; logs and numbers are in $out"
