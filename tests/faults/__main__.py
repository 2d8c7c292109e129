"""``python -m tests.faults SEED``: the whole story of one history. ``SEED COUNT``: so many from there, told in brief."""

from __future__ import annotations

import sys
import time

from tests.faults.history import play


def say(text: str) -> None:
    """To whoever reads."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Play; the exit code says whether all is well."""
    first = int(arguments[0])
    if len(arguments) == 1:
        outcome = play(first)
        say(outcome.story(None))
        return bool(outcome.violation)
    bad, begin = 0, time.process_time()
    for seed in range(first, first + int(arguments[1])):
        outcome = play(seed)
        if outcome.violation:
            bad += 1
            say(f"seed {seed}: {outcome.violation}")
    say(f"{bad} bad of {arguments[1]}; {time.process_time() - begin:.1f} s of processor time")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
