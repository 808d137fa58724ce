#!/bin/sh
# Writes tokens_table.go, the shapes of tokens, from gitleaks' rules and from further.yaml, and examples of them for tests.
# gitleaks hands its rules' examples only to its own check of them; a copy of the module is made in which that check
# writes them down, and draws the same examples each time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$here/." "$work"
cd "$work"
go mod vendor
gitleaks=vendor/github.com/zricethezav/gitleaks/v8
cp record/validate.go "$gitleaks/cmd/generate/config/utils/validate.go"
cp seeded/regen.go "$gitleaks/cmd/generate/secrets/regen.go"
export RULES="$work/rules.jsonl"
(cd "$gitleaks/cmd/generate/config" && go run -mod=vendor "${gitleaks#vendor/}/cmd/generate/config" "$work/gitleaks.toml")
go run -mod=vendor . <"$RULES" "$here/../tokens_table.go" "$here/../../../internal/redact/testdata/gitleaks.jsonl"
