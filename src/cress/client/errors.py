"""Errors of a client; ``str()`` of each is a sentence for people."""

from __future__ import annotations

from cress.protocol.job_views import JobView
from cress.protocol.views import Fault


class ClientError(Exception):
    """A call to the center that came to nothing. Unless a subclass says otherwise, it changed nothing.

    ``passing``: the same call may come to something a little later.
    """

    passing = False


class Unreachable(ClientError):
    """No center answered, or the connection broke off; then it is not known whether the call took effect."""

    passing = True


class Unproven(Unreachable):
    """Something answers that has not proven that it knows the token; nothing but a random number was sent to it."""


class Broken(Unreachable):
    """The connection broke off after the call was sent."""


class Unauthorized(ClientError):
    """The center does not know the token, or its owner may not do this."""


class NotFound(ClientError):
    """There is no such job, task, node or group."""


class Unavailable(ClientError):
    """The center is there and cannot do it now: it starts, stops, or cannot store."""


class Elsewhere(ClientError):
    """The center stands by; the one at ``leader`` leads. The client goes there by itself."""

    def __init__(self, leader: str) -> None:
        super().__init__(f"the center stands by; the one at {leader} leads")
        self.leader = leader


class Refused(ClientError):
    """The center understood and said no.

    ``code`` is ``bad_input`` or ``not_accepted``; ``faults`` say what is wrong.
    """

    def __init__(self, message: str, code: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.faults = faults

    @property
    def bad_input(self) -> bool:
        """Return whether the input itself is wrong; otherwise it could be accepted later, or by another cluster."""
        return self.code != "not_accepted"


class JobFailed(ClientError):
    """A job that did not succeed, where its result was asked for.

    ``job`` is how it ended; ``codes`` are the exit codes of tasks that failed, by index (the first ones; -n after
    signal n, ``None``: unknown); ``stderr`` the last lines that the first of them wrote.
    """

    def __init__(self, message: str, job: JobView, codes: dict[int, int | None], stderr: str) -> None:
        super().__init__(message)
        self.job = job
        self.codes = codes
        self.stderr = stderr

    def __reduce__(self) -> tuple[type[JobFailed], tuple[object, ...]]:
        return type(self), (str(self), self.job, self.codes, self.stderr)


class CannotSend(ClientError, TypeError):
    """A function, or something that it is given, cannot be pickled; the sentence says what."""


class TaskDied(ClientError):
    """The process of a task ended before it had a result, as often as it was tried."""


class RemoteError(Exception):
    """The substitute for an exception that cannot be pickled; ``str()`` has its type and message."""


class RemoteTraceback(Exception):
    """The traceback of a function in its task; the cause of the exception that is raised here."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'
