"""The nodes with choices: their conditions over jobs, and the names by which they repel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from cress.core.tables.arrays import Ints
from cress.language.acceptance import parse_accepts
from cress.language.jobfacts import keys_in_expression
from cress.model.node import Node

# The nodes with each condition, or with each name.
_Nodes: TypeAlias = dict[str, dict[int, None]]


class NodeChoices:
    """The nodes with a condition, and those with a name that jobs must tolerate.

    ``keys`` are the attributes of jobs used in conditions; ``changed``: a condition or name came or went, so waiting
    jobs must be matched again.
    """

    def __init__(self) -> None:
        self._chosen: dict[int, tuple[str, tuple[str, ...]]] = {}
        self._by_condition: _Nodes = {}
        self._by_name: _Nodes = {}
        self._arrays: dict[tuple[bool, str], Ints] = {}
        self.keys: frozenset[str] = frozenset()
        self.changed = False

    def __bool__(self) -> bool:
        return bool(self._by_condition or self._by_name)

    @property
    def conditions(self) -> list[str]:
        """Return all conditions, in order."""
        return sorted(self._by_condition)

    @property
    def names(self) -> list[str]:
        """Return all names by which nodes repel, in order."""
        return sorted(self._by_name)

    def accepting(self, condition: str) -> Ints:
        """Return the nodes with this condition."""
        return self._array(True, condition)

    def repelling(self, name: str) -> Ints:
        """Return the nodes that repel by this name."""
        return self._array(False, name)

    def _array(self, conditions: bool, key: str) -> Ints:
        found = self._arrays.get((conditions, key))
        if found is None:
            table = self._by_condition if conditions else self._by_name
            found = self._arrays[(conditions, key)] = np.array(sorted(table.get(key, ())), np.int64)
        return found

    def set_node(self, f: int, node: Node) -> None:
        """Add node ``f``, or take over its new description."""
        before = self._chosen.get(f, ("", ()))
        if before == (node.accepts, node.repels):
            return
        self._chosen[f] = (node.accepts, node.repels)
        self._arrays.clear()
        kinds = len(self._by_condition), len(self._by_name)
        _move(self._by_condition, f, [before[0]] if before[0] else [], [node.accepts] if node.accepts else [])
        _move(self._by_name, f, before[1], node.repels)
        moved = any(
            key not in old
            for table, old, new in (
                (self._by_condition, (before[0],), (node.accepts,)), (self._by_name, before[1], node.repels),
            )
            for key in new
            if len(table.get(key, ())) == 1
        )  # fmt: skip
        if moved or kinds != (len(self._by_condition), len(self._by_name)):
            self.changed = True
            asked = (keys_in_expression(parse_accepts(condition, stored=True)) for condition in self._by_condition)
            self.keys = frozenset[str]().union(*asked)


def _move(table: _Nodes, f: int, old: Iterable[str], new: Iterable[str]) -> None:
    """Move a node from its old entries of a table to its new ones."""
    for key in old:
        del table[key][f]
        if not table[key]:
            del table[key]
    for key in new:
        table.setdefault(key, {})[f] = None
