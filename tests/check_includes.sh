#!/usr/bin/env bash
# A room includes itself and the rooms that it links, directly or through them (the heddle_room lines of
# CMakeLists.txt): this keeps the directions of docs/architecture.md. Exit status: 0 fine, 1 with a list of wrong lines.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A folder allowed
while read -r room dir links; do
  folder[$room]=$dir
  allowed[$room]=" $room "
  # Rooms come lowest first, so those that are linked are known already.
  for link in $links; do
    if [[ $link == heddle_* ]]; then allowed[$room]+="${allowed[${link#heddle_}]}"; fi
  done
done < <(sed -n 's/^heddle_room(\([a-z]*\) *DIR \([a-z/]*\) *LINK \(.*\))$/\1 \2 \3/p' CMakeLists.txt)
if ((${#folder[@]} == 0)); then
  echo "error: CMakeLists.txt names no room" >&2
  exit 1
fi
# The program uses every room, and no room uses the program.
allowed[launch]=" launch ${!folder[*]} "
folder[launch]=launch

wrong=0
for room in "${!folder[@]}"; do
  while IFS=: read -r file line text; do
    included=${text#*\"}
    included=${included%%/*}
    if [[ -n ${folder[$included]:-} && ${allowed[$room]} != *" $included "* ]]; then
      echo "error: $file:$line: room $room may not include room $included ($text)" >&2
      wrong=1
    fi
  done < <(git grep -nE '^#include "[a-z_]+/' -- "${folder[$room]}/*.h" "${folder[$room]}/*.cpp" || true)
done
if ((wrong)); then
  echo "  hint: move what is shared into a lower room, or add the room to the LINK list in CMakeLists.txt" >&2
fi
exit "$wrong"
