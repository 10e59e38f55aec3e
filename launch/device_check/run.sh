#!/usr/bin/env bash
# Checks Heddle on this machine's GPU and measures it. Lies in a bundle that launch/device_check.sh makes, and needs
# nothing but glibc, bash, coreutils, NVIDIA's driver, the CUDA runtime, cuBLAS and NCCL.
#   heddle_device_check/run.sh [--device cuda|cpu] [--seconds N] [OUT_FOLDER]
#     --device cpu   only what a processor can do, in small: to try the bundle where there is no GPU
#     --seconds N    time for all parts, 290 if not given; what would begin later is left out and said to be
#     OUT_FOLDER     for device_check.json, device_check.md and the logs of the parts; ./device_check_results if not given
# Exit status: 0 all parts passed, 1 one did not, or was left out, or there is no GPU, 2 wrong use.
set -uo pipefail

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0"; }
fail() {
  echo "error: $1" >&2
  echo "  hint: $2" >&2
  exit "${3:-1}"
}

device=cuda seconds=290 out=''
while (($# > 0)); do
  case $1 in
    --device)
      [[ ${2:-} == cuda || ${2:-} == cpu ]] || fail "--device takes cuda or cpu, found '${2:-}'" "run.sh --help" 2
      device=$2
      shift
      ;;
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]{0,4}$ ]] || fail "--seconds takes a number of seconds, found '${2:-}'" "run.sh --help" 2
      seconds=$2
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) fail "run.sh knows no '$1'" "run.sh --help" 2 ;;
    *)
      [[ -z $out ]] || fail "two folders for the results: '$out' and '$1'" "run.sh --help" 2
      out=$1
      ;;
  esac
  shift
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${out:-device_check_results}
[[ -f $here/needs_glibc ]] || fail "there is no bundle around $0" "make one: launch/device_check.sh bundle" 2
[[ ! -e $out/parts.txt ]] || fail "'$out' has the results of another check" "name another folder" 2
mkdir -p "$out" || fail "the folder '$out' cannot be made" "name another one" 2
out=$(cd "$out" && pwd)
work=$(mktemp -d) || fail "there is no room for temporary files" "set TMPDIR to a folder that can be written"
trap 'rm -rf "$work"' EXIT

# The libraries that the bundle does not hold.
needed=$(<"$here/needs_glibc")
found=$(getconf GNU_LIBC_VERSION 2>/dev/null)
found=${found#glibc }
[[ -n $found ]] || fail "this machine has no glibc" "the bundle runs on Linux distributions with glibc $needed or newer"
[[ $(printf '%s\n' "$needed" "$found" | sort -V | head -n 1) == "$needed" ]] ||
  fail "this machine has glibc $found, and the program needs $needed" \
    "take a newer distribution, or make the bundle on an older one"

# Folders where CUDA's libraries usually are; patterns may match nothing.
IFS=: read -r -a folders <<<"${LD_LIBRARY_PATH:-}"
for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-13* /opt/cuda; do
  [[ -z $folder ]] || folders+=("$folder/lib64" "$folder/lib" "$folder/targets/x86_64-linux/lib")
done
folders+=(/usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib /usr/local/lib /usr/local/nvidia/lib64)
# NVIDIA's packages for Python: beside the python3 of PATH, a virtual environment, and where systems keep them.
python=$(command -v python3)
for folder in "${python%/bin/python3}" "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}" /usr/local /usr /opt/* "${HOME:-}/.local" \
  "${HOME:-}"/.pyenv/versions/*; do
  [[ -z $folder ]] || folders+=("$folder"/lib/python3*/{site,dist}-packages/nvidia/*/lib "$folder/lib")
done
mkdir "$work/cuda"
missing=()
while read -r library; do
  for folder in "${folders[@]}"; do
    [[ -e $folder/$library ]] || continue
    ln -s "$(realpath "$folder/$library")" "$work/cuda/$library"
    break
  done
  [[ -e $work/cuda/$library ]] || missing+=("$library")
done <"$here/needs_cuda"
if ((${#missing[@]} > 0)); then
  fail "not on this machine: ${missing[*]}" \
    "install the CUDA 13 runtime with cuBLAS and NCCL (pip: nvidia-cublas nvidia-cuda-runtime nvidia-nccl-cu13), or name their folders in LD_LIBRARY_PATH"
fi

export OMP_NUM_THREADS
OMP_NUM_THREADS=$(env -u OMP_NUM_THREADS nproc)
export OMP_WAIT_POLICY=passive # the machine may have other guests
# In front of a program of the bundle.
with_libraries() { LD_LIBRARY_PATH=$here/lib:$work/cuda "$@"; }
cd "$here" || exit 1

started=$(with_libraries timeout 30 bin/heddle --help 2>&1) ||
  fail "the program does not start here: $started" "a bundle is for x86-64 processors with AVX2"
# Whether there is a GPU; what it computes, the parts say.
started=$(with_libraries timeout 60 bin/heddle verify tests/golden/loom_r1 --device "$device" 2>&1) || true
if [[ $started == *"sees no GPU: "* ]]; then
  started=${started#*sees no GPU: }
  fail "there is no GPU to check: ${started%%$'\n'*}" "look at nvidia-smi; run.sh --device cpu runs what a processor can"
fi

# value FILE PATTERN: what follows the pattern in the first line of the file that has it.
value() {
  local line
  while read -r line; do
    if [[ $line == *"$2"* ]]; then
      line=${line#*"$2"}
      echo "${line#"${line%%[![:space:]:]*}"}"
      return
    fi
  done <"$1"
}
{
  printf 'commit\t%s\n' "$(<commit)"
  printf 'date\t%s\n' "$(date -u '+%Y-%m-%d %H:%M:%S UTC')"
  printf 'device\t%s\n' "$device"
  printf 'host\t%s\n' "$(uname -n)"
  printf 'kernel\t%s\n' "$(uname -sr)"
  printf 'glibc\t%s\n' "$found"
  printf 'processor\t%s\n' "$(value /proc/cpuinfo 'model name')"
  printf 'threads\t%s\n' "$OMP_NUM_THREADS"
  printf 'memory\t%s\n' "$(value /proc/meminfo MemTotal)"
  if [[ $device == cuda ]]; then
    if command -v nvidia-smi >/dev/null; then
      printf 'GPU\t%s\n' "$(nvidia-smi --query-gpu=name,memory.total,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader | head -n 1)"
      printf 'driver\t%s\n' "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
    elif [[ -r /proc/driver/nvidia/version ]]; then
      printf 'driver\t%s\n' "$(value /proc/driver/nvidia/version 'Kernel Module')"
    fi
    for library in "$work"/cuda/*; do printf '%s\t%s\n' "${library##*/}" "$(realpath "$library")"; done
  fi
} >"$out/machine.txt"
: >"$out/parts.txt"

