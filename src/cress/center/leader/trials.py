"""The consequences of a change, found by a forked process: it runs the machine forward with the change, and a fork of
it without (design note 0052).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from cress.center.committing.committer import Committer
from cress.center.process.forked_work import ForkedWork
from cress.center.process.forks import Fork
from cress.lifecycle.inputs import Input, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.trials.compare import compare
from cress.lifecycle.trials.course import CourseRun
from cress.model.course import Consequences, Course, Refusal
from cress.model.errors import InputError, NotAccepted

FILE = "what-if.new"

_encode = msgspec.msgpack.Encoder().encode
_decode_course = msgspec.msgpack.Decoder(Course).decode


class _Found(msgspec.Struct):
    found: Consequences | None = None
    refused: Refusal | None = None


_decode = msgspec.msgpack.Decoder(_Found).decode


class Trials:
    """Finds the consequences of one change at a time."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._turn = asyncio.Lock()

    async def consequences(self, change: Sequence[Input], seconds: float, *, details: bool = False) -> Consequences:
        """Return the consequences of a change, computed for about ``seconds`` at most; with ``details`` on request.

        Raises NotAccepted if they cannot be found, and the InputError of a change that the machine refuses.
        """
        committer = self._committer
        async with self._turn:
            clock = committer.clock
            work = partial(_answer, committer.machine, change, clock.now(), clock.utc(), os.getpid(), seconds, details)
            fork = ForkedWork(work, committer.settings.data / FILE, "a what-if")
            data = await asyncio.to_thread(fork.result)
            answer = None if data is None else _decode(data)
        if answer is not None and answer.refused is not None:
            kind = NotAccepted if answer.refused.state else InputError
            raise kind(answer.refused.what, hint=answer.refused.hint, field=answer.refused.field)
        if answer is None or answer.found is None:
            raise NotAccepted("the consequences could not be found; see the center's log", hint="try again")
        return answer.found


def _answer(
    machine: Machine, change: Sequence[Input], now: int, utc: int, center: int, seconds: float, details: bool
) -> bytes:
    if os.getpid() == center:
        # There was no fork, and a trial would change the cluster itself.
        return _encode(_Found(refused=Refusal("the center has no memory for a copy of its state", state=True)))
    until = time.monotonic() + seconds

    def patient() -> bool:
        return time.monotonic() < until

    without = Fork(lambda: _encode(_course(machine, (), now, utc, patient, details=details)[0]))
    try:
        after, submitted = _course(machine, change, now, utc, patient, details=details)
    except InputError as error:
        state = isinstance(error, NotAccepted)
        return _encode(_Found(refused=Refusal(error.what, error.hint, error.field, state)))
    before = _decode_course(without.result())
    return _encode(_Found(found=compare(before, after, submitted)))


def _course(
    machine: Machine, change: Sequence[Input], now: int, utc: int, patient: Callable[[], bool], *, details: bool
) -> tuple[Course, frozenset[int]]:
    """Return the course with a change, and the ids of the jobs that the change submits."""
    run = CourseRun(machine, patient)
    replies = run.begin(now, utc, change)
    ids = [
        number
        for word, reply in zip(change, replies, strict=True)
        if isinstance(word, Submit)
        for number in reply or ()
    ]
    return run.run(details=details), frozenset(ids)
