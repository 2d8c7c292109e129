"""What a requirement means for a set of nodes: the intersection of its clauses, of which fewer exclude fewer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cress.language.clauses import Clause, Kind, Requirement
from cress.language.columns import Columns
from cress.language.parser import parse_requirement
from cress.language.program import Program
from cress.language.tree import Expression, conjunction
from cress.model.node import Node
from tests.language.strategies import DIMENSIONS, conditions, nodes

K = len(DIMENSIONS)
some_nodes = st.lists(nodes(), min_size=1, max_size=8)
some_conditions = st.lists(conditions, min_size=1, max_size=5)


class Cluster:
    """Nodes, and which of them satisfy clauses."""

    def __init__(self, chosen: list[tuple[Node, tuple[int, ...]]]) -> None:
        self.columns = Columns(DIMENSIONS)
        self.nodes = np.zeros((len(chosen), 2 * K), np.int64)
        for f, (node, free) in enumerate(chosen):
            self.columns.set_node(f, node)
            self.nodes[f] = (*free, *node.capacity)

    def satisfy(self, expression: Expression) -> set[int]:
        out = np.zeros(len(self.nodes), np.int8)
        Program(self.columns, expression).truths(self.nodes, out)
        return {int(f) for f in np.flatnonzero(out == 1)}

    def satisfy_all(self, clauses: tuple[Clause, ...]) -> set[int]:
        return self.satisfy(conjunction(tuple(clause.expression for clause in clauses)))


@given(some_conditions, some_nodes)
def test_the_nodes_of_a_conjunction_are_the_intersection(
    expressions: list[Expression], chosen: list[tuple[Node, tuple[int, ...]]]
) -> None:
    cluster = Cluster(chosen)
    every = set(range(len(chosen)))
    for expression in expressions:
        every &= cluster.satisfy(expression)
    assert cluster.satisfy(conjunction(tuple(expressions))) == every


@given(some_conditions, st.lists(st.integers(0, 30), min_size=5, max_size=5), some_nodes)
def test_relaxing_a_clause_never_removes_a_node(
    expressions: list[Expression], limits: list[int], chosen: list[tuple[Node, tuple[int, ...]]]
) -> None:
    cluster = Cluster(chosen)
    plain = Requirement(tuple(Clause(Kind.CONDITION, each) for each in expressions))
    # Read from text, as jobs have them: every clause with a limit of its own.
    text = " && ".join(
        f"({each.expression}) && f(x) = (Waittime > {limit}us)"
        for each, limit in zip(plain.clauses, limits, strict=False)
    )
    relaxable = parse_requirement(text, stored=True).clauses
    now, before = 0, cluster.satisfy_all(plain.clauses)
    hard = tuple(each for each in relaxable if each.relaxation and not each.relaxation.holds(now, 0))
    assert cluster.satisfy_all(hard) == before
    while after := min(
        (at for each in relaxable if each.relaxation and (at := each.relaxation.next_change(now))), default=None
    ):
        now = after
        hard = tuple(each for each in relaxable if each.relaxation and not each.relaxation.holds(now, 0))
        found = cluster.satisfy_all(hard)
        assert found >= before
        before = found
    assert before == set(range(len(chosen)))
