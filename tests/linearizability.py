"""A checker of linearizability, after Wing and Gong (1993), with the memory of Lowe (2017).

A history is linearizable if each call can be given one moment between its begin and its end, so that the calls, made
one at a time in the order of these moments, give the results that were seen. A call whose answer was lost may have had
its effect at any moment after its begin, or never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


class Unknown:
    """The result of a call whose answer was lost."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Call:
    """A call: what was asked, between which moments, and the result that was seen, or ``UNKNOWN``.

    ``part`` names the object that is called. Objects are independent of each other, and are checked one by one.
    """

    part: Hashable
    what: Hashable
    begin: float
    end: float
    result: Hashable = UNKNOWN


@dataclass(frozen=True)
class Model(Generic[State]):
    """An object that is called by one caller at a time.

    ``step`` returns the states that a call may lead to from a state with this result; none if the result is impossible
    there. A result that is ``UNKNOWN`` is possible everywhere.
    """

    initial: State
    step: Callable[[State, Hashable, Hashable], Iterable[State]]


@dataclass(frozen=True)
class Violation:
    """The calls of an object that no order explains; the longest order that was found leaves ``stuck`` unexplained."""

    calls: tuple[Call, ...]
    stuck: tuple[Call, ...]

    def __str__(self) -> str:
        stuck = set(self.stuck)
        lines = [f"no order of these calls of {self.calls[0].part!r} explains their results (! = unexplained):"]
        first = self.calls[0].begin
        for call in self.calls:
            end = "     ?" if call.result is UNKNOWN else f"{call.end - first:6.2f}"
            mark = "!" if call in stuck else " "
            lines.append(f" {mark} {call.begin - first:6.2f} to {end}  {call.what!r} -> {call.result!r}")
        return "\n".join(lines)


def violations(history: Iterable[Call], model: Model[State]) -> list[Violation]:
    """Return what is not linearizable, object by object."""
    parts: dict[Hashable, list[Call]] = defaultdict(list)
    for call in history:
        parts[call.part].append(call)
    found = (_violation(sorted(calls, key=lambda call: (call.begin, call.end)), model) for calls in parts.values())
    return [each for each in found if each is not None]


def _violation(calls: Sequence[Call], model: Model[State]) -> Violation | None:
    """Look for an order, depth first.

    ``done`` has a bit for each call that has its place; the same calls in the same state are tried once.
    """
    answered = sum(1 << number for number, call in enumerate(calls) if call.result is not UNKNOWN)
    seen: set[tuple[int, State]] = set()
    longest = 0
    stack: list[tuple[int, State]] = [(0, model.initial)]
    while stack:
        done, state = stack.pop()
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if done & answered == answered:
            return None
        if (done & answered).bit_count() >= (longest & answered).bit_count():
            longest = done
        for number in reversed(_next(calls, done)):
            call = calls[number]
            states = model.step(state, call.what, call.result)
            # A call without an answer and without an effect explains nothing.
            stack += [(done | 1 << number, each) for each in states if call.result is not UNKNOWN or each != state]
    stuck = [call for number, call in enumerate(calls) if call.result is not UNKNOWN and not longest >> number & 1]
    return Violation(tuple(calls), tuple(stuck))


def _next(calls: Sequence[Call], done: int) -> list[int]:
    """Return the calls that may come next: those that began before any other one ended."""
    left = [number for number in range(len(calls)) if not done >> number & 1]
    deadline = min(calls[number].end for number in left if calls[number].result is not UNKNOWN)
    found, lost = [], set()
    for number in left:
        call = calls[number]
        if call.begin > deadline:
            break
        if call.result is UNKNOWN:
            # Of lost calls that ask the same, the one that began first can stand for any other.
            if call.what in lost:
                continue
            lost.add(call.what)
        found.append(number)
    return found
