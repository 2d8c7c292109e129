"""Rights of groups on nodes of the kinds named in quotas (design note 0034)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Bools
from cress.core.tree.amounts import Amounts
from cress.model.resources import ResourceVector


@dataclass(frozen=True, slots=True)
class Entitled:
    """The nodes ``[n]`` on which a group may take room for a unit, and the kinds ``[k]`` in its quota that charge the
    unit.
    """

    nodes: Bools
    kinds: Bools


def named_kinds(group: Amounts, asked: ResourceVector) -> Bools:
    """Return, per kind, True if a group has a quota of it and a unit with the total request ``asked`` is charged in
    it.
    """
    assert group.kinds is not None, "no quota names a kind of node"
    quotas = group.quota[group.base :]
    return np.array([quota > 0 and asked[k] > 0 for quota, k in zip(quotas, group.kinds.dims, strict=True)], np.bool_)


def entitled(
    group: Amounts, asked: ResourceVector, least: tuple[int, ...], below: Bools | None, *, to_quota: bool
) -> Entitled:
    """Return the nodes on which a group may take room for a unit with the total request ``asked``.

    There the group needs preemption itself, or (``below``) a group below it on the way to the unit does. On a node the
    base measures count, and the kinds of that node in the group's quota that charge the unit; a group with a quota of
    kinds only is entitled to nothing elsewhere. ``least`` is the smallest charge of the unit. For its own need the
    group takes up to quota × B, for one below it, or with ``to_quota``, up to its quota.
    """
    kinds, base = group.kinds, group.base
    assert kinds is not None, "no quota names a kind of node"
    named = named_kinds(group, asked)
    masks = kinds.masks()

    def where(holds: Callable[[int, int], bool]) -> Bools:
        may = all(holds(i, least[i]) for i in range(base))
        nodes: Bools = np.full(masks.shape[1], may and base > 0, np.bool_)
        if may:
            nodes |= masks[named].any(axis=0)
        for j in np.flatnonzero(named).tolist():
            if not holds(base + j, asked[kinds.dims[j]]):
                nodes &= ~masks[j]
        return nodes

    nodes = where(lambda i, more: group.lacks(i) and group.may_take_of(i, more, to_quota=to_quota))
    if below is not None:
        nodes |= below & where(lambda i, more: group.may_take_of(i, more, to_quota=True))
    return Entitled(nodes, named)


def is_guaranteed(group: Amounts, shape: Shape) -> bool:
    """Return True if a unit of this shape is guaranteed to a group on some node open to the unit.

    The group must be below its quota in every measure that charges the unit there. Use of a kind without a quota is
    borrowed.
    """
    kinds, base = group.kinds, group.base
    assert kinds is not None, "no quota names a kind of node"
    if any(group.used[i] >= group.quota[i] for i in range(base)):
        return False
    charged = [j for j, k in enumerate(kinds.dims) if any(kind.request[k] for kind in shape.kinds or (shape,))]
    below = [j for j in charged if group.used[base + j] < group.quota[base + j]]
    if not charged or not (base or below):
        return base > 0
    masks = kinds.masks()
    others = [j for j in charged if j not in below]
    nodes = kinds.open_to(shape) & ~masks[others].any(axis=0)
    return bool((nodes if base else nodes & masks[below].any(axis=0)).any())


def within_on(group: Amounts, asked: ResourceVector, least: tuple[int, ...]) -> Bools:
    """Return the nodes ``[n]`` on which a unit with the total request ``asked`` keeps its group within its quota.

    Claims count. ``least`` is the smallest charge of the unit, in the base measures. Use of a kind without a quota is
    borrowed.
    """
    kinds, base = group.kinds, group.base
    assert kinds is not None, "no quota names a kind of node"

    def fits(i: int, more: int) -> bool:
        return group.used[i] + group.claimed[i] + more <= group.quota[i]

    masks = kinds.masks()
    may = all(fits(i, least[i]) for i in range(base))
    charged = [j for j, k in enumerate(kinds.dims) if asked[k]]
    within = [j for j in charged if fits(base + j, asked[kinds.dims[j]])]
    nodes: Bools = np.full(masks.shape[1], may, np.bool_)
    if not base:
        nodes &= masks[within].any(axis=0)
    for j in charged:
        if j not in within:
            nodes &= ~masks[j]
    return nodes


def yields_somewhere(group: Amounts, kinds: Bools, *, to_quota: bool) -> bool:
    """Return True if a group can be preempted in a measure that its quota names, or uses one of these ``kinds``
    without a quota.
    """
    return group.can_be_preempted(to_quota=to_quota) or any(
        wanted and not group.quota[i] and group.used[i] > group.leaving[i]
        for i, wanted in enumerate(kinds.tolist(), group.base)
    )


def excess_in(group: Amounts, kinds: Bools) -> tuple[bool, Fraction]:
    """Return the excess of a group over its quota in the worst of these kinds, as a sort key.

    A kind without a quota comes first, then used / quota counts.
    """
    worst = (False, Fraction(0))
    for i, wanted in enumerate(kinds.tolist(), group.base):
        has = group.used[i] - group.leaving[i]
        if wanted and has > 0:
            worst = max(worst, (not group.quota[i], Fraction(has, group.quota[i] or 1)))
    return worst


def spare_by_kind(group: Amounts, width: int, *, to_quota: bool) -> list[int]:
    """Return, per column, the amount that a group may lose down to its quota: base measures in the first ``width``
    columns, then the kinds.

    -1 where it cannot be preempted; base measures count only if it can be preempted in one of them.
    """
    spare = group.spare()
    in_base = any(group.yields_of(i, to_quota=to_quota) for i in range(group.base))
    base = [amount if in_base else -1 for amount in spare[: group.base]] + [-1] * (width - group.base)
    kinds = enumerate(spare[group.base :], group.base)
    return base + [amount if group.yields_of(i, to_quota=to_quota) else -1 for i, amount in kinds]
