#!/usr/bin/env python3
"""Builds and merges the shards of run {{ id }} on a Ray cluster.

Start it with python run.py, with RAY_ADDRESS set to join a cluster; or with ray job submit -- python run.py. All nodes
must share the folders that hold the plan and the inputs. After a failure, start it again: finished work is kept.
"""

import subprocess
import sys
import time

import ray

NATGO = {{ natgo }}
PLAN = {{ plan }}
FOLDER = {{ dir }}  # where the plan was made
SHARDS = {{ shards }}
STEPS = [{% for step in steps %}{% if not loop.first %}, {% endif %}"{{ step.name }}"{% endfor %}]
MERGES = {"merge": [], "divide": ["--leave-writing"]}  # one process each; the other steps run once per shard
NEEDS = {"num_cpus": {{ cpus }}, "memory": {{ mega }} << 20}
RETRIES = {{ retries }}


class Again(Exception):
    """Something outside nat-go failed: the next attempt may succeed."""


@ray.remote(**NEEDS, max_retries=RETRIES, retry_exceptions=[Again])
def natgo(*args):
    done = subprocess.run([NATGO, "shard", *args], cwd=FOLDER, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr)
    why = f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}"
    if done.returncode == 3 or done.returncode < 0 or done.returncode > 128:
        time.sleep(5)
        raise Again(why)
    return why if done.returncode else None


def build(stage):
    """Builds one stage of every shard, and returns the failed shards' errors."""
    shards = {natgo.remote("run", PLAN, "--stage", stage, "--index", str(i)): i for i in range(SHARDS)}
    left, failed = list(shards), {}
    while left:
        ended, left = ray.wait(left, timeout=30)
        for task in ended:
            try:
                why = ray.get(task)
            except ray.exceptions.RayError as e:
                why = str(e)
            if why:
                failed[shards[task]] = why
        print(f"{stage}: {SHARDS - len(left)} of {SHARDS} shards, {len(failed)} failed", flush=True)
    return failed


ray.init()
for step in STEPS:
    if step in MERGES:
        if why := ray.get(natgo.remote("merge", PLAN, *MERGES[step])):
            sys.exit(f"{step}: {why}")
        continue
    failed = build(step)
    for shard, why in sorted(failed.items()):
        print(f"shard {shard}: {why}", file=sys.stderr)
    if failed:
        sys.exit(1)
print("merged")
