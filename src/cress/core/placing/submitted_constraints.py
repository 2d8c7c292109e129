"""Submitted constraints: texts of several keys of a job file become one requirement and one rank."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.core.placing.constraints import FOR_ALL, KINDS, said_of_some
from cress.language.clauses import MOST_CLAUSES, Clause, Kind, Requirement
from cress.language.names import DATA_LOCALITY
from cress.language.parser import check_names_of_jobs, parse_rank, parse_requirement
from cress.language.tree import In, Name
from cress.language.trouble import Misplaced, trouble
from cress.model.errors import MAX_ERRORS, InputError, InputErrors
from cress.model.job import Job, JobPart
from cress.model.jobfile.clauses import CONTAINER, MADE_BY_KEYS, ClauseText
from cress.model.jobfile.job import JobSpec, below
from cress.model.resources import Dimensions


def constrained(specs: Sequence[JobSpec], dimensions: Dimensions | None = None) -> list[Job]:
    """Return the jobs of one submit with their requirements and ranks, in the language's canonical spelling.

    ``dimensions`` are those of the cluster; with ``None`` they are unknown, and any ``Job.X`` may be the amount of
    one.

    Raises ``InputError``, or ``InputErrors`` with every mistake; ``field`` is the key of the text, below the place of
    its job as in ``parse_jobs``.
    """
    jobs: list[Job] = []
    errors: list[InputError] = []
    wrong: dict[int, set[tuple[str, str]]] = {}
    for position, spec in enumerate(specs, 1):
        if len(errors) > MAX_ERRORS:
            break
        if not (spec.clauses or spec.ranks or spec.part_clauses):
            jobs.append(spec.job)
            continue
        found, mistakes = _requirement(spec.clauses, dimensions)
        rank = _rank(spec.ranks, dimensions, mistakes)
        parts = _parts(spec, dimensions, mistakes)
        # A mistake in constraints that a step inherits from its dag is reported for the dag.
        told = wrong.get(-spec.job.family, set())
        wrong[position] = {(mistake.field, mistake.what) for mistake in mistakes}
        errors += (below(mistake, spec.place) for mistake in mistakes if (mistake.field, mistake.what) not in told)
        gang = spec.job.gang or any(clause.kind is Kind.WHOLE for clause in found.clauses)
        jobs.append(msgspec.structs.replace(spec.job, requirement=str(found), rank=rank, gang=gang, parts=parts))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return jobs


def _parts(spec: JobSpec, dimensions: Dimensions | None, mistakes: list[InputError]) -> tuple[JobPart, ...]:
    """Return the parts of a job with their requirements and ranks."""
    found: list[JobPart] = []
    requirements: list[Requirement] = []
    told: set[tuple[str, str]] = set()
    for part, texts, ranks in zip(spec.job.parts, spec.part_clauses, spec.part_ranks, strict=True):
        requirement, wrong = _requirement(texts, dimensions)
        rank = _rank(ranks, dimensions, wrong)
        # A mistake that parts inherit from the job is reported once.
        mistakes += (mistake for mistake in wrong if (mistake.field, mistake.what) not in told)
        told.update((mistake.field, mistake.what) for mistake in wrong)
        requirements.append(requirement)
        found.append(msgspec.structs.replace(part, requirement=str(requirement), rank=rank))
    mistakes += (
        InputError(f"{clause} is about all tasks of a gang, and only some parts have it", hint=FOR_ALL, field="parts")
        for clause in said_of_some(requirements)
    )
    return tuple(found)


def _rank(texts: Sequence[ClauseText], dimensions: Dimensions | None, mistakes: list[InputError]) -> str:
    """Return the rank, and add its mistakes to ``mistakes``."""
    rank = ""
    for text in texts:
        try:
            read = parse_rank(text.text)
            if dimensions is not None:
                check_names_of_jobs(text.text, read, dimensions)
            rank = str(read)
        except InputError as error:
            mistakes.append(_told(text, error))
    return rank


def _requirement(texts: Sequence[ClauseText], dimensions: Dimensions | None) -> tuple[Requirement, list[InputError]]:
    """Return the conjunction of all texts, each clause once, and the mistakes."""
    clauses: dict[Clause, None] = {}
    errors: list[InputError] = []
    for text in texts:
        try:
            read = parse_requirement(text.text)
            if dimensions is not None:
                check_names_of_jobs(text.text, read, dimensions)
            clauses |= dict.fromkeys(read.clauses)
        except InputError as error:
            errors.append(_told(text, error))
    if len(clauses) > MOST_CLAUSES:
        what = f"{len(clauses)} clauses are too many"
        errors.append(InputError(what, hint=f"at most {MOST_CLAUSES}", field="requirement"))
    together = Requirement(tuple(clauses))
    if not errors:
        try:
            parse_requirement(str(together), stored=True)
        except InputError as error:  # each text may be short enough, and all of them together too long
            errors.append(error.at(field="requirement"))
    return together, errors


def replaced(before: str, wanted: str) -> str:
    """Return the requirement that replaces the one ``before``, with those of its clauses that gang and runtime made."""
    kept = [
        clause
        for clause in (parse_requirement(before, stored=True).clauses if before else ())
        if clause.kind is Kind.WHOLE or str(clause) == CONTAINER
    ]
    given = parse_requirement(wanted, stored=True).clauses if wanted else ()
    return str(Requirement(tuple(dict.fromkeys((*given, *kept)))))


def _told(text: ClauseText, error: InputError) -> InputError:
    """Return the mistake with its key and its position in the submitted text, instead of the combined one."""
    if isinstance(error, Misplaced) and text.wrote:
        error = trouble(text.wrote, text.place_in_wrote(error.place), error.said, error.hint)
    return error.at(field=text.field)


def key_for(clauses: Sequence[Clause]) -> str:
    """Return the key of a job file from which these clauses most probably come."""
    if len(clauses) == 1:
        (clause,) = clauses
        if clause.kind is Kind.NODES and isinstance(clause.expression, In):
            subject = clause.expression.subject
            return "data_locality" if isinstance(subject, Name) and subject.key == DATA_LOCALITY else "nodes"
        if clause.kind in KINDS and KINDS[clause.kind].key:
            return KINDS[clause.kind].key
    keys = [MADE_BY_KEYS[str(clause)][0] for clause in clauses if str(clause) in MADE_BY_KEYS]
    return keys[-1] if keys and len(keys) == len(clauses) else "requirement"


def needs_of(clauses: Sequence[Clause]) -> str:
    """Return what nodes need to satisfy the clauses that a key made; empty if none is among these."""
    needs = [MADE_BY_KEYS[str(clause)][1] for clause in clauses if str(clause) in MADE_BY_KEYS]
    return needs[-1] if needs else ""
