"""The configuration of the cluster: options, licences and groups change together, and each change is a revision."""

from __future__ import annotations

from typing import TypeAlias

from cress.core.live_options import LIVE, are_live, changed_names
from cress.lifecycle.context import Context
from cress.lifecycle.inputs import Configure, Restarted, SetGroup
from cress.lifecycle.slices import SLICE, Slices, whole
from cress.model.errors import InputError, NotAccepted
from cress.model.events import GroupsApplied, LicencesSet
from cress.model.option_text import format_option
from cress.model.options import Options
from cress.model.revisions import MOST_CHARACTERS, MOST_REVISIONS, Revision, document_parts

# Inputs that can change the configuration.
Changing: TypeAlias = Restarted | Configure | GroupsApplied | SetGroup | LicencesSet
CHANGING = (Restarted, Configure, GroupsApplied, SetGroup, LicencesSet)
# Options that executors learn only at the start of the center.
FIXED = ("term", "term_margin")
# Maximum number of jobs and running tasks with which the scheduler is rebuilt: 20,000 take about two seconds.
MOST_REBUILT = 20_000


def last(context: Context) -> int:
    """Return the number of the present revision; 0 before the first start."""
    return next(reversed(context.tables.revisions), 0)


def document(context: Context) -> str:
    """Return the present configuration as a document."""
    return whole(writing(context))


def writing(context: Context) -> Slices[str]:
    """Return the present configuration as a document, in slices."""
    core = context.core
    written: list[str] = []
    parts = document_parts(
        core.options,
        core.relations.licences.counts,
        core.groups.configured,
        dimensions=core.dimensions,
        zone=core.groups.own_zone,
    )
    for part in parts:
        written.append(part)
        if len(written) % SLICE == 0:
            yield
    return "".join(written)


def check_base(context: Context, base: int) -> None:
    """Raise NotAccepted unless the configuration is at revision ``base``; 0: any revision."""
    number = last(context)
    if base and base != number:
        by = context.tables.revisions[number].by if number else ""
        raise NotAccepted(
            f"the configuration is at revision {number}{f' by {by}' if by else ''}, and the change is based on {base}",
            hint="read it again, and repeat the change",
            field="revision",
        )


def check_options(context: Context, options: Options) -> None:
    """Raise InputError if a changed option is fixed while the center runs, or takes too long to change."""
    before = context.core.options
    for name in FIXED:
        if getattr(before, name) != getattr(options, name):
            text = format_option(name, getattr(options, name))
            raise InputError(
                f"{name} cannot change while the center runs",
                hint=f"start it with --option {name}={text}",
                field=name,
            )
    work = len(context.jobs) + len(context.attempts)
    if work > MOST_REBUILT and not are_live(before, options):
        name = next(name for name in changed_names(before, options) if name not in LIVE)
        raise NotAccepted(
            (
                f"{name} cannot change while there are {work:,} jobs and running tasks: the center would "
                "not answer for seconds"
            ),
            hint=f"start it with --option {name}={format_option(name, getattr(options, name))}",
            field=name,
        )


def note(context: Context, input_: Changing) -> Slices[None]:
    """Store a revision if an input has changed the configuration; in slices."""
    revisions = context.tables.revisions
    number, text = last(context), (yield from writing(context))
    if number and revisions[number].text == text:
        return
    by = "" if isinstance(input_, Restarted | LicencesSet) else input_.by
    revisions[number + 1] = Revision(number=number + 1, utc=context.utc, by=by, what=_what(input_), text=text)
    size = sum(len(revision.text) for revision in revisions.values())
    for old in list(revisions)[:-2]:
        if len(revisions) <= MOST_REVISIONS and size <= MOST_CHARACTERS:
            break
        size -= len(revisions[old].text)
        del revisions[old]


def _what(input_: Changing) -> str:
    match input_:
        case Restarted():
            return "start of the center"
        case Configure():
            return input_.what
        case GroupsApplied():
            return "groups applied" if input_.by else "file of groups"
        case SetGroup():
            changes = ", ".join(f"{key}-" if text is None else f"{key}={text}" for key, text in input_.values)
            return f"group {input_.name}: {changes}"
        case LicencesSet():
            return "licences"
