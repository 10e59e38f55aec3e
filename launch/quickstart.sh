#!/usr/bin/env bash
# From a clean clone to a trained, measured and diagnosed model on two CPU cores, meant for ten minutes.
# A second run continues where the first one stopped, and is quick if that had finished.
#   launch/quickstart.sh                 train on public-domain novels out of Debian packages
#   launch/quickstart.sh --corpus DIR    train on the .txt and .jsonl files below DIR
#   launch/quickstart.sh --offline       use no network: packages and texts must be there
#   --data.KEY=VALUE goes to "heddle data build" (--data.split=blank_lines, --data.vocabulary_size=1024)
# Results: runs/quickstart/ (checkpoints, log.h5, summary.json). Exit status: 0 done, 1 failed, 2 wrong use.
set -euo pipefail

usage() { sed -n '4,8s/^# \{0,1\}//p' "$0"; }
fail() {
  echo "error: $1" >&2
  echo "  hint: $2" >&2
  exit "${3:-1}"
}

corpus='' offline=no data_options=()
while (($# > 0)); do
  case $1 in
    --corpus)
      (($# > 1)) || fail "--corpus lacks its folder" "launch/quickstart.sh --corpus DIR" 2
      corpus=$(realpath -- "$2")
      shift
      ;;
    --offline) offline=yes ;;
    --data.*=*) data_options+=("$1") ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) fail "quickstart.sh knows no '$1'" "launch/quickstart.sh --help" 2 ;;
  esac
  shift
done
[[ -z $corpus || -e $corpus ]] || fail "there is no '$corpus'" "--corpus takes a folder of .txt or .jsonl files" 2

cd "$(dirname "$0")/.."
heddle=build/heddle
run=runs/quickstart
if [[ -n $corpus ]]; then store=runs/data/corpus.h5; else store=runs/data/classics.h5; fi

