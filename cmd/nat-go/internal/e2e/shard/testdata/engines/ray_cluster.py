"""Runs a driver on a Ray cluster of three nodes on loopback. One of them is killed in the middle."""

import os
import subprocess
import sys
import time

import ray
from ray.cluster_utils import Cluster

driver, done = sys.argv[1:]
node = {"num_cpus": 2, "object_store_memory": 80 << 20}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
others = [cluster.add_node(**node) for _ in range(2)]
cluster.wait_for_nodes()
job = subprocess.Popen([sys.executable, driver], env=dict(os.environ, RAY_ADDRESS=cluster.address))
while job.poll() is None and not os.path.exists(done):
    time.sleep(0.05)
if job.poll() is None:
    cluster.remove_node(others[0], allow_graceful=False)
    print("a node was killed", flush=True)
code = job.wait()
cluster.shutdown()
sys.exit(code)
