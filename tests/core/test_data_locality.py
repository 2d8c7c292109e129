"""DataLocality by name: tasks go where the data is, hard or soft, as nodes and events say; and why they wait
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.diagnostics.match_report import match_nodes, remarks_on
from cress.core.placing import data_clauses
from cress.core.scheduler import Scheduler
from cress.core.tables.data_locations import Locations
from cress.model.events import DataLocated
from cress.model.node import Node
from cress.model.resources import Dimensions
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job
from tests.examples import examples

LOGS = "hdfs://nn:8020/logs"


@dataclass(frozen=True)
class Holder(NodeBuilder):
    """A node that has paths."""

    data: tuple[str, ...] = ()

    def build(self, dimensions: Dimensions) -> Node:
        return msgspec.structs.replace(super().build(dimensions), data=self.data)


def holder(name: str, *data: str, cpu: int = 2) -> Holder:
    return Holder(name, (("cpu", cpu),), data=data)


def near(name: str, data: str = LOGS, tail: str = "") -> JobBuilder:
    return job(name).requires(f'DataLocality = "{data}"{tail}')


def located(world: World, *places: tuple[str, int], data: str = LOGS, problem: str = "") -> World:
    return world.observe([DataLocated(data, None if problem else places, problem)])


def forgotten(world: World, data: str = LOGS) -> World:
    return world.observe([DataLocated(data, None)])


def three() -> World:
    return World(group("default", 100), nodes=[holder(f"n{f}").at(f"10.0.0.{f}") for f in (1, 2, 3)])


# --- elsewhere ---------------------------------------------------------------------------------------------------


def test_a_job_waits_until_it_is_known_where_its_data_lies_and_runs_there() -> None:
    world = three().submit(near("etl"))
    world.decide()
    assert world.nodes_of("etl") == []
    assert world.why("etl") == (
        f'no node satisfies DataLocality = "{LOGS}" (3 of 3 nodes do not); the location of {LOGS} is not known yet'
    )
    located(world, ("n2", 700), ("elsewhere", 300)).decide()
    assert world.nodes_of("etl") == ["n2"]


@pytest.mark.parametrize("host", ["n2", "N2", "10.0.0.2", "worker-2.example.org"])
def test_hosts_are_nodes_by_name_host_name_or_address(host: str) -> None:
    world = World(
        nodes=[holder("n1").at("10.0.0.1"), holder("n2").at("10.0.0.2").where(Hostname="Worker-2.example.org")]
    )
    located(world.submit(near("etl")), (host, 1)).decide()
    assert world.nodes_of("etl") == ["n2"]


def test_what_the_namenode_says_is_the_reason() -> None:
    world = three().submit(near("etl"))
    located(world, problem="no such file (according to the namenode)").decide()
    assert world.why("etl").endswith(f"; {LOGS}: no such file (according to the namenode)")
    located(world, ("elsewhere", 1000)).decide()
    assert world.why("etl").endswith(f"; no node has {LOGS}")
    forgotten(world).decide()
    assert world.why("etl").endswith(f"; the location of {LOGS} is not known yet")


def test_no_job_is_refused_for_data_that_nobody_knows() -> None:
    world = three()
    for data in (LOGS, "/data/none"):
        name = f"etl{len(data)}"
        world.submit(near(name, data)).decide()
        assert not world.veto(name).never


def test_soft_the_share_is_what_counts() -> None:
    world = three()
    located(world, ("n1", 200), ("n2", 500), ("n3", 400))
    world.submit(near("soft", tail=" && f(x) = True").cpu(2).tasks(3)).decide()
    assert [start.node for start in world.starts] == ["n2", "n3", "n1"]


def test_hard_the_nodes_with_more_of_it_come_first_before_any_rank() -> None:
    world = three()
    located(world, ("n1", 70), ("n3", 900))
    world.submit(near("etl").ranks('Name = "n1"').cpu(2).tasks(3)).decide()
    assert [start.node for start in world.starts] == ["n3", "n1"], "and none where nothing of it is"
    located(world, ("n2", 10)).finish("etl")
    assert [start.node for start in world.starts][2:] == ["n2"]


def test_a_rank_that_weighs_the_data_itself_decides() -> None:
    world = three()
    located(world, ("n1", 70), ("n3", 900))
    wish = f'0.1 × (DataLocality = "{LOGS}") + (Name = "n1")'
    world.submit(near("etl").ranks(wish)).decide()
    assert world.nodes_of("etl") == ["n1"]


@pytest.mark.parametrize(
    ("host", "goes_to"),
    [
        ("m3.example.com", ["m3"]),
        ("M3.other.example.com", ["m3"]),
        ("m4.example.com", ["second"]),
        ("m4", ["second"]),
        ("m4.elsewhere.org", []),  # a node of that name is in another domain
        ("m", []),
        ("10.0.0.3", ["m3"]),
        ("10.0.0.4", []),
    ],
)
def test_a_host_name_with_its_domain_is_the_node_without_and_the_other_way_round(host: str, goes_to: list[str]) -> None:
    world = World(nodes=[holder("m3").at("10.0.0.3"), holder("second").where(Hostname="m4.example.com"), holder("10")])
    located(world.submit(near("etl")), (host, 500)).decide()
    assert world.nodes_of("etl") == goes_to


def test_as_a_term_it_has_its_weight() -> None:
    world = three()
    located(world, ("n1", 300), ("n3", 800))
    wish = f'0.5 × (Name = "n1") + (DataLocality = "{LOGS}")'
    world.submit(job("a").ranks(wish).cpu(2).tasks(2)).decide()
    assert [start.node for start in world.starts] == ["n1", "n3"]


def test_it_goes_elsewhere_when_patience_is_over_and_the_place_is_full() -> None:
    world = three().submit(job("full").requires('Name = "n2"').cpu(2), near("etl", tail=" && f(x) = (Waittime > 15s)"))
    located(world, ("n2", 1000)).decide()
    assert world.nodes_of("etl") == []
    world.wait(15, 1)
    world.decide()
    assert world.nodes_of("etl") in (["n1"], ["n3"])


def test_two_names_of_one_host_are_not_added_up() -> None:
    world = three()
    located(world, ("n1", 400), ("10.0.0.1", 400), ("n2", 600))
    world.submit(near("etl", tail=" && f(x) = True")).decide()
    assert world.nodes_of("etl") == ["n2"]


def test_a_gang_has_room_as_soon_as_its_data_lies_on_enough_nodes() -> None:
    world = three().submit(near("gang").cpu(2).tasks(2).gang())
    located(world, ("n1", 1000)).decide()
    assert world.nodes_of("gang") == []
    located(world, ("n1", 1000), ("n3", 10)).decide()
    assert sorted(world.nodes_of("gang")) == ["n1", "n3"]


def test_a_blocked_job_of_a_queue_does_not_hold_up_others() -> None:
    world = three().submit(near("etl"), job("other"))
    world.decide()
    assert world.nodes_of("other") != []


def test_people_see_it_among_what_is_required_and_what_each_node_says() -> None:
    world = three().submit(near("etl", tail=" && CPU > 1"))
    located(world, ("n2", 300))
    moment = world.core.constraints(world.ids["etl"])
    assert moment is not None
    assert moment.requirement == f'DataLocality = "{LOGS}" && CPU > 1 && Resource = <1>'
    fits = match_nodes(world.core.books, f'DataLocality = "{LOGS}"', f'2 × (DataLocality = "{LOGS}")')
    assert [(fit.node, fit.satisfied, round(fit.score, 3)) for fit in fits] == [
        ("n1", False, 0), ("n2", True, 0.6), ("n3", False, 0),
    ]  # fmt: skip
    assert remarks_on(world.core.books, 'DataLocality = "/none"', "") == ("no node has /none",)


# --- on nodes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has", "asked", "there"),
    [
        (("/data/sets/a",), "/data/sets/a", True),
        (("/data/sets",), "/data/sets/a/part-0", True),
        (("/data/sets/a/part-0",), "/data/sets/a", False),
        (("/data/set",), "/data/sets", False),
        ((), "/data/sets/a", False),
    ],
)
def test_a_path_lies_where_it_or_a_folder_above_is_reported(has: tuple[str, ...], asked: str, there: bool) -> None:
    world = World(nodes=[holder("n1"), holder("n2", *has)]).submit(near("etl", asked))
    world.decide()
    assert world.nodes_of("etl") == (["n2"] if there else [])
    if not there:
        assert world.why("etl").endswith(f"; no node has {asked}")


def test_a_path_that_comes_later_starts_who_waits_for_it_and_one_that_goes_stops_nobody() -> None:
    world = World(nodes=[holder("n1"), holder("n2")]).submit(near("etl", "/data/a").tasks(2).cpu(2))
    world.decide()
    world.change_node(holder("n2", "/data/a")).decide()
    assert world.nodes_of("etl") == ["n2"]
    world.change_node(holder("n2")).decide()
    assert world.nodes_of("etl") == ["n2"]
    world.finish("etl")
    assert world.nodes_of("etl") == []
    assert world.why("etl").endswith("no node has /data/a")


# --- what is named -----------------------------------------------------------------------------------------------


def test_data_is_wanted_as_long_as_a_live_job_names_it() -> None:
    world = three()
    known: Locations = world.core.relations.locations
    assert known.wanted == {}
    world.submit(near("one"), near("two", tail=" && f(x) = True"), job("three").ranks('2 × (DataLocality = "/a")'))
    assert known.wanted == {LOGS: 2, "/a": 1}
    located(world, ("n1", 1000)).decide()
    world.finish("one")
    stamp = known.stamp
    assert known.wanted == {LOGS: 1, "/a": 1}
    world.cancel("two")
    assert known.wanted == {LOGS: 1, "/a": 1}, "its task still stops"
    world.finish("two")
    assert known.wanted == {"/a": 1}
    assert known.stamp > stamp


# --- always ------------------------------------------------------------------------------------------------------

HOSTS = ("n1", "n2", "n3", "10.0.0.1", "10.0.0.2", "nowhere")
DATA = (LOGS, "hdfs://nn/b")
words = st.one_of(
    st.tuples(
        st.just("located"),
        st.sampled_from(DATA),
        st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(1, 1000)), max_size=3).map(tuple),
    ),
    st.tuples(st.just("problem"), st.sampled_from(DATA), st.just(())),
    st.tuples(st.just("forgotten"), st.sampled_from(DATA), st.just(())),
    st.tuples(
        st.just("paths"),
        st.sampled_from(("n1", "n2", "n3")),
        st.sets(st.sampled_from(("/a", "/b", "/b/c"))).map(sorted).map(tuple),
    ),
    st.tuples(
        st.just("submit"), st.sampled_from((*DATA, "/a", "/b/c", "/b/c/d")), st.sampled_from(("", " && f(x) = True"))
    ),
    st.tuples(st.just("restore"), st.just(""), st.just(())),
)


@pytest.mark.parametrize("few", [0, data_clauses.FEW], ids=["by hosts", "by nodes"])
def test_tasks_start_only_where_their_data_is_said_to_lie_also_after_a_restore(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a plain account of what was said last; every job fits everywhere, so it also starts if it may."""
    monkeypatch.setattr(data_clauses, "FEW", few)

    @examples(20)
    @given(st.lists(words, max_size=25))
    def check(story: list[tuple[str, str, object]]) -> None:
        _told(story)

    check()


