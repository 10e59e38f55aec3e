#!/usr/bin/env bash
# A signal to one rank stops all ranks at the end of a step, with a checkpoint from which the run goes on.
# usage: stop_test.sh MPIRUN HEDDLE
set -euo pipefail
mpirun=$1 heddle=$2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

. "$here/tiny_run.sh"
cat >>run.cfg <<'CONFIG'
steps = 1000000
[run]
directory = run
log_interval = 5
resume = true
CONFIG

failed() {
  echo "error: $1" >&2
  tail -n 20 out.txt >&2
  exit 1
}

# stops_at SIGNAL WHOM: starts the run, sends the signal to a rank or to mpirun, and wants status 4 and a checkpoint.
stops_at() {
  rm -f out.txt  # its old lines would pass for the new run's
  "$mpirun" --bind-to none -n 2 "$heddle" train --config run.cfg >out.txt 2>&1 &
  local job=$! status=0
  for _ in $(seq 600); do
    grep -qs '^step ' out.txt && break
    kill -0 "$job" 2>/dev/null || failed "the run ended by itself"
    sleep 0.1
  done
  if [[ $2 == rank ]]; then kill -"$1" "$(last_child "$job")"; else kill -"$1" "$job"; fi
  wait "$job" || status=$?
  [[ $status == 4 ]] || failed "SIG$1 to a $2 gave status $status, expected 4"
  grep -q 'stopped by a signal after step' out.txt || failed "no word about the signal"
  ls run/checkpoints/*.complete >/dev/null || failed "no complete checkpoint"
}

stops_at TERM rank
stops_at USR1 mpirun
grep -q 'resuming from' out.txt || failed "the second start did not go on from the first one's checkpoint"
