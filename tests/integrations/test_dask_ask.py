"""The request of a Dask cluster, growth in whole leases, and what an idle lease needs: without any cluster."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("distributed")

from cress.client import LeaseView
from cress.client.errors import ClientError
from cress.integrations.dask.adapting import LeaseAdaptive
from cress.integrations.dask.ask import Ask, made
from cress.integrations.dask.lending import EVERY, Lending, idle_memory

ROOT = Path(__file__).parents[2]
MIB = 2**20


def ask(**more: Any) -> Ask:
    given: dict[str, Any] = {"workload": "etl", "cores": 4, "memory": "4GB", "processes": 2, "death_timeout": "30s"}
    return made(**(given | {"env": None, "job_extra": None, "keys": {}, "python": "python3"} | more))


def test_what_is_asked_for_is_shown() -> None:
    job_extra = {"priority": 3, "stop_grace": "10s"}
    text = ask(keys={"group": "lab"}, job_extra=job_extra, env={"A": "1"}).text("etl-0", "tcp://head:8786")
    assert text == (
        'workload: "etl"\n'
        'name: "etl-0"\n'
        'resource: {"cpu": 4, "memory": 4000000000}\n'
        'command: ["python3", "-P", "-m", "cress.integrations.dask.program", '
        '"{\\"scheduler\\": \\"tcp://head:8786\\", \\"names\\": [\\"etl-0-0\\", \\"etl-0-1\\"], \\"nthreads\\": 2, '
        '\\"memory_limit\\": 2000000000, \\"death_timeout\\": 30, \\"local_directory\\": \\"\\", \\"options\\": {}, '
        '\\"tls\\": {}}"]\n'
        'stop_grace: "10s"\n'
        'group: "lab"\n'
        "priority: 3\n"
        'environment: {"A": "1"}\n'
        f'directory: "{Path.cwd()}"\n'
    )


@pytest.mark.parametrize(
    ("target", "minimum", "maximum", "wanted"), [(0, 0, 9, 0), (1, 0, 9, 3), (4, 0, 9, 6), (99, 0, 8, 6), (0, 1, 9, 3)]
)
def test_adaptive_growth_is_in_whole_leases(target: int, minimum: int, maximum: int, wanted: int) -> None:
    class Wanting(LeaseAdaptive):
        async def target(self) -> int:
            return target

    adaptive = Wanting(None, processes=3, minimum=minimum, maximum=maximum, interval=0)
    assert asyncio.run(adaptive.safe_target()) == wanted


@pytest.mark.parametrize(
    ("measured", "needed"), [(0, 0), (1, 64), (60 * MIB, 128), (1000 * MIB, 1280), (9000 * MIB, 4000)]
)
def test_an_idle_lease_keeps_the_memory_that_its_workers_have(measured: int, needed: int) -> None:
    assert idle_memory(ask(memory="4000MiB"), measured) == needed * MIB


class Center:
    """Takes what is said of leases, unless it is broken."""

    def __init__(self) -> None:
        self.ask = ask(processes=1)
        self.broken: Exception | None = None
        self.told: asyncio.Queue[float | str] = asyncio.Queue()

    async def use(self, view: LeaseView, amounts: dict[str, str | float]) -> None:
        if self.broken is not None:
            raise self.broken
        self.told.put_nowait(amounts["cpu"])


class Held:
    """A lease that is held, with one worker."""

    workers = ("etl-0",)
    view = LeaseView(
        id="1.0", job=1, task=0, workload="etl", group="default", state="held", holds={}, node="n1", attempt=1
    )


def lending_over(center: Center, worker: SimpleNamespace) -> Lending:
    """Reports about a lease with this worker."""
    scheduler, lease = SimpleNamespace(workers={"tcp://1": worker}), Held()
    return Lending(cast(Any, scheduler), cast(Any, center), lambda: [cast(Any, lease)], 0.0)


@pytest.mark.parametrize("broken", [ClientError("who are you?"), RuntimeError("a defect")])
def test_what_could_not_be_told_of_a_lease_is_told_again(broken: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> list[float | str]:
        center, worker = Center(), SimpleNamespace(name="etl-0", processing={}, actors=set(), metrics={"memory": MIB})
        lending = lending_over(center, worker)
        center.broken = broken
        chore = asyncio.ensure_future(lending.run())
        await asyncio.sleep(0.1)
        center.broken = None
        first = await center.told.get()
        # And so is the end of that: borrowers must not stay beside its tasks.
        center.broken, worker.processing = broken, {"task": 1}
        await asyncio.sleep(2 * EVERY)
        center.broken = None
        second = await center.told.get()
        chore.cancel()
        return [first, second]

    assert asyncio.run(asyncio.wait_for(story(), 20)) == [0.1, 4]
    assert str(broken) in caplog.text


def test_the_example_of_the_page_is_the_one_that_can_be_run() -> None:
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "dask.md").read_text(encoding="utf-8"), re.DOTALL)
    assert (ROOT / "examples" / "dask_pi.py").read_text(encoding="utf-8").endswith(text)
