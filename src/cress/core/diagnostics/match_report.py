"""Reports on matches: the present requirement of a job (source E §3.4), and the nodes that satisfy a text."""

from __future__ import annotations

import msgspec
import numpy as np

from cress.core.books import Books
from cress.core.diagnostics.unresolved_names import missing_in, missing_in_rank, names_in, say
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import USABLE
from cress.core.placing.constraints import BY_EXPRESSION, PLACEMENT_KEYS, Constraints
from cress.core.placing.match import Match, predicate
from cress.language.clauses import PLACES, Clause, Kind, Rank, brief
from cress.language.names import amount_of
from cress.language.parser import check_names_of_jobs, parse_rank, parse_requirement
from cress.language.spelled import rank_on
from cress.model.group import DEFAULT_GROUP
from cress.model.node import Value
from cress.model.times import NEVER
from cress.model.vectors import format_vector


class CurrentConstraints(msgspec.Struct, frozen=True, kw_only=True):
    """The present constraints of a job; ``until`` is the time (µs) at which a clause becomes soft or hard by itself,
    if any.
    """

    requirement: str
    rank: str
    until: int | None = None


class NodeMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a requirement and a rank on one node: ``failing`` is the first clause that it does not satisfy.

    ``undefined``: the node has no such attribute, or one of another type. ``has`` are the node's values of the
    attributes in the clause, ``None`` without a value. ``rank`` is the calculation of ``score``.
    """

    node: str
    satisfied: bool
    failing: str = ""
    undefined: bool = False
    has: tuple[tuple[str, Value | None], ...] = ()
    score: float = 0.0
    rank: str = ""
    usable: bool = True


def current_constraints(core: Books, job: JobEntry) -> CurrentConstraints:
    """Return the requirement and the rank of the job's next unit as matched now, in E's order.

    Names of running jobs are replaced by their nodes. Tasks that restart together have one requirement.
    """
    request, wants = core.shapes.asked_by(job)
    texts: list[tuple[Kind, str]] = []
    for clause in wants.hard:
        kind = Kind.CONDITION if clause.kind in (Kind.NODES, Kind.DATA) else clause.kind
        by_expression = clause.kind in BY_EXPRESSION
        texts.append(
            (kind, brief(clause) if by_expression else predicate(core.matching.context, clause, wants).shown())
        )
    if any(request):
        texts.append((Kind.RESOURCE, f"Resource = {format_vector(request, core.dimensions)}"))
    texts += ((Kind.PORT, f"Port = {port}" if port else "DynamicPort = True") for port in wants.ports)
    requirement = [text for _, text in sorted(texts, key=lambda each: PLACES[each[0]])]
    if (
        (job.job.gang or job.waits_whole)
        and job.constraints is not None
        and job.constraints.whole
        and not job.starts_in_part
    ):
        requirement.append("IssueAsWhole = True")
    requirement += (text for key in PLACEMENT_KEYS for text in key.shown(wants))
    until = job.relaxes_at if job.relaxes_at < NEVER else None
    return CurrentConstraints(requirement=" && ".join(requirement), rank=str(Rank(wants.terms)), until=until)


def remarks_on(core: Books, requirement: str, rank: str) -> tuple[str, ...]:
    """Return remarks on unknown names in these texts."""
    found = dict.fromkeys(missing_in(core, parse_requirement(requirement).clauses, DEFAULT_GROUP))
    found |= dict.fromkeys(missing_in_rank(core, parse_rank(rank), DEFAULT_GROUP))
    return tuple(map(say, found))


def match_nodes(core: Books, requirement: str, rank: str) -> list[NodeMatch]:
    """Evaluate the texts on each present node; clauses with an f(x) count as hard, job names refer to the default
    group.
    """
    constraints = Constraints(parse_requirement(requirement), parse_rank(rank))
    check_names_of_jobs(requirement, constraints.requirement, core.dimensions)
    check_names_of_jobs(rank, constraints.rank, core.dimensions)
    cluster = core.cluster
    match = Match(core.matching.context, constraints.wants(0, group=DEFAULT_GROUP))
    first = match.first_from_nothing().tolist()
    scores = match.score(np.arange(cluster.node_count)).tolist() if cluster.node_count else []
    return [
        NodeMatch(
            node=name,
            satisfied=not first[f],
            failing=match.predicates[first[f] - 1].text if first[f] else "",
            undefined=bool(first[f]) and match.predicates[first[f] - 1].undefined(f),
            has=_asked(core, constraints.requirement.clauses[first[f] - 1], f) if first[f] else (),
            score=scores[f],
            rank=rank_on(constraints.rank, cluster.capacity_of(f), core.dimensions),
            usable=bool(cluster.nodes[f, USABLE]),
        )
        for f, name in enumerate(cluster.names)
        if not cluster.lost[f]
    ]


def _asked(core: Books, clause: Clause, f: int) -> tuple[tuple[str, Value | None], ...]:
    """Return the attributes in a clause, and their values on node ``f``."""
    if clause.kind is not Kind.CONDITION:
        return ()
    columns = core.matching.context.columns
    names = {
        name.key: str(name) for name in names_in(clause.expression) if not amount_of(name.key, columns.dimensions)[1]
    }
    return tuple((name, columns.attributes[f].get(key)) for key, name in names.items())
