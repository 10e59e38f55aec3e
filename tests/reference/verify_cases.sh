#!/usr/bin/env bash
# Verifies the cases that make_cases.py wrote, on one rank or two.
# usage: verify_cases.sh HEDDLE CASES_DIR RANKS [MPIRUN]
# Cases that count capacity by process are left to the number of processes they were made for.
set -u
heddle=$1
cases=$2
ranks=$3
log=$cases/verify_$ranks.log
chosen=()
for case in "$cases"/*/; do
  rule=$(/usr/bin/python3 -c '
import json, sys
config = json.load(open(sys.argv[1]))
moe = config["moe"] or {}
by_rank = moe.get("capacity_factor", 0) > 0 and moe["capacity_scope"] == "rank"
print(config["ranks"] if by_rank else 0)' "$case/config.json") || exit 1
  [[ $rule -eq 0 || $rule -eq $ranks ]] || continue
  chosen+=("$case")
done
((${#chosen[@]} >= 60)) || {
  echo "only ${#chosen[@]} cases in '$cases'"
  exit 1
}
if [[ $ranks -eq 1 ]]; then
  "$heddle" verify "${chosen[@]}" >"$log"
else
  "$4" --bind-to none -n "$ranks" "$heddle" verify "${chosen[@]}" >"$log"
fi
status=$?
grep -E '^case|FAILED' "$log" | grep -B1 FAILED
tail -n 1 "$log"
exit $status
