"""executorlib: a function in an allocation by srun (https://executorlib.readthedocs.io)."""

from executorlib import SlurmJobExecutor


def calc(i):
    """Double a number."""
    return sum([i, i])


if __name__ == "__main__":
    with SlurmJobExecutor(max_cores=2) as executor:
        futures = [executor.submit(calc, i) for i in range(1, 5)]
        print("results", [future.result() for future in futures])
