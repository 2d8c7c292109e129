"""The fit table: the nodes on which each live shape fits.

A shape has a row while jobs with it wait; afterwards the row stays as a cache until its place is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cress.core.kernels import holding
from cress.core.kernels.choice import set_aside
from cress.core.kernels.holding import (
    EXCLUDED,
    FITTING,
    IN_USE,
    NONE,
    REQUEST,
    TOTAL_STARVED,
    UNUSABLE,
    USABLE,
)
from cress.core.placing.constraints import NO_WANTS, KindWants, Wants
from cress.core.placing.device_requests import ask_of
from cress.core.placing.gang_rules import NO_RULES, GangRules
from cress.core.placing.gangs import in_any_order
from cress.core.placing.match import rules_of_kinds
from cress.core.placing.matching import Matching
from cress.core.placing.shape import Shape
from cress.core.placing.together import Asked, Levels, holds
from cress.core.tables import devices
from cress.core.tables.arrays import Bools, Closed, Floats, Ints, copies_in, grown
from cress.core.tables.cluster import Cluster
from cress.model.resources import ResourceVector

T = TypeVar("T")

# Rows of shapes without waiting jobs stay as a cache, up to this number of used rows.
WARM_ROWS = 256

# Only amounts limit the copies of a shape on a node.
NO_CAPS: Ints = np.zeros(0, np.int64)
# In place of a suitable node: the size of the nodes is the only obstacle.
TOO_LARGE = -2


def match_caps(shape: Shape) -> Ints:
    """Return the limit of tasks per node that may start together, devices aside; empty means no limit."""
    return NO_CAPS if shape.match is None else shape.match.caps()


def caps_beside(shape: Shape, caps: Ints, placed: Ints) -> Ints:
    """Return the limit of copies of one kind per node, beside tasks of other kinds."""
    limits = match_caps(shape)
    if not len(limits):
        return caps
    return capped(np.maximum(limits[: len(placed)] - placed, 0), caps)


def capped(copies: Ints, caps: Ints) -> Ints:
    """Return the copies per node within these limits; empty means no limit."""
    return np.minimum(copies, caps[: len(copies)]) if len(caps) else copies


def asked_of(shape: Shape) -> list[Asked]:
    """Return the requests of the kinds of tasks of a unit; their shapes have rows."""
    return [Asked(kind.request_array, kind.size, match_caps(kind)) for kind in shape.every_kind]


def rules_of_unit(shape: Shape) -> GangRules:
    """Return the rules for all tasks of a unit together."""
    if shape.size == 1:
        return NO_RULES
    if not shape.kinds:
        return NO_RULES if shape.match is None else shape.match.rules()
    return rules_of_kinds(kind.match for kind in shape.kinds)


def _key(request: ResourceVector, size: int, wants: Wants) -> tuple[ResourceVector, int, Wants | None]:
    # Hashing wants is slow, and most jobs have none.
    return request, size, None if wants is NO_WANTS else wants


class Fit:
    """The shapes of one cluster, and the rows of ``cluster.rows`` and ``cluster.lack``."""

    def __init__(self, cluster: Cluster, matching: Matching) -> None:
        self.cluster = cluster
        self.matching = matching
        self.relations = matching.relations
        self.shapes: dict[tuple[ResourceVector, int, Wants | None], Shape] = {}
        self.row_shapes: list[Shape | None] = [None] * len(cluster.rows)
        # The shapes with a row and without a queued job, those first that have had none for longest.
        self._idle: dict[Shape, None] = {}
        self._aside: Closed = np.zeros(1, np.int32)
        # Answers that are kept while nothing changes, by question; ``None`` while something may change.
        self._kept: dict[Hashable, Any] | None = None
        self._answers: tuple[Hashable, dict[Hashable, Any]] = (None, {})

    @contextmanager
    def unchanged(self, moment: Hashable) -> Iterator[None]:
        """Keep answers about whole clusters within this context, for all contexts of one moment.

        Thousands of waiting jobs have a few shapes. Their reasons ask the same, and each answer looks at all nodes.
        """
        if self._answers[0] != moment:
            self._answers = (moment, {})
        before, self._kept = self._kept, self._answers[1]
        try:
            yield
        finally:
            # A context may be within another one.
            self._kept = before

    def _once(self, question: Hashable, answer: Callable[[], T]) -> T:
        """Return the kept answer to a question, or find it."""
        if self._kept is None:
            return answer()
        if question not in self._kept:
            self._kept[question] = answer()
        found: T = self._kept[question]
        return found

    @property
    def rows(self) -> Ints:
        """The rows of the shapes; the array is replaced when it grows."""
        return self.cluster.rows

    def shape(self, request: ResourceVector, size: int, wants: Wants = NO_WANTS) -> Shape:
        """Return the unique object for this shape."""
        key = _key(request, size, wants)
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = Shape(request, size, wants)
            found.kinds = tuple(self.shape(each.request, each.size, each.wants) for each in wants.kinds)
        return found

    def want(self, shape: Shape) -> None:
        """Count one more queued job with this shape; the shape then has a row."""
        shape.waiting += 1
        self._idle.pop(shape, None)
        if shape.row == NONE:
            self.give_row(shape)
        elif shape.match is not None and shape.waiting == 1:
            # The cached row was not kept up to date.
            self._fill(shape)
        for kind in shape.kinds:
            self.want(kind)

    def unwant(self, shape: Shape) -> None:
        """Count one queued job less; the row stays as a cache until its place is needed."""
        shape.waiting -= 1
        if not shape.waiting:
            self._idle[shape] = None
            if shape.match is not None:
                self.matching.drop(shape)
        for kind in shape.kinds:
            self.unwant(kind)

    @contextmanager
    def wanted(self, shape: Shape) -> Iterator[None]:
        """Give a shape a row for a question."""
        self.want(shape)
        try:
            yield
        finally:
            self.unwant(shape)

    def give_row(self, shape: Shape) -> None:
        """Compute the row of ``shape``, and keep it up to date."""
        r = self._free_row()
        shape.row = r
        self.row_shapes[r] = shape
        self.cluster.rows[r, REQUEST : REQUEST + self.cluster.k_count] = shape.request
        self.cluster.rows[r, REQUEST + 2 * self.cluster.k_count :] = shape.ask
        self.cluster.lack[r, self.cluster.node_count :] = UNUSABLE
        self._fill(shape)

    def _fill(self, shape: Shape) -> None:
        """Compute the row of a shape from scratch."""
        r, n = shape.row, self.cluster.node_count
        if self.cluster.rows[r, IN_USE] and not self.cluster.rows[r, FITTING]:
            self.cluster.totals[TOTAL_STARVED] -= 1
        if shape.wants is NO_WANTS:
            self.cluster.lack[r, :n] = 0
        else:
            self.cluster.lack[r, :n] = self.matching.take(shape)
        holding.fill_row(r, self.cluster.nodes, n, self.cluster.totals, self.cluster.rows, self.cluster.lack)

    def set_aside(self, shape: Shape, closed: Closed) -> Closed:
        """Return ``closed`` plus the nodes that are worse than the best one open to the shape.

        A node is worse if it has more tasks of the service or database, then if a clause ranks it lower (less of the
        data, another rack), then if it has a lower score.
        """
        for order in self.orders(shape):
            closed = self._set_aside(shape, closed, order)
        return closed

    def orders(self, shape: Shape) -> list[Floats]:
        """Return the orders of nodes that precede the balance, most significant first; larger values are better."""
        if shape.match is None:
            return []
        found = [self.matching.fewest(shape.wants.owner)] if shape.wants.apart else []
        found += shape.match.order(len(self.cluster.nodes))
        return [*found, self.matching.scores(shape.match)] if shape.wants.terms else found

    def _set_aside(self, shape: Shape, closed: Closed, scores: Floats) -> Closed:
        if len(self._aside) < self.cluster.node_count:
            self._aside = np.zeros(len(self.cluster.nodes), np.int32)
        set_aside(self.cluster.lack[shape.row], closed, scores, self.cluster.node_count, self._aside)
        return self._aside

    def excluded(self, shape: Shape) -> npt.NDArray[np.bool_]:
        """Return, per node, True if a clause excludes it now; the shape must have a row."""
        out: npt.NDArray[np.bool_] = self.cluster.lack_of(shape.row) & EXCLUDED != 0
        return out

    def excludes_any(self, shape: Shape, nodes: list[tuple[int, int]]) -> bool:
        """Return True if a clause excludes one of these nodes now."""
        return any(self.cluster.lack[each.row, f] & EXCLUDED for each, f, _ in shape.copies(nodes))

    def caps(self, shape: Shape) -> Ints:
        """Return the limit of copies per node that may ever start together, amounts aside; empty means no limit."""
        caps = match_caps(shape)
        return (
            self._capped(caps, shape, empty=True) if shape.size > 1 and devices.cares(self.cluster, shape.ask) else caps
        )

    def caps_now(self, shape: Shape) -> Ints:
        """Return these limits at present, with the free devices."""
        caps = match_caps(shape)
        return self._capped(caps, shape, empty=False) if devices.cares(self.cluster, shape.ask) else caps

    def _capped(self, caps: Ints, shape: Shape, *, empty: bool) -> Ints:
        return capped(devices.copies(self.cluster, shape.ask, empty=empty), caps)

    def _free_row(self) -> int:
        if self.cluster.row_count < len(self.cluster.rows) and self.cluster.row_count < WARM_ROWS:
            self.cluster.row_count += 1
            return self.cluster.row_count - 1
        oldest = next(iter(self._idle), None)
        if oldest is not None and self.cluster.row_count >= WARM_ROWS:
            r = oldest.row
            self._drop_row(oldest)
            return r
        if self.cluster.row_count == len(self.cluster.rows):
            n = 2 * len(self.cluster.rows)
            self.cluster.rows = grown(self.cluster.rows, n)
            self.cluster.lack = grown(self.cluster.lack, n)
            self.row_shapes.extend([None] * (n - len(self.row_shapes)))
        self.cluster.row_count += 1
        return self.cluster.row_count - 1

    def _drop_row(self, shape: Shape) -> None:
        del self._idle[shape]
        self.row_shapes[shape.row] = None
        self.cluster.rows[shape.row, IN_USE] = 0
        if not self.cluster.rows[shape.row, FITTING]:
            self.cluster.totals[TOTAL_STARVED] -= 1
        shape.row = NONE
        shape.early = None
        shape.seen = -1
        shape.match = None
        key = _key(shape.request, shape.size, shape.wants)
        if self.shapes.get(key) is shape:
            del self.shapes[key]

    def fitting(self, shape: Shape) -> int:
        """Return the number of nodes whose free amounts hold one copy of ``shape``."""
        return self.cluster.rows.item(shape.row, FITTING)

    def lacking(self, shape: Shape) -> ResourceVector:
        """Return, per dimension, the number of usable nodes that have less free than ``shape`` requests."""
        start = REQUEST + self.cluster.k_count
        return tuple(int(x) for x in self.cluster.rows[shape.row, start : start + self.cluster.k_count])

    def ever_fits(self, request: ResourceVector, wants: Wants = NO_WANTS) -> bool:
        """Return True if some present node, cordoned or not, is large enough when empty and satisfies ``wants``.

        With several kinds of tasks, each kind needs such a node.
        """
        if wants.kinds:
            return all(self.ever_fits(each.request, each.wants) for each in wants.kinds)
        question = ("ever fits", request, None if wants is NO_WANTS else wants)
        return self._once(question, lambda: bool(np.any(self._large(request, wants) & self.matching.ever(wants))))

    def _large(self, request: ResourceVector, wants: Wants) -> Bools:
        large = self.cluster.large(request)
        if devices.any_devices(self.cluster):
            large &= devices.copies(self.cluster, ask_of(request, wants), empty=True) > 0
        return large

    def _copies_when_empty(self, request: Ints, ask: Ints, most: int) -> Ints:
        copies = copies_in(self.cluster.capacities(), request, most)
        if devices.cares(self.cluster, ask):
            copies = np.minimum(copies, devices.copies(self.cluster, ask, empty=True))
        return copies

    def room_when_empty(self, shape: Shape) -> Ints:
        """Return the copies of a gang's shape per empty node, on the nodes now allowed by its clauses, within its
        limits.
        """
        copies = self._copies_that_would_do(shape, clauses=True)
        copies[~self.cluster.usable()] = 0
        return copies

    def within_reach(self, shape: Shape) -> bool:
        """Return True if the shape could fit once tasks end: its clauses allow nodes that are large enough when empty.

        The result for excluded nodes holds until ``loosened`` changes; the last suitable node is tried first.
        """
        if shape.match is None or (shape.size == 1 and self.fitting(shape)):
            return True
        # The room for a gang follows every change; a single task needs only one large node.
        now = (self.cluster.loosened, self.cluster.stamp if shape.size > 1 else 0)
        *then, f = shape.reach
        if shape.size == 1 and f >= 0 and not self.cluster.lack[shape.row, f] & EXCLUDED and self._is_large(f, shape):
            return True
        if (*then,) != now or f >= 0:
            f = self._would_do(shape, clauses=True)
            if f == NONE and self._would_do(shape, clauses=False) == NONE:
                # It waits for larger nodes, as it would without its clauses.
                f = TOO_LARGE
            shape.reach = (*now, f)
        return f != NONE

    def waits_for_node(self, shape: Shape) -> bool:
        """Return True if the open nodes could not hold a unit of the shape even when empty."""
        if self.cluster.rows[shape.row, FITTING] and shape.size == 1:
            return False
        cluster, clauses = self.cluster, shape.match is not None
        # Clauses may exclude more nodes at any time, but one large node that they allow is enough for a single task.
        now = (cluster.usable_changes, cluster.loosened * clauses, cluster.stamp * (clauses and shape.size > 1))
        then, f = shape.closed
        if then != now or (clauses and f >= 0 and cluster.lack[shape.row, f] & EXCLUDED):
            room = self.when_empty(shape)
            f = int(np.argmax(room.copies(0) > 0)) if holds(room) else NONE
            shape.closed = now, f
        if not clauses and f != NONE:
            shape.open_at = cluster.usable_changes
        return f == NONE

    def could_ever_fit(self, shape: Shape) -> bool:
        """Return True if the nodes that no clause excludes now could hold a unit when empty."""
        return self._would_do(shape, clauses=True) != NONE

    def _is_large(self, f: int, shape: Shape) -> bool:
        large = bool(np.all(self.cluster.capacities()[f] >= shape.request_array))
        return large and devices.copies_on(self.cluster, shape.ask, f, empty=True) > 0

    def _would_do(self, shape: Shape, *, clauses: bool) -> int:
        """Return the first node that could hold a unit when empty.

        NONE without one, or if all of them together are too small for a gang. ``clauses``: only nodes that clauses
        allow.
        """
        alone = [self._copies_that_would_do(kind, clauses=clauses) for kind in shape.every_kind]
        asked = [kind if clauses else kind._replace(caps=NO_CAPS) for kind in asked_of(shape)]
        room = Levels(asked, alone, self.cluster.capacities(), rules_of_unit(shape) if clauses else NO_RULES)
        return int(np.argmax(alone[0] > 0)) if holds(room) else NONE

    def when_empty(self, shape: Shape, closed: Bools | None = None) -> Levels:
        """Return the room for a unit on empty nodes, except the ``closed`` ones.

        Only open nodes that the clauses allow now are included.
        """
        alone = [self.room_when_empty(kind) for kind in shape.every_kind]
        for copies in alone if closed is not None else ():
            copies[closed] = 0
        return Levels(asked_of(shape), alone, self.cluster.capacities(), rules_of_unit(shape))

    def _copies_that_would_do(self, shape: Shape, *, clauses: bool) -> Ints:
        copies = self._copies_when_empty(shape.request_array, shape.ask, shape.size)
        if clauses:
            copies[self.excluded(shape)] = 0
            copies = capped(copies, self.caps(shape))
        return copies

    def copies_free(self, shape: Shape) -> int:
        """Return the number of copies of ``shape`` that fit on the usable nodes that no clause excludes."""
        return self._once(("copies free", shape), lambda: self._count_free(shape))

    def _count_free(self, shape: Shape) -> int:
        if in_any_order(shape):
            return int(self.free_copies(shape).sum())
        room = self.free(shape)
        total = max(shape.size, sum(int(room.copies(i).sum()) for i in range(len(room.kinds))))
        return total if holds(room) else 0

    def has_free(self, shape: Shape) -> bool:
        """Return True if a unit of a shape fits on the usable nodes that no clause excludes."""
        return self.copies_free(shape) >= shape.size

    def free_copies(self, shape: Shape) -> Ints:
        """Return the copies of ``shape`` that fit on each node now, within its limits.

        Only usable nodes that no clause excludes are included.
        """
        may = self.cluster.usable() & ~self.excluded(shape)
        copies = np.zeros(self.cluster.node_count, np.int64)
        copies[may] = copies_in(self.cluster.free_now()[may], shape.request_array, 2**31)
        return capped(copies, self.caps_now(shape))

    def has_room(self, shape: Shape, nodes: list[tuple[int, int]]) -> bool:
        """Return True if each of these nodes has free amounts for its copies of ``shape``, and no clause excludes
        one.
        """
        free = self.cluster.free_now()
        needs: dict[int, Ints] = {}
        number: dict[int, int] = {}
        places = list(shape.copies(nodes))
        for kind, f, count in places:
            needs[f] = needs.get(f, 0) + kind.request_array * count
            number[f] = number.get(f, 0) + count
        return all(bool(np.all(free[f] >= needed)) for f, needed in needs.items()) and all(
            self._takes(kind, f, count, number[f]) for kind, f, count in places
        )

    def _takes(self, shape: Shape, f: int, count: int, together: int) -> bool:
        """Return True if a node is open to copies of a shape, and to ``together`` tasks of its unit."""
        cluster = self.cluster
        if not cluster.nodes[f, USABLE] or cluster.lack[shape.row, f] & EXCLUDED:
            return False
        now, caps = self.caps_now(shape), match_caps(shape)
        return not ((len(now) and now[f] < count) or (len(caps) and caps[f] < together))

    def free(self, shape: Shape) -> Levels:
        """Return the free room for a unit on usable nodes that no clause excludes."""
        free = self.cluster.free_now()
        alone = [self.free_copies(kind) for kind in shape.every_kind]
        return Levels(asked_of(shape), alone, free, rules_of_unit(shape))

    def holds_when_empty(self, request: ResourceVector, size: int, wants: Wants = NO_WANTS) -> bool:
        """Return True if the present nodes that satisfy ``wants`` hold ``size`` copies together when empty."""
        question = ("holds when empty", request, size, None if wants is NO_WANTS else wants)
        return self._once(question, lambda: self._hold_when_empty(request, size, wants))

    def _hold_when_empty(self, request: ResourceVector, size: int, wants: Wants) -> bool:
        asked, alone, rules = [], [], []
        for kind in wants.kinds or (KindWants(0, request, size, wants),):
            array = np.array(kind.request, np.int64)
            copies = self._copies_when_empty(array, ask_of(kind.request, kind.wants), kind.size)
            caps = NO_CAPS
            if kind.wants is not NO_WANTS:
                copies[~self.matching.ever(kind.wants)] = 0
                caps = self.matching.caps_when_empty(kind.wants)
                copies = capped(copies, caps)
                rules.append(kind.wants)
            asked.append(Asked(array, kind.size, caps))
            alone.append(copies)
        together = self.matching.rules_when_empty(rules) if size > 1 and rules else NO_RULES
        return holds(Levels(asked, alone, self.cluster.capacities(), together))

    def fits_now(self, request: ResourceVector) -> bool:
        """Return True if some usable node has free amounts for one copy of ``request``."""
        shape = self.shapes.get(_key(request, 1, NO_WANTS))
        if shape is not None and shape.row != NONE:
            return self.cluster.rows.item(shape.row, FITTING) > 0
        return self.cluster.fits_now(request)

    def rematch(self) -> None:
        """Match all shapes again from scratch, because job names now refer to other jobs."""
        self.matching.redo_all(shape for shape in self.row_shapes if shape is not None)