def _told(story: list[tuple[str, str, object]]) -> None:
    world = World(nodes=[holder(f"n{f}", cpu=100).at(f"10.0.0.{f}") for f in (1, 2, 3)])
    places: dict[str, dict[str, int]] = {}
    paths: dict[str, tuple[str, ...]] = {}
    waiting: dict[str, str] = {}
    for number, (word, what, rest) in enumerate(story):
        if word == "located":
            assert isinstance(rest, tuple)
            located(world, *rest, data=what)
            places[what] = dict(rest)
        elif word in ("problem", "forgotten"):
            located(world, data=what, problem="it is away") if word == "problem" else forgotten(world, what)
            places.pop(what, None)
        elif word == "paths":
            assert isinstance(rest, tuple)
            world.change_node(Holder(what, (("cpu", 100),), data=rest).at(f"10.0.0.{what[1]}"))
            paths[what] = rest
        elif word == "submit":
            name = f"job{number}"
            world.submit(near(name, what, str(rest)))
            waiting[name] = "" if rest else what
        else:
            world.core = Scheduler.restore(world.core.export())
        world.decide()
        for name, data in list(waiting.items()):
            may = {f for f in ("n1", "n2", "n3") if _lies(data, f, places, paths)}
            there = world.nodes_of(name)
            assert bool(there) == bool(may), (name, data, may)
            if there:
                assert set(there) <= may
                del waiting[name]


def _lies(data: str, node: str, places: dict[str, dict[str, int]], paths: dict[str, tuple[str, ...]]) -> bool:
    if not data:
        return True
    if data.startswith("/"):
        return any(f"{data}/".startswith(f"{path}/") for path in paths.get(node, ()))
    return bool({node, f"10.0.0.{node[1]}"} & places.get(data, {}).keys())
