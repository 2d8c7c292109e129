"""Loads that executors send: what the API shows, what is logged, what becomes of jobs."""

from __future__ import annotations

import sqlite3

import pytest

from cress.model.node import Load
from cress.protocol import messages
from tests.center.program import Center, eventually

GIB = 2**30


@pytest.fixture
def center(shared: Center) -> Center:
    """One for all: loads are gone with the executor that told them."""
    return shared


def of_node(center: Center, what: str) -> object:
    return center.get("/v1/nodes/n1")[what]


def records(center: Center) -> int:
    """Steps that the store's log has."""
    with sqlite3.connect(f"file:{center.data}/cress.db?mode=ro", uri=True) as store:
        return int(store.execute("SELECT count(*) FROM log").fetchone()[0])


def test_an_overloaded_node_takes_nothing_and_says_why(center: Center) -> None:
    with center.executor() as executor:
        assert of_node(center, "load") is None
        executor.send(messages.Load(load=Load(cpu=970, memory=960, free_memory=300 * 2**20)))
        eventually(lambda: of_node(center, "state") == "overloaded")
        assert of_node(center, "reason") == "cpu 97%, 300M of memory free"
        id = center.submit()
        reason = eventually(lambda: center.get(f"/v1/jobs/{id}")["reason"])
        assert reason == "every node is closed to new tasks; n1 is overloaded (cpu 97%, 300M of memory free)"
        # Cpu alone would do now.
        executor.send(messages.Load(load=Load(cpu=500, free_memory=GIB)))
        eventually(lambda: of_node(center, "reason") == "1G of memory free")
        executor.send(messages.Load(load=Load(cpu=500, free_memory=2 * GIB)))
        (launch,) = executor.launches()
        executor.ended(launch.attempt)
    eventually(lambda: of_node(center, "load") is None)
    assert of_node(center, "state") == "away"


def test_what_says_nothing_new_is_shown_and_not_logged(center: Center) -> None:
    with center.executor() as executor:
        executor.send(messages.Load(load=Load(cpu=300, free_memory=8 * GIB)))
        eventually(lambda: of_node(center, "load") is not None)
        id = center.submit(requirement="CPULoad > 90%")
        eventually(lambda: center.get(f"/v1/jobs/{id}")["reason"])
        before = records(center)
        for cpu in range(301, 420):
            executor.send(messages.Load(load=Load(cpu=cpu, free_memory=8 * GIB)))
        eventually(lambda: center.get("/v1/nodes/n1")["load"]["cpu"] == 0.419)
        assert records(center) == before
        # What no executor of ours would say.
        executor.send(messages.Load(load=Load(cpu=2**31 - 1, free_memory=2**53 - 1)))
        eventually(lambda: center.get("/v1/nodes/n1")["load"]["cpu"] == 1.0)
        eventually(lambda: records(center) > before)


def test_nodes_are_asked_for_by_their_load(center: Center) -> None:
    with center.executor() as executor:
        executor.send(messages.Load(load=Load(cpu=300, free_memory=8 * GIB)))
        eventually(lambda: of_node(center, "load") is not None)
        (node,) = center.get("/v1/nodes", where="CPULoad < 50%", rank="0 - CPULoad")["nodes"]
        assert node["match"]["satisfied"]
        assert abs(node["match"]["score"] + 0.3) < 1e-6
        (node,) = center.get("/v1/nodes", where="FreeMemory > 9G")["nodes"]
        assert not node["match"]["satisfied"]
