#!/usr/bin/env bash
# Makes a bundle that checks and measures Heddle on a machine with a GPU, where nothing of Heddle or its packages is
# (docs/device_check.md). This machine needs the CUDA toolkit and no GPU.
#   launch/device_check.sh bundle [OUT.tar.xz|OUT.tar.gz]     heddle_device_check.tar.xz if not given
# There:  tar xf heddle_device_check.tar.xz && heddle_device_check/run.sh [OUT_FOLDER]
# Texts come from runs/corpus, as in launch/quickstart.sh, and are fetched if they are not there; built in
# build-device-check/. Exit status: 0 done, 1 failed, 2 wrong use, 3 there is no CUDA toolkit.
set -euo pipefail

usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }
fail() {
  echo "error: $1" >&2
  echo "  hint: $2" >&2
  exit "${3:-1}"
}
stage() { printf '\n== %s  (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

case ${1:-} in
  bundle) ;;
  --help | -h)
    usage
    exit 0
    ;;
  '') fail "device_check.sh needs to be told what to do" "launch/device_check.sh bundle" 2 ;;
  *) fail "device_check.sh knows no '$1'" "launch/device_check.sh --help" 2 ;;
esac
(($# <= 2)) || fail "too many arguments: ${*:3}" "launch/device_check.sh bundle [OUT.tar.xz]" 2
out=${2:-heddle_device_check.tar.xz}
case $out in
  *.tar.xz) pack=(xz -6 -T0) ;;
  *.tar.gz) pack=(gzip -9) ;;
  *) fail "the bundle's name '$out' ends in neither .tar.xz nor .tar.gz" "launch/device_check.sh bundle OUT.tar.xz" 2 ;;
esac
[[ -d $(dirname "$out") ]] || fail "there is no folder for '$out'" "make it: mkdir -p $(dirname "$out")" 2
out=$(realpath "$out")

toolkit=${CUDA_HOME:-${CUDA_PATH:-/usr/local/cuda}}
[[ -x $toolkit/bin/nvcc ]] || fail "a bundle is built with nvcc, and there is no CUDA toolkit in '$toolkit'" \
  "install CUDA 13 with cuBLAS and NCCL, and say in CUDA_HOME where it is" 3

cd "$(dirname "$0")/.."
most_mib=60
build=build-device-check
programs=(heddle device_report)
programs_below=(tests/test_kernels bench/bench_kernels bench/bench_training_steps)
folder=$build/bundle/heddle_device_check

stage "build"
mkdir -p $build
# For any machine with a GPU, not for this one's processor.
cmake -S . -B $build -G Ninja -DHEDDLE_CUDA=ON -DHEDDLE_TESTS=ON -DHEDDLE_BENCH=ON -DHEDDLE_NATIVE=OFF \
  -DCMAKE_CXX_FLAGS=-march=x86-64-v3 >$build/cmake.log ||
  fail "cmake failed" "see above and $build/cmake.log"
ninja -C $build "${programs[@]}" "${programs_below[@]##*/}"

stage "programs and libraries"
rm -rf "$folder"
mkdir -p "$folder"/{bin,lib,tests,expected}
for program in "${programs[@]}" "${programs_below[@]}"; do strip -o "$folder/bin/${program##*/}" "$build/$program"; done
# What the machine itself must have: glibc, and what belongs to the GPU.
is_of_glibc() { [[ $1 =~ ^(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|util))\.so ]]; }
is_of_cuda() { [[ $1 =~ ^lib(cuda|cudart|cublas|cublasLt|nccl)\.so ]]; }
: >"$folder/needs_cuda"
while read -r name arrow path _; do
  [[ $arrow == '=>' ]] || continue
  [[ $path == /* ]] || fail "$name, which a program needs, is not found" "ldd $folder/bin/heddle"
  if is_of_cuda "$name"; then
    echo "$name" >>"$folder/needs_cuda"
  elif ! is_of_glibc "$name"; then
    cp -L "$path" "$folder/lib/$name"
  fi
done < <(ldd "$folder"/bin/* | sort -u -k 1,1)
readelf -VW "$folder"/bin/* "$folder"/lib/* 2>/dev/null | grep -o 'GLIBC_2[0-9.]*' | sort -uV | tail -n 1 |
  sed 's/GLIBC_//' >"$folder/needs_glibc"

stage "cases and configurations"
cp -r tests/golden tests/golden_family "$folder/tests/"
cp -r configs "$folder/"
cp launch/device_check/run.sh "$folder/"
if [[ -n $(git status --porcelain 2>/dev/null) ]]; then changed=' and changes'; else changed=''; fi
echo "$(git rev-parse HEAD 2>/dev/null || echo unknown)$changed" >"$folder/commit"

stage "token store"
heddle=$build/heddle
texts=runs/corpus/text
[[ -d runs/corpus/root/usr ]] || launch/fetch_corpus.sh runs/corpus
$heddle data classics runs/corpus/root -o $texts
# Without a validation part: a run would spend its end on it.
$heddle data build $texts/train.jsonl -o $build/store.h5 --data.vocabulary_size 4096 --force
cp $build/store.h5 "$folder/store.h5"

stage "the CPU's run"
# Kept until the program, the configuration or the texts change.
stamp=$(cat "$folder/bin/heddle" "$folder/configs/loom-tiny.cfg" "$folder/store.h5" | sha256sum)
if [[ ! -f $build/expected.stamp || $(<$build/expected.stamp) != "$stamp" ]]; then
  rm -rf $build/expected
  OMP_WAIT_POLICY=passive $heddle train --config configs/loom-tiny.cfg --data.store "$folder/store.h5" \
    --layout.expert_parallel 1 --train.steps 200 --run.device cpu --run.directory $build/expected
  echo "$stamp" >$build/expected.stamp
fi
cp $build/expected/log.h5 "$folder/expected/"

stage "bundle"
tar -C $build/bundle --sort=name --owner=0 --group=0 --numeric-owner -cf - heddle_device_check | "${pack[@]}" >"$out"
bytes=$(stat -c %s "$out")
printf '%s: %d.%02d MiB packed, %d MiB unpacked; needs glibc %s and %s\n' "$out" $((bytes >> 20)) \
  $(((bytes & 1048575) * 100 >> 20)) "$(du -sm "$folder" | cut -f 1)" "$(<"$folder/needs_glibc")" \
  "$(paste -sd ' ' "$folder/needs_cuda")"
((bytes <= most_mib << 20)) ||
  fail "the bundle is larger than $most_mib MiB" "the largest: $(find "$folder" -type f -printf '%s %P\n' | sort -rn | head -n 3 | paste -sd ';')"
