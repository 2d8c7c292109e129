"""The matches of the waiting shapes: computed once for all nodes, then updated.

Static predicates depend on the description of a node (attributes, names), dynamic ones on free amounts and running
tasks. Changes are noted as they happen (``touch``, ``set_node``, ``redo``) and applied together by ``flush``, at the
end of ``observe`` and before each pass. So a gang is matched as a whole: its first tasks affect its clauses only after
all of them are placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cress.core.kernels.holding import exclude
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.gang_rules import GangRules
from cress.core.placing.match import Firsts, Match, least, merged, predicates, rules_of
from cress.core.placing.predicates import Predicate
from cress.core.placing.relations import Own, RelatedJob, Whose
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.core.tables.cluster import Cluster, NodeWatcher
from cress.core.tables.data_locations import DataOf
from cress.core.tables.licences import Amounts, Licence
from cress.model.events import DataLocated
from cress.model.node import Load, Node

# The number of changes of nodes kept one by one; a match that missed more is computed again for all nodes.
LOG = 4096
# The number of shapes that are updated between two pauses.
PAUSE = 250
# The size of the cache, over all wants, for the question if a node could ever be suitable.
REMEMBERED = 2**24
# The most conditions, or repelling names, in one reason.
MOST_CHOICES = 3
NOBODY: Ints = np.zeros(0, np.int64)


class Matching(NodeWatcher):
    """The matches of the shapes of one cluster, and the attributes of its nodes.

    ``live`` are the shapes with wants and waiting jobs: only their rows are kept up to date.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.context = ClauseContext(cluster)
        self.relations = self.context.relations
        self.relations.licences.follower = self._licence_changed
        cluster.watcher = self
        # Shapes to evaluate again on all nodes when a task of these starts or ends anywhere.
        self._watchers: dict[Whose, dict[Shape, None]] = {}
        self.live: dict[Shape, None] = {}
        # The live shapes with a dynamic predicate.
        self._following: dict[Shape, None] = {}
        # A counter of possible changes of node descriptions.
        self.facts = 0
        # True if something has changed since the last ``flush``.
        self.behind = False
        self._changed: dict[int, None] = {}
        self._stale: dict[Shape, None] = {}
        # Shapes whose closed domains may have changed; below, live shapes that compare domains.
        self._shifted: dict[Shape, None] = {}
        self._comparing: dict[Shape, None] = {}
        # Nodes in the order of their changes; the ``_start`` changes before them were dropped.
        self._log: list[int] = []
        self._start = 0
        self._flushed = 0
        self._ever: dict[Wants, tuple[int, Bools]] = {}
        # True while whoever drives the scheduler calls ``flushing`` before the next pass.
        self.postpones = False

    # --- what happens ----------------------------------------------------------------------------------------

    def set_node(self, f: int, node: Node) -> None:
        """Add node ``f``, or take over its new description."""
        if self.context.set_node(f, node):
            self.redo_domains()
        self.change(f)

    def set_load(self, f: int, load: Load | None) -> None:
        """Set the measured load of node ``f``; ``None``: it is no longer measured."""
        self.context.set_load(f, load)
        self.touch(f)

    def change(self, f: int) -> None:
        """Note a change of the description or the presence of node ``f``."""
        self.facts += 1
        self._eligible_may_change()
        if self.live:
            self._changed[f] = None
            self.touch(f)

    def opened(self, f: int) -> None:
        """Note that node ``f`` was cordoned or uncordoned."""
        self._eligible_may_change()

    def _eligible_may_change(self) -> None:
        """Mark the shapes that count eligible domains for evaluation, because these may have changed."""
        self.relations.facts += 1
        for shape in self._comparing:
            if shape.match is not None and shape.match.counts_eligible:
                self.redo(shape)

    def facts_changed(self) -> None:
        """Drop the cache of nodes that could ever satisfy wants."""
        self.facts += 1
        self._eligible_may_change()

    def touch(self, f: int) -> None:
        """Note a change of the free amounts, the tasks or the ports of node ``f``."""
        if self.live:
            self._log.append(f)
            self.behind = True

    def redo(self, shape: Shape) -> None:
        """Evaluate a shape again on all nodes at the next ``flush``, because its relation to other jobs changed."""
        self._stale[shape] = None
        self.behind = True

    def redo_domains(self) -> None:
        """Evaluate the shapes that compare domains again, because domains or their distances may have changed."""
        for shape in self._comparing:
            self.redo(shape)

    def redo_all(self, shapes: Iterable[Shape]) -> None:
        """Match these shapes again from scratch, because job names now refer to other jobs."""
        for shape in shapes:
            if shape.match is None:
                continue
            self._watch_no_more(shape)
            shape.match = Match(self.context, shape.wants)
            if shape in self.live:
                self._watch(shape)
                self.redo(shape)

    def watchers(self, whose: Whose) -> list[Shape]:
        """Return the live shapes whose match depends on these tasks, this licence or this data."""
        return list(self._watchers.get(whose, ()))

    def _watch(self, shape: Shape) -> None:
        for whose in shape.match.watches if shape.match is not None else ():
            self._watchers.setdefault(whose, {})[shape] = None

    def _watch_no_more(self, shape: Shape) -> None:
        for whose in shape.match.watches if shape.match is not None else ():
            watchers = self._watchers.get(whose)
            if watchers is not None:
                watchers.pop(shape, None)
                if not watchers:
                    del self._watchers[whose]

    def moved(self, job: RelatedJob, f: int, change: int) -> None:
        """Note that a task of the job starts on node ``f`` (``change`` 1), or ends there (-1)."""
        if not (self.live or self.relations.counts):
            return
        if self._watchers or self.relations.counts:
            for whose in self.relations.moved(job, f, change):
                for shape in self._watchers.get(whose, ()):
                    self._shifted[shape] = None
                    self.behind = True
                    assert shape.match is not None
                    shape.match.tasks_moved()
        self.touch(f)

    def locate(self, event: DataLocated) -> None:
        """Set the location of data, or remove it."""
        self.relations.locations.told(event.data, event.places, event.problem)
        self._eligible_may_change()
        for shape in self.watchers(DataOf(event.data)):
            self.redo(shape)

    def set_licences(self, counts: Amounts) -> None:
        """Set the total number of each licence."""
        self.facts_changed()
        self.relations.licences.set_counts(counts)

    def _licence_changed(self, name: str, before: int, now: int) -> None:
        """Match the shapes again for which the free number of a licence became sufficient or too small."""
        for shape in self.watchers(Licence(name)):
            wanted = dict(shape.wants.licences).get(name, 0)
            if (wanted <= before) != (wanted <= now):
                self.redo(shape)

    def settle(self) -> None:
        """Do ``flush`` at the end of a batch of events, unless that is long and comes before the next pass anyway."""
        if not self.postpones or len(self.live) <= PAUSE:
            self.flush()

    def flush(self) -> None:
        """Update the rows of all live shapes for the changes since the last call."""
        if self.behind:
            for _ in self.flushing():
                pass

    def flushing(self) -> Iterator[None]:
        """Do ``flush``, and pause after every few shapes; nothing may change meanwhile."""
        if not self.behind:
            return
        # Touched nodes affect only rows with dynamic predicates.
        if self._changed or self._stale:
            concerned = self.live
        elif self._shifted:
            concerned = self._following | self._shifted
        else:
            concerned = self._following
        if concerned:
            touched = self._touched() if self._following else NOBODY
            changed = np.array(list(self._changed), np.int64) if self._changed else NOBODY
            # Many shapes differ in amounts only; nodes that were touched are asked once for each of their wants.
            known: dict[Wants, Firsts] = {}
            cleared = False
            for number, shape in enumerate(list(concerned), 1):
                cleared |= self._repair(shape, touched, changed, known)
                if number % PAUSE == 0:
                    yield
            if cleared:
                self.cluster.loosened += 1
        self._changed.clear()
        self._stale.clear()
        self._shifted.clear()
        if len(self._log) > LOG:
            self._start += len(self._log)
            self._log.clear()
        self._flushed = self._start + len(self._log)
        self.behind = False

    def _touched(self) -> Ints:
        return np.array(list(dict.fromkeys(self._log[self._flushed - self._start :])), np.int64)

    def _repair(self, shape: Shape, touched: Ints, changed: Ints, known: dict[Wants, Firsts]) -> bool:
        """Update one row after changes on these nodes; return True if a node is no longer excluded.

        ``known`` are the first clauses that exclude the ``touched`` nodes, by wants, as far as they were asked.
        """
        match, cleared = shape.match, False
        assert match is not None
        if shape in self._stale:
            match.forget_scores()
            everywhere = self._all(match)
            cleared = self.exclude(shape, everywhere, match.first_excluding(everywhere, True))
            return (match.closures.fill(shape.row, self.cluster) if match.closures else False) or cleared
        if len(changed):
            match.forget_scores()
            self._all(match)
            cleared = self.exclude(shape, changed, match.first_excluding(changed, True))
        if shape in self._shifted and match.closures:
            cleared |= match.closures.follow(shape.row, self.cluster)
        if len(touched) and match.follows_nodes:
            first = known.get(shape.wants)
            if first is None:
                first = known[shape.wants] = match.first_excluding(touched, False)
            cleared |= self.exclude(shape, touched, first)
        return cleared

    def exclude(self, shape: Shape, places: Ints, first: Firsts) -> bool:
        """Write the first clause about single nodes that excludes each of these (1 + its index, 0 without one).

        Returns True if a node is no longer excluded.
        """
        cluster = self.cluster
        return exclude(  # type: ignore[no-any-return]
            shape.row, places, first, cluster.nodes, cluster.totals, cluster.rows, cluster.lack
        )

    # --- rows ------------------------------------------------------------------------------------------------

    def take(self, shape: Shape) -> npt.NDArray[np.int32]:
        """Make the shape live; return, per node, the bits ``EXCLUDED`` of its row."""
        match = shape.match
        if match is None:
            match = shape.match = Match(self.context, shape.wants)
        self.live[shape] = None
        if match.follows_nodes:
            self._following[shape] = None
        if match.compares:
            self._comparing[shape] = None
        self._watch(shape)
        match.forget_scores()
        return match.excluded()

    def drop(self, shape: Shape) -> None:
        """Stop updating a shape, because no job with it waits."""
        del self.live[shape]
        self._following.pop(shape, None)
        self._watch_no_more(shape)
        self._stale.pop(shape, None)
        self._shifted.pop(shape, None)
        self._comparing.pop(shape, None)

    def _all(self, match: Match) -> Ints:
        if len(match.first) < len(self.cluster.nodes):
            grown = np.zeros(len(self.cluster.nodes), np.int8)
            grown[: len(match.first)] = match.first
            match.first = grown
        return np.arange(self.cluster.node_count)

    def scores(self, match: Match) -> Floats:
        """Return the current scores of all nodes."""
        if match.by_domains is not None:
            return match.by_domains.on_nodes(len(self.cluster.nodes))
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
        """Return, per node, minus the number of its tasks of a service or database."""
        counts = np.zeros(len(self.cluster.nodes), np.float32)
        for f, number in self.relations.nodes_of(Own(owner)).items():
            counts[f] = -number
        return counts

    # --- questions -------------------------------------------------------------------------------------------

    def ever(self, wants: Wants) -> Bools:
        """Return, per node, True if it could ever satisfy these wants, with any running tasks."""
        n = self.cluster.node_count
        if wants is NO_WANTS:
            return np.ones(n, np.bool_)
        facts, may = self._ever.get(wants, (-1, np.zeros(0, np.bool_)))
        if facts != self.facts or len(may) != n:
            may = np.ones(n, np.bool_)
            places = np.arange(n)
            for each in predicates(self.context, wants):
                may &= ~each.never(places)
            if len(self._ever) * n > REMEMBERED:
                self._ever.clear()
            self._ever[wants] = (self.facts, may)
        return may

    def caps_when_empty(self, wants: Wants) -> Ints:
        """Return the limit of tasks per empty node that may start together with these wants; empty means no limit."""
        return least(each.caps(empty=True) for each in predicates(self.context, wants))

    def alone(self, shape: Shape, places: Ints) -> tuple[tuple[str, int], ...]:
        """Return text and count for each predicate that excludes some of these nodes."""
        assert shape.match is not None
        asked = (each for each in shape.match.predicates if each.of_nodes)
        return _counted([(each, each.excludes(places)) for each in asked], places)

    def never(self, wants: Wants, places: Ints) -> tuple[tuple[str, int], ...]:
        """Return the same as ``alone`` for clauses that can never hold on these nodes, with any running tasks."""
        asked = (each for each in predicates(self.context, wants) if each.of_nodes)
        return _counted([(each, each.never(places)) for each in asked], places)

    def details(self, shape: Shape) -> tuple[str, ...]:
        """Return sentences about the present state from predicates that compare domains."""
        found = (each.detail() for each in shape.match.predicates) if shape.match is not None else ()
        return tuple(dict.fromkeys(each for each in found if each))

    def rules_when_empty(self, kinds: Sequence[Wants]) -> GangRules:
        """Return the rules of a gang whose kinds of tasks have these wants, as if no task ran."""
        if len(kinds) == 1:
            return rules_of(predicates(self.context, kinds[0]), (), empty=True)
        return GangRules(merged((made for wants in kinds for made in predicates(self.context, wants)), empty=True))

    def binding(self, wants: Wants) -> tuple[str, ...]:
        """Return the constraints on all tasks of a gang together: spread and adjacency."""
        return tuple(each.text for each in predicates(self.context, wants) if each.binds)


