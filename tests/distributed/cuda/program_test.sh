#!/usr/bin/env bash
# The program on emulated GPUs: training, evaluation and resuming in both precisions, and every way in which a start or a
# run on GPUs can fail, with its message.
# usage: program_test.sh MPIRUN HEDDLE
set -uo pipefail
mpirun=$1 heddle=$2
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0

. "$here/tiny_run.sh"
cat >>run.cfg <<'CONFIG'
steps = 4
[run]
device = cuda
log_interval = 1
validation_samples = 2
validation_interval = 1000
CONFIG

# wants NAME STATUS TEXT COMMAND...: the command must end within 100 s with STATUS and print TEXT.
wants() {
  local name=$1 status=$2 text=$3 found
  shift 3
  timeout 100 "$@" >out.txt 2>&1
  found=$?
  if [[ $found != "$status" ]] || ! grep -qF -- "$text" out.txt; then
    echo "FAILED $name: status $found, expected $status and '$text'; again: $*"
    tail -n 20 out.txt
    failures=$((failures + 1))
  fi
}
two=("$mpirun" --bind-to none -n 2)
train=("$heddle" train --config run.cfg --run.directory)

wants "one GPU" 0 "of the GPU" "${train[@]}" one --train.steps 2
wants "two GPUs in bfloat16" 0 "saved" "${two[@]}" "${train[@]}" two --run.precision bfloat16 --layout.expert_parallel 2 \
  --layout.exchange_chunks 2 --layout.zero true --run.stop_after 2
wants "another precision and layout" 0 "run.precision bfloat16 -> float32" "${train[@]}" two --run.resume true
wants "evaluation" 0 "bits per byte" "${two[@]}" "$heddle" eval two --device cuda --eval.samples 2
wants "generation" 0 "The" "$heddle" generate two --device cuda --prompt The --tokens 4

wants "no driver" 1 "no GPU" env CUDA_EMULATION_DRIVER=none "${train[@]}" none
wants "no driver, automatic" 0 "no GPU, so the CPU computes" env CUDA_EMULATION_DRIVER=none "${train[@]}" auto \
  --run.device auto --train.steps 1
wants "no visible GPU" 1 "CUDA_VISIBLE_DEVICES" env CUDA_EMULATION_DEVICES=0 "${train[@]}" none
wants "two ranks and one GPU" 1 "ranks 0 and 1 have the same GPU" env CUDA_EMULATION_DEVICES=1 "${two[@]}" "${train[@]}" none
one_each='CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec "$@"'
wants "a GPU of its own for each rank" 0 "saved" "${two[@]}" bash -c "$one_each" - "${train[@]}" own --train.steps 1
wants "no room to start" 1 "MiB free, too little to start" env CUDA_EMULATION_DEVICE_MB=20 "${train[@]}" none
wants "too little memory" 2 "has room for" env CUDA_EMULATION_DEVICE_MB=170 "${train[@]}" none \
  --train.micro_batch 64 --train.global_batch 64 --train.sequence_length 512
wants "bfloat16 on a CPU" 2 "float32 only" "${train[@]}" none --run.device cpu --run.precision bfloat16

# One rank stands still in the middle of a run: the other one says where it waits.
rm -f out.txt
CUDA_EMULATION_NCCL_SECONDS=60 "${two[@]}" "${train[@]}" stopped --train.steps 100000 --layout.expert_parallel 2 --run.collective_timeout 2 >out.txt 2>&1 &
job=$!
for _ in $(seq 600); do
  grep -qs '^step ' out.txt && break
  sleep 0.1
done
rank=$(last_child "$job")
kill -STOP "$rank"
status=0
wait "$job" || status=$?
kill -KILL "$rank" 2>/dev/null
if [[ $status != 1 ]] || ! grep -qE 'no end after 2 s.*rank [01] of 2 waits in [a-z_ ]+ at step [0-9]+' out.txt; then
  echo "FAILED a rank that stands still: status $status"
  cat out.txt
  failures=$((failures + 1))
fi
exit $((failures > 0))
