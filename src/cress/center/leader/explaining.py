"""Explanations by a forked process, and their trials by forks of that process (design notes 0051 and 0065).

A fork has the state of one moment, and what it changes is its own. So the scheduler is asked "what if" without a copy
of its state, and the center goes on meanwhile. To fork holds the center up for a moment, so one fork answers all
questions that were asked before it was made, and later ones while nothing has changed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from cress.center.committing.committer import Committer
from cress.center.process.forks import Fork
from cress.center.process.kept_fork import KeptFork
from cress.core.answers.forward import Forecast
from cress.core.answers.placed import best_nodes
from cress.core.openings import EndsBy
from cress.lifecycle.explaining import explained, explained_group, explained_node
from cress.lifecycle.foretelling import foretold, resumes
from cress.lifecycle.machine import Machine
from cress.model.errors import NotAccepted
from cress.model.explanation import ExpectedStart, Explanation, GroupExplanation, NodeExplanation, NodeScore

# Seconds that the runs forward for one expected start may take, and those that nobody minds to wait for.
PATIENCE, AT_ONCE = 1.0, 0.5
# Between two forks this many times the processor time passes that the last one took from the center. By the clock a
# fork takes many times as long where other programs compete for the processors, and so would the pause.
PAUSE = 10
# Seconds after the last question until the fork ends: while it lives, the center copies each page that it writes.
KEPT = 5.0
# Answers that a fork knows at most, each of some KB.
MOST_KNOWN = 1_000

_T = TypeVar("_T")
_log = logging.getLogger("cress.center")
_encode = msgspec.msgpack.Encoder().encode
_decode_starts = msgspec.msgpack.Decoder(dict[int, Forecast]).decode


class ForkQuestion(msgspec.Struct, frozen=True, array_like=True):
    """A question to a fork: ``kind`` is a key of ``ANSWERS``, about a job or attempt, or a group or node."""

    kind: str
    number: int = 0
    name: str = ""


class StartsOfOneMoment(NamedTuple):
    """The runs forward of one moment (µs): waits of jobs from then, by the means of the estimates and by the limits."""

    utc: int
    by_means: dict[int, Forecast]
    by_limits: dict[int, Forecast]


_decode_question = msgspec.msgpack.Decoder(ForkQuestion).decode


class Explainer:
    """Asks one question at a time."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._turn = asyncio.Lock()
        self._fork: KeptFork | None = None
        # The state that the fork has, the moment it was made, and the processor time that it took (seconds).
        self._state: tuple[int, ...] = ()
        self.made = self._cost = 0.0
        self._end: asyncio.TimerHandle | None = None

    async def explain(self, number: int) -> Explanation | None:
        """Return the explanation of a job, without its start; ``None`` if no task of it waits. Raises NotAccepted."""
        return await self._ask(ForkQuestion("job", number), Explanation | None)

    async def group(self, name: str) -> GroupExplanation | None:
        """Return why a group does not get more; ``None`` if there is no such group. Raises NotAccepted."""
        return await self._ask(ForkQuestion("group", name=name), GroupExplanation | None)

    async def node(self, name: str) -> NodeExplanation:
        """Return why a node, which must be known, is not fuller. Raises NotAccepted."""
        return await self._ask(ForkQuestion("node", name=name), NodeExplanation)

    async def placed(self, attempt: int) -> tuple[NodeScore, ...]:
        """Return the best nodes for the task of a running attempt. Raises NotAccepted."""
        return await self._ask(ForkQuestion("placed", attempt), tuple[NodeScore, ...])

    async def start(self, number: int, *, at_once: bool = False) -> ExpectedStart | None:
        """Return the expected start of a waiting job; ``None`` if it is not known. Raises NotAccepted.

        A job that is too new for the last forecast is foretold now; ``at_once``: only if that takes no time worth
        mentioning.
        """
        starts, clock = self._committer.expected_starts, self._committer.clock
        known = starts.of(number, clock.utc(), resumes(self._committer.machine, number))
        if known is not None or number <= starts.beyond_reach or (at_once and starts.seconds > AT_ONCE):
            return known
        begin, last = time.monotonic(), next(reversed(self._committer.machine.core.jobs), 0)
        found: StartsOfOneMoment = await self._ask(ForkQuestion("starts"), StartsOfOneMoment)
        starts.took(time.monotonic() - begin, PATIENCE, last)
        starts.add(*found)
        return starts.of(number, clock.utc())

    async def _ask(self, question: ForkQuestion, kind: object) -> _T:
        asked = time.monotonic()
        async with self._turn:
            fork = await self._fork_after(asked)
            data = await asyncio.to_thread(fork.ask, _encode(question))
            if data is None:
                self.close()
                raise NotAccepted("the explanation could not be made; see the center's log", hint="try again")
            self._let_end_later()
        found: _T = msgspec.msgpack.decode(data, type=kind)
        return found

    async def _fork_after(self, asked: float) -> KeptFork:
        """Return a fork with the present state, or with that of a moment after the question."""
        if self._fork is not None and (self.made >= asked or self._state == self._present()):
            return self._fork
        self.close()
        await asyncio.sleep(max(0.0, self.made + PAUSE * self._cost - time.monotonic()))
        machine = self._committer.machine
        begin = time.thread_time()
        try:
            self._fork = KeptFork(ForkAnswers(machine, self._committer.loop.is_aside).answer)
        except OSError as error:
            _log.warning("no explanation can be made: %s", error.strerror)
            raise NotAccepted(f"the center cannot explain now: {error.strerror}", hint="try again later") from None
        self.made = time.monotonic()
        self._cost = time.thread_time() - begin
        self._state = self._present()
        return self._fork

    def _present(self) -> tuple[int, ...]:
        """Return what tells one state from another."""
        loop, machine = self._committer.loop, self._committer.machine
        return loop.epoch, loop.number, id(machine), machine.now, machine.core.books.pass_number

    def _let_end_later(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(KEPT, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._turn.locked():
            self.close()

    def close(self) -> None:
        """End the fork."""
        fork, self._fork = self._fork, None
        if fork is not None:
            fork.close()


class ForkAnswers:
    """The answers of a fork; its machine stays as it is, since trials run in forks of their own."""

    def __init__(self, machine: Machine, follows: bool) -> None:
        """``follows``: the center stands by."""
        self._machine = machine
        self._follows = follows
        # The state is that of one moment: many who ask the same, as about one array of jobs, get one answer.
        self._known: dict[bytes, bytes] = {}

    def answer(self, question: bytes) -> bytes:
        """Return the answer to an encoded question, encoded."""
        if self._follows:
            # A standby takes over the facts of the leader. What waits, and why, only a pass finds out.
            self._machine.core.decide(self._machine.core.now)
            self._follows = False
        if question not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            asked = _decode_question(question)
            self._known[question] = ANSWERS[asked.kind](self, asked)
        return self._known[question]

    def _job(self, asked: ForkQuestion) -> bytes:
        return _encode(explained(self._machine, asked.number, Forks(self._machine)))

    def _group(self, asked: ForkQuestion) -> bytes:
        return _encode(explained_group(self._machine, asked.name))

    def _node(self, asked: ForkQuestion) -> bytes:
        return _encode(explained_node(self._machine, asked.name))

    def _placed(self, asked: ForkQuestion) -> bytes:
        # It may have ended since the question was asked.
        if asked.number not in self._machine.core.attempts:
            return _encode(())
        return Fork(lambda: _encode(best_nodes(self._machine.core, asked.number))).result()

    def _starts(self, _: ForkQuestion) -> bytes:
        until = time.monotonic() + PATIENCE
        works = [Fork(partial(self._run_forward, by, until)) for by in (EndsBy.MEAN, EndsBy.LIMIT)]
        by_means, by_limits = (_decode_starts(work.result()) for work in works)
        return _encode(StartsOfOneMoment(self._machine.utc, by_means, by_limits))

    def _run_forward(self, by: EndsBy, until: float) -> bytes:
        return _encode(foretold(self._machine, by, lambda: time.monotonic() < until))


ANSWERS: dict[str, Callable[[ForkAnswers, ForkQuestion], bytes]] = {
    "job": ForkAnswers._job,  # noqa: SLF001 – the table of its own methods
    "group": ForkAnswers._group,  # noqa: SLF001
    "node": ForkAnswers._node,  # noqa: SLF001
    "placed": ForkAnswers._placed,  # noqa: SLF001
    "starts": ForkAnswers._starts,  # noqa: SLF001
}


class Forks:
    """Copies of a machine: each trial runs in a fork of this process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def holds(self, trial: Callable[[Machine], bool]) -> bool:
        """Return the result of a trial; False if its fork fails."""
        data = Fork(lambda: _encode(trial(self._machine))).result()
        return bool(data) and msgspec.msgpack.decode(data, type=bool)
