"""The table of predicates for kinds of clauses other than expressions.

A new kind of clause is one file and one line here: in ``CLAUSES``, or in ``EXTRAS`` if it is a key of the job instead
of a clause.
"""

from __future__ import annotations

from cress.core.placing.adjacency import adjacency_predicate
from cress.core.placing.data_clauses import data_predicate
from cress.core.placing.licence_clauses import licence_predicates
from cress.core.placing.node_choices import choice_predicates
from cress.core.placing.over_domains import (
    avoiding_predicates,
    away_predicate,
    near_predicate,
    spread_predicate,
    within_predicate,
)
from cress.core.placing.placement_clauses import (
    dependency_predicate,
    disk_predicate,
    placement_predicates,
    port_predicate,
)
from cress.core.placing.predicates import ExtraMaker, Maker
from cress.core.placing.task_limits import limit_predicates
from cress.language.clauses import Kind

CLAUSES: dict[Kind, Maker] = {
    Kind.PORT: port_predicate,
    Kind.DISK: disk_predicate,
    Kind.ADJACENT: adjacency_predicate,
    Kind.DEPENDENCY: dependency_predicate,
    Kind.DATA: data_predicate,
    Kind.SPREAD: spread_predicate,
    Kind.AWAY: away_predicate,
    Kind.NEAR: near_predicate,
    Kind.WITHIN: within_predicate,
}
EXTRAS: tuple[ExtraMaker, ...] = (
    placement_predicates,
    limit_predicates,
    licence_predicates,
    choice_predicates,
    avoiding_predicates,
)
