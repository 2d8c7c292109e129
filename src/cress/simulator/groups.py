"""The groups of a run, from ``--groups``, the trace or a default; the group of each job; ``--policy``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from cress.model.errors import InputError, InputErrors
from cress.model.group import DEFAULT_GROUP, Group, Quota, SchedPolicy
from cress.model.option_text import parse_option
from cress.model.units import one_of
from cress.simulator.workload import Cluster, Ints, Workload

MILLION = 1_000_000
NOWHERE = -1


PREDICTED = "predicted"
# What the variant BackFill/predicted stands for.
BY_PREDICTION = (("estimates", "predicted"), ("backfill_order", "expansion_factor"))


@dataclass(frozen=True)
class PolicyChoice:
    """One ``--policy``: how the run is called, the policy of every group, and options that come with it.

    ``policy`` is ``None`` when the groups keep their own.
    """

    label: str
    policy: SchedPolicy | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def directory(self) -> str:
        """The label as the name of a directory."""
        return self.label.replace("/", "-")


def parse_policy(text: str) -> PolicyChoice:
    """``BackFill``, ``fifo``, ``BackFill/conservative`` or ``BackFill/predicted``. Raises ``InputError``."""
    name, slash, variant = text.strip().partition("/")
    known = {each.value.lower(): each for each in SchedPolicy}
    policy = known.get(name.lower())
    if policy is None:
        raise InputError(
            f"{name!r} is not a policy", hint=one_of(name, [each.value for each in SchedPolicy]), field="--policy"
        )
    if policy is SchedPolicy.URGENCY:
        raise InputError(
            "the policy Urgency needs deadlines, which are not implemented yet",
            hint="FIFO, Priority, Capacity or BackFill",
            field="--policy",
        )
    if not slash:
        return PolicyChoice(policy.value, policy)
    if policy is not SchedPolicy.BACKFILL:
        raise InputError(f"{policy.value} has no variants", hint=policy.value, field="--policy")
    if variant.lower() == PREDICTED:
        return PolicyChoice(f"{policy.value}/{PREDICTED}", policy, BY_PREDICTION)
    try:
        parse_option("backfill", variant)
    except InputError as error:
        raise InputError(
            f"BackFill has no variant {variant!r}",
            hint="BackFill/easy, BackFill/conservative or BackFill/predicted",
            field="--policy",
        ) from error
    return PolicyChoice(f"{policy.value}/{variant.lower()}", policy, (("backfill", variant.lower()),))


def own_policy(groups: tuple[Group, ...]) -> PolicyChoice:
    """Without ``--policy``: the groups' own, called by its name when they all have the same."""
    names = {group.policy.value for group in groups}
    return PolicyChoice(names.pop() if len(names) == 1 else "configured")


def with_policy(groups: tuple[Group, ...], choice: PolicyChoice) -> tuple[Group, ...]:
    """The groups under this policy; options that come with it replace the groups' own."""
    if choice.policy is None:
        return groups
    names = {name for name, _ in choice.options}
    return tuple(
        msgspec.structs.replace(
            group,
            policy=choice.policy,
            options=(
                *((key, text) for key, text in group.options if parse_option(key, text)[0] not in names),
                *choice.options,
            ),
        )
        for group in groups
    )


def configure(workload: Workload, path: Path | None, accounting: str) -> Workload:
    """Return the workload with the groups of the file, else of the trace, else with equal ones."""
    if path is not None:
        # Imported only by runs with a file of groups.
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
            file=str(path),
            lines=parsed.lines,
        )
        if found.errors:
            raise InputErrors(list(found.errors))
        for note in (*parsed.notes, *found.warnings):
            workload.notes.add("note on the groups", count=1, detail=str(note))
        return replace(workload, groups=parsed.groups, zone=zone_of(parsed.zone) if parsed.zone else workload.zone)
    if workload.groups:
        if accounting == "cpu":
            return workload
        groups = tuple(
            msgspec.structs.replace(group, quota=_in_servers(group.quota, workload.cluster))
            for group in workload.groups
        )
        return replace(workload, groups=groups)
    return replace(workload, groups=_equal(workload, accounting))


def _equal(workload: Workload, accounting: str) -> tuple[Group, ...]:
    """One group for each name in the trace (``default`` for jobs that name none), with equal quotas."""
    used = np.unique(workload.group_index).tolist()
    names = sorted({workload.group_names[index] or DEFAULT_GROUP for index in used})
    cluster = workload.cluster
    whole = cluster.total()[0] if accounting == "cpu" else len(cluster.nodes) * MILLION
    quota = Quota(scalar=max(1, whole // len(names)))
    return tuple(Group(name=name, quota=quota) for name in names)


def _in_servers(quota: Quota, cluster: Cluster) -> Quota:
    """A quota in cores as the same share of the servers."""
    return Quota(scalar=max(1, quota.scalar * len(cluster.nodes) * MILLION // max(1, cluster.total()[0])))


def place(workload: Workload) -> tuple[tuple[str, ...], Ints]:
    """The names of the groups that take jobs, and for each job ``[n]`` the position of its name or ``NOWHERE``.

    A job goes to the group that it names. One that names none goes to the first group that lists its user by
    name, else to ``default``. Jobs of unknown groups or of users that their group does not admit go nowhere;
    they are added to the notes.
    """
    by_name = {group.name: group for group in workload.groups}
    names = tuple(dict.fromkeys([*by_name, DEFAULT_GROUP]))
    position = {name: i for i, name in enumerate(names)}
    pairs, where = np.unique(workload.group_index * len(workload.users) + workload.user_index, return_inverse=True)
    target = np.empty(len(pairs), dtype=np.int64)
    for i, pair in enumerate(pairs.tolist()):
        group_index, user_index = divmod(pair, len(workload.users))
        name, user = workload.group_names[group_index], workload.users[user_index]
        wanted = name or _group_of_user(workload.groups, user)
        group = by_name.get(wanted)
        if group is None and wanted != DEFAULT_GROUP:
            target[i] = NOWHERE
            workload.notes.add("unknown group", workload.line[where == i].tolist(), detail=wanted)
        elif group is not None and not group.admits(user):
            target[i] = NOWHERE
            detail = f"{user or 'no user'} in {wanted}"
            workload.notes.add("user not in group", workload.line[where == i].tolist(), detail=detail)
        else:
            target[i] = position[wanted]
    return names, target[where]


def _group_of_user(groups: tuple[Group, ...], user: str) -> str:
    return next((group.name for group in groups if user and user in group.users), DEFAULT_GROUP)
