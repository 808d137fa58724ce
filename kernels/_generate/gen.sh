#!/bin/sh
# Writes the assembly and stubs for packages kernels and kernelbench. The output depends only on the source.
set -eu
cd "$(dirname "$0")"
go run . ..
