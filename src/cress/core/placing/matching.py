"""Which nodes satisfy what a shape wants, and how well they suit it: worked out for all nodes once, then repaired.

A *predicate* says of nodes whether one hard clause keeps the shape off them. What nodes are (attributes, names) makes
static predicates; what is free, and what runs where, dynamic ones. Changes are noted as they happen (``touch``,
``set_node``, ``redo``) and worked out together by ``flush``: at the end of ``observe`` and before each pass. So a gang
is matched as one: what its first tasks take changes what its clauses say only when all of it is placed.

A kind of clause is added in a file of its own with one line in ``CLAUSES``, or in ``EXTRAS`` where it is no clause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.core.kernels.holding import FREE
from cress.core.placing.constraints import BY_EXPRESSION, NO_WANTS, Wants
from cress.core.placing.relations import Own, Relations, Whose
from cress.language.clauses import Clause, Kind
from cress.language.columns import Columns
from cress.language.program import Program
from cress.model.node import Load, Node

if TYPE_CHECKING:
    from cress.core.jobs import JobState
    from cress.core.tables.cluster import Cluster, Floats, Ints, Shape

Bools: TypeAlias = npt.NDArray[np.bool_]
Firsts: TypeAlias = npt.NDArray[np.int8]

# Bits 24 to 28 of ``lack`` have room for so many places; predicates behind them share the last one.
LAST_PLACE = 31
# Changes of nodes that are remembered one by one; whoever missed more works everything out again.
LOG = 4096
# Nodes, over all wants, of which it is remembered whether they could ever do.
REMEMBERED = 2**24


class Predicate:
    """One thing that keeps a shape off nodes, as the matcher asks it; ``text`` is what people read.

    A ``dynamic`` one follows what runs where; the others only what nodes are.
    """

    text = ""
    dynamic = False
    # Whether it says different things of different nodes.
    of_nodes = True
    # Whether it is about all tasks of a gang together.
    binds = False
    # Whose starts and ends anywhere may change what it says of any node.
    watches: tuple[Whose, ...] = ()

    def excludes(self, places: Ints) -> Bools:
        """Per node of ``places``, whether it keeps the shape off it at the moment."""
        raise NotImplementedError

    def never(self, places: Ints) -> Bools:
        """Per node of ``places``, whether it keeps the shape off it whatever runs where."""
        return np.zeros(len(places), np.bool_) if self.dynamic else self.excludes(places)

    def suits(self, places: Ints) -> Floats:
        """Per node of ``places``, what it counts as a term of a rank: 1 where it does not exclude the node, else 0."""
        return (~self.excludes(places)).astype(np.float32)

    def shown(self) -> str:
        """The clause as it is matched at this moment: a name of a job as its nodes."""
        return self.text

    def undefined(self, f: int) -> bool:
        """Whether it excludes node ``f`` since nothing can be said of it there."""
        return False

    def caps(self) -> Ints | None:
        """Per node (as many as the cluster has), how many tasks of a gang may start there together; None: any number."""
        return None

    def caps_when_empty(self) -> Ints | None:
        """The same if nothing ran anywhere."""
        return None


class Condition(Predicate):
    """An expression over one node that must be true: it may not be undefined."""

    def __init__(self, matching: Matching, clause: Clause) -> None:
        self.text = str(clause)
        self._matching = matching
        self._program = Program(matching.columns, clause.expression)
        self.dynamic = self._program.dynamic

    def excludes(self, places: Ints) -> Bools:
        nodes = self._matching.cluster.nodes
        if len(places) == 1:
            return np.array([self._program.truth(nodes, int(places[0])) != 1])
        out = np.empty(len(nodes), np.int8)
        self._program.truths(nodes, out, places)
        excluded: Bools = out[places] != 1
        return excluded

    def undefined(self, f: int) -> bool:
        return self._program.truth(self._matching.cluster.nodes, f) == -1


Maker: TypeAlias = "Callable[[Matching, Clause, Wants], Predicate]"

# How a clause of each kind is asked, where no expression decides it; and what keeps shapes off nodes without a clause.
CLAUSES: dict[Kind, Maker] = {}
EXTRAS: list[Callable[[Matching, Wants], Iterable[Predicate]]] = []


class Match:
    """What is known of one shape: its predicates, the first static one that excludes each node, the scores of nodes.

    ``first`` (int8, per node) has 1 + the place of that predicate, 0 for none. ``scores`` (float32, per node) are the
    sums of the terms; ``at`` is how far in the log of changes they are right.
    """

    __slots__ = (
        "_matching", "_program", "_terms", "at", "dynamic", "dynamic_scores", "first", "predicates", "scores", "wants",
        "watches",
    )  # fmt: skip

    def __init__(self, matching: Matching, wants: Wants) -> None:
        self.wants = wants
        self.predicates: list[Predicate] = matching.predicates(wants)
        self.dynamic = any(each.dynamic for each in self.predicates)
        self.first: Firsts = np.zeros(0, np.int8)
        # The expressions of the rank are one program; the other terms are predicates.
        self._matching = matching
        self._program = Program(matching.columns, wants.terms)
        self._terms = [
            (np.float32(term.weight), matching.predicate(term.what, wants))
            for term in wants.terms
            if isinstance(term.what, Clause)
        ]
        self.dynamic_scores = self._program.dynamic or any(each.dynamic for _, each in self._terms)
        asked = (*self.predicates, *(each for _, each in self._terms))
        self.watches = tuple(whose for each in asked for whose in each.watches)
        self.scores: Floats | None = None
        self.at = 0

    def first_excluding(self, places: Ints, facts: bool) -> Firsts:
        """1 + the place of the first predicate that excludes each of the nodes, 0: none; ``facts``: ask static ones too."""
        if facts:
            self.first[places] = self._ask(False, places)
        first = self.first[places]
        if self.dynamic:
            moving = self._ask(True, places)
            first = np.where((moving > 0) & ((first == 0) | (moving < first)), moving, first)
        return first

    def first_from_nothing(self) -> Firsts:
        """``first_excluding`` of all nodes, with nothing remembered."""
        n = self._matching.cluster.node_count
        self.first = np.zeros(n, np.int8)
        return self.first_excluding(np.arange(n), True)

    def _ask(self, dynamic: bool, places: Ints) -> Firsts:
        first = np.zeros(len(places), np.int8)
        for i in range(len(self.predicates) - 1, -1, -1):
            if self.predicates[i].dynamic == dynamic:
                first[self.predicates[i].excludes(places)] = min(i + 1, LAST_PLACE)
        return first

    def score(self, places: Ints) -> Floats:
        """The sum of the terms on each of these nodes."""
        nodes = self._matching.cluster.nodes
        if len(places) == 1:
            total = np.array([self._program.value(nodes, int(places[0]))], np.float32)
        else:
            out = np.empty(len(nodes), np.float32)
            self._program.values(nodes, out, places)
            total = out[places]
        for weight, term in self._terms:
            total += weight * term.suits(places)
        # + 0 makes 0 of -0: scores are compared by their bits.
        return total + np.float32(0)

    def caps(self) -> Ints:
        """Per node, how many copies may start there together; empty: any number."""
        return _least(each.caps() for each in self.predicates)


class Matching:
    """The matches of the shapes of one cluster, and the attributes of its nodes.

    ``live`` are the shapes with wants that somebody waits with: only their rows are kept up to date.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._columns: Columns | None = None
        # What was measured on nodes, by index.
        self._loads: dict[int, Load] = {}
        self.relations = Relations()
        self.live: dict[Shape, None] = {}
        # Those of them with a dynamic predicate.
        self._following: dict[Shape, None] = {}
        # Grows whenever what a node is may have changed.
        self.facts = 0
        self._changed: dict[int, None] = {}
        self._stale: dict[Shape, None] = {}
        # Nodes in the order in which something on them changed; ``_start`` changes were forgotten before.
        self._log: list[int] = []
        self._start = 0
        self._flushed = 0
        self._ever: dict[Wants, tuple[int, Bools]] = {}

    @property
    def columns(self) -> Columns:
        """The attributes of the nodes; kept from the first time that somebody asks for them."""
        if self._columns is None:
            self._columns = Columns(self.cluster.dimensions, FREE)
            for f, node in enumerate(self.cluster.specs):
                self._columns.set_node(f, node)
            for f, load in self._loads.items():
                self._columns.set_load(f, load)
        return self._columns

    # --- making ----------------------------------------------------------------------------------------------

    def predicates(self, wants: Wants) -> list[Predicate]:
        """What keeps somebody who wants that off nodes."""
        made = [self.predicate(clause, wants) for clause in wants.hard]
        for extra in EXTRAS:
            made += extra(self, wants)
        return made

    def predicate(self, clause: Clause, wants: Wants) -> Predicate:
        """How a clause is asked for somebody who wants that."""
        if clause.kind in BY_EXPRESSION:
            return Condition(self, clause)
        return CLAUSES[clause.kind](self, clause, wants)

    # --- what happens ----------------------------------------------------------------------------------------

    def set_node(self, f: int, node: Node) -> None:
        """Node ``f`` is there, or is described otherwise now."""
        if self._columns is not None:
            self._columns.set_node(f, node)
        if self.relations.set_node(f, node):
            self.redo_racks()
        self.change(f)

    def set_load(self, f: int, load: Load | None) -> None:
        """Something else is measured on node ``f`` now; ``None``: nothing is."""
        if load is None:
            self._loads.pop(f, None)
        else:
            self._loads[f] = load
        if self._columns is not None:
            self._columns.set_load(f, load)
        self.touch(f)

    def change(self, f: int) -> None:
        """What node ``f`` is, or whether it is there, changed."""
        self.facts += 1
        if self.live:
            self._changed[f] = None
            self.touch(f)

    def facts_changed(self) -> None:
        """What could ever be is asked anew, of all nodes."""
        self.facts += 1

    def touch(self, f: int) -> None:
        """Something on node ``f`` changed: what is free, what runs there, its ports."""
        if self.live:
            self._log.append(f)

    def redo(self, shape: Shape) -> None:
        """What excludes a shape, or suits it, may have changed on any node: a relation to other jobs did."""
        self._stale[shape] = None

    def redo_racks(self) -> None:
        """Racks are others now: everyone who compares them is asked again."""
        for shape in self.relations.watching:
            self.redo(shape)

    def redo_all(self) -> None:
        """Whose tasks are whose may be otherwise now, for everyone."""
        for shape in self.cluster.row_shapes:
            if shape is None or shape.match is None:
                continue
            for whose in shape.match.watches:
                self.relations.watch_no_more(whose, shape)
            shape.match = Match(self, shape.wants)
            if shape in self.live:
                for whose in shape.match.watches:
                    self.relations.watch(whose, shape)
                self.redo(shape)

    def moved(self, job: JobState, f: int, change: int) -> None:
        """A task of the job runs on node ``f`` now (``change`` 1), or does no more (-1)."""
        for shape in self.relations.moved(job, f, change):
            self.redo(shape)
            assert shape.match is not None
            shape.match.scores = None
        self.touch(f)

    def flush(self) -> None:
        """Bring the rows of all live shapes up to date with what happened since the last time."""
        if self._flushed == self._start + len(self._log) and not self._changed and not self._stale:
            return
        # Only rows that follow the moment care for what was merely touched.
        concerned = self.live if self._changed or self._stale else self._following
        if concerned:
            touched = np.array(list(dict.fromkeys(self._log[self._flushed - self._start :])), np.int64)
            changed = np.array(list(self._changed), np.int64)
            cleared = [self._repair(shape, touched, changed) for shape in concerned]
            if any(cleared):
                self.cluster.loosened += 1
        self._changed.clear()
        self._stale.clear()
        if len(self._log) > LOG:
            self._start += len(self._log)
            self._log.clear()
        self._flushed = self._start + len(self._log)

    def _repair(self, shape: Shape, touched: Ints, changed: Ints) -> bool:
        """One row after changes on these nodes; returns whether a node is excluded no longer."""
        match, cleared = shape.match, False
        assert match is not None
        if shape in self._stale:
            match.scores = None
            everywhere = self._all(match)
            return self.cluster.exclude(shape, everywhere, match.first_excluding(everywhere, True))
        if len(changed):
            match.scores = None
            self._all(match)
            cleared = self.cluster.exclude(shape, changed, match.first_excluding(changed, True))
        if len(touched) and match.dynamic:
            cleared |= self.cluster.exclude(shape, touched, match.first_excluding(touched, False))
        return cleared

    # --- rows ------------------------------------------------------------------------------------------------

    def take(self, shape: Shape) -> Firsts:
        """The shape is live from now on; per node, 1 + the place of the first predicate that excludes it, 0 for none."""
        if shape.match is None:
            shape.match = Match(self, shape.wants)
        self.live[shape] = None
        if shape.match.dynamic:
            self._following[shape] = None
        for whose in shape.match.watches:
            self.relations.watch(whose, shape)
        shape.match.scores = None
        return shape.match.first_excluding(self._all(shape.match), True)

    def drop(self, shape: Shape) -> None:
        """Nobody waits with the shape any more."""
        del self.live[shape]
        self._following.pop(shape, None)
        for whose in shape.match.watches if shape.match is not None else ():
            self.relations.watch_no_more(whose, shape)
        self._stale.pop(shape, None)

    def _all(self, match: Match) -> Ints:
        if len(match.first) < len(self.cluster.nodes):
            grown = np.zeros(len(self.cluster.nodes), np.int8)
            grown[: len(match.first)] = match.first
            match.first = grown
        return np.arange(self.cluster.node_count)

    def scores(self, match: Match) -> Floats:
        """The scores of all nodes, right at this moment."""
        end = self._start + len(self._log)
        n = self.cluster.node_count
        if match.scores is None or len(match.scores) < n or match.at < self._start:
            match.scores = np.zeros(len(self.cluster.nodes), np.float32)
            match.scores[:n] = match.score(np.arange(n))
        elif match.dynamic_scores and match.at < end:
            places = np.array(self._log[match.at - self._start :], np.int64)
            match.scores[places] = match.score(places)
        match.at = end
        return match.scores

    def fewest(self, owner: int) -> Floats:
        """Per node, minus the number of tasks of a service or database there."""
        counts = np.zeros(len(self.cluster.nodes), np.float32)
        for f, number in self.relations.nodes_of(Own(owner)).items():
            counts[f] = -number
        return counts

    # --- questions -------------------------------------------------------------------------------------------

    def ever(self, wants: Wants) -> Bools:
        """Per node, whether what nodes are lets somebody who wants that onto it; what runs where is left out."""
        n = self.cluster.node_count
        if wants is NO_WANTS:
            return np.ones(n, np.bool_)
        facts, may = self._ever.get(wants, (-1, np.zeros(0, np.bool_)))
        if facts != self.facts or len(may) != n:
            may = np.ones(n, np.bool_)
            places = np.arange(n)
            for each in self.predicates(wants):
                may &= ~each.never(places)
            if len(self._ever) * n > REMEMBERED:
                self._ever.clear()
            self._ever[wants] = (self.facts, may)
        return may

    def caps_when_empty(self, wants: Wants) -> Ints:
        """Per node, how many tasks of a gang that wants that may start there together if nothing ran; empty: any number."""
        return _least(each.caps_when_empty() for each in self.predicates(wants))

    def alone(self, shape: Shape, places: Ints) -> tuple[tuple[str, int], ...]:
        """Per predicate that excludes some of these nodes by itself, its text and how many."""
        assert shape.match is not None
        asked = (each for each in shape.match.predicates if each.of_nodes)
        counts = ((each.text, int(np.count_nonzero(each.excludes(places)))) for each in asked)
        return tuple((text, count) for text, count in counts if count)

    def never(self, wants: Wants, places: Ints) -> tuple[tuple[str, int], ...]:
        """The same of what keeps somebody who wants that off nodes whatever runs where."""
        asked = (each for each in self.predicates(wants) if each.of_nodes)
        counts = ((each.text, int(np.count_nonzero(each.never(places)))) for each in asked)
        return tuple((text, count) for text, count in counts if count)

    def binding(self, wants: Wants) -> tuple[str, ...]:
        """What of these wants must hold of all tasks of a gang together: how they are spread, and that they are near."""
        return tuple(each.text for each in self.predicates(wants) if each.binds)


def _least(bounds: Iterable[Ints | None]) -> Ints:
    least: Ints = np.zeros(0, np.int64)
    for bound in bounds:
        if bound is not None:
            least = np.minimum(least, bound) if len(least) else bound
    return least
