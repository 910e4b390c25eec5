#!/usr/bin/env bash
# Runs every native fuzz target of the module for the given time each: fuzz.sh [15s]
set -euo pipefail
cd "$(dirname "$0")/.."
for pkg in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		echo "== $pkg $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-15s}" "$pkg"
	done
done
