#!/usr/bin/env bash
# How a job ends: exit status of mpirun, messages, and no rank that waits for another one for ever.
# usage: abort_test.sh MPIRUN ABORT_HELPER
set -u
mpirun=$1
helper=$2
failures=0

# check NAME STATUS OCCURRENCES TEXT COMMAND...: the command must end within 20 s with STATUS (of mpirun or the program)
# and print TEXT that many times.
check() {
  local name=$1 status=$2 occurrences=$3 text=$4 output found count
  shift 4
  output=$(timeout 20 "$@" 2>&1)
  found=$?
  count=$(grep -cF -- "$text" <<<"$output")
  if [[ $found -ne $status || $count -ne $occurrences ]]; then
    echo "FAILED $name: status $found, expected $status; '$text' $count times, expected $occurrences; again: $*"
    echo "$output"
    failures=$((failures + 1))
  fi
}

two=("$mpirun" --bind-to none -n 2 "$helper")
check "plain end" 0 1 "ended with 2 ranks" "${two[@]}" end
check "one rank aborts" 7 1 "error: [rank 1] on $(hostname): the disk of this rank is full" "${two[@]}" abort-one
check "output before an abort" 7 1 "started" "${two[@]}" abort-one
check "all ranks abort" 2 1 "no such configuration" "${two[@]}" abort-all
check "an exception leaves the job" 1 1 "[rank 1] on $(hostname): an exception left the job" "${two[@]}" throw-one
check "a rank never comes" 1 1 "rank 0 of 2 waits in barrier at step 7, segment 0, loop 2, layer 1, forward" "${two[@]}" hang-one
check "one rank alone" 2 1 "error: no such configuration" "$helper" abort-all
check "one rank alone ends" 0 1 "ended with 1 ranks" "$helper" end
check "one rank under mpirun" 2 1 "error: no such configuration" "$mpirun" -n 1 "$helper" abort-all
check "mpirun of another MPI" 2 1 "the launcher says 4 processes (PMI_SIZE), MPI says 1" env PMI_SIZE=4 PMI_RANK=0 "$helper" end
exit $((failures > 0))
