"""Estimate π with Dask on Cress (docs/dask.md): workers come while there are tasks, and go when there are none."""

import random

from distributed import Client

from cress.integrations.dask import CressCluster


def hits(seed: int, throws: int = 500_000) -> int:
    """Count the random points of a square that are in its circle."""
    dice = random.Random(seed)
    return sum(dice.random() ** 2 + dice.random() ** 2 < 1 for _ in range(throws))


if __name__ == "__main__":
    with CressCluster(cores=1, memory="400MiB", name="pi", host="127.0.0.1") as cluster, Client(cluster) as client:
        cluster.adapt(minimum=0, maximum=4)
        total = client.submit(sum, client.map(hits, range(60))).result()
        print(f"π is about {4 * total / (60 * 500_000):.3f}, says {cluster}")
