"""The example of dask-jobqueue's documentation (https://jobqueue.dask.org)."""

import sys

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

if __name__ == "__main__":
    cluster = SLURMCluster(
        queue="default",
        cores=1,
        memory="600 MB",
        processes=1,
        walltime="00:10:00",
        log_directory=sys.argv[1],
        local_directory=sys.argv[1],
        interface="lo",
    )
    cluster.scale(jobs=2)
    client = Client(cluster)
    client.wait_for_workers(2, timeout=180)
    print("sum", client.submit(sum, client.map(lambda x: x * x, range(100))).result())
    print("workers", len(client.scheduler_info()["workers"]))
    client.close()
    cluster.close()
