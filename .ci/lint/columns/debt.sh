#!/bin/sh
# Writes debt.txt anew from what the columns check finds, so that it can shrink. Usage: debt.sh LINT-BINARY
set -eu
cd "$(dirname "$0")/../../.."
{ "${GO:-go}" vet -vettool="$1" -columns -tags tokenizers ./... 2>&1 || true; } |
	sed -n 's/^\(\.\/\)\{0,1\}\([^:]*:[0-9]*\):[0-9]*: line is longer than.*/\2/p' | sort -u | cut -d: -f1 | uniq -c | sed 's/^ *//' >.ci/lint/columns/debt.txt
