"""What the supervisor asks of a runtime."""

from __future__ import annotations

from typing import Protocol

import msgspec

from cress.model.run import Run


class StartError(Exception):
    """The program could not be started; the sentence says why, for the person whose job it is."""


class Spawn(msgspec.Struct, frozen=True):
    """What is to be started: a task of a job as an attempt, its output into files in ``folder`` (a path)."""

    attempt: int
    task: int
    run: Run
    folder: bytes


class Runtime(Protocol):
    """Starts programs, and ends what is left of them.

    A program is known by the pid of its first process, a child of the supervisor that leads a session of its own.
    """

    def spawn(self, what: Spawn) -> tuple[int, int]:
        """The pid of the new process, and a descriptor that is read for what ``problem`` explains.

        The descriptor reaches its end when the program runs. Raises StartError.
        """

    def problem(self, what: Run, told: bytes) -> str:
        """Why the program did not start, in a sentence, from what was read; empty: it did."""

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to all processes of the program, as far as they can be found; False: there are none."""
