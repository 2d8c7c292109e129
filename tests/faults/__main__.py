"""``python -m tests.faults SEED``: the whole story of one history. ``SEED COUNT``: so many from there, told in brief.

``--centers N``: with so many centers; otherwise the seed says how many there are.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults.history import play


def say(text: str) -> None:
    """To whoever reads."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Play; the exit code says whether all is well."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("--centers", type=int, default=0)
    wanted = parser.parse_args(arguments)
    if wanted.count is None:
        outcome = play(wanted.seed, centers=wanted.centers)
        say(outcome.story(None))
        return bool(outcome.violation)
    bad, begin = 0, time.process_time()
    for seed in range(wanted.seed, wanted.seed + wanted.count):
        outcome = play(seed, centers=wanted.centers)
        if outcome.violation:
            bad += 1
            say(f"seed {seed}: {outcome.violation}")
    say(f"{bad} bad of {wanted.count}; {time.process_time() - begin:.1f} s of processor time")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
