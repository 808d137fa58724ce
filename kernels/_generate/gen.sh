#!/bin/sh
# Writes tiles_*.s and stubs_*.go of package kernels. Output depends on nothing but the source.
set -eu
cd "$(dirname "$0")"
go run . ..
gofmt -l .. | grep -E 'stubs_.*\.go$' && exit 1
exit 0
