"""The result of a command in a running task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cress.client.execution import Command


class _Output(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Executed(_Output):
    """The exit code (128 + n after signal n) and the whole output; bytes that are not UTF-8 are replaced.

    ``task`` is the task in which the command ran.
    """

    task: int = 0


def executed(running: Command, stdin: str | bytes, task: int) -> Executed:
    """Send a command its input, and wait for its end."""
    code, stdout, stderr = running.communicate(stdin.encode() if isinstance(stdin, str) else stdin)
    done = Executed(code, stdout.decode(errors="replace"), stderr.decode(errors="replace"))
    done.task = task
    return done
