"""The example of submitit's README, and an array (https://github.com/facebookincubator/submitit)."""

import sys
import time

import submitit


def add(a, b):
    """Add two numbers."""
    return a + b


executor = submitit.AutoExecutor(folder=sys.argv[1])
assert executor.cluster == "slurm", executor.cluster
executor.update_parameters(timeout_min=5, slurm_partition="default", mem_gb=0.5, cpus_per_task=1)
job = executor.submit(add, 5, 7)
print("single", job.result())
executor.update_parameters(slurm_array_parallelism=2)
jobs = executor.map_array(add, [1, 2, 3, 4], [10, 20, 30, 40])
print("array", [job.result() for job in jobs])


def where():
    """Return rank, number of tasks and number of nodes."""
    environment = submitit.JobEnvironment()
    return environment.global_rank, environment.num_tasks, len(environment.hostnames)


executor.update_parameters(nodes=2, tasks_per_node=2)
job = executor.submit(where)
print("ranks", sorted(job.results()))


def fail():
    """Fail."""
    raise ValueError("on purpose")


executor.update_parameters(nodes=1, tasks_per_node=1)
job = executor.submit(fail)
failure = job.exception()
# The result is there before `sacct` knows of the end; submitit asks it again every minute, unless told to.
while job.get_info(mode="force").get("State", "RUNNING") == "RUNNING":
    time.sleep(0.2)
print("failure", type(failure).__name__, job.state)
