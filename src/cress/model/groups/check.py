"""Checks of quotas against the cluster: errors, warnings, and the default group (G)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cress.model.errors import InputError, Note
from cress.model.group import DEFAULT_GROUP, Group, Quota, SchedPolicy
from cress.model.groups.measures import describe_measure, kinds_of, measures_in, split, total_of
from cress.model.groups.quota_text import CPU, SCALE, UNIT, format_moment, format_quota
from cress.model.groups.tree import Week, amounts_of, weeks_of
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
from cress.model.units import one_of

_FIELD = "ResourceQuota"


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """Quotas larger than the cluster, and sums of quotas larger than the cluster."""

    errors: tuple[InputError, ...]
    warnings: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class _Total:
    """The cluster's total in one unit of quotas."""

    what: str
    amount: int  # raw
    text: str


def check_quotas(
    groups: Iterable[Group],
    capacity: ResourceVector,
    node_count: int,
    *,
    accounting: str,
    dimensions: Dimensions,
    nodes: Sequence[Node] = (),
    file: str = "",
    lines: Mapping[str, int] | None = None,
) -> QuotaCheck:
    """Compare the quotas with the configured cluster: the total ``capacity`` of ``node_count`` nodes; ``nodes`` are
    these, for quotas per kind of node.

    A quota above the total, also in a window of the timetable that is ever in force, is an error. A time of the week at
    which the sum of all quotas is above the total is a warning, one for each unit. ``file`` and ``lines`` (name to
    line, from ``ParsedGroups``) give the places. Leave out a default group that was not configured.
    """
    groups = list(groups)
    totals = _totals(capacity, node_count, accounting, dimensions)
    for measure in measures_in(groups, dimensions):
        amount = total_of(measure, nodes, dimensions)
        totals[measure] = _Total(measure, amount, describe_measure(amount, measure, dimensions))
    errors = [
        InputError(what, hint=hint, file=file, line=(lines or {}).get(group.name, 0), field=_FIELD)
        for group in groups
        if (found := _unknown_kind(group, totals, nodes, dimensions))
        for what, hint in (found,)
    ]
    if errors:
        return QuotaCheck(tuple(errors), ())
    weeks = weeks_of(groups)
    for group in groups:
        week = weeks[group.name]
        for moment, quota in _highest_first(week):
            shortage = _shortage(quota, totals)
            if shortage:
                when = f" from {format_moment(moment)}" if len(week) > 1 else ""
                errors.append(
                    InputError(
                        f"the quota {format_quota(quota, accounting, dimensions)} of group {group.name}{when} "
                        f"is above the capacity",
                        hint=f"the cluster has {shortage.text}",
                        file=file,
                        line=(lines or {}).get(group.name, 0),
                        field=_FIELD,
                    )
                )
                break
    # The quotas of inner groups contain those of the groups below.
    outermost = [weeks[group.name] for group in groups if not group.parent]
    warnings = [_warning(peak, totals, accounting, file) for peak in _peaks(outermost, totals)]
    return QuotaCheck(tuple(errors), tuple(warnings))


def _unknown_kind(
    group: Group, totals: Mapping[str, _Total], nodes: Sequence[Node], dimensions: Dimensions
) -> tuple[str, str] | None:
    """Return the error of the first measure of a group whose kind no node has, and a hint."""
    for measure in measures_in((group,), dimensions):
        if not totals[measure].amount:
            dimension, kind = split(measure)
            known = kinds_of(dimension, nodes, dimensions)
            what = f"group {group.name} has a quota of {measure}, and no node with {dimension} is of the kind {kind}"
            return what, one_of(
                kind, known
            ) if known else "no node says its kind: a device's model, or the label NodeType"
    return None


def default_group(capacity: ResourceVector, node_count: int, options: Options, *, dimensions: Dimensions) -> Group:
    """Return the default group: ``default_group_quota`` of the cluster in whole cores or servers, at least 1.

    It is open to everyone, so its users share it: the jobs of one user do not hold off another user.
    """
    scale = SCALE[options.accounting]
    total = capacity[dimensions.index["cpu"]] if options.accounting == CPU else node_count * scale
    whole = int(_exact(options.default_group_quota) * total) // scale
    return Group(name=DEFAULT_GROUP, quota=Quota(scalar=max(1, whole) * scale), policy=SchedPolicy.CAPACITY)


