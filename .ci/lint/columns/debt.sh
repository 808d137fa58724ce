#!/bin/sh
# Writes debt.txt anew from what the columns check finds, so that it can shrink. Usage: debt.sh LINT-BINARY
set -eu
cd "$(dirname "$0")/../../.."
# As JSON, since a package with findings would otherwise keep those that import it from being looked at.
"${GO:-go}" vet -json -vettool="$1" -columns -tags tokenizers ./... 2>&1 |
	sed -n "s|^.*\"posn\": \"$PWD/\\([^:]*:[0-9]*\\):.*|\\1|p" |
	sort -u | cut -d: -f1 | uniq -c | sed 's/^ *//' >.ci/lint/columns/debt.txt
