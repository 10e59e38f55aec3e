#!/usr/bin/env bash
# Checks the source, builds the tests and runs them. The last lines are ctest's.
#   tests/run.sh                              release build in build/
#   tests/run.sh --sanitize address|thread    build-address/ or build-thread/: memory and undefined behaviour, or races
#   tests/run.sh --cuda emulated|nvcc [...]   with the CUDA backend: on an emulated GPU, in build-emulated[-address|-thread]/,
#                                             or for real ones, in build-cuda[-address|-thread]/ (docs/cuda_kernels.md)
#   tests/run.sh --all                        what .ci/run does: with the CUDA toolkit on an emulated GPU under address, a
#                                             build for real GPUs, release; without the toolkit address, then release
#   tests/run.sh --races                      a quarter of an hour more: on emulated GPUs under thread, all kernels and two
#                                             training steps on two ranks
#   tests/run.sh [...] -- CTEST-OPTIONS       for instance -- -R kernels
# Exit status: 0 all passed (or there is no CUDA toolkit for --cuda), 1 a check, a build or a test failed, 2 wrong use.
set -euo pipefail

usage() { sed -n '3,12s/^# \{0,1\}//p' "$0"; }

run=release
cuda=OFF
all=no
races=no
while (($# > 0)); do
  case $1 in
    --sanitize)
      if [[ ${2:-} != address && ${2:-} != thread ]]; then
        echo "error: --sanitize takes address or thread, found '${2:-}'" >&2
        exit 2
      fi
      run=$2
      shift
      ;;
    --cuda)
      case ${2:-} in
        emulated) cuda=EMULATED ;;
        nvcc) cuda=ON ;;
        *)
          echo "error: --cuda takes emulated or nvcc, found '${2:-}'" >&2
          exit 2
          ;;
      esac
      shift
      ;;
    --all) all=yes ;;
    --races) races=yes ;;
    --help | -h)
      usage
      exit 0
      ;;
    --)
      shift
      break
      ;;
    *)
      echo "error: tests/run.sh knows no '$1'" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done
ctest_options=("$@")

cd "$(dirname "$0")/.."
jobs=$(env -u OMP_NUM_THREADS nproc)
((jobs >= 2)) || jobs=2
stage() { printf '\n== %s  (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

# What ranks need in containers, as root, and where there are fewer cores than ranks.
export OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none

check_source() {
  stage "format"
  git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 clang-format --dry-run --Werror || {
    echo "error: some files are not formatted" >&2
    echo "  hint: git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format -i" >&2
    exit 1
  }
}

# has_cuda MODE: the parts of the toolkit that the CUDA build of this mode needs are there.
has_cuda() {
  local place
  for place in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local /usr; do
    [[ -n $place && -e $place/include/cuda_runtime.h ]] || continue
    if [[ $1 == EMULATED || -x $place/bin/nvcc ]] || command -v nvcc >/dev/null; then return; fi
  done
  return 1
}

# folder_of SANITIZER: the build folder.
folder_of() {
  local folder=build
  [[ $cuda == EMULATED ]] && folder=build-emulated
  [[ $cuda == ON ]] && folder=build-cuda
  echo "$folder${1:+-$1}"
}

# build SANITIZER [TARGET...]
build() {
  local folder
  folder=$(folder_of "$1")
  stage "build: $folder"
  cmake -S . -B "$folder" -G Ninja -DHEDDLE_TESTS=ON -DHEDDLE_SANITIZE="$1" -DHEDDLE_CUDA="$cuda"
  shift
  if [[ -t 1 ]]; then ninja -C "$folder" -j "$jobs" "$@"; else ninja -C "$folder" -j "$jobs" --quiet "$@"; fi
}

# run_tests SANITIZER [OPTION OF CTEST...]
run_tests() {
  local folder
  folder=$(folder_of "$1")
  shift
  stage "tests: $folder"
  ctest --test-dir "$folder" --output-on-failure -j "$jobs" "$@" ${ctest_options[@]+"${ctest_options[@]}"}
}

# The variables of a sanitizer are set in subshells: they must not reach another run.
set_address() {
  # Open MPI's leaks have no frame pointers to be recognised by.
  export ASAN_OPTIONS=fast_unwind_on_malloc=0
  # The driver of a real GPU needs addresses that AddressSanitizer would protect.
  if [[ $cuda == ON ]]; then ASAN_OPTIONS+=:protect_shadow_gap=0; fi
  export LSAN_OPTIONS=suppressions=$PWD/tests/distributed/leaks_of_mpi.txt:print_suppressions=0
  export UBSAN_OPTIONS=print_stacktrace=1
}
set_thread() {
  export OMPI_MCA_btl=self,vader
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=$PWD/tests/sanitizers/threads.txt
}

build_and_test() (
  case $1 in
    address) set_address ;;
    thread) set_thread ;;
  esac
  local sanitizer=$1
  [[ $1 == release ]] && sanitizer=""
  build "$sanitizer"
  run_tests "$sanitizer"
)

# Memory, on processors and on an emulated GPU. Four sanitized ranks that share two cores are slow, and run in release.
test_memory_on_gpus() (
  cuda=EMULATED
  set_address
  build address
  run_tests address -E '^reference\.|^distributed\..*\.4$'
)

# Not a part of --all, which has an hour.
test_races_on_gpus() (
  cuda=EMULATED
  set_thread
  build thread test_kernels test_distributed
  run_tests thread -R '^kernels\.shard|^distributed\.cuda_training\.2$'
)

# Everything compiles and links for real GPUs, and the program says what it lacks here.
build_for_gpus() (
  cuda=ON
  build "" heddle test_launch test_kernels test_cuda test_distributed
  run_tests "" -R '^launch\.Device\.'
)

run_all() {
  if has_cuda EMULATED; then
    test_memory_on_gpus
  else
    echo "skipped: everything on an emulated GPU, for want of the CUDA toolkit (CUDA_HOME says where it is)"
    build_and_test address
  fi
  if has_cuda ON; then
    build_for_gpus
  else
    echo "skipped: the build for real GPUs, for want of nvcc"
  fi
  build_and_test release
}

if [[ $all == no && $cuda != OFF ]] && ! has_cuda "$cuda"; then
  echo "skipped: --cuda needs the CUDA toolkit, which is not on this machine (CUDA_HOME says where it is)"
  exit 0
fi
if [[ $races == yes ]] && ! has_cuda EMULATED; then
  echo "skipped: --races needs the headers of the CUDA toolkit (CUDA_HOME says where they are)"
  exit 0
fi
launch/install_packages.sh --tests
check_source
if [[ $races == yes ]]; then
  test_races_on_gpus
elif [[ $all == yes ]]; then
  cuda=OFF
  run_all
else
  build_and_test "$run"
fi
