"""Pseudonyms for the users, jobs and nodes of a recorded log; groups, amounts and times stay.

A name gets the number of its first appearance, so the same log always gives the same pseudonyms, and equal names stay
equal. In the texts of constraints the names are replaced as whole words. Commands and output are not in the log.
"""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec

from cress.model.job import Job
from cress.model.node import Node
from cress.past.recorded_work import RecordedNode, RecordedWork

_WORD = re.compile(r"[\w.:/@-]+")
# Attributes of nodes that identify a machine.
_TELLING = frozenset(("Hostname",))


class Pseudonyms:
    """The pseudonyms of one log, by name."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._words: dict[str, str] = {}

    def of(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name: ``user-1``; an empty name has none."""
        if not name:
            return ""
        known = self._of.get((kind, name))
        if known is None:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            known = self._of[kind, name] = f"{kind}-{number}"
            self._words.setdefault(name, known)
        return known

    def text(self, text: str) -> str:
        """Return a text with the known names replaced, where they are whole words."""
        return _WORD.sub(lambda found: self._words.get(found[0], found[0]), text)


def anonymised(work: RecordedWork) -> RecordedWork:
    """Return the work with pseudonyms for users, jobs, applications, workloads, labels, nodes and their addresses."""
    names = Pseudonyms()
    for name in work.nodes:
        names.of("node", name)
    for job in work.jobs.values():
        _note(names, job.job)
    jobs = {
        number: replace(job, job=_job(names, job.job), attempts=[*job.attempts]) for number, job in work.jobs.items()
    }
    for job in jobs.values():
        job.attempts = [replace(attempt, node=names.of("node", attempt.node)) for attempt in job.attempts]
    groups = tuple(
        msgspec.structs.replace(
            group,
            users=tuple(names.of("user", user) if user != "*" else user for user in group.users),
            admins=tuple(names.of("user", user) for user in group.admins),
            notify=(),
            user_weights=tuple((names.of("user", user), weight) for user, weight in group.user_weights),
        )
        for group in work.groups
    )
    nodes = {names.of("node", name): _node(names, node) for name, node in work.nodes.items()}
    families = {number: names.of("job", name) for number, name in work.families.items()}
    return replace(work, jobs=jobs, groups=groups, nodes=nodes, families=families)


def _note(names: Pseudonyms, job: Job) -> None:
    names.of("user", job.user)
    names.of("job", job.name)
    names.of("application", job.application)
    names.of("workload", job.workload)
    for _, text in job.labels:
        names.of("label", text)


def _job(names: Pseudonyms, job: Job) -> Job:
    return msgspec.structs.replace(
        job,
        user=names.of("user", job.user),
        name=names.of("job", job.name),
        application=names.of("application", job.application),
        workload=names.of("workload", job.workload),
        labels=tuple((key, names.of("label", text)) for key, text in job.labels),
        requirement=names.text(job.requirement),
        rank=names.text(job.rank),
        parts=tuple(
            msgspec.structs.replace(part, requirement=names.text(part.requirement), rank=names.text(part.rank))
            for part in job.parts
        ),
    )


def _node(names: Pseudonyms, recorded: RecordedNode) -> RecordedNode:
    node: Node = recorded.node
    changed = msgspec.structs.replace(
        node,
        name=names.of("node", node.name),
        address="",
        attributes=tuple(
            (key, names.of("host", str(value)) if key in _TELLING else value) for key, value in node.attributes
        ),
        data=tuple(names.of("data", path) for path in node.data),
        accepts=names.text(node.accepts),
    )
    return replace(recorded, node=changed)
