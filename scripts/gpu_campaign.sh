#!/usr/bin/env bash
# All that needs a GPU, in under 35 minutes:  scripts/gpu_campaign.sh DATA CHECKPOINT OUT [cuda|cpu]
#   DATA        folder with glue/SST-2, squad and text/books
#   CHECKPOINT  a pre-trained BERT with its tokenizer
#   OUT         a new folder for the logs, one a step, and the tables, table.*.jsonl
# Every step runs, whether or not an earlier one failed; the last lines say which failed. With cpu everything is small, so that
# the campaign can be tried without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
data=$1 checkpoint=$2 out=$3 device=${4:-cuda}
mkdir "$out" && out=$(cd "$out" && pwd) || exit 2
failed=()

# step NAME SECONDS COMMAND…   runs a command for at most this time; its output is OUT/NAME.log
step() {
  local name=$1 limit=$2 begun=$SECONDS
  shift 2
  timeout "$limit" "$@" > "$out/$name.log" 2>&1 || failed+=("$name")
  echo "$name: $((SECONDS - begun)) s${failed[*]:+, failed so far: ${failed[*]}}"
}

# table NAME SECONDS COMMAND…   as step; the JSON lines of the output are OUT/table.NAME.jsonl
table() {
  step "$@"
  grep '^{' "$out/$1.log" > "$out/table.$1.jsonl"
}

if [ "$device" = cuda ]; then
  speed=(--device auto --rounds 2) models=(base) lengths=(128 512) steps=40 batch=64 count=1600 run=() precisions=(bf16)
else
  speed=(--device cpu --rounds 1) models=(tiny) lengths=(128) steps=6 batch=4 count=32 run=(--max-steps 4 --max-train-samples 64 --max-eval-samples 64) precisions=(no)
fi
report=(--set train.report=true --placement "$device")
[ "$device" = cuda ] && report=(--set train.report=true)

step environment 60 python -m bertkit env
BERTKIT_TEST_DEVICE=$device step tests 900 python -m pytest -n 0 -m gpu tests
step sst2 400 python -m bertkit finetune glue --task sst2 --model "$checkpoint" --data-dir "$data/glue/SST-2" \
  --output-dir "$out/sst2" "${report[@]}" "${run[@]}"
step squad 500 python -m bertkit finetune squad --model "$checkpoint" --train-file "$data"/squad/train-v1.1*.json \
  --validation-file "$data/squad/dev-v1.1.json" --output-dir "$out/squad" "${report[@]}" "${run[@]}"
table pretraining 500 python benchmarks/pretraining_speed.py pairs --corpus "$data"/text/books/*.txt --tokenizer "$checkpoint" \
  --models "${models[@]}" --lengths "${lengths[@]}" --precisions "${precisions[@]}" --steps "$steps" --batch-size "$batch" "${speed[@]}"
table squad_speed 400 python benchmarks/finetuning_speed.py squad --tokenizer "$checkpoint" --data-dir "$data/squad" \
  --sizes "${models[@]}" --precisions "${precisions[@]}" --count "$count" "${speed[@]}"

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}; see $out/NAME.log"
  exit 1
fi
echo "all steps ended; logs and tables are in $out"
