"""A model of jobs as their users see them, for histories of calls: submit, scale, cancel, read.

A service is absent, has a task count, or is cancelled. An ordinary job is absent, alive, or over, and ends by itself or
by a cancel.
"""

from __future__ import annotations

from collections.abc import Hashable

from tests.linearizability import UNKNOWN, Model

ABSENT, CANCELLED, REFUSED, SUCCEEDED = "absent", "cancelled", "refused", "succeeded"
# A change was acknowledged. What the answer shows of the job is a read of its own, a moment later.
DONE = "done"


def service(state: Hashable, what: Hashable, result: Hashable) -> list[Hashable]:
    """Return what a service may be after ``("submit", tasks)``, ``("scale", tasks)``, ``("cancel",)`` or ``("read",)``.

    Its state, and the result of a read, is its task count while it is alive, else a word.
    """
    assert isinstance(what, tuple)
    verb, *arguments = what
    alive = isinstance(state, int)
    match verb:
        case "submit":
            # With its key it is the same one however often it is sent, and tells how it began.
            return [arguments[0] if state == ABSENT else state]
        case "scale" if alive:
            return [arguments[0]] if result in (DONE, UNKNOWN) else []
        case "scale":
            return [state] if result in (REFUSED, UNKNOWN) else []
        case "cancel" if state != ABSENT:
            return [CANCELLED] if result in (DONE, UNKNOWN) else []
        case "read" | "cancel":
            return [state] if result in (state, UNKNOWN) else []
    raise AssertionError(what)


def job(state: Hashable, what: Hashable, result: Hashable) -> list[Hashable]:
    """Return what an ordinary job may be after ``("submit",)``, ``("cancel",)`` or ``("read",)``.

    Its state is "absent", "alive", "cancelled" (it may run for a while) or "succeeded". A cancel that comes too late
    changes nothing.
    """
    assert isinstance(what, tuple)
    # One that is alive may have ended by itself before this call.
    states: list[Hashable] = [state, SUCCEEDED] if state == "alive" else [state]
    match what[0]:
        case "submit":
            return ["alive"] if state == ABSENT else states
        case "cancel":
            after = dict.fromkeys(CANCELLED if each == "alive" else each for each in states)
            return [*after] if result in (DONE, UNKNOWN) and state != ABSENT else []
        case "read":
            return [each for each in states if result in (each, UNKNOWN)]
    raise AssertionError(what)


SERVICE: Model[Hashable] = Model(ABSENT, service)
JOB: Model[Hashable] = Model(ABSENT, job)
