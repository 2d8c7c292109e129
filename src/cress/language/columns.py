"""The attributes of all nodes as columns, and the tables in which programs look them up.

A column holds one code per node: the position of its value among the distinct values of the attribute, 0 without a
value. The answers to a program's question about an attribute are a table over the distinct values, computed once for
each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.language.names import FREE_MEMORY, LOADS, NODE_NAMES, key_of
from cress.language.values import known
from cress.model.node import Load, Node, Value
from cress.model.resources import Dimensions

# Attributes that belong together: a comparison of two attributes is a question about pairs of values.
Key: TypeAlias = tuple[str, ...]
Values: TypeAlias = tuple[Value | None, ...]
# A question about the values of a column; the answer is a number, a truth as 1 or 0, or None for undefined.
Question: TypeAlias = Callable[..., float | None]

# Most tables kept, even unused ones; a table takes a few dozen bytes per distinct value.
MOST_TABLES = 4096
# A column is rebuilt once its codes without nodes outnumber the others by about this many.
SLACK = 64


class Column:
    """The values that every node has for one attribute, or for several together."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.values: list[Values] = [()]
        self.codes: dict[object, int] = {}
        # The number of nodes with each value.
        self.counts: list[int] = [0]
        self.live = 0
        # Grows when codes change their meaning.
        self.epoch = 0

    def code(self, values: Values) -> int:
        """Return the code of a value, if necessary a new one."""
        # 1, 1.0 and True are equal in Python, but differ here.
        key = tuple((value, type(value)) for value in values)
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = len(self.values)
            self.values.append(values)
            self.counts.append(0)
        return code

    def counted(self, code: int, by: int) -> None:
        """Change the number of nodes with this value."""
        before = self.counts[code]
        self.counts[code] = before + by
        if code:
            self.live += int(before == 0 and by > 0) - int(before > 0 and before + by == 0)

    @property
    def stale(self) -> bool:
        """Return whether most of its values have no node any more."""
        return len(self.values) > 2 * self.live + SLACK


class AnswerTable:
    """The answers to one question for the distinct values of a column; undefined (NaN) without a value."""

    def __init__(self, column: Column, question: Question, nothing: float | None = None) -> None:
        self.column = column
        self.question = question
        self.epoch = column.epoch
        self.nothing = np.nan if nothing is None else float(nothing)
        self.answers: list[float] = [self.nothing]

    def refresh(self) -> list[float]:
        """Return the answers for all values of the column."""
        column, question, answers = self.column, self.question, self.answers
        if self.epoch != column.epoch:
            self.epoch = column.epoch
            del answers[1:]
        for values in column.values[len(answers) :]:
            answer = question(*values)
            answers.append(np.nan if answer is None else float(answer))
        return answers


