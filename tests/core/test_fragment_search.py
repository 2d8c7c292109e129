"""The search for fragments: the compiled choice of a node against a plain one, and that an owner always gets back what
it lent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cress.core.kernels.fragments import node_for_loan
from cress.core.kernels.holding import FREE, OUT, UNUSABLE, USABLE
from cress.model.decisions import Start
from tests.core.builders import World, group, job, node

Amounts = list[int]


def plain_node(
    request: Amounts, barred: list[bool], free: list[Amounts], capacity: list[Amounts], lendable: list[Amounts],
    booked: list[Amounts],
) -> int:  # fmt: skip
    """The open node with something lendable of what is asked for, on which the least is left, in thousandths of it."""
    asked = [k for k, amount in enumerate(request) if amount]
    best: list[tuple[int, int]] = []
    for f in range(len(free)):
        spare = [max(0, free[f][k] - booked[f][k]) for k in range(len(request))]
        left = [spare[k] + lendable[f][k] - request[k] for k in asked]
        if barred[f] or min(left, default=0) < 0 or not any(lendable[f][k] for k in asked):
            continue
        best.append((sum(over * 1000 // max(1, capacity[f][k]) for k, over in zip(asked, left, strict=True)), f))
    return min(best)[1] if best else -1


small = st.integers(0, 4)
row = st.tuples(small, small)


@given(
    row,
    st.lists(
        st.tuples(row, row, row, row, st.sampled_from(("open", "open", "closed", "excluded", "skipped"))), max_size=5
    ),
    st.booleans(),
)
def test_the_node_for_a_loan_is_the_one_of_a_plain_search(
    request: tuple[int, int], rows: list[tuple[Any, ...]], books: bool
) -> None:
    n = len(rows)
    nodes = np.zeros((n + 1, FREE + 4), np.int64)
    lack = np.zeros(n + 1, np.int32)
    lendable, booked, skipped = (
        np.zeros((n + 1, 2), np.int64),
        np.zeros((n + 1, 2), np.int64),
        np.zeros(n + 1, np.bool_),
    )
    for f, (free, more, lent, promised, state) in enumerate(rows):
        nodes[f, USABLE] = state != "closed"
        lack[f] = {"closed": UNUSABLE, "excluded": OUT & -OUT}.get(str(state), 3)
        skipped[f] = state == "skipped"
        nodes[f, FREE:] = (*free, *(have + plus for have, plus in zip(free, more, strict=True)))
        lendable[f], booked[f] = lent, promised
    found = node_for_loan(
        np.array(request, np.int64), lack, nodes, n, lendable, booked if books else np.zeros((0, 0), np.int64), skipped
    )
    expected = plain_node(
        list(request), [state != "open" for *_, state in rows], nodes[:n, FREE : FREE + 2].tolist(),
        nodes[:n, FREE + 2 :].tolist(), lendable[:n].tolist(), (booked * books)[:n].tolist(),
    )  # fmt: skip
    assert found == expected


@given(
    st.lists(st.tuples(st.sampled_from("bc"), st.integers(1, 6), st.integers(1, 20)), max_size=8),
    st.integers(1, 8),
    st.integers(0, 3),
)
def test_an_owner_that_asks_gets_back_what_it_lent_at_once(
    borrowers: list[tuple[str, int, int]], asks: int, keeps: int
) -> None:
    world = World(
        group("a", 9), group("b", 9), group("c", 9), nodes=[node("n1").cpu(8)], lending="on", node_order="first"
    )
    world.run(job("first").cpu(8).group("a").workload("w")).finish("first")
    if keeps:
        world.run(job("keeper").cpu(keeps).group("a").workload("w"))
    for number, (name, size, ran) in enumerate(borrowers):
        world.submit(job(f"{name}{number}").cpu(size).group(name).limit("1min").priority(number)).decide()
        world.wait(0.4 * ran / 20).decide()
    running = set(world.jobs_running())
    world.submit(job("again").cpu(asks).group("a").workload("w")).decide()
    if world.told:
        assert all(world.core.attempts[number].parts for number in world.told), "only borrowers are stopped"
        world.yield_victims()
    fits = asks + keeps <= 8
    assert bool(world.state("again").attempts) is fits
    if fits:
        starts = [each for each in world.decisions if isinstance(each, Start) and each.job == world.ids["again"]]
        assert len(starts) == 1
    # Whoever had to go waits again.
    for name in running - set(world.jobs_running()):
        assert world.state(name).waiting == 1
