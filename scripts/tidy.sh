#!/usr/bin/env bash
# Says what go mod tidy would change: tidy.sh [MODULE…], by default in both modules. A module proxy that is out of reach is
# told and is no failure: nothing is wrong with the modules for it.
# Exit codes: 0 tidy, or not checked, 1 not tidy.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- . compat-tests
# What the go command says when it cannot fetch.
unreachable='dial tcp|no such host|connection refused|i/o timeout|handshake timeout|proxyconnect|GOPROXY=off|unexpected EOF|: 50[0-9] '
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
worst=0
for module in "$@"; do
	changes=$(cd "$module" && go mod tidy -diff 2>"$errors")
	rc=$?
	if [ $rc -eq 0 ]; then
		continue
	elif [ -z "$changes" ] && grep -qE "$unreachable" "$errors"; then
		echo "tidy: $module was not checked: the module proxy is not in reach ($(grep -E "$unreachable" "$errors" | head -1 | sed 's/^[[:space:]]*//'))"
		continue
	fi
	echo "tidy: $module is not tidy, run go mod tidy there:"
	cat "$errors"
	echo "$changes"
	worst=1
done
exit $worst