stage() { printf '\n== %s  (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
on_ranks() { launch/heddle-mpirun -n 2 --threads 1 -- "$heddle" "$@"; }

# The program's JSON files have one value a line.
# number FILE KEY [SECTION]: the value of KEY in FILE, or below SECTION; the last one if there are several.
number() {
  if (($# > 2)); then sed -n "/\"$3\": {/,/}/p" "$1"; else cat "$1"; fi |
    sed -n "s/^ *\"$2\": \(.*[^,]\),\{0,1\}$/\1/p" | tail -n 1
}

stage "packages"
if [[ $offline == yes ]]; then
  launch/install_packages.sh --check || fail "--offline, and packages are missing" "launch/install_packages.sh, with a network"
else
  launch/install_packages.sh
fi

stage "build"
mkdir -p runs
if [[ ! -f build/build.ninja ]]; then
  cmake -S . -B build -G Ninja -DHEDDLE_TESTS=OFF >runs/cmake.log || fail "cmake failed" "see above and runs/cmake.log"
fi
if [[ -t 1 ]]; then ninja -C build heddle; else ninja -C build --quiet heddle; fi

# default KEY VALUE: an option of the token store, unless the caller has set it.
default() { [[ " ${data_options[*]} " == *" --$1="* ]] || data_options+=("--$1=$2"); }
case " ${data_options[*]} " in
  *" --data.tokenizer=bytes "* | *" --data.tokenizer_from="*) ;; # the ids are given
  *) default data.vocabulary_size 4096 ;;
esac
if [[ -n $corpus ]]; then
  default data.validation_fraction 0.05
  default data.split chapters
  inputs=("$corpus")
else
  stage "texts"
  if [[ $offline == no ]]; then
    apt-cache show r-cran-janeaustenr >/dev/null 2>&1 || launch/install_packages.sh --update
    launch/fetch_corpus.sh runs/corpus
  elif [[ ! -d runs/corpus/root/usr ]]; then
    fail "--offline, and the texts are not in runs/corpus" \
      "run launch/fetch_corpus.sh runs/corpus where there is a network, or give --corpus DIR"
  fi
  "$heddle" data classics runs/corpus/root -o runs/corpus/text
  texts=runs/corpus/text
  inputs=("$texts/train.jsonl" --validation "$texts/validation.jsonl" --other "$texts/other_author.jsonl")
fi

stage "token store"
"$heddle" data build "${inputs[@]}" -o "$store" "${data_options[@]}" ||
  fail "there is no token store to train on" "to train on another text, first move $store and $run away"
shown=$("$heddle" data show "$store")
content=$(sed -n 's/^content hash: \([0-9a-f]*\).*/\1/p' <<<"$shown")
parts=(validation)
if grep -q '^other ' <<<"$shown"; then parts+=(other); fi
mkdir -p "$run"
if [[ -f $run/content_hash && $(<"$run/content_hash") != "$content" ]]; then
  fail "$run was trained on other tokens than those in $store" "move it away: mv $run $run-old"
fi
echo "$content" >"$run/content_hash"

stage "baselines: bigrams and xz"
baselines=$run/baselines.json
if [[ -f $baselines ]]; then
  echo "measured before: $baselines"
else
  "$heddle" data baselines "$store" --json "$baselines"
fi

stage "training"
if [[ -f $run/train.json ]]; then
  echo "finished before; to train afresh: rm -r $run"
else
  on_ranks train --config configs/loom-tiny.cfg --data.store "$store" --run.directory "$run" --run.resume true \
    --run.summary "$run/train.json"
fi

stage "evaluation at several loop counts"
for part in "${parts[@]}"; do
  if [[ $run/eval_$part.json -nt $run/train.json ]]; then
    echo "measured before: $run/eval_$part.json"
  else
    on_ranks eval "$run" --eval.part "$part" --eval.loops 1,2,3,6 --json "$run/eval_$part.json"
  fi
done

stage "a paragraph"
"$heddle" generate "$run" --prompt "It was a truth" --tokens 120 --temperature 0.8 --top_k 40

stage "diagnosis"
# Status 3 means that it found a problem, which it prints.
"$heddle" diagnose "$run" --json "$run/diagnosis.json" || (($? == 3))
"$heddle" report "$run" -o "$run/report.html"

stage "summary"
model=$(number "$run/eval_validation.json" bits_per_byte)
token_bigram=$(number "$baselines" token_bigram validation)
cat >"$run/summary.json" <<JSON
{
  "validation_bits_per_byte": $model,
  "token_bigram_bits_per_byte": $token_bigram,
  "byte_bigram_bits_per_byte": $(number "$baselines" byte_bigram validation),
  "xz_bits_per_byte": $(number "$baselines" xz validation),
  "xz_primed_bits_per_byte": $(number "$baselines" xz_primed validation),
  "tokens_per_second": $(number "$run/diagnosis.json" tokens_per_second),
  "peak_bytes": $(number "$run/train.json" peak_bytes),
  "diagnosis": $(number "$run/diagnosis.json" verdict)
}
JSON

printf '%-24s' "bits per byte"
printf '%14s' "${parts[@]}"
echo
row() {
  local name=$1 part
  shift
  printf '%-24s' "$name"
  for part in "${parts[@]}"; do printf '%14.4f' "$("$@" "$part")"; done
  echo
}
model_on() { number "$run/eval_$1.json" bits_per_byte; }
baseline_on() { number "$baselines" "$1" "$2"; }
row "model, 6 loops" model_on
row "token bigram" baseline_on token_bigram
row "byte bigram" baseline_on byte_bigram
row "xz alone" baseline_on xz
row "xz after train text" baseline_on xz_primed
if awk "BEGIN { exit !($model < $token_bigram) }"; then
  echo "The model beats the token bigram on the validation text."
else
  echo "The model does NOT beat the token bigram on the validation text."
fi
printf 'wrote %s; %d:%02d in total\n' "$run/summary.json" $((SECONDS / 60)) $((SECONDS % 60))
