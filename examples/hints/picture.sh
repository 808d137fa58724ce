#!/bin/sh
# Draws the README's picture of nat-go view: picture.sh NAT-GO FILE.png. It needs Chromium.
set -eu
exe=$(realpath "$1")
picture=$(realpath "$2")
example=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$example/finetune.yml" "$example/tokenizer" "$example/traces.jsonl" "$work"
cd "$work"
"$exe" finetune run --config-file finetune.yml --run-id hints -o collator.tokenizer=tokenizer >run.log 2>&1
"$exe" view out/hints --export report.html >/dev/null
chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" --hide-scrollbars \
	--force-device-scale-factor=1 --window-size=1000,680 --virtual-time-budget=10000 --screenshot="$picture" \
	"file://$work/report.html#/record?n=1" 2>/dev/null
