#!/usr/bin/env bash
# Installs the Debian 12 packages that Heddle is built from. Does nothing, and needs no rights, if all are there.
#   launch/install_packages.sh            what building and running needs
#   launch/install_packages.sh --tests    and what the tests and checks need
#   launch/install_packages.sh --check    only says what is missing; installs nothing and uses no network
#   launch/install_packages.sh --update   only refreshes apt's package lists
# Exit status: 0 all there, 1 something is missing or cannot be installed, 2 wrong use.
set -euo pipefail

build_packages=(
  cmake ninja-build g++ ccache pkg-config git ca-certificates
  openmpi-bin libopenmpi-dev            # ranks
  libhdf5-openmpi-dev                   # token stores, checkpoints, run logs
  libdnnl-dev                           # matrix products
  opencl-headers ocl-icd-opencl-dev     # libdnnl-dev's CMake file asks for them
  libsentencepiece-dev                  # tokenizer
  libutfcpp-dev                         # UTF-8
  libboost-program-options-dev          # configuration
  libfmt-dev nlohmann-json3-dev
  librandom123-dev libxxhash-dev        # random numbers, hashes
  libjs-vega                            # charts of reports
  zlib1g-dev liblzma-dev                # packed texts, compression baselines
)
test_packages=(
  libgtest-dev clang-format
  python3 chromium                      # reports in a browser
  python3-torch python3-h5py python3-numpy  # the reference that the model family is held against
)

usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }

packages=("${build_packages[@]}")
check=no update=no
for argument in "$@"; do
  case $argument in
    --tests) packages+=("${test_packages[@]}") ;;
    --check) check=yes ;;
    --update) update=yes ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "error: install_packages.sh knows no '$argument'" >&2
      usage >&2
      exit 2
      ;;
  esac
done

# Root runs apt-get itself, others by sudo.
need_rights() {
  ((EUID == 0)) || command -v sudo >/dev/null && return
  echo "error: installing packages needs root, and there is no sudo" >&2
  echo "  hint: as root, run: apt-get update && apt-get install --no-install-recommends ${missing[*]:-}" >&2
  exit 1
}
apt() {
  local run=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@")
  if ((EUID == 0)); then "${run[@]}"; else sudo "${run[@]}"; fi
}

missing=()
if [[ $update == yes ]]; then
  need_rights
  apt update
  exit 0
fi

command -v dpkg-query >/dev/null || {
  echo "error: there is no dpkg: this script installs packages of Debian 12" >&2
  echo "  hint: on another system install the libraries of README.md (Dependencies) and run cmake yourself" >&2
  exit 1
}
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $state == ii* ]] || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi
if [[ $check == yes ]]; then
  echo "missing packages: ${missing[*]}"
  exit 1
fi
need_rights
echo "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "error: the packages could not be installed" >&2
  echo "  hint: is there a network? The packages are those of Debian 12 (bookworm), component main" >&2
  exit 1
fi
