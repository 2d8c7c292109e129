"""The starts of Cress beside those of the peers: ``python -m benchmarks.peers``, or ``-m benchmarks starts``."""

from __future__ import annotations

from benchmarks import starts
from benchmarks.__main__ import line

if __name__ == "__main__":
    for result in starts.results():
        print(line(result).rstrip(), flush=True)
