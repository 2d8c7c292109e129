"""The groups of a run, from ``--groups``, the trace or a default; the group of each job; ``--policy``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from cress.model.errors import InputError, InputErrors
from cress.model.group import DEFAULT_GROUP, Group, Quota, SchedPolicy
from cress.model.groups.limits import LIMIT_KEYS, MAX_SIZE
from cress.model.groups.tree import inner_names
from cress.model.limits import Limits
from cress.model.option_text import (
    format_option,
    group_options,
    parse_assignment,
    parse_assignments,
    parse_option,
)
from cress.model.units import closest, one_of
from cress.simulator.workload import Bools, Ints, SimulatedCluster, Workload

MILLION = 1_000_000
NOWHERE = -1
# Most groups and users that an error names.
MOST_NAMED = 8


@dataclass(frozen=True)
class PolicyChoice:
    """One ``--policy``: the label of the run, the policy of every group, and options that belong to it.

    ``policy`` is ``None`` when the groups keep their own. With ``merged`` the scheduler sees no groups: all jobs are in
    a single one, which has the whole cluster.
    """

    label: str
    policy: SchedPolicy | None = None
    options: tuple[tuple[str, str], ...] = ()
    merged: bool = False

    @property
    def directory(self) -> str:
        """Return the label as the name of a directory."""
        return self.label.replace("/", "-").replace(" ", "-")


def _variants(*choices: PolicyChoice) -> dict[str, PolicyChoice]:
    return {choice.label.lower(): choice for choice in choices}


VARIANTS = _variants(
    PolicyChoice("BackFill/easy", SchedPolicy.BACKFILL, (("backfill", "easy"),)),
    PolicyChoice("BackFill/conservative", SchedPolicy.BACKFILL, (("backfill", "conservative"),)),
    PolicyChoice(
        "BackFill/predicted",
        SchedPolicy.BACKFILL,
        (("estimates", "predicted"), ("backfill_order", "expansion_factor")),
    ),
    # Like queues of YARN's Capacity Scheduler: shares and preemption between groups, without users inside a group.
    PolicyChoice("Capacity/fifo", SchedPolicy.FIFO),
    # As in textbooks: a late job keeps its place, nothing starts before a head that does not fit, and there are no
    # groups.
    PolicyChoice("EDF/strict", SchedPolicy.EDF, (("late", "urgent"), ("backfill", "off")), merged=True),
    # The same with EASY backfill.
    PolicyChoice("EDF/cluster", SchedPolicy.EDF, (("late", "urgent"),), merged=True),
    # The variant with the fewest misses among those that keep the promises of quotas (docs/deadlines.md).
    PolicyChoice("EDF/groups", SchedPolicy.EDF, (("order", "deadline"),)),
    # The same with quotas that only set the order: borrowed resources come back as tasks end.
    PolicyChoice("EDF/no-preemption", SchedPolicy.EDF, (("order", "deadline"), ("preemption", "off"))),
    PolicyChoice("Urgency/cluster", SchedPolicy.URGENCY, (("order", "urgency"),)),
)


def parse_policy(text: str) -> PolicyChoice:
    """Return the choice named, such as ``fifo``, ``BackFill/conservative``, ``EDF/cluster``. Raise ``InputError``."""
    name, slash, variant = (word.strip() for word in text.partition("/"))
    known = {known_policy.value.lower(): known_policy for known_policy in SchedPolicy}
    policy = known.get(name.lower())
    if policy is None:
        raise InputError(
            f"{name!r} is not a policy",
            hint=one_of(name, [known_policy.value for known_policy in SchedPolicy]),
            field="--policy",
        )
    if not slash:
        return PolicyChoice(policy.value, policy)
    choice = VARIANTS.get(f"{name}/{variant}".lower())
    if choice is not None:
        return choice
    labels = [
        known_variant.label for known_variant in VARIANTS.values() if known_variant.label.startswith(f"{policy.value}/")
    ]
    if not labels:
        raise InputError(f"{policy.value} has no variants", hint=policy.value, field="--policy")
    raise InputError(f"{policy.value} has no variant {variant!r}", hint=one_of(variant, labels), field="--policy")


def check_options(choices: Sequence[PolicyChoice], assignments: Sequence[str]) -> None:
    """Raise ``InputError`` if an option of these ``KEY=VALUE`` texts has another value than a policy gives it.

    A policy with a variant is a policy with options. Neither of two values may win in silence.
    """
    given = dict(parse_assignment(assignment) for assignment in assignments)
    for choice in choices:
        for name, text in choice.options:
            if name in given and given[name] != parse_option(name, text)[1]:
                policy = choice.policy.value if choice.policy else ""
                raise InputError(
                    f"{name}={format_option(name, given[name])} contradicts --policy {choice.label}, which is "
                    f"{policy} with {', '.join('='.join(option) for option in choice.options)}",
                    hint=f"--policy {policy} with the options that you want",
                    field="--option",
                )


def compared(choices: tuple[PolicyChoice, ...], text: str) -> tuple[PolicyChoice, ...]:
    """Return each choice once for each value in ``lending=off,on``. Raise ``InputError``."""
    key, equals, values = (word.strip() for word in text.partition("="))
    given = list(dict.fromkeys(value.strip() for value in values.split(",")))
    if not equals or len(given) < 2:
        raise InputError(f"{text!r} does not compare values", hint="lending=off,on", field="--compare")
    for value in given:
        parse_assignments([f"{key}={value}"])
    return tuple(
        replace(
            choice,
            label=f"{choice.label} {key}={value}" if len(choices) > 1 else f"{key}={value}",
            options=(*(option for option in choice.options if option[0] != key), (key, value)),
        )
        for choice in choices
        for value in given
    )


def own_policy(groups: tuple[Group, ...]) -> PolicyChoice:
    """Return the choice without ``--policy``: the groups' own policies, labelled by name if they are all the same."""
    names = {group.policy.value for group in groups}
    return PolicyChoice(names.pop() if len(names) == 1 else "configured")


