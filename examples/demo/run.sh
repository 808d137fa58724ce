#!/bin/sh
# Usage: run.sh NAT-GO [first]
#
# Turns the real NAT run in this folder into a preference data set, then looks at it. With first, it stops there, because
# the rest needs a nat-go with the tokenizer library.
set -eu
natgo=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
rm -rf out/demo
echo '$ nat-go finetune run --config-file finetune.yml --run-id demo'
"$natgo" finetune run --config-file finetune.yml --run-id demo
echo
echo '$ head -n 1 out/demo/dataset/trl/train.jsonl'
head -n 1 out/demo/dataset/trl/train.jsonl

if [ "${2-}" = first ]; then
	echo
	echo 'Next: "make build" builds the tokenizer library, too. Then "make demo" continues with failed calls, hints, and tokens.'
	exit
fi

# Shows how hints change a model's predictions: a scoring program's logits for both sides of each failed call go through
# the JSD kernel.
cd ../hints-logits
rm -rf out/demo
echo
echo '$ cd ../hints-logits && go build -o out/logits-scorer ../logits-scorer'
go build -o out/logits-scorer ../logits-scorer
echo '$ nat-go finetune run --config-file finetune.yml --run-id demo'
"$natgo" finetune run --config-file finetune.yml --run-id demo
echo
echo '$ nat-go dataset show out/demo --site 1'
"$natgo" dataset show out/demo --site 1