class Columns:
    """The attributes of all nodes.

    ``free`` is the first column of the free amounts in the table of nodes; the total amounts follow them.
    """

    def __init__(self, dimensions: Dimensions, free: int = 0) -> None:
        self.dimensions = dimensions
        self.free = free
        self.node_count = 0
        # For each node the values by key; {} for a row that was never set.
        self.attributes: list[dict[str, Value]] = []
        self.codes: npt.NDArray[np.int32] = np.zeros((8, 16), np.int32)
        self.columns: dict[Key, Column] = {}
        # The number of nodes with each attribute.
        self.holders: dict[str, int] = {}
        self.tables: dict[object, AnswerTable] = {}
        # Grows whenever programs must check their tables again.
        self.stamp = 0

    def set_node(self, f: int, node: Node) -> None:
        """Add node ``f``, or change its attributes."""
        if f >= self.codes.shape[1]:
            self._more(self.codes.shape[0], max(f + 1, 2 * self.codes.shape[1]))
        while f >= len(self.attributes):
            self.attributes.append({})
            for column in self.columns.values():
                column.counts[0] += 1
        self.node_count = len(self.attributes)
        old = self.attributes[f]
        loads = {key: value for key, value in old.items() if key in LOADS}
        self._set(f, attributes_of(node) | loads)

    def set_load(self, f: int, load: Load | None) -> None:
        """Set the measured load of node ``f``; ``None``: not measured."""
        new = {key: value for key, value in self.attributes[f].items() if key not in LOADS}
        self._set(f, new | loads_of(load))

    def _set(self, f: int, new: dict[str, Value]) -> None:
        old, self.attributes[f] = self.attributes[f], new
        for key in old.keys() - new.keys():
            self.holders[key] -= 1
        for key in new.keys() - old.keys():
            count = self.holders.get(key)
            if not count:
                # A program compiled while no node had the attribute must be rebuilt.
                self.stamp += 1
            self.holders[key] = (count or 0) + 1
        for names, column in self.columns.items():
            self._put(f, names, column)

    def _put(self, f: int, names: Key, column: Column) -> None:
        has = self.attributes[f]
        values = tuple([has.get(name) for name in names])
        before = int(self.codes[column.row, f])
        size = len(column.values)
        code = 0 if all(value is None for value in values) else column.code(values)
        if code == before:
            return
        column.counted(code, 1)
        column.counted(before, -1)
        self.codes[column.row, f] = code
        if len(column.values) != size:
            self.stamp += 1
        if column.stale:
            self._fill(names, column)
            self.stamp += 1

    def column(self, *names: str) -> Column | None:
        """Return the column of these attributes; None while no node has any of them."""
        found = self.columns.get(names)
        if found is None and any(self.holders.get(name) for name in names):
            if len(self.columns) == self.codes.shape[0]:
                self._more(2 * self.codes.shape[0], self.codes.shape[1])
            found = self.columns[names] = Column(len(self.columns))
            self._fill(names, found)
        return found

    def _fill(self, names: Key, column: Column) -> None:
        """Give all values new codes, in the order of the nodes."""
        column.values = [()]
        column.codes = {}
        column.counts = [0]
        codes = np.zeros(len(self.attributes), np.int64)
        nothing = (None,) * len(names)
        for f, has in enumerate(self.attributes):
            values = tuple([has.get(name) for name in names])
            if values != nothing:
                codes[f] = column.code(values)
        counts = np.bincount(codes, minlength=1)
        column.counts = counts.tolist()
        column.live = int(np.count_nonzero(counts[1:]))
        self.codes[column.row, : len(codes)] = codes
        column.epoch += 1

    def table(self, column: Column, about: object, question: Question, nothing: float | None = None) -> AnswerTable:
        """Return the table of a question; ``about`` identifies it among all questions to this column."""
        key = (column.row, about)
        found = self.tables.get(key)
        if found is None:
            if len(self.tables) >= MOST_TABLES:
                # Programs keep references to their own tables.
                self.tables.clear()
            found = self.tables[key] = AnswerTable(column, question, nothing)
        return found

    def _more(self, rows: int, nodes: int) -> None:
        codes = np.zeros((rows, nodes), np.int32)
        codes[: self.codes.shape[0], : self.codes.shape[1]] = self.codes
        self.codes = codes


def attributes_of(node: Node) -> dict[str, Value]:
    """Return the attributes of a node by key.

    Its own name, address and rack take precedence over attributes of the same name. The default of the host name is the
    node's name.
    """
    has: dict[str, Value] = {}
    for name, value in node.attributes:
        value_known, key = known(value), key_of(name)
        if value_known is not None and key not in LOADS:
            has[key] = value_known
    own = (node.name, has.get("hostname") or node.name, node.address, node.rack)
    has.update({key: value for key, value in zip(NODE_NAMES, own, strict=True) if value != ""})
    return has


def loads_of(load: Load | None) -> dict[str, Value]:
    """Return the measured load by key: shares of the capacity, and bytes."""
    if load is None:
        return {}
    shares = (load.cpu, load.memory, load.network, load.disk)
    has: dict[str, Value] = {key: share / 1000 for key, share in zip(LOADS, shares, strict=False)}
    has[FREE_MEMORY] = load.free_memory
    return has