def with_policy(groups: tuple[Group, ...], choice: PolicyChoice) -> tuple[Group, ...]:
    """Return the groups under this policy; options that belong to it replace the groups' own."""
    if choice.policy is None:
        return groups
    own = tuple(option for option in choice.options if option[0] in group_options())
    names = {name for name, _ in own}
    return tuple(
        msgspec.structs.replace(
            group,
            policy=choice.policy,
            options=(
                *((key, text) for key, text in group.options if parse_option(key, text)[0] not in names),
                *own,
            ),
        )
        for group in groups
    )


def merged(workload: Workload, policy: SchedPolicy, accounting: str) -> Group:
    """Return the one group of all jobs, with the whole cluster, for a policy without groups."""
    return Group(name=DEFAULT_GROUP, quota=Quota(scalar=_whole(workload.cluster, accounting)), policy=policy)


def names_of(files: Sequence[Path]) -> list[str]:
    """Return a name for each of several files of groups: without folders if these differ, otherwise the whole path."""
    doubles = sorted({str(path) for path in files if files.count(path) > 1})
    if doubles:
        raise InputError(f"{doubles[0]} is given twice", hint="each file once", field="--groups")
    names = [path.stem for path in files]
    if len(set(names)) < len(names):
        names = [str(path) for path in files]
    return names


def configure(workload: Workload, path: Path | None, accounting: str) -> Workload:
    """Return the workload with the groups of the file, otherwise of the trace, otherwise with equal ones."""
    if path is not None:
        # Imported only in runs with a file of groups.
        from cress.model.groups.check import check_quotas
        from cress.model.groups.conf import parse_groups
        from cress.model.zones import zone_of

        try:
            text = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from error
        cluster = workload.cluster
        parsed = parse_groups(text, dimensions=cluster.dimensions, file=str(path), accounting=accounting)
        found = check_quotas(
            parsed.groups,
            cluster.total(),
            len(cluster.nodes),
            accounting=accounting,
            dimensions=cluster.dimensions,
            nodes=cluster.nodes,
            file=str(path),
            lines=parsed.lines,
        )
        if found.errors:
            raise InputErrors(list(found.errors))
        for note in (*parsed.notes, *found.warnings):
            workload.notes.add("note on the groups", count=1, detail=str(note))
        groups = tuple(_of_trace(group, workload) for group in parsed.groups)
        return replace(workload, groups=groups, zone=zone_of(parsed.zone) if parsed.zone else workload.zone)
    if workload.groups:
        if accounting == "cpu":
            return workload
        groups = tuple(
            msgspec.structs.replace(group, quota=_in_servers(group.quota, workload.cluster))
            for group in workload.groups
        )
        return replace(workload, groups=groups)
    return replace(workload, groups=_equal(workload, accounting))


def _of_trace(group: Group, workload: Workload) -> Group:
    """Return the group without the limits checked at submission, and note that.

    The jobs of a trace were accepted when they were submitted.
    """
    kept = Limits(running=group.limits.running, running_per_user=group.limits.running_per_user)
    if group.limits == kept and not group.closed:
        return group
    sized = [MAX_SIZE] if group.limits.amounts else []
    dropped = [
        key.keyword for key in LIMIT_KEYS if getattr(group.limits, key.field) != getattr(kept, key.field)
    ] + sized
    closed = ["Submit: closed"] if group.closed else []
    workload.notes.add("limit at submit", count=1, detail=f"{', '.join([*dropped, *closed])} of {group.name}")
    return msgspec.structs.replace(group, limits=kept, closed=False)


