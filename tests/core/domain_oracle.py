"""A plain oracle of clauses over domains: it recounts all tasks for each start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from cress.language.clauses import Clause, Kind, OverDomains
from cress.language.columns import attributes_of
from cress.language.names import key_of
from cress.language.parser import parse_requirement
from cress.model.job import Job
from cress.model.node import Node

SHARES = 100_000


def domain_of(node: Node, key: str) -> str | None:
    """The domain of a node; None: it is in none."""
    value = attributes_of(node).get(key)
    return None if value is None else str(value).lower()


def selects(jobs: str, job: Job, group: str, asking: Job, asking_group: str) -> bool:
    """Names, labels and self alone; in the group of the job that asks."""
    if jobs == "self":
        return job.id == asking.id
    if group != asking_group:
        return False
    if "=" in jobs:
        labels = {key_of(name): text for name, text in job.labels}
        return all(labels.get(key_of(part.partition("=")[0])) == part.partition("=")[2] for part in jobs.split(","))
    return job.name.startswith(jobs[:-1]) if jobs.endswith("*") else job.name == jobs


def problems(
    job: Job,
    hard: Iterable[Clause],
    starts: Iterable[str],
    running: Iterable[tuple[Job, str]],
    nodes: Mapping[str, Node],
    closed: Iterable[str],
    allowed: Iterable[str],
    groups: Mapping[int, str],
) -> list[str]:
    """What is wrong after starts of a job on these nodes; ``running`` are all tasks, those starts among them.

    ``closed`` are nodes that are lost or cordoned, ``allowed`` those that its other clauses allow, ``groups`` those of
    jobs.
    """
    found = []
    running, starts = list(running), list(starts)
    mine = [node for each, node in running if each.id == job.id]
    old = list((Counter(mine) - Counter(starts)).elements())
    for clause in hard:
        value = clause.value
        if not isinstance(value, OverDomains):
            continue
        took = {domain_of(nodes[name], value.key) for name in starts}
        if None in took:
            found.append(f"{clause}: a node without {value.by}")
            continue
        counts = Counter(domain_of(nodes[name], value.key) for name in mine)
        if clause.kind is Kind.SPREAD:
            there = {domain_of(nodes[name], value.key) for name in set(allowed) - set(closed)} - {None}
            bound = _bound(value, there, counts)
            found += [f"{clause}: {d} has {counts[d]} of {counts}" for d in took if counts[d] > bound[d]]
        elif clause.kind is Kind.WITHIN:
            before = {domain_of(nodes[name], value.key) for name in old} - {None}
            if not took <= before and (before or len(took) > 1):
                found.append(f"{clause}: {took}, beside {before}")
        else:
            others = [
                domain_of(nodes[name], value.key)
                for each, name in running
                if each.id != job.id and selects(value.jobs, each, groups[each.id], job, groups[job.id])
            ]
            own = selects(value.jobs, job, groups[job.id], job, groups[job.id])
            if clause.kind is Kind.AWAY:
                found += [f"{clause}: {d}" for d in took if d in others or (own and counts[d] > 1)]
            else:
                before = {*others, *(domain_of(nodes[name], value.key) for name in old if own)} - {None}
                first = own and not before and len(took) == 1
                found += [f"{clause}: {d} of {before}" for d in took if d not in before and not first]
    for other, name in running:
        for clause in parse_requirement(other.requirement, stored=True).clauses if other.id != job.id else ():
            value = clause.value
            if clause.kind is not Kind.AWAY or clause.relaxation is not None or not isinstance(value, OverDomains):
                continue
            if groups[other.id] != groups[job.id] or value.jobs == "self":
                continue
            if selects(value.jobs, job, groups[job.id], other, groups[other.id]):
                theirs = domain_of(nodes[name], value.key)
                found += [
                    f"{other.name} keeps away by {clause}: {each}"
                    for each in starts
                    if theirs is not None and domain_of(nodes[each], value.key) == theirs
                ]
    return found


def _bound(value: OverDomains, there: set[str | None], counts: Counter[str | None]) -> dict[str | None, int]:
    if not value.targets:
        least = min((counts[d] for d in there), default=0)
        return dict.fromkeys({*there, *counts}, least + value.most_skew)
    named = {name.lower(): Fraction(share, SHARES) for name, share in value.targets}
    rest = [d for d in there if d not in named]
    shares = {d: named[d] if d in named else (1 - sum(named.values())) / len(rest) for d in there}
    whole = sum(shares.values())
    total = counts.total() - counts[None]
    return {
        d: (ceil(shares[d] / whole * total) + value.most_skew - 1 if whole and shares.get(d) else 0)
        for d in {*there, *counts}
    }
