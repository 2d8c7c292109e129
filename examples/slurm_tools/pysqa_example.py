"""The dynamic queue of pysqa (https://pysqa.readthedocs.io)."""

import sys
import time
from pathlib import Path

from pysqa import QueueAdapter

folder = Path(sys.argv[1])
adapter = QueueAdapter(queue_type="slurm")
first = adapter.submit_job(
    job_name="pysqa", working_directory=str(folder), cores=1, memory_max=1, run_time_max=300, partition="default",
    command="echo one > one.txt",
)  # fmt: skip
second = adapter.submit_job(
    job_name="pysqa2", working_directory=str(folder), cores=1, run_time_max=300, partition="default",
    dependency_list=[str(first)], command="cat one.txt > two.txt; sleep 8",
)  # fmt: skip
seen = set()
while (state := adapter.get_status_of_job(process_id=second)) is not None:
    seen.add(state)
    time.sleep(0.2)
print("states", sorted(seen & {"pending", "running"}), (folder / "two.txt").read_text().strip())
third = adapter.submit_job(
    job_name="pysqa3", working_directory=str(folder), cores=1, run_time_max=300, partition="default",
    command="sleep 1000",
)  # fmt: skip
adapter.delete_job(process_id=third)
while adapter.get_status_of_job(process_id=third) is not None:
    time.sleep(0.2)
print("deleted")
