"""Golden texts: why an attempt was stopped before its end, one for each cause (``LiveAttempt.halted``)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cress.lifecycle.inputs import (
    Cancel,
    Drain,
    ReleaseLeases,
    Requeue,
    UseLease,
)
from cress.model.events import GroupsApplied
from tests.lifecycle.builders import World, ended, group, job
from tests.lifecycle.test_leases import cores, end_halted, lease, loan
from tests.lifecycle.test_leases import world as lending
from tests.lifecycle.test_moving import begin, half_full, plan


def one_running(**keys: object) -> World:
    world = World()
    world.join("n1")
    world.submit(job(**keys))  # type: ignore[arg-type]
    world.run_all()
    return world


def preempted() -> World:
    world = World()
    world.join("n1", 4)
    world.step(GroupsApplied(groups=(group("lab", 2), group("web", 2))))
    world.submit(job(4, group="lab"))
    world.run_all()
    world.submit(job(2, group="web", name="shop"))
    return world


def cancelled() -> World:
    world = one_running()
    world.step(Cancel(job=1, by="bob"))
    return world


def requeued() -> World:
    world = one_running()
    world.step(Requeue(jobs=(1,), by="bob"))
    return world


def drained() -> World:
    world = one_running()
    world.step(Drain(name="n1", deadline=0, reason="disk", by="bob"))
    return world


def moved() -> World:
    site, _ = half_full(3, 1)
    begin(site, plan(site))
    return site


def reclaimed() -> World:
    made = lending()
    (held,) = made.submit(lease())
    made.run_all()
    loan(made)
    made.step(UseLease(job=held, task=0, amounts=cores(4)))
    return made


def released() -> World:
    made = lending()
    (held,) = made.submit(lease())
    made.run_all()
    made.step(ReleaseLeases(job=held, by="ann"))
    return made


def gang() -> World:
    world = World()
    world.join("n1")
    world.submit(job(2, gang=True, retries=1))
    world.run_all()
    world.report("n1", ended(1, 1))
    return world


SITUATIONS: list[tuple[Callable[[], World], str, str]] = [
    (
        preempted,
        "preempted",
        (
            "preempted for job 2 (shop) of group web: group web is owed its quota (uses 0 of 2 cores), and group lab "
            "uses 4 of 2 cores"
        ),
    ),
    (cancelled, "cancelled", "cancelled by bob"),
    (requeued, "requeued", "requeued by bob"),
    (drained, "drained", "node n1 was drained by bob: disk"),
    (moved, "moved", "moved to node n1 by eve: to free node n2"),
    (reclaimed, "reclaimed", "the workload whose lease it borrowed from needs it back"),
    # A lease that is returned has succeeded, so there is nothing to explain.
    (released, "released", ""),
    (gang, "gang", "another task of its gang ended; the gang starts again as a whole"),
]


@pytest.mark.parametrize(("situation", "kind", "text"), SITUATIONS, ids=[row[1] for row in SITUATIONS])
def test_the_sentence(situation: Callable[[], World], kind: str, text: str) -> None:
    world = situation()
    (halted, *_) = [one for one in world.machine.attempts.values() if one.halted]
    assert halted.halted == kind
    end_halted(world)
    records = {record.attempt: record for record in world.last.attempts}
    assert records[halted.id].error == text
