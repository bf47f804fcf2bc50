#!/usr/bin/env bash
# All that needs a GPU, in under 35 minutes:  scripts/gpu_campaign.sh DATA CHECKPOINT OUT [cuda|cpu] [STEP…]
#   DATA        folder with glue/SST-2, squad (version 1.1) and text/books
#   CHECKPOINT  a pre-trained BERT with its tokenizer
#   OUT         a new folder for the logs, one a step, the tables, table.*.jsonl, and the summary, steps.txt
#   STEP        of: environment tests pretraining sst2_speed sst2 squad; all of them in this order, the most telling first
# Needs bertkit with its extras dev and lora in the environment of `python`, a C compiler for torch.compile, and no network. Every
# step has its limit in seconds, and runs whether or not an earlier one failed; the last lines say which failed. The first three
# steps are limited to 17 minutes. With cpu everything is small, so that the campaign can be tried without a GPU.
set -uo pipefail
usage() { sed -n '2s/^# //p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
all=(environment tests pretraining sst2_speed sst2 squad)
data=$1 checkpoint=$2 out=$3 device=${4:-cuda} steps=("${@:5}")
[ "$device" = cuda ] || [ "$device" = cpu ] || usage
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")
for name in "${steps[@]}"; do
  [[ " ${all[*]} " == *" $name "* ]] || { echo "no step $name; the steps are: ${all[*]}" >&2; exit 2; }
done
for path in "$data/glue/SST-2" "$data/squad" "$data/text/books" "$checkpoint"; do
  [ -d "$path" ] || { echo "no folder $path" >&2; exit 2; }
done
mkdir "$out" || exit 2
data=$(cd "$data" && pwd) checkpoint=$(cd "$checkpoint" && pwd) out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.." || exit 2
export HF_HUB_OFFLINE=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
failed=()
trap 'kill "$!" 2>/dev/null; exit 130' INT TERM

# step NAME SECONDS COMMAND…   runs a command for at most this time; its output is OUT/NAME.log
step() {
  local name=$1 limit=$2 begun=$SECONDS status=0
  shift 2
  [[ " ${steps[*]} " == *" $name "* ]] || return 0
  timeout -k 15 "$limit" "$@" > "$out/$name.log" 2>&1 &
  wait "$!" || { status=$?; failed+=("$name"); }
  echo "$name: $((SECONDS - begun)) s, exit code $status" | tee -a "$out/steps.txt"
}

# table NAME SECONDS COMMAND…   as step; the JSON lines of the output are OUT/table.NAME.jsonl
table() {
  step "$@"
  [ -f "$out/$1.log" ] && grep '^{' "$out/$1.log" > "$out/table.$1.jsonl"
}

if [ "$device" = cuda ]; then
  one="env CUDA_VISIBLE_DEVICES=$(cut -d, -f1 <<< "${CUDA_VISIBLE_DEVICES:-0}")"  # but for the tests of two GPUs
  speed=(--device cuda --rounds 2) models=(base) lengths=(128 512) numbers=(--steps 30 --batch-size 64) count=19200 precision=bf16
  run=(--placement single_gpu) workers=4
else
  one=env speed=(--device cpu --rounds 1) models=(tiny) lengths=(128) numbers=(--steps 6 --batch-size 4) count=512 precision=no
  run=(--placement cpu --max-steps 4 --max-train-samples 64 --max-eval-samples 64) workers=0
fi
squad=("$data"/squad/train-v1.1*.json) books=("$data"/text/books/*.txt)

step environment 60 python -m bertkit env
step tests 540 env BERTKIT_TEST_DEVICE="$device" python -m pytest -n "$workers" -W default --durations=10 -m gpu tests
table pretraining 420 $one python benchmarks/pretraining_speed.py pairs --corpus "${books[@]}" --tokenizer "$checkpoint" \
  --models "${models[@]}" --lengths "${lengths[@]}" --precisions "$precision" "${numbers[@]}" "${speed[@]}"
table sst2_speed 300 $one python benchmarks/finetuning_speed.py sst2 --model "$checkpoint" --data-dir "$data/glue" \
  --precisions "$precision" --count "$count" "${speed[@]}"
step sst2 300 $one python -m bertkit finetune glue --task sst2 --model "$checkpoint" --data-dir "$data/glue/SST-2" \
  --output-dir "$out/sst2" --set train.report=true "${run[@]}"
step squad 390 $one python -m bertkit finetune squad --model "$checkpoint" --train-file "${squad[0]}" \
  --validation-file "$data/squad/dev-v1.1.json" --output-dir "$out/squad" --set train.report=true "${run[@]}"

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}; see $out/NAME.log" | tee -a "$out/steps.txt"
  exit 1
fi
echo "all steps ended; logs and tables are in $out"
