"""Names in constraints that refer to nothing: attributes of no node, jobs without running tasks.

Most of them are typing errors, or texts without quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from cress.core.books import Books
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.context import ClauseContext
from cress.core.placing.data_clauses import DataLocality
from cress.core.placing.kinds import constraints_of
from cress.core.placing.vetoes import Absent, Missing
from cress.core.tables.data_locations import is_local
from cress.core.tables.dependencies import key_of
from cress.core.tables.selected import Selected
from cress.language.clauses import Clause, Kind, OverDomains, Rank
from cress.language.namepatterns import is_pattern
from cress.language.names import (
    DATA_LOCALITY,
    JOB,
    LOADS,
    MOMENT,
    NAMES,
    NODE_NAMES,
    NODES,
    PLACEMENT,
    SPELLING,
    UNDEFINED,
    amount_of,
)
from cress.language.questions import patterns_in
from cress.language.selectors import parse_selector
from cress.language.tree import Compare, Defined, Expression, In, Name, Number, Text, Truth, parts
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.units import closest

# The number of jobs whose names are compared with a mistyped one.
MOST_JOBS = 1000


def missing_names(context: ClauseContext, expressions: Iterable[Expression]) -> tuple[Missing, ...]:
    """Return the attributes in these expressions that no node has, except those in ``defined(x)``."""
    columns = context.columns
    if all(context.cluster.lost):
        return ()
    expressions = tuple(expressions)
    expected = {defined.name.key for expression in expressions for defined in _defined(expression)}
    found: dict[str, Missing] = {}
    for name, quoted in (pair for expression in expressions for pair in _names(expression)):
        attribute = name.key not in PLACEMENT and name.key not in MOMENT
        attribute = attribute and not amount_of(name.key, columns.dimensions)[1] and not columns.holders.get(name.key)
        if not attribute or name.key in expected or name.key in found:
            continue
        if name.key.startswith(JOB):
            found[name.key] = Missing(Absent.OF_JOB, str(name))
        elif name.key in LOADS:
            found[name.key] = Missing(Absent.LOAD, str(name))
        elif quoted:
            found[name.key] = Missing(Absent.TEXT, str(name))
        else:
            # The first letter is rarely mistyped, and GPU must not be taken for CPU.
            near = [
                known for known in _known(context) if known[0].casefold() == name.key[0] and name.key not in NODE_NAMES
            ]
            found[name.key] = Missing(Absent.ATTRIBUTE, str(name), closest(str(name), near))
    return tuple(found.values())


def missing_in(core: Books, clauses: Iterable[Clause], group: str) -> tuple[Missing, ...]:
    """Return the unknown names in these clauses of a job of ``group``."""
    clauses = tuple(clauses)
    found = list(
        missing_names(core.matching.context, (clause.expression for clause in clauses if clause.kind is Kind.CONDITION))
    )
    for clause in clauses:
        if clause.kind in (Kind.CONDITION, Kind.NODES):
            found += _unmatched(core.matching.context, clause.expression)
        if clause.kind is Kind.DATA:
            found += _of_data(core, clause)
        if isinstance(clause.value, OverDomains):
            found += _of_domains(core, clause.kind, clause.value, group)
        if clause.kind is Kind.DEPENDENCY:
            key = key_of(str(clause.value), group)
            if not core.relations.dependencies.named(key):
                some = islice(core.jobs.values(), MOST_JOBS)
                there = (job.job.name for job in some if job.group.name == key.group and job.job.name)
                near = _in_another_group(core, str(clause.value)) or closest(key.name, there)
                found.append(Missing(Absent.JOB, str(clause.value), near))
            elif not core.relations.counted(key):
                found.append(Missing(Absent.TASK, str(clause.value)))
    return tuple(found)


def _of_domains(core: Books, kind: Kind, value: OverDomains, group: str) -> Iterator[Missing]:
    """Yield the attribute of a clause over domains if no node has it, and a missing job that it must be near."""
    yield from missing_names(core.matching.context, (Name(value.key, value.by),))
    for target, _ in value.targets:
        domains = core.relations.domains(value.key)
        if len(domains) and target.casefold() not in {name.casefold() for name in domains.names}:
            yield Missing(Absent.VALUE, f"{value.by} {target}")
    selector = parse_selector(value.jobs) if value.jobs else None
    if kind is not Kind.NEAR or selector is None or selector.is_self:
        return
    selected = Selected(group, value.jobs)
    if not core.relations.selections.any_of(selected):
        # No live job has the name yet: the job is about to be submitted.
        there = any(
            core.relations.selections.would_select(selected, job.job, job.group.name) for job in core.jobs.values()
        )
    else:
        there = bool(core.relations.selections.jobs_of(selected))
    if not there:
        yield Missing(Absent.JOB, value.jobs, _in_another_group(core, value.jobs))


def _in_another_group(core: Books, name: str) -> str:
    """Return a job of another group that has just this name, as ``group/name``; empty if there is none."""
    some = islice(core.jobs.values(), MOST_JOBS)
    return next((f"{job.group.name}/{name}" for job in some if job.job.name == name), "")


def _unmatched(context: ClauseContext, expression: Expression) -> Iterator[Missing]:
    """Yield the name patterns in an expression that match no node."""
    if isinstance(expression, In) and isinstance(expression.subject, Name) and expression.subject.key in NAMES:
        keys = ("name", "hostname") if expression.subject.key in (NODES, DATA_LOCALITY) else (expression.subject.key,)
        for item in expression.items:
            if isinstance(item, Text) and is_pattern(item.value):
                (pattern,) = patterns_in((item,)) or (None,)
                there = (
                    str(has.get(key, ""))
                    for lost, has in zip(context.cluster.lost, context.columns.attributes, strict=False)
                    if not lost
                    for key in keys
                )
                if pattern is None or not any(map(pattern.fits, there)):
                    yield Missing(Absent.PATTERN, item.value)
    for part in parts(expression):
        yield from _unmatched(context, part)


def _of_data(core: Books, clause: Clause) -> Iterator[Missing]:
    """Yield data with an unknown location, or that no node has."""
    data = str(clause.value)
    cluster, known = core.cluster, core.relations.locations
    if is_local(data):
        there = any(not cluster.lost[f] for f in known.holders(data))
    elif data in known.places:
        lies = DataLocality(core.matching.context, clause, NO_WANTS)
        there = bool(np.any(lies.shares(cluster.present())))
    else:
        yield Missing(Absent.PLACE, data, why=known.problems.get(data, ""))
        return
    if not there:
        yield Missing(Absent.DATA, data)


def missing_in_rank(core: Books, rank: Rank, group: str) -> tuple[Missing, ...]:
    """Return the unknown names in a rank of a job of ``group``; they add nothing to the score."""
    terms = [term.what for term in rank.terms]
    names = missing_names(core.matching.context, (what for what in terms if not isinstance(what, Clause)))
    return (*names, *missing_in(core, (what for what in terms if isinstance(what, Clause)), group))


def remarks(core: Books, job: Job) -> tuple[str, ...]:
    """Return remarks on the constraints of a submitted job that may run (later): probable typing errors."""
    constraints = constraints_of(job, core.dimensions)
    if constraints is None:
        return ()
    found = dict.fromkeys(missing_in(core, constraints.requirement.clauses, job.group or DEFAULT_GROUP))
    found |= dict.fromkeys(missing_in_rank(core, constraints.rank, job.group or DEFAULT_GROUP))
    return tuple(say(absent) for absent in found if absent.kind not in (Absent.TASK, Absent.PLACE))


def say(missing: Missing) -> str:
    """Return the sentence about a missing name."""
    guess = f", did you mean {missing.near}?" if missing.near else ""
    match missing.kind:
        case Absent.ATTRIBUTE:
            return f"no node has an attribute {missing.name}{guess}"
        case Absent.TEXT:
            return f'no node has an attribute {missing.name}, a text must be in quotes: "{missing.name}"'
        case Absent.JOB:
            return f"there is no job {missing.name}{guess}"
        case Absent.TASK:
            return f"no task of {missing.name} runs"
        case Absent.PATTERN:
            return f"no node has a name like {missing.name}"
        case Absent.OF_JOB:
            return f"{missing.name} is an attribute of a job, and no job is asked for"
        case Absent.LOAD:
            return f"{missing.name} is not measured on any node"
        case Absent.DATA | Absent.VALUE:
            return f"no node has {missing.name}"
        case Absent.PORT:
            return f"port {missing.name} is in use: {missing.why}"
        case Absent.PLACE if missing.why:
            return f"{missing.name}: {missing.why}"
        case Absent.PLACE:
            return f"the location of {missing.name} is not known yet"


def names_in(expression: Expression) -> list[Name]:
    """Return the names in an expression, from left to right, except those in ``defined(x)``."""
    return [name for name, _ in _names(expression)]


def _names(expression: Expression, quoted: bool = False) -> Iterator[tuple[Name, bool]]:
    """Yield the names in an expression, each with True if it stands on the right, where a text may be meant."""
    if isinstance(expression, Name):
        if expression.key != UNDEFINED:
            yield expression, quoted
    elif isinstance(expression, Compare):
        yield from _names(expression.left)
        yield from _names(expression.right, quoted=not isinstance(expression.left, (Number, Text, Truth)))
    elif not isinstance(expression, Defined):
        for part in parts(expression):
            yield from _names(part)


def _defined(expression: Expression) -> Iterator[Defined]:
    if isinstance(expression, Defined):
        yield expression
    if isinstance(expression, Compare) and expression.operator in ("is", "is not"):
        # Like defined(x), it tests for a value.
        yield from (Defined(side) for side in (expression.left, expression.right) if isinstance(side, Name))
    for part in parts(expression):
        yield from _defined(part)


def _known(context: ClauseContext) -> list[str]:
    """Return all known names as written."""
    spelled = (spelling for key, spelling in SPELLING.items() if not key.startswith(JOB))
    names = dict.fromkeys((*spelled, *context.columns.dimensions.custom))
    for f, node in enumerate(context.cluster.specs):
        if not context.cluster.lost[f]:
            names.update((name, None) for name, _ in node.attributes)
    return list(names)
