"""Random stories in which quotas name kinds of nodes: those of ``stories.py``, with a label on each node and kinds in
the quotas.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from cress.model.events import Event, GroupsApplied, NodeAdded, NodeChanged
from cress.model.group import Group, Quota
from cress.model.groups.tree import NO_QUOTA, children_of, from_the_leaves
from cress.model.node import Node
from tests.core.settings import Setting
from tests.core.stories import Player

KINDS = ("cpu(x)", "cpu(y)", "gpu(x)")


def labelled(node: Node, rng: Random) -> Node:
    """The node with a kind, or with none."""
    kind = rng.choice(("x", "x", "y", "z", ""))
    attributes = tuple(each for each in node.attributes if each[0] != "NodeType")
    return msgspec.structs.replace(node, attributes=(*attributes, *((("NodeType", kind),) if kind else ())))


def with_kinds(groups: tuple[Group, ...], rng: Random) -> tuple[Group, ...]:
    """The same groups, most of them with quotas and bounds of kinds of nodes; what is in others is within these."""
    children = children_of(groups)
    made: dict[str, Group] = {}
    most: dict[str, dict[str, int]] = {}
    for group in from_the_leaves(groups):
        if group.name not in children:
            flat = not group.parent and rng.random() < 0.3
            made[group.name] = group if flat else _leaf(group, rng)
            quotas = [made[group.name].quota, *(window.quota for window in made[group.name].windows)]
            most[group.name] = {
                kind: max(dict(quota.amounts).get(kind, 0) for quota in quotas) for kind in KINDS
            }  # fmt: skip
            continue
        inside = [most[each.name] for each in children[group.name]]
        own = {kind: sum(each[kind] for each in inside) for kind in KINDS}
        if group.quota != NO_QUOTA:
            own = {kind: amount and amount + rng.choice((0, 2000)) for kind, amount in own.items()}
            group = msgspec.structs.replace(group, quota=_more(group.quota, own))
        most[group.name] = own
        made[group.name] = msgspec.structs.replace(
            group, max_quota=_more(group.max_quota), lendable=_more(group.lendable)
        )
    return tuple(made[group.name] for group in groups)


def _leaf(group: Group, rng: Random) -> Group:
    def some() -> dict[str, int]:
        return {kind: 1000 * rng.randint(1, 3) for kind in KINDS if rng.random() < 0.5}

    quota = _more(group.quota, some())
    windows = tuple(msgspec.structs.replace(each, quota=_more(each.quota, some())) for each in group.windows)
    bound = {kind: 6000 for kind in KINDS if rng.random() < 0.5}
    return msgspec.structs.replace(
        group,
        quota=quota,
        windows=windows,
        max_quota=None if group.max_quota is None else _more(group.max_quota, bound),
        lendable=None if group.lendable is None else _more(group.lendable, some()),
    )


def _more(quota: Quota | None, kinds: dict[str, int] | None = None) -> Any:
    """The quota as a vector, with amounts of kinds."""
    if quota is None or (quota == NO_QUOTA and not kinds):
        return quota
    # A number of servers becomes one of cores. Groups that had amounts of kinds get other ones.
    base = quota.amounts or ((("cpu", quota.scalar // 200),) if quota.scalar else ())
    base = tuple((name, amount) for name, amount in base if name not in KINDS)
    amounts = dict(base) | {kind: (kinds or {})[kind] for kind in KINDS if (kinds or {}).get(kind)}
    return Quota(amounts=tuple(amounts.items()))


def kinded(setting: Setting, seed: int) -> Setting:
    """The setting with kinds."""
    rng = Random(seed)
    return replace(
        setting,
        groups=with_kinds(setting.groups, rng),
        nodes=tuple(labelled(node, rng) for node in setting.nodes),
        options={**setting.options, "accounting": "dominant"},
    )


class KindPlayer(Player):
    """A player whose nodes have kinds, and whose groups name them."""

    def happen(self, *events: Event) -> None:
        rng = Random(len(self.calls))
        super().happen(*(self._with_kinds(event, rng) for event in events))

    def _with_kinds(self, event: Event, rng: Random) -> Event:
        if isinstance(event, NodeAdded | NodeChanged):
            return msgspec.structs.replace(event, node=labelled(event.node, rng))
        if isinstance(event, GroupsApplied):
            return msgspec.structs.replace(event, groups=with_kinds(event.groups, rng))
        return event
