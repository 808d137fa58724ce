#!/bin/sh
# Submits the unfinished part of run {{ id }}: an array for each stage of its {{ shards }} shards, and the merges. After
# a failure, wait until squeue doesn't show any of the run's jobs, then rerun this script: finished work is kept.
set -eu
scripts=$(cd "$(dirname "$0")" && pwd)
cd {{ dir }}
natgo={{ natgo }}
plan={{ plan }}
mkdir -p "$scripts/logs"

# submit SCRIPT AFTER OPTION... submits a batch script that starts when the job AFTER has succeeded, and prints its id.
submit() {
	script=$1 after=$2
	shift 2
	id=$(sbatch --parsable --chdir="$PWD" --kill-on-invalid-dep=yes ${after:+--dependency=afterok:"$after"} "$@" \
		"$scripts/$script.sbatch")
	echo "$script: job $id" >&2
	echo "${id%%;*}"
}

after=
{% for step in steps %}
{% if step.per_shard %}
missing=$("$natgo" shard status --quiet --stage {{ step.name }} --per-task {{ per_task }} "$plan")
if [ -n "$missing" ]; then
	after=$(submit {{ step.name }} "$after" --array="$missing{% if at_once %}%{{ at_once }}{% endif %}" --output="$scripts/logs/{{ step.name }}-%A_%a.log")
fi
{% else %}
after=$(submit {{ step.name }} "$after" --output="$scripts/logs/{{ step.name }}-%j.log")
{% endif %}
{% endfor %}
