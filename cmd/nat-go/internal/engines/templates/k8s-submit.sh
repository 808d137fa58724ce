#!/bin/sh
# Carries out run {{ id }}: a Job for each stage of its {{ shards }} shards, and for each merge. After a failure, rerun
# this script: finished work is kept, and the pods of finished shards end at once.
set -eu
cd "$(dirname "$0")"

# finish STEP starts a step's Job, restarts it if it failed before, and waits until it ends.
finish() {
	job={{ name }}-$1
	if kubectl wait --for=condition=failed --timeout=0 "job/$job" >/dev/null 2>&1; then
		kubectl delete --wait "job/$job"
	fi
	kubectl apply -f "$1.yaml"
	until kubectl wait --for=condition=complete --timeout=60s "job/$job" 2>/dev/null; do
		if kubectl wait --for=condition=failed --timeout=0 "job/$job" >/dev/null 2>&1; then
			echo "$job failed; its shards:" >&2
			kubectl get job "$job" -o 'jsonpath={.status.failedIndexes}{"\n"}' >&2
			echo "kubectl logs -l job-name=$job --tail=5 --prefix shows why" >&2
			exit 1
		fi
		kubectl get job "$job" --no-headers
	done
}

{% for step in steps %}
finish {{ step.name }}
{% endfor %}