def _counted(asked: list[tuple[Predicate, Bools]], places: Ints) -> tuple[tuple[str, int], ...]:
    """Return text and count for each predicate that excludes some of these nodes.

    For choices of nodes, only nodes count that satisfy everything else, and only the conditions and names that exclude
    most nodes are included.
    """
    left = np.ones(len(places), np.bool_)
    for each, excluded in asked:
        if not each.chooses:
            left &= ~excluded
    kept = [(each, excluded & left if each.chooses else excluded) for each, excluded in asked]
    counts = [int(np.count_nonzero(excluded)) for _, excluded in kept]
    choosing = sorted((i for i, (each, _) in enumerate(kept) if each.chooses and counts[i]), key=lambda i: -counts[i])
    told: list[tuple[str, int]] = []
    for i, (each, excluded) in enumerate(kept):
        if counts[i] and i not in choosing[MOST_CHOICES:]:
            told.append((each.text_for(places[excluded]) if each.chooses else each.text, counts[i]))
    more = np.zeros(len(places), np.bool_)
    for i in choosing[MOST_CHOICES:]:
        more |= kept[i][1]
    if more.any():
        number = int(np.count_nonzero(more))
        told.append((f"the conditions of {number} more node{'s' * (number > 1)}", number))
    return tuple(told)
