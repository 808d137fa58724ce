#!/bin/sh
# Submits what run {{.ID}} lacks: an array for each stage of its {{.Shards}} shards, and the merges after them.
# After a failure, run it again once no job of the run is left in squeue: what is done stays.
set -eu
scripts=$(cd "$(dirname "$0")" && pwd)
cd {{shell .Dir}}
natgo={{shell .NatGo}}
plan={{shell .Plan}}
mkdir -p "$scripts/logs"

# submit SCRIPT AFTER OPTION...: submits a batch script, to start once the job AFTER has succeeded; prints the job's id.
submit() {
	script=$1 after=$2
	shift 2
	id=$(sbatch --parsable --chdir="$PWD" --kill-on-invalid-dep=yes ${after:+--dependency=afterok:"$after"} "$@" \
		"$scripts/$script.sbatch")
	echo "$script: job $id" >&2
	echo "${id%%;*}"
}

after=
{{- range .Steps}}
{{- if .PerShard}}
missing=$("$natgo" shard status --quiet --stage {{.Name}} --per-task {{$.PerTask}} "$plan")
if [ -n "$missing" ]; then
	after=$(submit {{.Name}} "$after" --array="$missing{{if $.AtOnce}}%{{$.AtOnce}}{{end}}" --output="$scripts/logs/{{.Name}}-%A_%a.log")
fi
{{- else}}
after=$(submit {{.Name}} "$after" --output="$scripts/logs/{{.Name}}-%j.log")
{{- end}}
{{- end}}
