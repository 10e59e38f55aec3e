#!/usr/bin/env bash
# What heddle-mpirun chooses and refuses. Most cases print the command only (--dry-run), with a faked number of cores.
# usage: launcher_test.sh HEDDLE_MPIRUN ABORT_HELPER
set -u
launcher=$1
helper=$2
failures=0

fakes=$(mktemp -d)
trap 'rm -rf "$fakes"' EXIT
printf '#!/bin/sh\necho 8\n' >"$fakes/nproc"
printf '#!/bin/sh\necho "HYDRA build details"\n' >"$fakes/other-mpirun"
printf '# two hosts\n%s slots=2\nnode7 slots=6\n' "$(hostname)" >"$fakes/hosts"
chmod +x "$fakes/nproc" "$fakes/other-mpirun"

# check STATUS TEXT ARGUMENTS...: the launcher must end with STATUS and print TEXT (with !: must not print it).
check() {
  local status=$1 text=$2 output found
  shift 2
  output=$(PATH="$fakes:$PATH" timeout 20 "$launcher" "$@" 2>&1 </dev/null)
  found=$?
  local good=yes
  [[ $found -eq $status ]] || good=no
  if [[ $text == !* ]]; then
    ! grep -qF -- "${text#!}" <<<"$output" || good=no
  else
    grep -qF -- "$text" <<<"$output" || good=no
  fi
  if [[ $good == no ]]; then
    echo "FAILED heddle-mpirun $*: status $found, expected $status; expected '$text' in:"
    echo "$output"
    failures=$((failures + 1))
  fi
}

unset OMP_NUM_THREADS OMP_WAIT_POLICY OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_mpi_yield_when_idle

check 0 "usage: launch/heddle-mpirun" --help
check 2 "there is no -- between" -n 2 "$helper"
check 2 "there is no program" -n 2 --
check 2 "-n RANKS is missing" -- "$helper"
check 2 "-n 0: expected a number of ranks" -n 0 -- "$helper"
check 2 "-n needs a number" -n
check 2 "--threads two: expected" -n 2 --threads two -- "$helper"
check 2 "cannot be read" -n 2 --hostfile "$fakes/nothing" -- "$helper"
HEDDLE_MPIRUN=no-such-mpirun check 2 "there is no no-such-mpirun on PATH" -n 2 -- "$helper"
HEDDLE_MPIRUN=other-mpirun check 2 "is not Open MPI's" -n 2 -- "$helper"
OMP_NUM_THREADS=many check 2 "OMP_NUM_THREADS=many" -n 2 -- "$helper"

check 0 "2 ranks, 4 threads each (8 cores / 2), wait policy active, binding none" -n 2 --dry-run -- "$helper"
check 0 "3 ranks, 2 threads each" -n 3 --dry-run -- "$helper"
check 0 "8 ranks, 1 threads each" -n 8 --dry-run -- "$helper"
check 0 "!--bind-to" -n 8 --dry-run -- "$helper"
check 0 "9 ranks, 1 threads each (8 cores / 9), wait policy passive, binding none (more ranks than cores), oversubscribed" \
  -n 9 --dry-run -- "$helper"
check 0 "waiting ranks yield" -n 8 --dry-run -- "$helper"
check 0 "!waiting ranks yield" -n 2 --threads 1 --dry-run -- "$helper"
check 0 "!oversubscribed" -n 8 --dry-run -- "$helper"
check 0 "8 threads each (given), wait policy passive" -n 2 --threads 8 --dry-run -- "$helper"
OMP_NUM_THREADS=3 check 0 "3 threads each (from OMP_NUM_THREADS)" -n 2 --dry-run -- "$helper"
OMP_NUM_THREADS=3 check 0 "2 threads each (given)" -n 2 --threads=2 --dry-run -- "$helper"
OMP_WAIT_POLICY=passive check 0 "wait policy passive" -n 2 --dry-run -- "$helper"
check 0 "binding as given" -n 2 --bind-to socket --dry-run -- "$helper"
check 0 " --bind-to socket $helper -n 5" -n 2 --bind-to socket --dry-run -- "$helper" -n 5

# Several hosts: the threads follow from the ranks on this one.
check 0 "8 ranks, 4 threads each" -n 8 --hostfile "$fakes/hosts" --dry-run -- "$helper"
check 0 "--hostfile $fakes/hosts $helper" -n 8 --hostfile "$fakes/hosts" --dry-run -- "$helper"
check 0 "12 ranks, 2 threads each" -n 12 -H "localhost:4,node7:8" --dry-run -- "$helper"

# And it starts programs, with the exit status of the job.
check 0 "ended with 2 ranks" -n 2 --threads 1 -- "$helper" end
check 7 "the disk of this rank is full" -n 2 --threads 1 -- "$helper" abort-one
exit $((failures > 0))
