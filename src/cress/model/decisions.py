"""Decisions: what the core says to do. Values; whoever carries them out reports back by events."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.node import Allocated


class Start(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Start task ``task`` (index from 0) of job ``job`` on ``node``; ``attempt`` is unique for ever.

    ``ports`` are the numbers of the job's ports there, in the job's order; ``devices`` are those of the node that it has,
    in the node's order. ``leader``: after a failure of their node it
    starts together with a task of this job.
    """

    attempt: int
    job: int
    task: int
    node: str
    ports: tuple[int, ...] = ()
    leader: int | None = None
    devices: tuple[Allocated, ...] = ()


class Preempt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Signal this attempt and stop it after ``grace`` microseconds; it makes room for job ``by``."""

    attempt: int
    job: int
    task: int
    node: str
    grace: int
    by: int


class Stop(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Stop this attempt: its job was cancelled, or its gang lost another task and starts again as a whole."""

    attempt: int
    job: int
    task: int
    node: str


class WouldPreempt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """In the mode ``observe``: this attempt would have been preempted for job ``by``; nothing was done."""

    attempt: int
    job: int
    task: int
    node: str
    by: int


Decision: TypeAlias = Start | Preempt | Stop | WouldPreempt


class Decisions(msgspec.Struct):
    """What one call of ``decide`` came to; ``more`` says that the budget ended before the work did."""

    items: list[Decision]
    more: bool = False
