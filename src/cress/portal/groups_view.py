"""Groups as rows of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cress.portal.texts import share
from cress.protocol.cluster_views import GroupView


class GroupRow(NamedTuple):
    """A group at its depth in the tree; ``share`` is used / quota, at most 1, ``over`` says that it is more."""

    view: GroupView
    depth: int
    share: float
    over: bool


def rows_of(groups: Sequence[GroupView]) -> list[GroupRow]:
    """Return the groups in the order of their tree: each before those below it."""
    below: dict[str, list[GroupView]] = {}
    names = {group.name for group in groups}
    for group in groups:
        below.setdefault(group.parent if group.parent in names else "", []).append(group)
    rows: list[GroupRow] = []

    def add(parent: str, depth: int) -> None:
        for group in below.get(parent, ()):
            rows.append(GroupRow(group, min(depth, 4), share(group.ratio, 1.0), group.ratio > 1))
            add(group.name, depth + 1)

    add("", 0)
    return rows
