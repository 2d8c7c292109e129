"""Errors of a client; ``str()`` of each is a message for people."""

from __future__ import annotations

from cress.protocol.job_views import JobView
from cress.protocol.views import Fault


class ClientError(Exception):
    """A call to the center failed. Unless a subclass says otherwise, it changed nothing.

    ``passing`` says that the same call may succeed a little later.
    """

    passing = False


class Unreachable(ClientError):
    """No center answered, or the connection broke off; in the second case the call may have taken effect."""

    passing = True


class Unproven(Unreachable):
    """The server has not proven that it knows the token; only a random number was sent to it."""


class Broken(Unreachable):
    """The connection broke off after the call was sent."""


class Unauthorized(ClientError):
    """The center does not know the token, or its owner lacks the right."""


class NotFound(ClientError):
    """There is no such job, task, node or group."""


class Unavailable(ClientError):
    """The center is there but cannot do this now: it starts, stops, or cannot store."""


class Elsewhere(ClientError):
    """The center is a standby; the one at ``leader`` leads. The client goes there by itself."""

    def __init__(self, leader: str) -> None:
        super().__init__(f"the center stands by; the one at {leader} leads")
        self.leader = leader


class Refused(ClientError):
    """The center refused the call.

    ``code`` is ``bad_input`` or ``not_accepted``; ``faults`` name the mistakes.
    """

    def __init__(self, message: str, code: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.faults = faults

    @property
    def bad_input(self) -> bool:
        """Return whether the input itself is wrong; otherwise it may be accepted later, or by another cluster."""
        return self.code != "not_accepted"


class JobFailed(ClientError):
    """The job whose result was requested did not succeed.

    ``job`` is its final view; ``codes`` are the exit codes of failed tasks by index (the first ones; -n after signal n,
    ``None``: unknown); ``stderr`` are the last lines that the first of them wrote.
    """

    def __init__(self, message: str, job: JobView, codes: dict[int, int | None], stderr: str) -> None:
        super().__init__(message)
        self.job = job
        self.codes = codes
        self.stderr = stderr

    def __reduce__(self) -> tuple[type[JobFailed], tuple[object, ...]]:
        return type(self), (str(self), self.job, self.codes, self.stderr)


class CannotSend(ClientError, TypeError):
    """A function or one of its arguments cannot be pickled; the message says which."""


class TaskDied(ClientError):
    """The process of a task ended before it had a result, in every attempt."""


class RemoteError(Exception):
    """The substitute for an exception that cannot be pickled; ``str()`` has its type and message."""


class RemoteTraceback(Exception):
    """The traceback of a function in its task, as the cause of the exception raised here."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'