# The parts. part NAME LIMIT LEAST COMMAND...: runs it for LIMIT seconds at most, or not at all where fewer than LEAST
# are left; what it prints goes to OUT/NAME.log, and its end to parts.txt.
part() {
  local name=$1 limit=$2 least=$3 left=$((seconds - SECONDS)) begin=$SECONDS status state=passed note=''
  shift 3
  if ((left < least)); then
    state='not run' note="$left s were left"
  else
    ((limit <= left)) || limit=$left
    time_of_part=$limit "$@" >"$out/$name.log" 2>&1
    status=$?
    case $status in
      0) ;;
      124 | 137) state='timed out' note="after $limit s" ;;
      *) state=failed note="status $status, see $name.log" ;;
    esac
  fi
  printf '%s\t%s\t%s\t%s\n' "$name" "$state" "$((SECONDS - begin))" "$note" >>"$out/parts.txt"
  printf '%-24s %-10s %4d s  %s\n' "$name" "$state" "$((SECONDS - begin))" "$note"
  [[ $state == passed ]] || all_passed=no
}
all_passed=yes
# A program of the bundle, ended when the part's time is up.
limited() { with_libraries timeout -k 5 "$time_of_part" "$@"; }

verify() { limited bin/heddle verify "$@" --device "$device" --json >"$out/verify.json"; }

# Four processes, since most of a test's time is the processor's.
kernel_tests() {
  local shards=4 i status=0 pids=()
  for ((i = 0; i < shards; ++i)); do
    OMP_NUM_THREADS=1 GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i limited bin/test_kernels --gtest_brief=1 \
      --gtest_output=json:"$out/kernel_tests_$i.json" &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=$?; done
  return "$status"
}

# curve PRECISION STEPS FIRST LAST: the tiny run against the CPU's, within these tolerances in nats per token: of each of
# the first 10 steps, and of the mean of the last 20.
# Two builds for CPUs with other vectors and threads differed by 1e-8 and 1e-4.
float32_tolerance=(0.0001 0.01)
bfloat16_tolerance=(0.05 0.05)
curve() {
  limited bin/heddle train --config configs/loom-tiny.cfg --data.store store.h5 --layout.expert_parallel 1 \
    --train.steps 200 --run.stop_after "$2" --run.device "$device" --run.precision "$1" \
    --run.directory "$work/run_$1" || return
  limited bin/device_report curve expected/log.h5 "$work/run_$1/log.h5" "$out/curve_$1.json" "$3" "$4"
}

# kernels CONFIG, training CONFIG: the benchmarks, with options behind.
kernels() {
  limited bin/bench_kernels --config "configs/$1.cfg" --run.device "$device" --run.precision "$precision" \
    --bench.json "$out/kernels_$1.json" "${@:2}"
}
training() {
  limited bin/bench_training_steps --config "configs/$1.cfg" --data.store store.h5 --run.device "$device" \
    --run.precision "$precision" --bench.budget $((time_of_part > 20 ? time_of_part - 15 : 5)) \
    --bench.json "$out/training_$1.json" "${@:2}"
}

if [[ $device == cuda ]]; then
  precision=bfloat16
  part verify 60 5 verify tests/golden/* tests/golden_family/*
  part kernel_tests 90 5 kernel_tests
  part curve_float32 60 10 curve float32 200 "${float32_tolerance[@]}"
  part training_loom-329m 70 20 training loom-329m
  part kernels_loom-1.7b 40 15 kernels loom-1.7b
  part training_loom-1.7b 120 30 training loom-1.7b
  part curve_bfloat16 40 10 curve bfloat16 200 "${bfloat16_tolerance[@]}"
  part kernels_loom-329m 30 15 kernels loom-329m
else
  precision=float32
  small=(--train.micro_batch 2 --train.sequence_length 64 --bench.product_size 256)
  part verify 60 5 verify tests/golden/loom_r1 tests/golden/loom_r4_k2 tests/golden_family/moe_top1_softmax_r3
  part kernel_tests 120 5 kernel_tests
  part curve_float32 90 10 curve float32 20 "${float32_tolerance[@]}"
  part training_loom-tiny 60 5 training loom-tiny --bench.loops 1,3,6 --bench.seconds 0.5 "${small[@]}"
  part kernels_loom-tiny 60 10 kernels loom-tiny --data.store store.h5 --bench.repetitions 3 "${small[@]}"
fi

with_libraries bin/device_report tables "$out" || all_passed=no
echo "wrote $out/device_check.json and device_check.md; $SECONDS s in total"
[[ $all_passed == yes ]]
