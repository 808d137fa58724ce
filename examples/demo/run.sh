#!/bin/sh
# Turns the real NAT run in this folder into a preference data set, then looks at it. Usage: run.sh NAT-GO
set -eu
natgo=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
rm -rf out/demo
echo '$ nat-go finetune run --config-file finetune.yml --run-id demo'
"$natgo" finetune run --config-file finetune.yml --run-id demo
echo
echo '$ head -n 1 out/demo/dataset/trl/train.jsonl'
head -n 1 out/demo/dataset/trl/train.jsonl
