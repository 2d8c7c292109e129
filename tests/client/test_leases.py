"""``Client.leases`` and ``AsyncClient.leases`` against a center, with an executor that starts nothing."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import cress
from cress.client import LeaseView
from cress.client.aio.leases import AsyncLeases
from cress.client.blocking.leases import Leases
from cress.client.calls import call_of
from cress.client.errors import NotFound, Refused
from cress.client.lease_changes import changes
from cress.model.errors import InputError
from cress.model.reports import Cause
from cress.protocol.calls.lease_calls import LEASES
from cress.protocol.queries import LeasesQuery
from tests.center.program import Center, Executor, eventually


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Center]:
    with Center(tmp_path / "data", forked=True) as running:
        yield running


def client_of(center: Center) -> cress.Client:
    return cress.Client(center.address["url"], center.token)


def run_one(executor: Executor) -> int:
    (launch,) = executor.launches()
    executor.started(launch.attempt)
    return launch.attempt


def test_a_lease_from_request_to_release(center: Center) -> None:
    with client_of(center) as client, center.executor() as executor:
        asked = client.leases.request(
            {"cpu": 2, "memory": "2G"}, workload="dask", term=timedelta(minutes=5), priority=3, requirement="CPU > 1"
        )
        attempt = run_one(executor)
        job = asked[0].job or 0
        (lease,) = eventually(lambda: [each for each in client.leases.get(job) if each.state == "held"])
        assert (lease.id, lease.term, lease.node) == (f"{job}.0", 300.0, "n1")
        lease = client.leases.use(lease.id, {"cpu": 1, "memory": "1G"})
        assert (lease.uses, lease.idle) == ({"cpu": "1", "memory": "1G"},) * 2
        task = client.leases.submit(lease.id, cress.Job(["true"], resource="<1, 1G>"))
        inside = run_one(executor)
        assert [(each.job, each.amounts["cpu"]) for each in client.leases.list(workload="dask")[0].tasks] == [
            (task.id, "1")
        ]
        executor.ended(inside)
        task.result()
        assert client.leases.list(workload="spark") == client.leases.list(group="other") == []
        (sums,) = client.leases.workloads(workload="dask")
        assert (sums.leases, sums.holds, sums.nodes) == (1, lease.holds, {"n1": lease.holds})
        assert client.leases.renew(lease.id)[0].id == lease.id
        (gone,) = client.leases.release(lease.id)
        assert (gone.state, gone.stops_at is None) == ("stopping", False)
        executor.stops()
        executor.ended(attempt, cause=Cause.STOPPED, code=-15)
        assert client.leases.get(job) == client.leases.release(job) == []


def test_lists_of_several_pages(center: Center) -> None:
    with client_of(center) as client, center.executor(resource="<1, 4G>") as executor:
        for workload in ("a", "b", "c"):
            client.leases.request("<1, 1G>", workload=workload)
        run_one(executor)
        seen, after = [], None
        while True:
            page = client.http.ask(call_of(LEASES, query=LeasesQuery(limit=1, after=after)))
            seen += [each.job for each in page.leases]
            if (after := page.next) is None:
                break
        assert seen == [2, 3, 1], "those that wait come first"


def test_a_program_of_the_framework_starts_in_the_current_directory(center: Center) -> None:
    with client_of(center) as client:
        (lease,) = client.leases.request("<1, 1G>", workload="dask", command=["worker"], count=3, gang=True)
        view = client.job(lease.job or 0).view()
        assert (view.command, view.directory, view.gang) == (("worker",), str(Path.cwd()), True)
        assert (lease.count, lease.state) == (3, "waiting")
        (more,) = client.leases.grow(lease.id, 2)
        assert (more.count, more.job) == (2, 2)
        with pytest.raises(Refused, match="0 leases of 1 are held, not 1"):
            client.leases.shrink(lease.id)


def test_a_watcher_sees_each_change_and_renews(center: Center) -> None:
    with client_of(center) as client, center.executor() as executor:
        (asked,) = client.leases.request("<1, 1G>", workload="dask", term="3s")
        seen: list[str] = []

        def watch() -> None:
            seen.extend(each.state for each in client.leases.watch(asked.job or 0))

        watcher = threading.Thread(target=watch)
        watcher.start()
        attempt = run_one(executor)
        watcher.join(6)  # twice its term
        assert watcher.is_alive()
        client.leases.release(asked.job or 0)
        executor.stops()
        executor.ended(attempt, cause=Cause.STOPPED, code=-15)
        watcher.join(30)
        assert [state for state in seen if state not in ("waiting", "starting")] == ["held", "stopping", "over"]


def view(id: str, state: str = "held", count: int = 1) -> LeaseView:
    job, dot, task = id.partition(".")
    return LeaseView(
        id=id,
        job=int(job),
        task=int(task) if dot else None,
        workload="w",
        group="g",
        state=state,
        holds={},
        count=count,
    )


@pytest.mark.parametrize(
    ("known", "now", "told"),
    [
        ([], [view("1", "waiting", 2)], [("1", "waiting")]),
        # What waited is not over because it has started.
        ([view("1", "waiting")], [view("1.0", "starting")], [("1.0", "starting")]),
        ([view("1", "waiting", 2)], [view("1", "waiting"), view("1.0")], [("1", "waiting"), ("1.0", "held")]),
        ([view("1", "waiting")], [], [("1", "over")]),
        # Nor is one over that was preempted.
        ([view("1.0", "stopping")], [view("1", "waiting")], [("1.0", "waiting"), ("1", "waiting")]),
        ([view("1.0"), view("1.1")], [view("1.1")], [("1.0", "over")]),
        # One is over, and the other one waits again.
        ([view("1.0"), view("1.1")], [view("1", "waiting")], [("1.0", "waiting"), ("1.1", "over"), ("1", "waiting")]),
        # One that waited has started while another one was preempted.
        (
            [view("1", "waiting"), view("1.0")],
            [view("1", "waiting"), view("1.1")],
            [("1.0", "waiting"), ("1.1", "held")],
        ),
    ],
)
def test_changes_between_two_looks(known: list[LeaseView], now: list[LeaseView], told: list[tuple[str, str]]) -> None:
    found = changes({each.id: each for each in known}, {each.id: each for each in now})
    assert [(each.id, each.state) for each in found] == told


def test_what_is_wrong_is_said(center: Center) -> None:
    with client_of(center) as client:
        with pytest.raises(InputError, match="has no key 'tasks'"):
            client.leases.request(workload="dask", tasks=3)  # type: ignore[call-arg]
        with pytest.raises(Refused, match="more cpu than the lease has"):
            client.leases.request("<1, 1G>", workload="dask", uses="<2>")
        with pytest.raises(Refused, match="there is no group 'nope'"):
            client.leases.check("<1, 1G>", workload="dask", group="nope")
        assert client.leases.check("<1, 1G>", workload="dask") == ""
        assert client.leases.list() == []
        with pytest.raises(NotFound, match="there is no lease x"):
            client.leases.get("x")


def test_the_same_for_asyncio(center: Center) -> None:
    async def story() -> list[str]:
        async with cress.AsyncClient(center.address["url"], center.token) as client:
            (asked,) = await client.leases.request("<1, 1G>", workload="dask")
            seen = []
            async for lease in client.leases.watch(workload="dask"):
                seen.append(lease.state)
                if lease.state == "waiting":
                    await client.leases.release(asked.id)
                if lease.state == "over":
                    return seen
            return seen

    assert asyncio.run(story()) == ["waiting", "over"]


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in found if not name.startswith("_")}

    assert methods(Leases) == methods(AsyncLeases)
