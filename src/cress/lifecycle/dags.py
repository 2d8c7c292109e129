"""Dags: not filled yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.lifecycle.family import Family
from cress.lifecycle.live import LiveJob
from cress.model.job import Job
from cress.model.records import JobRecord

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def check(machine: Machine, job: Job) -> None:
    """Raise ``InputError`` if the plan makes no sense."""


def begin(machine: Machine, family: Family) -> None:
    """It was accepted, and nothing that it comes after is open."""


def member_over(machine: Machine, family: Family, member: LiveJob, record: JobRecord) -> None:
    """One of its members is over."""


def tend(machine: Machine, family: Family) -> None:
    """Something of it changed: bring it on."""


def due(machine: Machine, family: Family, kind: str, index: int) -> None:
    """The time of a timer has come."""


def updated(machine: Machine, family: Family, before: Job) -> None:
    """It is to be otherwise from now on."""


def wall_stepped(machine: Machine, family: Family) -> None:
    """The wall clock was set."""


def why(machine: Machine, family: Family, now: int) -> str:
    """What it waits for; empty: nothing."""
    return ""
