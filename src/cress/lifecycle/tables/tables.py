"""The tables of the machine."""

from __future__ import annotations

from typing import Any

from cress.lifecycle.tables.answers import Answer
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rounds import Round
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob, LiveNode
from cress.lifecycle.tables.timers import Key
from cress.lifecycle.tables.tracked import ChangeJournal, Row, Table
from cress.model.access import JoinToken, Token, User
from cress.model.decisions import Start
from cress.model.distances import Distance
from cress.model.records import JobState
from cress.model.revisions import Revision
from cress.model.secrets import Secret


class General(Row, kw_only=True):
    """The single row of general values: the next job id, the epoch, the clocks' difference (µs), neighbouring racks,
    distances.
    """

    next_job: int = 1
    epoch: int = 0
    wall_offset: int | None = None
    neighbours: tuple[tuple[str, str], ...] = ()
    distances: tuple[Distance, ...] = ()


class Tables:
    """The state of a machine beside its scheduler, and the journal of its changes.

    ``granted`` and ``lost_at`` are the terms of nodes, ``timers`` the times at which the machine acts by itself.
    ``answers`` are the replies to submits with a key, oldest first. ``ended`` are the jobs that ended a moment ago,
    with state and time: the shell may not have seen this when a user submits a dependent job. ``users`` are those with
    a role of their own, ``tokens`` and ``join_tokens`` are by id. ``joined`` has, by join token (its id) and node, the
    digest of the key with which the node joined. ``secrets`` are by owner and name, ``revisions`` of the configuration
    and ``rounds`` of moves by number, the present ones last. ``general`` has one row, with the key 0.
    """

    def __init__(self) -> None:
        self.journal = journal = ChangeJournal()
        self.jobs: Table[int, LiveJob] = Table(journal, ("jobs",))
        self.families: Table[int, Family] = Table(journal, ("families",))
        self.attempts: Table[int, LiveAttempt] = Table(journal, ("attempts",))
        self.nodes: Table[str, LiveNode] = Table(journal, ("nodes",))
        self.granted: Table[str, int] = Table(journal, ("granted",))
        self.lost_at: Table[str, int] = Table(journal, ("lost_at",))
        self.timers: Table[Key, int] = Table(journal, ("timers",))
        self.answers: Table[str, Answer] = Table(journal, ("answers",))
        self.ended: Table[int, tuple[JobState, int]] = Table(journal, ("ended",))
        self.users: Table[str, User] = Table(journal, ("users",))
        self.tokens: Table[str, Token] = Table(journal, ("tokens",))
        self.join_tokens: Table[str, JoinToken] = Table(journal, ("join_tokens",))
        self.joined: Table[tuple[str, str], bytes] = Table(journal, ("joined",))
        self.secrets: Table[tuple[str, str], Secret] = Table(journal, ("secrets",))
        self.revisions: Table[int, Revision] = Table(journal, ("revisions",))
        self.rounds: Table[int, Round] = Table(journal, ("rounds",))
        self.general: Table[int, General] = Table(journal, ("general",))
        self.general.put(0, General())

    def by_name(self) -> dict[str, Table[Any, Any]]:
        """Return all tables by their names."""
        return {name: getattr(self, name) for name in TYPES}


# The types of keys and values, by table.
TYPES: dict[str, tuple[Any, Any]] = {
    "general": (int, General),
    "nodes": (str, LiveNode),
    "families": (int, Family),
    "jobs": (int, LiveJob),
    "attempts": (int, LiveAttempt),
    "granted": (str, int),
    "lost_at": (str, int),
    "timers": (Key, int),
    "answers": (str, Answer),
    "ended": (int, tuple[JobState, int]),
    "users": (str, User),
    "tokens": (str, Token),
    "join_tokens": (str, JoinToken),
    "secrets": (tuple[str, str], Secret),
    "revisions": (int, Revision),
    "rounds": (int, Round),
    "joined": (tuple[str, str], bytes),
}


def place(tables: Tables, start: Start, utc: int) -> LiveAttempt:
    """Enter the attempt of a start; return it."""
    attempt = LiveAttempt(
        id=start.attempt,
        job=start.job,
        task=start.task,
        node=start.node,
        placed=utc,
        ports=start.ports + start.more_ports,
        devices=start.devices,
        leader=start.leader,
        chosen=start.chosen,
        kept=start.kept,
    )
    assert start.attempt not in tables.attempts, f"attempt {start.attempt} is placed twice"
    tables.attempts.put(start.attempt, attempt)
    return attempt
