"""The compiled loops against plain twins that do the same operations in the same order, bit for bit.

The loops are reached through the objects that own their tables (``Cluster``, ``Balance``, ``Timeline``), on random
tables: nodes without some dimensions, nodes that take nothing, leases without a known end, equal nodes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cress.core.future.timeline import Timeline
from cress.core.jobs import JobEntry, Reservation
from cress.core.kernels.choice import current_weights, precedence, set_aside
from cress.core.kernels.domains import (
    NEVER_ALL,
    WITHOUT_ANY,
    WITHOUT_ANY_IN_DOMAINS,
    close_beyond_shares,
    close_full,
    close_uneven,
    close_unused,
    put_worth,
    shut_domains,
    worth_of_even,
)
from cress.core.kernels.holding import (
    AMOUNTS,
    CLAUSE_BIT,
    END,
    FITTING,
    FREE,
    HEAD,
    IN_USE,
    NEXT,
    NODE,
    NONE,
    PREVIOUS,
    REQUEST,
    SHUT,
    TAIL,
    TOTAL_STARVED,
    TOTAL_USED,
    UNUSABLE,
    USABLE,
    count_lacks,
    count_lacks_of_rows,
    lacking_bits,
    next_candidate,
)
from cress.core.kernels.unrolled import WIDTHS
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import copies_in, suffices
from cress.core.tables.cluster import Cluster
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import BASE_DIMENSIONS, Dimensions
from cress.model.times import NEVER
from tests.core.kernel_tables import CoreTables, F, PlainNode, Vector, plain_chart, tables
from tests.examples import usual
from tools import unroll_balance


def test_the_unrolled_loops_are_what_the_tool_writes() -> None:
    written = Path(unroll_balance.__file__).parents[1] / "src/cress/core/kernels/unrolled.py"
    assert written.read_text() == unroll_balance.source()


CUSTOM = [0, 1, 4, 5, 6, 7, 14]  # 2, 3, 6, 7, 8, 9 and 16 balanced dimensions: every width, full and not


@pytest.mark.parametrize("custom", CUSTOM)
@pytest.mark.parametrize("threshold", [0, 0.05, 1])
@pytest.mark.parametrize("alike", [False, True])
def test_placements_by_balance(custom: int, threshold: float, alike: bool) -> None:
    for seed in range(usual(1, 3)):
        both = tables(seed, custom, 30, alike=alike, balance_threshold=threshold)
        for step in range(usual(100, 120)):
            if step % 40 == 20:
                both.balance.set_pending(tuple(both.draw.randrange(3) for _ in both.plain.dims))
            action = both.draw.random()
            if action < 0.2 and both.held:
                both.release()
            elif action < 0.25:
                both.cordon()
            else:
                got, expected = both.place(both.draw.choice(both.shapes))
                assert (got, both.balance.cursor) == (expected, both.plain.cursor), f"seed {seed} step {step}"
            weights, utilisation = both.plain.weights(both.balance.pending)
            assert both.balance.weights().tolist() == weights
            assert both.balance.utilisation() == utilisation


@pytest.mark.parametrize("order", ["best_fit", "spread", "first"])
@pytest.mark.parametrize("alike", [False, True])
def test_placements_in_the_other_orders(order: str, alike: bool) -> None:
    for seed, custom in enumerate(CUSTOM):
        both = tables(seed, custom, 25, alike=alike, node_order=order)
        for step in range(100):
            if both.held and both.draw.random() < 0.2:
                both.release()
            else:
                got, expected = both.place(both.draw.choice(both.shapes))
                assert got == expected, f"{custom} custom dimensions, step {step}"


@pytest.mark.parametrize("threshold", [0, 1])
@pytest.mark.parametrize("count", [511, 512, 513, 2047, 2049, 2500])
def test_blocks_of_the_scan_have_no_seams(count: int, threshold: float) -> None:
    """The loops go block by block; the best node may be in any of them."""
    both = tables(7, 1, count, balance_threshold=threshold)
    for _ in range(12):
        shape = both.draw.choice(both.shapes)
        got, expected = both.place(shape)
        assert (got, both.balance.cursor) == (expected, both.plain.cursor)
        both.balance.cursor = both.plain.cursor = both.draw.randrange(count)


def test_a_gang_is_placed_as_its_tasks_one_by_one() -> None:
    for seed in range(4):
        both, single = (tables(seed, 1, 20, balance_threshold=1) for _ in range(2))
        shape, twin = both.shapes[seed], single.shapes[seed]
        room = both.tables.fit.copies_free(shape)
        size = min(9, room)
        slots = [both.tables.leases.take_slot(5) for _ in range(size)]
        assert both.balance.place_many(shape, slots, 5) == [single.place(twin)[0] for _ in range(size)]
        assert both.balance.cursor == single.balance.cursor


def test_a_node_without_any_weighted_dimension_is_perfectly_balanced_and_no_better() -> None:
    """y of nothing is 0: a tie, which goes to the node that registered first."""
    dimensions = Dimensions()
    settings = Options(
        balance_dimensions=("cpu", "memory"), balance_weights=("initial",),
        initial_weights=(("cpu", 1.0), ("memory", 0.0)), balance_threshold=0,
    )  # fmt: skip
    tables = CoreTables(dimensions, settings.balance_dimensions)
    cluster = tables.cluster
    cluster.add_node(Node(name="with", capacity=dimensions.vector(cpu=8, disk_write=9)))
    cluster.add_node(Node(name="without", capacity=dimensions.vector(memory=8, disk_write=9)))
    balance = tables.choice(settings)
    shape = tables.fit.shape(dimensions.vector(disk_write=1), 1)
    tables.fit.want(shape)
    assert balance.place(shape, tables.leases.take_slot(5), 5, cluster.none_closed) == 0


@pytest.mark.parametrize("seed", range(20))
def test_precedence_charts(seed: int) -> None:
    draw = random.Random(seed)
    n = draw.randint(1, 16)
    values = [draw.choice((0.0, 0.25, 0.5, draw.random())) for _ in range(n)]
    present = [draw.random() < 0.8 for _ in range(n)]
    out = np.full(n, 9.0)
    precedence(np.array(values), np.array(present, np.uint8), out)
    assert out.tolist() == plain_chart(values, present)


def test_weights_of_a_cluster_without_any_balanced_dimension_are_0() -> None:
    weights = np.full(2, 7, np.float32)
    totals = np.zeros(TOTAL_USED + 2 * 3, np.int64)
    assert current_weights(totals, np.array([0, 2]), np.zeros(2), 1, True, weights) == 0
    assert weights.tolist() == [0, 0]


# --- holding ---------------------------------------------------------------------------------------------------------


@dataclass
class PlainLease:
    f: int
    end: int
    amounts: Vector
    number: int  # of leases that end together the one that was linked first goes first


def check_tables(cluster: Cluster, nodes: list[PlainNode], leases: dict[int, PlainLease]) -> None:
    """Every table of the cluster against what it should be, worked out from nothing."""
    k = cluster.k_count
    for f, node in enumerate(nodes):
        held = [lease for lease in leases.values() if lease.f == f]
        free = [c - sum(lease.amounts[i] for lease in held) for i, c in enumerate(node.capacity)]
        assert cluster.nodes[f, FREE : FREE + k].tolist() == free
        chain, slot, before = [], int(cluster.nodes[f, HEAD]), NONE
        while slot != NONE:
            assert cluster.leases[slot, PREVIOUS] == before
            assert cluster.leases[slot, NODE] == f
            assert tuple(cluster.leases[slot, AMOUNTS : AMOUNTS + k].tolist()) == leases[slot].amounts
            chain.append(slot)
            before, slot = slot, int(cluster.leases[slot, NEXT])
        assert cluster.nodes[f, TAIL] == before
        assert chain == sorted(
            (slot for slot, lease in leases.items() if lease.f == f),
            key=lambda slot: (leases[slot].end, leases[slot].number),
        )
        assert [int(cluster.leases[slot, END]) for slot in chain] == [leases[slot].end for slot in chain]
    starved = 0
    for r in range(cluster.row_count):
        if not cluster.rows[r, IN_USE]:
            continue
        request = cluster.rows[r, REQUEST : REQUEST + k].tolist()
        lacks = [
            [bool(cluster.nodes[f, FREE + i] < request[i]) for i in range(k)] if node.usable else None
            for f, node in enumerate(nodes)
        ]
        bits = [UNUSABLE if each is None else sum(1 << i for i in range(k) if each[i]) for each in lacks]
        assert cluster.lack[r, : len(nodes)].tolist() == bits
        fitting = bits.count(0)
        assert cluster.rows[r, FITTING] == fitting
        counts = [sum(each[i] for each in lacks if each is not None) for i in range(k)]
        assert cluster.rows[r, REQUEST + k : REQUEST + 2 * k].tolist() == counts
        starved += fitting == 0
        usable = sum(node.usable for node in nodes)
        worst = max(counts)
        expected = [i for i in range(k) if counts[i] == usable] or ([counts.index(worst)] if worst else [])
        got = int(lacking_bits(r, cluster.rows, usable, k))
        assert [i for i in range(k) if got & 1 << i] == expected
    assert cluster.totals[TOTAL_STARVED] == starved


@pytest.mark.parametrize("seed", range(8))
def test_holding_giving_back_and_the_fit_of_every_shape(seed: int) -> None:
    draw = random.Random(seed)
    dimensions = Dimensions(tuple(f"x{i}" for i in range(seed % 3)))
    k_count = len(dimensions)
    tables = CoreTables(dimensions, ("cpu", "memory"))
    cluster = tables.cluster
    nodes: list[PlainNode] = []
    leases: dict[int, PlainLease] = {}
    shapes: list[Shape] = []
    number = 0
    for _ in range(250):
        action = draw.random()
        if action < 0.08 or not nodes:
            capacity = tuple(draw.randrange(12) for _ in range(k_count))
            cluster.add_node(Node(name=f"n{len(nodes)}", capacity=capacity))
            nodes.append(PlainNode(capacity, list(capacity)))
        elif action < 0.2 or not shapes:
            shape = tables.fit.shape(tuple(draw.choice((0, 0, 1, 2)) for _ in range(k_count)), 1)
            tables.fit.want(shape)
            shapes.append(shape)
        elif action < 0.3 and leases:
            slot = draw.choice(list(leases))
            tables.leases.release(slot)
            del leases[slot]
        elif action < 0.4 and leases:
            slot = draw.choice(list(leases))
            number += 1
            leases[slot].end, leases[slot].number = draw.randrange(9), number
            tables.leases.set_end(slot, leases[slot].end)
        elif action < 0.45:
            f = draw.randrange(len(nodes))
            nodes[f].usable = not nodes[f].usable
            cluster.cordon(f, None if nodes[f].usable else "repair")
        else:
            shape = draw.choice(shapes)
            fitting = np.flatnonzero(cluster.lack[shape.row, : len(nodes)] == 0).tolist()
            if fitting:
                f, end = draw.choice(fitting), draw.choice((*range(9), NEVER))
                number += 1
                leases[tables.leases.hold(f, shape.row, end)] = PlainLease(f, end, shape.request, number)
        check_tables(cluster, nodes, leases)
    assert len(leases) > 5


@pytest.mark.parametrize("seed", range(10))
def test_the_next_candidate_and_the_count_of_what_a_queue_lacks(seed: int) -> None:
    draw = random.Random(seed)
    dimensions = Dimensions()
    k_count = len(dimensions)
    gap = 2**62
    tables = CoreTables(dimensions, ())
    cluster = tables.cluster
    for i in range(4):
        cluster.add_node(Node(name=f"n{i}", capacity=tuple(draw.randrange(4) for _ in range(k_count))))
    for _ in range(8):
        tables.fit.want(tables.fit.shape(tuple(draw.choice((0, 0, 0, 1, 3)) for _ in range(k_count)), 1))
    rows = cluster.rows
    shape_of = np.array([draw.randrange(cluster.row_count) for _ in range(50)])
    limit_of = np.array([draw.choice((1, 5, 9, gap)) for _ in range(50)])
    bound = np.array([draw.choice((0, 5, 6, 100)) for _ in range(len(rows))])
    first, last = draw.randrange(25), 25 + draw.randrange(25)
    expected = [i for i in range(first, last) if limit_of[i] < bound[shape_of[i]] and rows[shape_of[i], FITTING] > 0]
    got, at = [], first
    while (at := int(next_candidate(shape_of, limit_of, at, last, bound, rows))) >= 0:
        got.append(at)
        at += 1
    assert got == expected
    counts = [0] * k_count
    for i in range(first, last):
        if limit_of[i] != gap and not rows[shape_of[i], FITTING]:
            bits = int(lacking_bits(shape_of[i], rows, cluster.usable_count, k_count))
            counts = [count + (bits >> k & 1) for k, count in enumerate(counts)]
    found = np.zeros(k_count, np.int64)
    count_lacks(shape_of, limit_of, first, last, gap, rows, cluster.usable_count, found)
    assert found.tolist() == counts
    by_row = np.zeros(k_count, np.int64)
    there = [shape_of[i] for i in range(first, last) if limit_of[i] != gap]
    count_lacks_of_rows(np.bincount(there, minlength=2 * len(rows)), rows, cluster.usable_count, by_row)
    assert by_row.tolist() == counts


def turn_domains(draw: random.Random, cluster: Cluster, shape: Shape, first: list[int], shut: list[bool]) -> None:
    """Close and open some of four domains, and the nodes in none; ``shut`` becomes what the row must say."""
    of = np.array([(5 * f + 3) % 11 % 5 for f in range(12)])
    order = np.argsort(of, kind="stable")
    bounds = np.searchsorted(of[order], np.arange(6))
    numbers = np.array(draw.sample(range(5), draw.randrange(1, 6)))
    closed = [draw.random() < 0.5 for _ in range(5)]
    others = [draw.random() < 0.2 for _ in range(12)] if draw.random() < 0.5 else []
    before = [cluster.node_stamp(f) for f in range(12)]
    opened = set()
    for f in range(12):
        if of[f] in numbers:
            now = closed[of[f]] or (bool(others) and others[f])
            opened |= {f} if shut[f] and not now else set()
            shut[f] = now
    cleared = shut_domains(
        shape.row, numbers, len(numbers), np.array(closed), np.array(others, np.bool_), order, bounds, cluster.nodes,
        cluster.totals, cluster.rows, cluster.lack,
    )  # fmt: skip
    assert cleared is any(not first[f] for f in opened)
    assert {f for f in range(12) if cluster.node_stamp(f) != before[f]} == opened


@pytest.mark.parametrize("seed", range(6))
def test_clauses_keep_shapes_off_nodes(seed: int) -> None:
    """The bits of clauses stay whatever happens to the node.

    What it lacks is kept beside a clause over domains alone, and never counted.
    """
    draw = random.Random(seed)
    dimensions = Dimensions()
    k_count = len(dimensions)
    tables = CoreTables(dimensions, ("cpu", "memory"))
    cluster = tables.cluster
    shapes = []
    for _ in range(4):
        shape = tables.fit.shape(tuple(draw.choice((0, 0, 1, 2)) for _ in range(k_count)), 1)
        tables.fit.want(shape)
        shapes.append(shape)
    first = [[0] * 12 for _ in shapes]
    shut = [[False] * 12 for _ in shapes]
    slots: list[int] = []
    for i in range(12):
        cluster.add_node(Node(name=f"n{i}", capacity=tuple(draw.randrange(9) for _ in range(k_count))))
    for _ in range(150):
        action = draw.random()
        shape = draw.choice(shapes)
        if action < 0.4:
            places = draw.sample(range(12), draw.randrange(1, 12))
            clauses = [draw.choice((0, 0, 1, 5, 31)) for _ in places]
            mine = first[shapes.index(shape)]
            before = [cluster.node_stamp(f) for f in range(12)]
            changed = {f for f, clause in zip(places, clauses, strict=True) if mine[f] != clause}
            closed = shut[shapes.index(shape)]
            cleared = any(
                f in changed and not clause and not closed[f] for f, clause in zip(places, clauses, strict=True)
            )
            assert tables.matching.exclude(shape, np.array(places), np.array(clauses, np.int8)) is cleared
            assert {f for f in range(12) if cluster.node_stamp(f) != before[f]} == changed
            for f, clause in zip(places, clauses, strict=True):
                mine[f] = clause
        elif action < 0.5:
            turn_domains(draw, cluster, shape, first[shapes.index(shape)], shut[shapes.index(shape)])
        elif action < 0.6:
            cluster.cordon(draw.randrange(12), draw.choice((None, "repair")))
        elif action < 0.7 and slots:
            tables.leases.release(slots.pop(draw.randrange(len(slots))))
        else:
            places = np.flatnonzero(cluster.lack[shape.row, :12] == 0).tolist()
            if places:
                slots.append(tables.leases.hold(draw.choice(places), shape.row, draw.randrange(9)))
        starved = 0
        for shape, mine, theirs in zip(shapes, first, shut, strict=True):
            counts = [0] * k_count
            fitting = 0
            for f in range(12):
                free = cluster.free(f)
                short = [k for k in range(k_count) if free[k] < shape.request[k]]
                usable = bool(cluster.nodes[f, USABLE])
                bits = mine[f] << CLAUSE_BIT | (0 if usable else UNUSABLE)
                if not bits:
                    bits = sum(1 << k for k in short)
                    for k in () if theirs[f] else short:
                        counts[k] += 1
                    fitting += not short and not theirs[f]
                bits |= SHUT * theirs[f]
                assert cluster.lack[shape.row, f] == bits
            assert cluster.rows[shape.row, FITTING] == fitting
            assert cluster.rows[shape.row, REQUEST + k_count : REQUEST + 2 * k_count].tolist() == counts
            starved += not fitting
        assert cluster.starved_rows == starved


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_of_each_domain_and_which_of_them_changed(seed: int) -> None:
    draw = random.Random(seed)
    n = draw.choice((0, 1, 2, 5, 9))
    counts = [draw.choice((0, 0, 1, 2, 3)) * (seed % 4 > 0) for _ in range(n + 1)]
    eligible = [draw.random() < 0.7 for _ in range(n)]
    weights = [draw.choice((1, 3, 5)) * each for each in eligible] + [0]
    skew, size = draw.choice((1, 1, 2)), draw.choice((1, 1, 4))
    tasks, tables = np.array(counts), np.array([*eligible, False])
    least = min((count for count, counted in zip(counts, eligible, strict=False) if counted), default=0)
    shares = [-(-each * (sum(counts) + size) // max(1, sum(weights))) + skew - 1 if each else 0 for each in weights]
    anywhere, in_domains = any(counts), any(counts[:-1])
    asked: tuple[tuple[Any, tuple[Any, ...], list[bool], bool], ...] = (
        (close_uneven, (tasks, tables, skew), [count >= least + skew for count in counts], True),
        (close_beyond_shares, (tasks, np.array(weights), size, skew), list(map(int.__ge__, counts, shares)), True),
        (close_full, (tasks, skew, True), [count > skew for count in counts], True),
        (close_full, (tasks, 0, False), [count > 0 for count in counts], False),
        (close_unused, (tasks, NEVER_ALL), [count == 0 for count in counts], True),
        (close_unused, (tasks, WITHOUT_ANY), [count == 0 and anywhere for count in counts], True),
        (close_unused, (tasks, WITHOUT_ANY_IN_DOMAINS), [count == 0 and in_domains for count in counts], True),
    )
    for close, arguments, expected, last in asked:
        closed = np.array([draw.random() < 0.5 for _ in range(n + 1)])
        before, changed = closed.copy(), np.zeros(n + 1, np.int64)
        expected[-1] = last
        number = close(*arguments, closed, changed)
        assert closed.tolist() == expected, close
        assert changed[:number].tolist() == np.flatnonzero(before != closed).tolist(), close


@pytest.mark.parametrize("seed", range(20))
def test_domains_are_worth_less_the_more_tasks_they_have(seed: int) -> None:
    draw = random.Random(seed)
    n, weight = draw.choice((1, 4, 7)), F(draw.choice((1, -2, 0.5)))
    counts = [draw.randrange(4) for _ in range(n + 1)]
    eligible = [draw.random() < 0.7 for _ in range(n)]
    least = min((count for count, counted in zip(counts, eligible, strict=False) if counted), default=0)
    expected = [weight * F(1 / (1 + max(0, count - least))) + F(0) for count in counts[:-1]] + [F(0)]
    worth = np.array([draw.choice((each, F(9))) for each in expected], np.float32)
    changed = np.zeros(n + 1, np.int64)
    number = worth_of_even(np.array(counts), np.array([*eligible, False]), weight, worth, changed)
    assert worth.tolist() == expected
    of = np.array([draw.randrange(n + 1) for _ in range(12)])
    order = np.argsort(of, kind="stable")
    scores = np.full(12, 9, np.float32)
    put_worth(changed, number, worth, order, np.searchsorted(of[order], np.arange(n + 2)), scores)
    assert scores.tolist() == [worth[d] if d in changed[:number] else 9 for d in of]


@pytest.mark.parametrize("seed", range(8))
def test_nodes_below_the_best_score_are_set_aside(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.choice((1, 5, 40, 3000))
    scores = np.array(
        [draw.choice((0.0, -1.5, 2.25, -3e38, 3e38, draw.uniform(-2, 2))) for _ in range(count)], np.float32
    )
    lack = np.array([draw.choice((0, 0, 1, UNUSABLE, 3 << CLAUSE_BIT)) for _ in range(count)], np.int32)
    blocked = np.array([draw.choice((0, 0, 0, 1)) for _ in range(count)], np.int32)
    aside = np.full(count, 7, np.int32)
    set_aside(lack, blocked, scores, count, aside)
    may = [f for f in range(count) if not lack[f] and not blocked[f]]
    best = max((scores[f] for f in may), default=None)
    assert [f for f in may if not aside[f]] == [f for f in may if scores[f] == best]
    assert all(aside[f] for f in range(count) if blocked[f])


# --- the time line ---------------------------------------------------------------------------------------------------


class PlainTime:
    """Free amounts over time by trying every moment at which something changes."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self.cluster = cluster
        self.now = now
        self.leases: list[PlainLease] = []
        self.bookings: list[tuple[Reservation, int]] = []
        # Nodes that clauses keep a shape off.
        self.excluded: dict[Shape, set[int]] = {}

    def changes(self) -> list[int]:
        times = {max(lease.end, self.now + 1) for lease in self.leases if lease.end < NEVER}
        for booking, end in self.bookings:
            if booking.in_force:
                times |= {max(booking.start, self.now + 1), max(end, self.now + 1)}
        return sorted({self.now, *(t for t in times if t < NEVER)})

    def free(self, f: int, t: int) -> list[int]:
        k = self.cluster.k_count
        level = [int(x) for x in self.cluster.nodes[f, FREE : FREE + k]]
        for lease in self.leases:
            if lease.f == f and lease.end < NEVER and max(lease.end, self.now + 1) <= t:
                level = [a + b for a, b in zip(level, lease.amounts, strict=True)]
        for booking, end in self.bookings:
            if booking.in_force and max(booking.start, self.now + 1) <= t < max(end, self.now + 1):
                for g, count in booking.nodes:
                    if g == f:
                        request = booking.job.shape.request
                        level = [a - b * count for a, b in zip(level, request, strict=True)]
        return level

    def copies(self, f: int, t: int, shape: Shape, duration: int, most: int) -> int:
        """Copies that fit during all of [t, t + duration)."""
        if not self.cluster.nodes[f, USABLE] or f in self.excluded.get(shape, ()):
            return 0
        moments = [t, *(change for change in self.changes() if t < change < t + duration)]
        here = most
        for moment in moments:
            level = self.free(f, moment)
            for have, need in zip(level, shape.request, strict=True):
                if need:
                    here = min(here, max(0, have // need))
        return here

    def all_copies(self, t: int, shape: Shape, duration: int, most: int) -> list[int]:
        out: list[int] = []
        for f in range(self.cluster.node_count):
            out.append(self.copies(f, t, shape, duration, most - sum(out)) if sum(out) < most else 0)
        return out

    def earliest(self, shape: Shape, duration: int) -> tuple[int, list[tuple[int, int]]] | None:
        for t in self.changes():
            copies = self.all_copies(t, shape, duration, shape.size)
            if sum(copies) >= shape.size:
                return t, [(f, count) for f, count in enumerate(copies) if count]
        return None


def booking_for(shape: Shape, start: int, nodes: list[tuple[int, int]]) -> Reservation:
    job = cast(JobEntry, SimpleNamespace(shape=shape, group=SimpleNamespace(asker=0)))
    return Reservation(job=job, start=start, nodes=nodes, stamp=-1)


def random_time_line(
    seed: int, *, bookings: bool
) -> tuple[random.Random, CoreTables, Timeline, PlainTime, list[Shape]]:
    draw = random.Random(seed)
    dimensions = Dimensions()
    k_count = len(BASE_DIMENSIONS)
    tables = CoreTables(dimensions, ("cpu", "memory"))
    cluster = tables.cluster
    timeline = Timeline(cluster, tables.fit)
    now = 20
    plain = PlainTime(cluster, now)
    for i in range(draw.randint(1, 6)):
        cluster.add_node(Node(name=f"n{i}", capacity=tuple(draw.randint(2, 9) if k < 3 else 0 for k in range(k_count))))
    shapes = []
    for size in (1, 1, 1, 2, 3, 4):
        request = tuple(draw.randint(0, 3) if k < 3 else 0 for k in range(k_count))
        shape = tables.fit.shape(request if any(request) else (1, *request[1:]), size)
        tables.fit.want(shape)
        shapes.append(shape)
    for number in range(draw.randint(0, 25)):
        shape = draw.choice(shapes)
        fitting = np.flatnonzero(cluster.lack[shape.row, : cluster.node_count] == 0).tolist()
        if fitting:
            f, end = draw.choice(fitting), draw.choice((10, 19, 20, 21, 25, 30, draw.randint(20, 60), NEVER))
            tables.leases.hold(f, shape.row, end)
            plain.leases.append(PlainLease(f, end, shape.request, number))
    if draw.random() < 0.4:
        cluster.cordon(draw.randrange(cluster.node_count), "repair")
    for shape in shapes:
        if draw.random() < 0.3:
            places = draw.sample(range(cluster.node_count), draw.randint(1, cluster.node_count))
            plain.excluded[shape] = set(places)
            tables.matching.exclude(shape, np.array(places), np.array([draw.randint(1, 31) for _ in places], np.int8))
    for _ in range(draw.randint(1, 5) if bookings else 0):
        shape, duration = draw.choice(shapes), draw.choice((1, 5, 20, NEVER))
        slot = timeline.earliest(shape, duration, now)
        if slot is None:
            continue
        made = booking_for(shape, slot.start, slot.nodes)
        timeline.reserve(made, duration)
        plain.bookings.append((made, min(slot.start + duration, NEVER)))
        if draw.random() < 0.3:
            timeline.enforce(made, False)
    return draw, tables, timeline, plain, shapes


@pytest.mark.parametrize("bookings", [False, True], ids=["leases", "leases and bookings"])
def test_the_earliest_time_at_which_something_fits(bookings: bool) -> None:
    found = 0
    for seed in range(250):
        draw, _, timeline, plain, shapes = random_time_line(seed, bookings=bookings)
        for shape in shapes:
            duration = draw.choice((1, 3, 10, 40, NEVER))
            slot = timeline.earliest(shape, duration, plain.now)
            expected = plain.earliest(shape, duration)
            got = None if slot is None else (slot.start, slot.nodes)
            assert got == expected, f"seed {seed}, {shape.size} of {shape.request} for {duration}"
            found += slot is not None and slot.start > plain.now
    assert found > 100, "the cases are worth trying"


def test_a_gang_fits_before_a_time_only_if_its_earliest_time_is_before_it() -> None:
    answers = set()
    for seed in range(150):
        draw, _, timeline, plain, shapes = random_time_line(seed, bookings=True)
        for shape in shapes:
            duration, before = draw.choice((1, 3, 10, 40, NEVER)), plain.now + draw.choice((0, 1, 2, 10, 25))
            slot = timeline.earliest(shape, duration, plain.now, before=before)
            expected = plain.earliest(shape, duration)
            if expected is not None and expected[0] >= before:
                expected = None
            assert (None if slot is None else (slot.start, slot.nodes)) == expected, f"seed {seed}"
            answers.add((shape.size > 1, expected is None))
    assert len(answers) == 4


def test_the_earliest_time_is_right_again_after_every_change() -> None:
    """What is remembered per node holds only until the node changes."""
    for seed in range(60):
        draw, made, timeline, plain, shapes = random_time_line(seed, bookings=False)
        cluster = made.cluster
        singles = [shape for shape in shapes if shape.size == 1]
        for _ in range(12):
            shape = draw.choice(singles)
            slot = timeline.earliest(shape, 5, plain.now)
            expected = plain.earliest(shape, 5)
            assert (None if slot is None else (slot.start, slot.nodes)) == expected
            fitting = np.flatnonzero(cluster.lack[shape.row, : cluster.node_count] == 0).tolist()
            if fitting:
                f, end = draw.choice(fitting), draw.randint(20, 60)
                made.leases.hold(f, shape.row, end)
                plain.leases.append(PlainLease(f, end, shape.request, 0))
            plain.now += draw.choice((0, 0, 1, 7))


def test_copies_that_may_start_now() -> None:
    for seed in range(150):
        draw, _, timeline, plain, shapes = random_time_line(seed, bookings=True)
        for shape in shapes:
            duration, most = draw.choice((1, 3, 10, NEVER)), draw.randint(1, 12)
            got = timeline.copies_at(shape, plain.now, duration, plain.now, most=most).tolist()
            assert got == plain.all_copies(plain.now, shape, duration, most), f"seed {seed}"


def test_nodes_on_which_a_booking_would_be_delayed_are_marked() -> None:
    marked = 0
    for seed in range(150):
        draw, made, timeline, plain, shapes = random_time_line(seed, bookings=True)
        cluster = made.cluster
        for shape in shapes:
            duration = draw.choice((1, 3, 10, NEVER))
            count, closed = timeline.screen(shape, duration, plain.now)
            expected = []
            for f in range(cluster.node_count):
                booked = any(b.in_force and any(g == f for g, _ in b.nodes) for b, _ in plain.bookings)
                fits = cluster.lack[shape.row, f] == 0
                expected.append(int(booked and fits and not plain.copies(f, plain.now, shape, duration, 1)))
            assert (count, closed[: cluster.node_count].tolist()) == (sum(expected), expected), f"seed {seed}"
            marked += count
    assert marked > 50


def test_whether_a_reservation_that_was_set_aside_still_holds() -> None:
    answers = set()
    for seed in range(150):
        draw, made, timeline, plain, shapes = random_time_line(seed, bookings=True)
        cluster = made.cluster
        shape, duration = draw.choice(shapes), draw.choice((5, 20))
        slot = timeline.earliest(shape, duration, plain.now)
        if slot is None:
            continue
        aside = booking_for(shape, slot.start, slot.nodes)
        aside.stamp = -1
        if draw.random() < 0.2:
            place = slot.nodes[0][0]
            plain.excluded.setdefault(shape, set()).add(place)
            made.matching.exclude(shape, np.array([place]), np.array([1], np.int8))
        if draw.random() < 0.7:
            other = draw.choice(shapes)
            fitting = np.flatnonzero(cluster.lack[other.row, : cluster.node_count] == 0).tolist()
            if fitting:
                f = draw.choice(fitting)
                made.leases.hold(f, other.row, NEVER)
                plain.leases.append(PlainLease(f, NEVER, other.request, 0))
        start = max(aside.start, plain.now)
        expected = all(plain.copies(f, start, shape, duration, n) >= n for f, n in aside.nodes)
        assert timeline.holds(aside, duration, plain.now) is expected
        answers.add(expected)
    assert answers == {True, False}


def test_widths_cover_every_number_of_balanced_dimensions() -> None:
    assert WIDTHS[-1] == 16
    with pytest.raises(ValueError, match="17 dimensions are too many to balance"):
        Cluster(Dimensions(tuple(f"x{i}" for i in range(15))), ("cpu", "memory"))


@pytest.mark.parametrize(
    ("amounts", "wanted", "most", "copies"),
    [
        ([4, 9], [2, 3], 8, 2),
        ([4, 9], [2, 0], 8, 2),
        ([4, 0], [2, 0], 8, 2),
        ([4, 9], [0, 0], 8, 8),
        ([40, 90], [2, 3], 8, 8),
        ([-1, 9], [2, 3], 8, 0),
        ([-1, 9], [0, 3], 8, 3),
    ],
    ids="both one lacks nothing most overdrawn elsewhere".split(),
)
def test_how_often_a_request_goes_into_amounts(amounts: list[int], wanted: list[int], most: int, copies: int) -> None:
    have, asked = np.array(amounts, np.int64), np.array(wanted, np.int64)
    assert copies_in(have, asked, most) == copies
    assert copies_in(np.stack([have, 2 * asked, have]), asked, most).tolist() == [
        copies,
        min(2, most) if asked.any() else most,
        copies,
    ]
    assert suffices(have, asked) == (copies > 0)
