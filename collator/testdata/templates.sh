#!/bin/sh
# Writes TEMPLATES.md: what of real agent runs the chat templates of some folders carry. Names and figures only, no template.
#
#   sh collator/testdata/templates.sh FOLDER...
#
# Most public templates are in vendor/llama.cpp/models/templates of llama-cpp-python's source distribution, and in chat_templates
# of trl's wheel. NATGO_ROLLOUTS is how many of the runs are taken (all without it), NATGO_FAMILIES a regular expression of names.
# It needs the conformance data (NATGO_CONFORMANCE), libtokenizers (CGO_LDFLAGS), and python3 with jinja2 and tokenizers.
set -eu
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folders=
for f; do folders="${folders:+$folders:}$(cd "$f" && pwd)"; done
cd "$(dirname "$0")/.."
NATGO_TEMPLATES=$folders go test -tags tokenizers -timeout 0 -run '^TestFamilies$' -count 1 . -args -update
