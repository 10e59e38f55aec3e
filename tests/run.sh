#!/usr/bin/env bash
# Checks the source, builds the tests and runs them. The last lines are ctest's.
#   tests/run.sh                              release build in build/
#   tests/run.sh --sanitize address|thread    build-address/ or build-thread/: memory and undefined behaviour, or races
#   tests/run.sh --all                        address, then release; what .ci/run does
#   tests/run.sh [...] -- CTEST-OPTIONS       for instance -- -R kernels
# Exit status: 0 all passed, 1 a check, a build or a test failed, 2 wrong use.
set -euo pipefail

usage() { sed -n '3,7s/^# \{0,1\}//p' "$0"; }

runs=(release)
while (($# > 0)); do
  case $1 in
    --sanitize)
      if [[ ${2:-} != address && ${2:-} != thread ]]; then
        echo "error: --sanitize takes address or thread, found '${2:-}'" >&2
        exit 2
      fi
      runs=("$2")
      shift
      ;;
    --all) runs=(address release) ;;
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

# build_and_test RUN FOLDER SANITIZER
build_and_test() {
  stage "build: $1"
  cmake -S . -B "$2" -G Ninja -DHEDDLE_TESTS=ON -DHEDDLE_SANITIZE="$3"
  if [[ -t 1 ]]; then ninja -C "$2" -j "$jobs"; else ninja -C "$2" -j "$jobs" --quiet; fi
  stage "tests: $1"
  ctest --test-dir "$2" --output-on-failure -j "$jobs" ${ctest_options[@]+"${ctest_options[@]}"}
}

launch/install_packages.sh --tests
check_source
for run in "${runs[@]}"; do
  case $run in
    release) build_and_test release build "" ;;
    # A subshell each: the variables of one sanitizer must not reach another run.
    address) (
      # Open MPI's leaks have no frame pointers to be recognised by.
      export ASAN_OPTIONS=fast_unwind_on_malloc=0
      export LSAN_OPTIONS=suppressions=$PWD/tests/distributed/leaks_of_mpi.txt:print_suppressions=0
      export UBSAN_OPTIONS=print_stacktrace=1
      build_and_test address build-address address
    ) ;;
    thread) (
      export OMPI_MCA_btl=self,vader
      export TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=$PWD/tests/sanitizers/threads.txt
      build_and_test thread build-thread thread
    ) ;;
  esac
done