def _equal(workload: Workload, accounting: str) -> tuple[Group, ...]:
    """Return one group for each name in the trace (``default`` for jobs that name none), with equal quotas."""
    used = np.unique(workload.group_index).tolist()
    names = sorted({workload.group_names[index] or DEFAULT_GROUP for index in used})
    quota = Quota(scalar=max(1, _whole(workload.cluster, accounting) // len(names)))
    return tuple(Group(name=name, quota=quota) for name in names)


def _whole(cluster: SimulatedCluster, accounting: str) -> int:
    """Return the quota that covers the whole cluster."""
    return cluster.total()[0] if accounting == "cpu" else len(cluster.nodes) * MILLION


def _in_servers(quota: Quota, cluster: SimulatedCluster) -> Quota:
    """Return a quota in cores as the same share of the servers."""
    return Quota(scalar=max(1, quota.scalar * len(cluster.nodes) * MILLION // max(1, cluster.total()[0])))


def place(workload: Workload, *, given: bool = False) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the groups that take jobs, and for each job ``[n]`` the position of its group's name.

    A job goes to the group that it names. A job without a group goes to the first group that lists its user by name,
    otherwise to ``default``. With ``given`` groups, notes report those without jobs, and the jobs of a ``default`` that
    is not among them. Raise ``InputErrors`` if jobs have no group, which means that trace and groups contradict each
    other.
    """
    inner = inner_names(workload.groups)
    by_name = {group.name: group for group in workload.groups if group.name not in inner}
    names = tuple(dict.fromkeys([*by_name, DEFAULT_GROUP]))
    position = {name: i for i, name in enumerate(names)}
    pairs, where = np.unique(workload.group_index * len(workload.users) + workload.user_index, return_inverse=True)
    target = np.empty(len(pairs), dtype=np.int64)
    astray = _Astray(workload, tuple(by_name), inner)
    for i, pair in enumerate(pairs.tolist()):
        group_index, user_index = divmod(pair, len(workload.users))
        name, user = workload.group_names[group_index], workload.users[user_index]
        wanted = name or _group_of_user(tuple(by_name.values()), user)
        group = by_name.get(wanted)
        target[i] = position.get(wanted, NOWHERE)
        if wanted in inner or wanted not in position:
            astray.unknown(wanted, where == i)
        elif group is not None and not group.admits(user):
            astray.outsider(wanted, user, where == i)
    astray.check()
    found = target[where]
    if given:
        taken = np.bincount(found, minlength=len(names)).tolist()
        idle = [name for name in by_name if not taken[position[name]]]
        for name in idle:
            workload.notes.add("group without jobs", count=1, detail=name)
        if DEFAULT_GROUP not in by_name:
            workload.notes.add("no group named", workload.line[found == position[DEFAULT_GROUP]].tolist())
    return names, found


class _Astray:
    """The jobs that no group takes, by the group that they name."""

    def __init__(self, workload: Workload, known: tuple[str, ...], inner: frozenset[str]) -> None:
        self._workload = workload
        self._known = known
        self._inner = inner
        self._unknown: dict[str, Bools] = {}
        self._outsiders: dict[str, dict[str, Bools]] = {}

    def unknown(self, name: str, jobs: Bools) -> None:
        """Note the jobs ``[n]`` of a group that does not exist or contains groups."""
        self._unknown[name] = self._unknown.get(name, np.zeros_like(jobs)) | jobs

    def outsider(self, name: str, user: str, jobs: Bools) -> None:
        """Note the jobs ``[n]`` of a user that the group does not admit."""
        self._outsiders.setdefault(name, {})[user] = jobs

    def check(self) -> None:
        """Raise ``InputErrors`` if there are such jobs: one error for each group, most jobs first."""
        errors = [*map(self._no_group, self._most_first(self._unknown))]
        outsiders = {name: np.any(list(users.values()), axis=0) for name, users in self._outsiders.items()}
        errors += [self._not_admitted(name, outsiders[name]) for name in self._most_first(outsiders)]
        if errors:
            raise InputErrors(errors)

    def _most_first(self, found: dict[str, Bools]) -> list[str]:
        return sorted(found, key=lambda name: (-int(found[name].sum()), name))

    def _no_group(self, name: str) -> InputError:
        jobs = self._unknown[name]
        names = "name" if jobs.sum() > 1 else "names"
        if name in self._inner:
            what = f"{names} the group {name}, which holds groups and takes no jobs"
            return self._error(what, f"name one of {_listed(self._known)} in the trace", jobs)
        near = closest(name, self._known)
        meant = f"did you mean {near}?" if near else f"the groups are {_listed(self._known)}"
        remedy = "add the group, name another one in the trace, or leave out --groups for groups with equal quotas"
        return self._error(f"{names} the group {name!r}, which does not exist", f"{meant}; {remedy}", jobs)

    def _not_admitted(self, name: str, jobs: Bools) -> InputError:
        users = [f"{user or 'no user'} ({int(own.sum()):,})" for user, own in self._outsiders[name].items()]
        belong = "belong" if jobs.sum() > 1 else "belongs"
        what = f"{belong} to users that group {name} does not admit: {_listed(users)}"
        return self._error(what, f"add them to Users of {name}, or name another group in the trace", jobs)

    def _error(self, what: str, hint: str, jobs: Bools) -> InputError:
        count, whole = int(jobs.sum()), len(self._workload)
        return InputError(
            f"{count:,} of {whole:,} jobs {what}; nothing was simulated",
            hint=hint,
            line=int(self._workload.line[jobs].min()),
        )


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_NAMED
    return ", ".join(words[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _group_of_user(groups: tuple[Group, ...], user: str) -> str:
    return next((group.name for group in groups if user and user in group.users), DEFAULT_GROUP)