def with_default_group(groups: Sequence[Group], default: Group) -> tuple[Group, ...]:
    """Return the groups with ``default`` at the end, unless a group of its name takes its place."""
    configured = any(group.name == DEFAULT_GROUP for group in groups)
    return tuple(groups) if configured else (*groups, default)


def _exact(share: float) -> Fraction:
    # Decimal arithmetic: as a binary fraction 0.03 is slightly smaller, and would lose a core of exactly three.
    return Fraction(repr(share))


_SERVERS = "servers"


def _totals(capacity: ResourceVector, node_count: int, accounting: str, dimensions: Dimensions) -> dict[str, _Total]:
    """Return the totals in the unit of scalar quotas (``servers`` or ``cores``), or in each dimension for vector
    quotas.
    """
    totals = {
        name: _Total(name, amount, describe_measure(amount, name, dimensions))
        for name, amount in zip(dimensions.names, capacity, strict=True)
    }
    if accounting == CPU:
        return {"": _Total("cpu", totals["cpu"].amount, totals["cpu"].text)}
    servers = f"{node_count} {'server' if node_count == 1 else _SERVERS}"
    return {"": _Total(_SERVERS, node_count * SCALE[accounting], servers), **totals}


def _shortage(quota: Quota, totals: Mapping[str, _Total]) -> _Total | None:
    """Return the first unit in which the quota exceeds the total."""
    return next((totals[name] for name, amount in amounts_of(quota) if amount > totals[name].amount), None)


def _highest_first(week: Week) -> Week:
    """Return the quotas of a week with their starts, the largest first, equal ones by time."""
    return sorted(week, key=lambda entry: ([-amount for _, amount in amounts_of(entry[1])], entry[0]))


@dataclass(frozen=True, slots=True)
class _Peak:
    """The time of the week at which the sum of quotas is highest in one unit, as a multiple of the total."""

    key: str
    moment: int
    ratio: Fraction
    amount: Fraction
    steady: bool  # the sum is constant all week


def _peaks(weeks: Sequence[Week], totals: Mapping[str, _Total]) -> list[_Peak]:
    """Return the highest peak above the capacity in each exceeded unit.

    Servers and amounts are compared by their share of the cluster: a group with a quota of half the servers may fill
    half of every dimension.
    """
    vectors = any(quota.amounts for week in weeks for _, quota in week)
    peaks = []
    for key, total in totals.items():
        if (key == "") == vectors or not total.amount:
            continue
        # A running sum over the changes of the week, in parts of one denominator.
        servers = totals[""].amount
        whole = total.amount * max(servers, 1)
        changes: dict[int, int] = {0: 0}
        for week in weeks:
            before = 0
            for moment, quota in week:
                share = _share(quota, key, total.amount, servers)
                changes[moment] = changes.get(moment, 0) + share - before
                before = share
        sums: list[tuple[int, int]] = []
        running = 0
        for moment in sorted(changes):
            running += changes[moment]
            sums.append((running, moment))
        highest, moment = max(sums, key=lambda peak: (peak[0], -peak[1]))
        if highest > whole:
            steady = all(amount == highest for amount, _ in sums)
            ratio = Fraction(highest, whole)
            peaks.append(_Peak(key, moment, ratio, ratio * total.amount, steady))
    return peaks


def _share(quota: Quota, key: str, total: int, servers: int) -> int:
    """Return the quota's share of the cluster, in parts of ``total`` × ``servers``."""
    if not quota.amounts:
        # A number of servers does not guarantee any kind of node.
        return quota.scalar * total if servers and not split(key)[1] else 0
    return dict(quota.amounts).get(key, 0) * max(servers, 1)


def _warning(peak: _Peak, totals: Mapping[str, _Total], accounting: str, file: str) -> Note:
    total = totals[peak.key]
    when = "" if peak.steady else f" from {format_moment(peak.moment)}"
    if peak.key == "":
        sum_text = f"{peak.amount / SCALE[accounting]} {UNIT[accounting]}"
    else:
        sum_text = f"{float(peak.ratio):.0%} of {total.what}"
    return Note(
        f"all quotas together are {sum_text}{when}, the cluster has {total.text}",
        hint="the groups share in proportion to their quotas",
        file=file,
        field=_FIELD,
    )
