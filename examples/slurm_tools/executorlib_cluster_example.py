"""executorlib: functions as jobs, one after the other, by pysqa (https://executorlib.readthedocs.io)."""

import sys

from executorlib import SlurmClusterExecutor


def add(a, b):
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    with SlurmClusterExecutor(
        cache_directory=sys.argv[1], resource_dict={"cores": 1, "partition": "default"}
    ) as executor:
        first = executor.submit(add, 1, 2)
        second = executor.submit(add, first, 4)
        print("chain", first.result(), second.result())
