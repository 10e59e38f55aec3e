#!/bin/sh
# Fetches the five Debian packages with the demonstration texts (7 MB) and unpacks them, without installing anything:
#   launch/fetch_corpus.sh DIR      -> DIR/debs/*.deb, DIR/root/usr/...
# Needs apt-get and dpkg-deb and package lists ("apt-get update"), but no root. A second run finds all in place.
# Exit status: 0 done, 2 wrong use, 3 a package cannot be fetched, 4 a package is not the one expected.
set -eu

if [ $# -ne 1 ]; then
  echo "usage: launch/fetch_corpus.sh DIR" >&2
  exit 2
fi
mkdir -p "$1/debs" "$1/root"
debs=$(cd "$1/debs" && pwd)
root=$(cd "$1/root" && pwd)

# package, version, sha256 of the .deb
packages='
r-cran-janeaustenr 1.0.0-1 df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95
liblingua-stem-perl 2.31-1 016f94cfd5c0c0ebdbd8d69d7f0672da6c5db7aa6ffee27a812f35255df7cfd3
golang-github-jdkato-prose-dev 1.2.1-1 8c38b260d1973c454d8160930d232bd4fff63d6a9f9cd67185bb65661760c963
golang-github-colinmarc-hdfs-dev 2.3.0-2 04cdec7f8419ed914667c3176ab0bdf0a79d7bd964c0189b76e53cade7eeb45f
golang-github-andybalholm-brotli-dev 1.0.4-3 532ece757aca3919b7276f65fdddbb65f0dec8f586c5efc508cc191fa793bc6e
'

matches() { [ -f "$1" ] && echo "$2  $1" | sha256sum --check --status; }

echo "$packages" | while read -r package version sha256; do
  [ -n "$package" ] || continue
  deb="$debs/${package}_${version}_all.deb"
  if ! matches "$deb" "$sha256"; then
    rm -f "$deb"
    if ! (cd "$debs" && apt-get -q download "$package=$version" > fetch.log 2>&1); then
      echo "error: cannot fetch $package $version:" >&2
      grep '^E:' "$debs/fetch.log" >&2 || cat "$debs/fetch.log" >&2
      echo "hint: is there a network? Run 'apt-get update' once as root, or copy the package to $debs" >&2
      exit 3
    fi
    if ! matches "$deb" "$sha256"; then
      echo "error: $deb has sha256 $(sha256sum "$deb" | cut -d' ' -f1), expected $sha256" >&2
      echo "hint: delete it and try again; if it stays, the archive holds another build of the package" >&2
      exit 4
    fi
    rm -f "$debs/fetch.log" "$root/.unpacked-$package-$version"
  fi
  if [ ! -e "$root/.unpacked-$package-$version" ]; then
    dpkg-deb -x "$deb" "$root"
    touch "$root/.unpacked-$package-$version"
    echo "unpacked $package $version"
  fi
done
echo "the texts are in $root; next: heddle data classics $root -o FOLDER"
