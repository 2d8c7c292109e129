"""Calls about groups."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.rights import changes_group
from cress.center.api.bodies import decoded, read, receive, reply
from cress.center.api.context import caller_of, committer_of, note, user_of
from cress.center.api.errors import Forbidden
from cress.center.api.jobs import checked_body
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.files.group_file import checked_quotas
from cress.center.process.turns import all_in_turns, chunks, in_turns
from cress.center.views.groups import group_view, inner_view, used_resource
from cress.lifecycle.inputs import SetGroup
from cress.model.errors import InputError
from cress.model.events import GroupsApplied
from cress.model.group import Group
from cress.model.groups.change import OF_ADMINS, canonical
from cress.model.groups.check import default_group, with_default_group
from cress.model.groups.conf import MAX_CHARACTERS, ParsedGroups, format_groups, parse_groups
from cress.model.groups.diff import diff_groups, diff_zones, format_diff
from cress.model.groups.tree import leaf_names
from cress.model.resources import Dimensions
from cress.model.units import format_fraction, one_of
from cress.protocol.bodies import GroupBody, GroupsBody
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import Applied, GroupsPage, GroupView
from cress.protocol.queries import DryRunQuery

# Bytes of a body with a file of groups, some of whose characters take two in JSON; characters of the file's name.
MOST_GROUPS = 2 * MAX_CHARACTERS
# Bytes for which a group counts when it is decided whether a thread compares groups.
BYTES_OF_ONE = 40
MOST_FILE = 1_000
# Digits of a priority in the text: quotas with large common multiples may give thousands.
MOST_DIGITS = 1_000

router = Routes()


@router.answers(cluster_calls.GROUPS)
async def groups(request: Request) -> Response:
    """Return all groups by name, and a text that can be applied again."""
    committer = committer_of(request)
    core = committer.machine.core
    waiting = (await committer.work_counter.counts(committer.machine)).waiting
    priorities: dict[str, str] = {}
    async for name, value in in_turns(list(core.groups.priority_values().items())):
        priorities[name] = format_fraction(value)
    views: list[GroupView] = []
    below: dict[str, list[GroupView]] = {}
    async for group in in_turns(list(core.groups)):
        name, running = group.name, set[int]()
        async for some in in_turns(chunks(list(group.attempts.values()))):
            running.update(attempt.job.job.counted_as for attempt in some)
        view = group_view(committer, group, waiting[name], priorities.get(name, "0"), len(running))
        views.append(view)
        for level in group.path():
            below.setdefault(level.name, []).append(view)
    inner = in_turns(list(core.groups.tree.upwards))
    views += [inner_view(committer, level, below.get(level.name, [])) async for level in inner]
    views.sort(key=lambda view: view.name)
    # The quota of an unconfigured default group follows the cluster, which a written one would not.
    configured = core.groups.configured or _with_default(committer, ())
    used: dict[str, int | str] = {}
    async for holder in in_turns((*core.groups, *core.groups.tree.upwards)):
        used[holder.name] = used_resource(holder, core.dimensions)
    write = partial(
        format_groups,
        configured,
        dimensions=core.dimensions,
        accounting=core.options.accounting,
        used=used,
        priority={name: _shortened(value) for name, value in priorities.items()},
        zone=core.groups.own_zone,
    )
    text = await committer.turns.check(BYTES_OF_ONE * len(configured), write)
    return reply(GroupsPage(groups=tuple(views), text=text, zone=str(core.groups.zone)))


@router.answers(cluster_calls.APPLY_GROUPS)
async def apply(request: Request) -> Response:
    """Replace all groups by those in the body; a dry run only shows the changes."""
    committer = committer_of(request)
    data = await receive(request, MOST_GROUPS)
    core = committer.machine.core
    accounting = core.options.accounting

    def checked(dimensions: Dimensions) -> tuple[GroupsBody, ParsedGroups]:
        body = decoded(data, GroupsBody)
        file = body.file[:MOST_FILE] or "Group.conf"
        return body, parse_groups(body.text, dimensions=dimensions, file=file, accounting=accounting)

    body, parsed = await checked_body(committer, len(data), checked)
    core = committer.machine.core
    old, new = _with_default(committer, core.groups.configured), _with_default(committer, parsed.groups)
    changed = partial(diff_groups, old, new, dimensions=core.dimensions, accounting=accounting)
    changes = await committer.turns.check(len(data) + BYTES_OF_ONE * len(old), changed)
    changes += diff_zones(core.groups.own_zone, parsed.zone)
    diff = await committer.turns.check(len(data), partial(format_diff, changes))
    moves = checked_moves(committer, body.moves, parsed)
    warnings = checked_quotas(committer.machine, parsed, accounting)
    applied = GroupsApplied(groups=parsed.groups, moves=moves, zone=parsed.zone, by=user_of(request))
    await all_in_turns(committer.machine.checking_groups(applied))
    if not query_of(request, DryRunQuery).dry_run:
        await committer.submit(applied)
    notes = tuple(map(str, (*parsed.notes, *warnings)))
    return reply(Applied(diff=diff, changes=len(changes), notes=notes))


@router.answers(cluster_calls.SET_GROUP)
async def change(request: Request, name: str) -> Response:
    """Change keywords of one group, all or nothing; a dry run only shows the changes.

    Administrators of the group may close and open it, and change its limits.
    """
    committer, caller = committer_of(request), caller_of(request)
    if not changes_group(caller, name, ()):
        raise Forbidden(f"{caller.user} may not change group {name[:40]}: its administrators and admins may")
    body = await read(request, GroupBody)
    core = committer.machine.core
    known = (*core.groups.by_name, *core.groups.tree.inner)
    if name not in known:
        raise InputError(f"there is no group {name[:40]!r}", hint=one_of(name, known))
    keywords = [canonical(keyword) for keyword in body.values]
    if not changes_group(caller, name, keywords):
        others = ", ".join(keyword for keyword in keywords if keyword not in OF_ADMINS)
        raise Forbidden(
            f"{caller.user} may not change {others} of group {name}: its administrators change limits and Submit"
        )
    if len(set(keywords)) < len(keywords):
        raise InputError("a keyword is given twice", hint="each keyword once", field="values")
    word = SetGroup(name=name, values=tuple(zip(keywords, body.values.values(), strict=True)), by=caller.user)
    applied = committer.machine.changed_groups(word)
    await all_in_turns(committer.machine.checking_groups(applied))
    parsed = ParsedGroups(tuple(group for group in applied.groups if group.name == name))
    warnings = checked_quotas(committer.machine, parsed, core.options.accounting) if "ResourceQuota" in keywords else ()
    old = core.groups.configured
    changes = diff_groups(old, applied.groups, dimensions=core.dimensions, accounting=core.options.accounting)
    if changes and not query_of(request, DryRunQuery).dry_run:
        told = (
            f"{value.keyword}: {value.before or '(not set)'} -> {value.after or '(not set)'}"
            for value in changes[0].values
        )
        note(request, f"group {name}: {', '.join(told)}")
        await committer.submit(word)
    return reply(Applied(diff=format_diff(changes), changes=len(changes), notes=tuple(map(str, warnings))))


def _shortened(priority: str) -> str:
    """Return a priority for a file, rounded only if the exact one is too long."""
    return priority if len(priority) <= MOST_DIGITS else f"{Decimal(priority):.16e}"


def checked_moves(committer: Committer, moves: dict[str, str], parsed: ParsedGroups) -> tuple[tuple[str, str], ...]:
    """Return the new groups for jobs of removed groups. Raises InputError."""
    new = set(leaf_names(parsed.groups))
    old = committer.machine.core.groups.by_name
    for source, target in moves.items():
        if source not in old:
            raise InputError(
                f"there is no group {source!r} that jobs could leave", hint=one_of(source, list(old)), field="moves"
            )
        if target not in new:
            raise InputError(f"there will be no group {target!r}", hint=one_of(target, sorted(new)), field="moves")
    return tuple(moves.items())


def _with_default(committer: Committer, groups: tuple[Group, ...]) -> tuple[Group, ...]:
    core = committer.machine.core
    capacity = core.cluster.capacity()
    default = default_group(capacity, len(committer.machine.nodes), core.options, dimensions=core.dimensions)
    return with_default_group(groups, default)
