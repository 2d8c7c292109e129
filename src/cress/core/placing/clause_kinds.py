"""The table of predicates for kinds of clauses other than expressions.

A new kind of clause is one file and one line here: in ``CLAUSES``, or in ``EXTRAS`` if it is a key of the job instead
of a clause.
"""

from __future__ import annotations

from cress.core.placing.adjacency import Adjacent
from cress.core.placing.data_clauses import DataLocality
from cress.core.placing.licence_clauses import licence_predicates
from cress.core.placing.node_choices import choice_predicates
from cress.core.placing.over_domains import AwayFrom, Near, Spread, Together, avoiding_predicates
from cress.core.placing.placement_clauses import Depends, WholeDisks, placement_predicates, port_predicate
from cress.core.placing.predicates import ExtraMaker, Maker
from cress.core.placing.task_limits import limit_predicates
from cress.language.clauses import Kind

CLAUSES: dict[Kind, Maker] = {
    Kind.PORT: port_predicate,
    Kind.DISK: WholeDisks,
    Kind.ADJACENT: Adjacent,
    Kind.DEPENDENCY: Depends,
    Kind.DATA: DataLocality,
    Kind.SPREAD: Spread,
    Kind.AWAY: AwayFrom,
    Kind.NEAR: Near,
    Kind.WITHIN: Together,
}
EXTRAS: tuple[ExtraMaker, ...] = (
    placement_predicates,
    limit_predicates,
    licence_predicates,
    choice_predicates,
    avoiding_predicates,
)
