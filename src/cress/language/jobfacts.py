"""The job's own attributes in its constraints: ``Job.User``, ``Job.Memory``.

They are constants once the job is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from cress.language.clauses import Clause, Rank, RankTerm, Requirement
from cress.language.names import JOB, JOB_FACTS, LABELS, UNDEFINED, key_of
from cress.language.tree import (
    And,
    Arithmetic,
    Call,
    Compare,
    Defined,
    Expression,
    In,
    Name,
    Negative,
    Not,
    Number,
    Or,
    Text,
    Truth,
    leaves,
    parts,
)
from cress.language.trouble import trouble
from cress.model.job import Job
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.model.units import closest, format_amount

# Constants by the key of the name that they replace.
Facts: TypeAlias = tuple[tuple[str, Expression], ...]


# Attributes whose values are texts; labels are texts as well.
TEXT_FACTS = frozenset(JOB + fact for fact in ("user", "group", "name", "type", "application", "workload"))


def names_jobs(text: str) -> bool:
    """Return quickly whether a text may contain attributes of the job."""
    return JOB in text.casefold()


def facts_of(job: Job, dimensions: Dimensions, group: str) -> dict[str, Expression]:
    """Return the existing attributes of a job of this group, as constants; amounts are those of one task."""
    texts = {
        "user": job.user,
        "group": group,
        "name": job.name,
        "type": job.kind,
        "application": job.application,
        "workload": job.workload,
    }
    facts: dict[str, Expression] = {JOB + key: Text(value) for key, value in texts.items() if value}
    numbers = {"priority": job.priority, "tasks": job.tasks}
    facts |= {JOB + key: Number(str(value)) for key, value in numbers.items()}
    facts |= {LABELS + key_of(key): Text(value) for key, value in job.labels}
    facts[JOB + "gang"] = Truth(job.gang)
    if job.time_limit is not None:
        facts[JOB + "timelimit"] = Number(f"{job.time_limit / SECOND:.6f}".rstrip("0").rstrip("."))
    for name, amount in zip(dimensions.names, job.request, strict=True):
        key = key_of(name)
        facts[JOB + key] = Number(format_amount(amount, dimensions.measure(name)), of=key)
    return facts


def check_facts(text: str, expression: Expression, dimensions: Dimensions) -> None:
    """Raise InputError, which points at the character, if no job of such a cluster has an attribute of the expression.

    The parser does not know the dimensions of the cluster, so it accepts names such as ``Job.GPU``.
    """
    known = {**JOB_FACTS, **{key_of(name): name for name in dimensions.custom}}
    for leaf in leaves(expression):
        if not isinstance(leaf, Name) or not leaf.key.startswith(JOB) or leaf.key.removeprefix(JOB) in known:
            continue
        if leaf.key.startswith(LABELS) and leaf.key != LABELS:
            continue
        word = leaf.written.rpartition(".")[2]
        # The first letter is rarely mistyped, and GPU must not be mistaken for CPU.
        near = closest(word, (fact for fact in known.values() if fact[0].casefold() == word[:1].casefold()))
        hint = f"did you mean Job.{near}?" if near else f"after `Job.`: {', '.join(known.values())}, Labels.…"
        raise trouble(text, leaf.at, f"a job has no {leaf}", hint)


def keys_in(requirement: Requirement, rank: Rank) -> frozenset[str]:
    """Return the keys of the attributes of the job in these constraints."""
    expressions = [clause.expression for clause in requirement.clauses]
    expressions += [term.what.expression if isinstance(term.what, Clause) else term.what for term in rank.terms]
    return frozenset(key for expression in expressions for key in _keys(expression))


def keys_in_expression(expression: Expression) -> frozenset[str]:
    """Return the keys of the attributes of the job in an expression."""
    return frozenset(_keys(expression))


def _keys(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Name) and expression.key.startswith(JOB):
        yield expression.key
    for part in parts(expression):
        yield from _keys(part)


def for_job(requirement: Requirement, rank: Rank, facts: Facts) -> tuple[Requirement, Rank]:
    """Return the constraints with the values of the job's attributes in place of their names."""
    known = dict(facts)
    clauses = tuple(replace(clause, expression=substituted(clause.expression, known)) for clause in requirement.clauses)
    terms = tuple(
        term if isinstance(term.what, Clause) else RankTerm(term.weight, substituted(term.what, known))
        for term in rank.terms
    )
    return Requirement(clauses), Rank(terms)


def substituted(expression: Expression, facts: dict[str, Expression]) -> Expression:
    """Return an expression with constants in place of the job's attributes; an attribute that it lacks is undefined."""

    def within(inner: Expression) -> Expression:
        return substituted(inner, facts)

    match expression:
        case Name(key=key) if key.startswith(JOB):
            known = facts.get(key)
            if isinstance(known, (Number, Text, Truth)):
                # Messages show both the name in the text and the value.
                return replace(known, stands_for=str(expression))
            return Name(UNDEFINED, f"{expression} ({UNDEFINED})", expression.at)
        case Defined(name=Name(key=key)) if key.startswith(JOB):
            return Truth(key in facts)
        case Not() | Negative():
            return replace(expression, operand=within(expression.operand))
        case And() | Or() | Arithmetic():
            return replace(expression, operands=tuple(map(within, expression.operands)))
        case Compare():
            return replace(expression, left=within(expression.left), right=within(expression.right))
        case In():
            return replace(expression, subject=within(expression.subject))
        case Call():
            return replace(expression, arguments=tuple(map(within, expression.arguments)))
    return expression
