"""What starting attempts get from the center: their parts together, refusals, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cress.center.connections.start_materials import DEFECT, Provider, Starting, StartMaterials
from cress.model.errors import InputError
from cress.model.run import Run, SecretUse
from cress.model.start_material import StartMaterial
from cress.protocol.messages import Material
from cress.shell.center.effects import Supply
from tests.waiting import PATIENCE

PLAIN, ITS_JOB_IS_GONE, HAS_SECRETS, USES_OTHERS = 1, 2, 3, 4
RUNS = {
    PLAIN: Run(job=PLAIN, command=("x",)),
    HAS_SECRETS: Run(
        job=HAS_SECRETS, command=("x",), secrets=(SecretUse(name="B", secret="b"), SecretUse(name="A", secret="a"))
    ),
    USES_OTHERS: Run(job=USES_OTHERS, command=("x",), uses=("db",)),
}


def supplied(orders: Sequence[int], *providers: Provider, closed: bool = False) -> list[Any]:
    """What the executor gets for these attempts, each of the job with its number, in the order in which it comes."""
    sent: list[Material] = []
    session: Any = SimpleNamespace(closed=closed)
    machine = SimpleNamespace(
        attempts={number: SimpleNamespace(job=number) for number in (*RUNS, ITS_JOB_IS_GONE)},
        jobs={number: SimpleNamespace(id=number) for number in RUNS},
    )
    loop: Any = SimpleNamespace(machine=machine, epoch=9, resolved=lambda job: RUNS[job.id])
    connections: Any = SimpleNamespace(of=lambda _: SimpleNamespace(put=sent.append))

    async def story() -> None:
        materials = StartMaterials(loop, connections)
        materials.providers.extend(providers)
        materials.supply(Supply(session, tuple(orders)))
        while materials._tasks:
            await asyncio.wait(materials._tasks)

    asyncio.run(asyncio.wait_for(story(), PATIENCE))
    assert all(each.epoch == 9 for each in sent)
    return [(each.attempt, each.refused or each.material) for each in sent]


async def nothing(_: Starting) -> StartMaterial:
    return StartMaterial()


def giving(environment: dict[str, bytes], files: dict[str, bytes] | None = None) -> Provider:
    async def give(_: Starting) -> StartMaterial:
        return StartMaterial(environment=environment, files=files or {})

    return give


def test_parts_are_put_together_and_a_later_one_has_the_last_word() -> None:
    first, second = giving({"X": b"1", "Y": b"1"}, {"f": b"1"}), giving({"Y": b"2"}, {"g": b"2"})
    both = StartMaterial(environment={"X": b"1", "Y": b"2"}, files={"f": b"1", "g": b"2"})
    assert supplied([PLAIN], first, second) == [(PLAIN, both)]


def test_an_attempt_does_not_start_without_a_secret_that_it_uses() -> None:
    some, files = giving({"A": b"1"}), giving({}, {"B": b"2"})
    assert supplied([HAS_SECRETS], nothing) == [
        (HAS_SECRETS, "this center has no secrets, and the task uses A, B"),
    ]
    assert supplied([HAS_SECRETS], some) == [(HAS_SECRETS, "this center has no secrets, and the task uses B")]
    assert supplied([HAS_SECRETS], some, files) == [
        (HAS_SECRETS, StartMaterial(environment={"A": b"1"}, files={"B": b"2"})),
    ]


def test_what_is_over_is_refused_and_a_reason_is_passed_on_but_the_text_of_no_defect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(starting: Starting) -> StartMaterial:
        raise InputError("no such secret") if starting.attempt.job == PLAIN else RuntimeError("hunter2")

    assert supplied([ITS_JOB_IS_GONE, 77, PLAIN, HAS_SECRETS], refuse) == [
        (ITS_JOB_IS_GONE, "the attempt is over"),
        (77, "the attempt is over"),
        (PLAIN, "no such secret"),
        (HAS_SECRETS, DEFECT),
    ]
    assert caplog.messages == ["the start material of attempt 3 could not be made: RuntimeError"]


def test_one_that_waits_for_others_holds_up_none_of_them() -> None:
    started = asyncio.Event()

    async def wait(starting: Starting) -> StartMaterial:
        if starting.run.uses:
            await started.wait()
        else:
            started.set()
        return StartMaterial()

    assert [number for number, _ in supplied([USES_OTHERS, PLAIN], wait)] == [PLAIN, USES_OTHERS]


def test_a_session_that_is_over_gets_nothing() -> None:
    assert supplied([PLAIN], nothing, closed=True) == []
