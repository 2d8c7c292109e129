"""Settings of a center, given at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path

from cress.model.resources import Dimensions
from cress.model.times import DAY, MINUTE


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Where a center keeps its state and where it listens.

    ``port`` is for people and programs, ``executor_port`` for executors; 0 takes any free one. ``names`` are further
    host names under which it is called. ``parent_pipe``: the end of standard input is a clean stop. Without
    ``insecure`` it listens on loopback addresses only: there is no encryption yet.
    ``options`` are assignments such as ``grace=30s``; they stay with the data directory until others are given.
    ``dimensions`` count when it is new. ``history`` is the address of a database, empty: a file in ``data``.
    Finished work stays in it for ``keep_history``, usage by the hour for ``keep_usage``, files of the event log for
    ``keep_events``, and at most ``keep_events_size`` bytes of them; durations are microseconds. ``topology`` is the file
    with the racks, ``licences`` the one with the licences; without it, and without ``licence``, there are those that there were.
    ``run_as`` are the accounts of nodes that everybody may have tasks run as.
    ``webhdfs`` says where namenodes are asked (``namenodes.Namenodes``), ``data_age`` how old (µs) what is known of data may be
    while a job waits for it.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    executor_port: int = 0
    options: tuple[str, ...] = ()
    dimensions: Dimensions = field(default_factory=Dimensions)
    zone: tzinfo = UTC
    names: tuple[str, ...] = ()
    cluster: str = ""
    parent_pipe: bool = False
    insecure: bool = False
    history: str = ""
    keep_history: int = 90 * DAY
    keep_usage: int = 1100 * DAY
    keep_events: int = 30 * DAY
    keep_events_size: int = 2**30
    topology: Path | None = None
    licences: Path | None = None
    licence: tuple[tuple[str, int], ...] = ()
    run_as: tuple[str, ...] = ()
    webhdfs: tuple[str, ...] = ()
    data_age: int = 10 * MINUTE
