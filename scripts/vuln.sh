#!/usr/bin/env bash
# Looks for known vulnerabilities in what both modules call: vuln.sh. GOVULNDB names another database than https://vuln.go.dev.
# Exit codes: 0 none is known, 1 the check could not be made, 3 there are some.
set -uo pipefail
cd "$(dirname "$0")/.."
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
db=${GOVULNDB:-https://vuln.go.dev}
GOBIN=$tool go install golang.org/x/vuln/cmd/govulncheck@v1.9.0 || { echo "vuln: govulncheck cannot be fetched: nothing was checked"; exit 1; }
worst=0
for module in . compat-tests; do
	echo "== $module"
	(cd "$module" && "$tool/govulncheck" -db "$db" ./...) 2>"$tool/errors"
	rc=$?
	cat "$tool/errors" >&2
	if grep -q 'fetching vulnerabilities' "$tool/errors"; then
		echo "vuln: the database of vulnerabilities, $db, is not in reach: nothing was checked (GOVULNDB names another one)"
		exit 1
	elif [ $rc -ne 0 ] && [ $rc -ne 3 ]; then
		echo "vuln: $module could not be checked"
		exit 1
	fi
	[ $rc -eq 0 ] || worst=$rc
done
exit $worst
