"""Accounts: what the running tasks and the claims of a job are charged to (design note 0043).

A job knows its accounts: the amounts of its group and of the groups above it, its user's part of a group with
``Capacity``, the running jobs of groups with limits, and licences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, TypeAlias

import msgspec

from cress.model.job import Job

# A job, by the number under which its tasks count, and its user.
Owned: TypeAlias = tuple[int, str]


class ChargedJob(Protocol):
    """A job, as accounts see it."""

    @property
    def job(self) -> Job: ...
    @property
    def owned(self) -> Owned: ...


class Charged(Protocol):
    """An attempt or a claim: its job, and its charge in the measures of its group."""

    @property
    def job(self) -> ChargedJob: ...
    @property
    def charge(self) -> tuple[int, ...]: ...


class ChargedAttempt(Charged, Protocol):
    """An attempt, which may have been told to stop."""

    @property
    def stopping(self) -> bool: ...


class AtBound(msgspec.Struct, frozen=True):
    """An account at its bound: it ``has`` an amount of at most ``most``, and a unit ``asks`` for more.

    ``account`` is the name of a group or a licence, or "" for all groups together, of which those in ``keeping`` keep
    so much unused capacity for themselves. ``user`` is set if it is the bound of this user there. Amounts are raw
    amounts of one ``measure``, a dimension or a kind of node; "" for the scalar one and for numbers. ``room`` is the
    most that a unit may ask for on the empty cluster, if the bound excludes the unit even there.
    """

    account: str
    most: int
    has: int
    asks: int = 1
    user: str = ""
    measure: str = ""
    keeping: tuple[tuple[str, int], ...] = ()
    room: int = 0


class Numbers:
    """A number of things, in total and by user."""

    __slots__ = ("total", "users")

    def __init__(self) -> None:
        self.total = 0
        self.users: dict[str, int] = {}

    def add(self, user: str, number: int = 1) -> None:
        """Count ``number`` things of a user more; it may be negative."""
        self.total += number
        has = self.users[user] = self.users.get(user, 0) + number
        assert has >= 0, f"{user} has {has}"
        if not has:
            del self.users[user]

    def of(self, user: str | None = None) -> int:
        """Return the number of a user, or the total."""
        return self.total if user is None else self.users.get(user, 0)

    def beyond(self, most: int | None, more: int, user: str) -> AtBound | None:
        """Return the bound on a user's number that ``more`` would exceed; ``None`` without one."""
        has = self.of(user)
        return AtBound("", most, has, more, user) if most is not None and has + more > most else None


class Account(ABC):
    """Counts what it is charged with; by default claims, and attempts that were told to stop, make no difference."""

    __slots__ = ()

    @abstractmethod
    def begin(self, attempt: ChargedAttempt, /) -> None:
        """Charge an attempt; it may be stopping already."""

    @abstractmethod
    def end(self, attempt: ChargedAttempt, /) -> None:
        """Take back the charge of an attempt."""

    def leave(self, attempt: ChargedAttempt, /) -> None:
        """Note that a charged attempt was told to stop just now."""

    def claim(self, claim: Charged, /) -> None:
        """Charge a claim."""

    def drop(self, claim: Charged, /) -> None:
        """Take back the charge of a claim."""

    @abstractmethod
    def forget(self) -> None:
        """Clear it, before everything is charged again."""
