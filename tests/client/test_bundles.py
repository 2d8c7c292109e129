"""Bundles of chunks: how many of their tasks the cluster has room for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cress.client.blocking import bundles
from cress.client.blocking.http import Http
from cress.client.blocking.patient import PatientHttp
from cress.client.retries import RetryBudget
from tests.client.server import serving


def part(state: str, cores: float, used: float) -> dict[str, object]:
    """A node with so many cores, of which tasks use some."""
    amounts = {"capacity_amounts": {"cpu": round(cores * 1000)}, "used_amounts": {"cpu": round(used * 1000)}}
    return {"name": f"{state}{cores}-{used}", "state": state, **amounts}


@pytest.mark.parametrize(
    ("nodes", "request_"),
    [
        ([part("up", 2, 0), part("up", 2, 1.5)], ""),
        ([part("up", 2, 1), part("up", 2, 1.5)], ""),
        ([part("up", 2, 1.3), part("up", 2, 1.55)], "<0.7, 512M>"),
        ([part("up", 2, 1.32)], "<0.6, 512M>"),
        ([part("up", 2, 1.9)], "<0.1, 512M>"),
        ([part("up", 2, 1.95)], ""),
        ([part("up", 2, 2)], ""),
        ([part("away", 2, 1.5), part("cordoned", 4, 0)], ""),
        ([part("away", 2, 0), part("up", 2, 1.5)], "<0.5, 512M>"),
        ([], ""),
    ],
)
def test_where_no_whole_core_is_free_a_map_asks_for_a_part(nodes: list[dict[str, object]], request_: str) -> None:
    with serving() as server, Http(server.url, "secret") as http:
        server.body = {"nodes": nodes}
        assert bundles.part_of_a_core(PatientHttp(http, RetryBudget(0))) == request_


def node(cores: int, state: str = "up") -> dict[str, object]:
    return {"name": f"{state}{cores}", "state": state, "capacity_amounts": {"cpu": cores * 1000}}


@pytest.fixture(scope="module")
def center() -> Iterator[PatientHttp]:
    """A center with nodes of 4 and 3 cores, and others that take no tasks."""
    with serving() as server, Http(server.url, "secret") as http:
        server.body = {
            "nodes": [node(4), node(3), node(64, "away"), node(64, "cordoned"), {"name": "n", "state": "up"}]
        }
        yield PatientHttp(http, RetryBudget(0))


@pytest.mark.parametrize(
    ("resource", "places"),
    [
        (None, 7),
        ("<1, 1G>", 7),
        ("<2, 1G>", 3),
        ({"cpu": 0.5}, 14),
        ("<4>", 1),
        ("<0, 1G>", 7000),
        # None fits now; the center will say why.
        ("<5>", 1),
        ("nonsense", 7),
    ],
)
def test_places_are_those_of_nodes_that_take_tasks_and_one_at_least(
    center: PatientHttp, resource: object, places: int
) -> None:
    assert bundles.places(resource, center) == places
