#!/bin/sh
# Writes the assembly and stubs of package kernels and kernelbench. Output depends on nothing but the source.
set -eu
cd "$(dirname "$0")"
go run . ..
