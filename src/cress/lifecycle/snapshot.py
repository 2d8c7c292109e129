"""Snapshots: the whole state of a machine as bytes, of this version or converted from an older one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cress.core.scheduler import Scheduler
from cress.lifecycle.record import MAJOR, MINOR
from cress.lifecycle.tables.answers import Answer
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rounds import Round
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob, LiveNode
from cress.lifecycle.tables.tables import General, Tables
from cress.lifecycle.tables.timers import Key
from cress.model.access import JoinToken, Token, User
from cress.model.records import JobState
from cress.model.revisions import Revision
from cress.model.secrets import Secret


class Snapshot(msgspec.Struct, kw_only=True):
    """A state as written; fields that a newer minor version adds are ignored.

    ``core`` is the scheduler's own export, encoded, with a version of its own; ``more``: deciding is due at once.
    """

    version: tuple[int, int]
    now: int
    utc: int
    more: bool
    general: General
    jobs: list[LiveJob]
    families: list[Family]
    attempts: list[LiveAttempt]
    nodes: list[LiveNode]
    granted: dict[str, int]
    lost_at: dict[str, int]
    timers: list[tuple[Key, int]]
    answers: dict[str, Answer]
    ended: dict[int, tuple[JobState, int]]
    core: msgspec.Raw
    users: dict[str, User] = {}
    tokens: dict[str, Token] = {}
    join_tokens: dict[str, JoinToken] = {}
    joined: list[tuple[tuple[str, str], bytes]] = []
    secrets: list[Secret] = []
    revisions: list[Revision] = []
    rounds: dict[int, Round] = {}


class _Version(msgspec.Struct):
    version: int | tuple[int, int]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode
_decode_version = msgspec.msgpack.Decoder(_Version).decode


def encode(tables: Tables, core: Scheduler, now: int, utc: int, *, more: bool) -> bytes:
    """Return a state as bytes."""
    return _encode(
        Snapshot(
            version=(MAJOR, MINOR),
            now=now,
            utc=utc,
            more=more,
            general=tables.general[0],
            jobs=list(tables.jobs.values()),
            families=list(tables.families.values()),
            attempts=list(tables.attempts.values()),
            nodes=list(tables.nodes.values()),
            granted=tables.granted,
            lost_at=tables.lost_at,
            timers=list(tables.timers.items()),
            answers=tables.answers,
            ended=tables.ended,
            core=msgspec.Raw(_encode(core.export())),
            users=tables.users,
            tokens=tables.tokens,
            join_tokens=tables.join_tokens,
            joined=list(tables.joined.items()),
            secrets=list(tables.secrets.values()),
            revisions=list(tables.revisions.values()),
            rounds=tables.rounds,
        )
    )


def decode(data: bytes) -> tuple[Tables, Scheduler, Snapshot]:
    """Return the tables and the scheduler of a snapshot, and the snapshot. Raises ``ValueError`` for other versions."""
    stored = _decode(data) if major_of(data) == MAJOR else msgspec.convert(_converted(data), Snapshot)
    tables = Tables()
    tables.general.fill({0: stored.general})
    tables.jobs.fill({job.job.id: job for job in stored.jobs})
    tables.families.fill({family.job.id: family for family in stored.families})
    tables.attempts.fill({attempt.id: attempt for attempt in stored.attempts})
    tables.nodes.fill({node.node.name: node for node in stored.nodes})
    tables.timers.fill(dict(stored.timers))
    tables.granted.fill(stored.granted)
    tables.lost_at.fill(stored.lost_at)
    tables.answers.fill(stored.answers)
    tables.ended.fill(stored.ended)
    tables.users.fill(stored.users)
    tables.tokens.fill(stored.tokens)
    tables.join_tokens.fill(stored.join_tokens)
    tables.joined.fill(dict(stored.joined))
    tables.secrets.fill({secret.id: secret for secret in stored.secrets})
    tables.revisions.fill({revision.number: revision for revision in stored.revisions})
    tables.rounds.fill(stored.rounds)
    return tables, Scheduler.restore(stored.core), stored


def major_of(data: bytes) -> int:
    """Return the major version of a snapshot; up to version 5 it was the only number."""
    version = _decode_version(data).version
    return version if isinstance(version, int) else version[0]


def _converted(data: bytes) -> dict[str, Any]:
    """Return an older snapshot in this version, by one converter for each version in between."""
    major = major_of(data)
    if major > MAJOR:
        raise ValueError(
            f"a state of version {major} cannot be restored, this release reads versions up to {MAJOR}: "
            "start the newer release that wrote it"
        )
    if major not in _CONVERTERS:
        raise ValueError(f"a state of version {major} cannot be restored, only versions from {min(_CONVERTERS)}")
    state: dict[str, Any] = msgspec.msgpack.decode(data)
    for version in range(major, MAJOR):
        state = _CONVERTERS[version](state)
    return {**state, "core": msgspec.Raw(_encode(state["core"]))}


def _from_5(state: dict[str, Any]) -> dict[str, Any]:
    """Convert version 5: general values become a row, terms two tables, and the index of dependents is dropped."""
    terms = state.pop("terms")
    del state["behind"]
    general = {name: state.pop(name) for name in ("next_job", "epoch", "wall_offset", "neighbours")}
    for job in state["jobs"]:
        del job["attempts"]
    timers = [((kind, name), time) for kind, name, time in state["timers"]]
    return {**state, **terms, "version": (6, 0), "general": general, "timers": timers}


def with_stop_graces(data: bytes, grace: Callable[[int], int | None]) -> bytes:
    """Return a snapshot whose jobs have the grace of their runs: up to version 5 only the runs had one.

    ``grace`` returns the grace (µs) of the run with this id, ``None`` if there is no such run.
    """
    state: dict[str, Any] = msgspec.msgpack.decode(data)
    templates: dict[int, int] = {}

    def fill(job: dict[str, Any], template: int) -> None:
        found = grace(template)
        if found is not None:
            job["stop_grace"] = found

    for row in (*state["jobs"], *state["families"]):
        number = row["job"]["id"]
        templates[number] = row.get("template") or number
        fill(row["job"], templates[number])
    for family in state["families"]:
        good = (family.get("state") or {}).get("good")
        if good is not None:
            template, job = good
            fill(job, template)
    for entry in state["core"]["jobs"]:
        number = entry["job"]["id"]
        fill(entry["job"], templates.get(number, number))
    return msgspec.msgpack.encode(state)


_CONVERTERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {5: _from_5}
