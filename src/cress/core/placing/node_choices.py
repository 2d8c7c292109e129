"""Choices of nodes: a node may accept only some jobs, and repel jobs by names that they must tolerate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cress.core.placing.constraints import Asker, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.predicates import Predicate
from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.choices import NodeChoices
from cress.language.acceptance import check_accepts, parse_accepts
from cress.language.columns import attributes_of
from cress.language.jobfacts import facts_of, substituted
from cress.language.names import NODE_NAMES
from cress.model.attributes import check_tolerances
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.node import Node
from cress.model.resources import Dimensions

# The number of node names in a reason.
MOST_SHOWN = 3


def check_choice(accepts: str, repels: tuple[str, ...], *, stored: bool = False) -> None:
    """Raise ``InputError``, with its field, if a choice of a node is invalid.

    ``stored``: the choice was accepted before, perhaps by an older release.
    """
    check_tolerances(repels, "repels")
    if accepts:
        try:
            parse_accepts(accepts, stored=stored)
        except InputError as error:
            raise error.at(field="accepts") from None


def check_names(node: Node, dimensions: Dimensions) -> None:
    """Raise ``InputError``, with its field, if ``accepts`` refers to an unknown attribute or to a text without
    quotes.
    """
    if node.accepts:
        try:
            check_accepts(node.accepts, dimensions, {*attributes_of(node), *NODE_NAMES})
        except InputError as error:
            raise error.at(field="accepts") from None


def asker_of(choices: NodeChoices, job: Job, dimensions: Dimensions) -> Asker:
    """Return the view of a job for nodes with choices."""
    facts = facts_of(job, dimensions, job.group or DEFAULT_GROUP) if choices.keys else {}
    return tuple((key, facts[key]) for key in sorted(choices.keys) if key in facts), tuple(sorted(job.tolerates))


class AcceptedByNodes(Predicate):
    """The predicate "the nodes with this condition accept the unit"; other nodes satisfy it."""

    chooses = True

    def __init__(self, context: ClauseContext, text: str, askers: Iterable[Asker]) -> None:
        self._context = context
        self._choices = context.relations.choices
        self._text = text
        condition = parse_accepts(text, stored=True)
        self._programs = [
            context.program(substituted(condition, dict(facts)))
            for facts in dict.fromkeys(facts for facts, _ in askers)
        ]

    @property
    def text(self) -> str:  # type: ignore[override]
        """The nodes and their condition, for people."""
        return self.text_for(self._choices.accepting(self._text))

    def text_for(self, places: Ints) -> str:
        """Return the condition and these nodes, for people."""
        return f"the condition of {_named(self._context, places)}: {self._text}"

    def excludes(self, places: Ints) -> Bools:
        """Return, per node of ``places``, True unless its condition holds for each job of the unit."""
        excluded = np.zeros(len(places), np.bool_)
        asked = np.flatnonzero(np.isin(places, self._choices.accepting(self._text)))
        nodes = self._context.cluster.nodes
        for program in self._programs:
            if len(asked):
                out = np.empty(len(nodes), np.int8)
                program.truths(nodes, out, places[asked])
                excluded[asked] |= out[places[asked]] != 1
        return excluded


class Tolerated(Predicate):
    """The predicate "the node does not repel by this name", which the unit does not tolerate."""

    chooses = True

    def __init__(self, context: ClauseContext, name: str) -> None:
        self._context = context
        self._choices = context.relations.choices
        self._name = name

    @property
    def text(self) -> str:  # type: ignore[override]
        """The name and the nodes that repel by it, for people."""
        return self.text_for(self._choices.repelling(self._name))

    def text_for(self, places: Ints) -> str:
        """Return the name and these nodes, for people."""
        verb = "repels" if len(places) == 1 else "repel"
        return f"tolerates: {self._name}, by which {_named(self._context, places)} {verb}"

    def excludes(self, places: Ints) -> Bools:
        """Return, per node of ``places``, True if it repels by the name."""
        return np.isin(places, self._choices.repelling(self._name))


def _named(context: ClauseContext, nodes: Ints) -> str:
    names = [context.cluster.names[f] for f in nodes[:MOST_SHOWN].tolist()]
    more = len(nodes) - len(names)
    return f"{', '.join(names)} and {more} more" if more > 0 else " and ".join(names)


def choice_predicates(context: ClauseContext, wants: Wants) -> Iterator[Predicate]:
    """Yield the predicates of nodes with choices."""
    if not wants.askers:
        return
    choices = context.relations.choices
    for text in choices.conditions:
        yield AcceptedByNodes(context, text, wants.askers)
    tolerated = set(wants.askers[0][1]).intersection(*(names for _, names in wants.askers))
    for name in choices.names:
        if name not in tolerated:
            yield Tolerated(context, name)
