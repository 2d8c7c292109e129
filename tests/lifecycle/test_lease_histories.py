"""What always holds, over random histories of a cluster in which leases are held, used, lent and released."""

from __future__ import annotations

import dataclasses
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.inputs import Input, ReleaseLeases, RenewLeases, UseLease
from cress.model.job import Job
from cress.model.times import MINUTE, SECOND
from tests.examples import examples
from tests.lifecycle.builders import World
from tests.lifecycle.test_machine_properties import OPTIONS, Executors, history

LENDING = dataclasses.replace(OPTIONS, lending="on", lease_idle=3 * SECOND, reclaim_grace=SECOND)

# What the histories came by.
seen: Counter[str] = Counter()


class Holders(Executors):
    """The same with holders of leases, which say what they use, renew, release and fall silent."""

    def next_input(self, world: World) -> Input:
        random, machine = self.random, world.machine
        lent = [lease for lease in machine.core.pool.leases.values() if lease.lent]
        seen["lent"] += bool(lent)
        seen["recalled"] += any(lease.holder and lease.wanted != lease.holder.amounts for lease in lent)
        if machine.leases and random.random() < 0.4:
            number = random.choice(sorted(machine.leases))
            live = machine.leases[number]
            tasks = [each.task for each in live.attempts.values()] or [0]
            roll = random.random()
            if roll < 0.6:
                cpu = random.randint(0, live.job.request[0] // 1000)
                return UseLease(job=number, task=random.choice(tasks), amounts=(cpu * 1000, cpu * 2**28))
            if roll < 0.8:
                return RenewLeases(job=number)
            return ReleaseLeases(job=number, tasks=random.choice((None, (tasks[0],))), by="eve")
        return super().next_input(world)

    def some_job(self, world: World, place: int, count: int) -> Job:
        random = self.random
        made = msgspec.structs.replace(
            super().some_job(world, place, count),
            time_limit=random.choice((None, MINUTE)),
            workload=random.choice(("", "w", "x")),
            ports=(),
        )
        if random.random() < 0.3:
            return msgspec.structs.replace(
                made,
                is_lease=True,
                workload="w",
                after=(),
                min_time=random.choice((0, 5 * SECOND)),
                term=random.choice((0, 10 * SECOND)),
                uses=random.choice((None, (0, 0), (1000, 2**28))),
            )
        return made


def test_histories_with_leases() -> None:
    """No task runs twice; a restored machine and a replayed log say the same; in the end everything is over."""

    @examples(8)
    @given(seed=st.integers(0, 100_000), cut=st.integers(1, 60))
    def check(seed: int, cut: int) -> None:
        history(seed, cut, LENDING, Holders)

    check()


def test_some_histories_come_by_loans_that_are_recalled() -> None:
    for each in (28, 8):
        history(each, 30, LENDING, Holders)
    missing = {"lent", "recalled"} - (+seen).keys()
    assert not missing, f"no history came by {missing}"
