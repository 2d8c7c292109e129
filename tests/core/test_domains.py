"""Spread, affinity and topology over any attribute: where tasks go, and what who waits is told."""

from __future__ import annotations

from collections import Counter

import pytest

from cress.core.placing.constraints import NO_WANTS
from cress.model.distances import parse_distances
from cress.model.errors import InputError
from cress.model.events import Outcome, RacksSet
from cress.model.job import JobType
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node

ANYWHERE = group("g", 999, "BackFill")


def zones(text: str, cpu: float = 4) -> list[NodeBuilder]:
    """Nodes n1, n2 … in the zones that the letters name; ``.`` is none."""
    made = [node(f"n{i}").cpu(cpu) for i in range(1, len(text) + 1)]
    return [each if zone == "." else each.where(zone=zone) for each, zone in zip(made, text, strict=True)]


def world(*nodes: NodeBuilder) -> World:
    return World(ANYWHERE, group("h", 999), nodes=nodes)


def of(name: str, tasks: int, *clauses: str) -> JobBuilder:
    return job(name).tasks(tasks).group("g").requires(" && ".join(clauses)).limit("1h")


def where(core: World, name: str, key: str = "zone") -> dict[str, int]:
    """How many tasks of a job run in each zone."""
    specs = {spec.name: dict(spec.attributes) for spec in core.core.cluster.specs}
    counts = Counter(str(specs[each].get(key, ".")).lower() for each in core.nodes_of(name))
    return dict(sorted(counts.items()))


SPREAD = {
    "over the zones": ("aab", of("it", 5, "spread(Zone)"), {"a": 3, "b": 2}),
    "by at most two": ("aab", of("it", 9, "spread(Zone, 2)"), {"a": 5, "b": 4}),
    "capitals do not matter": ("aAbB", of("it", 6, "spread(ZONE)"), {"a": 3, "b": 3}),
    "nodes without the attribute take none": ("a.b", of("it", 4, "spread(Zone)"), {"a": 2, "b": 2}),
    "only zones that the requirement allows count": (
        "aabc",
        of("it", 4, "spread(Zone)", 'Zone != "c"'),
        {"a": 2, "b": 2},
    ),
    "a full zone holds back": ("aab", of("it", 12, "spread(Zone)"), {"a": 5, "b": 4}),
    "a preference does not": ("aab", of("it", 12, "spread(Zone) && f(x) = True"), {"a": 8, "b": 4}),
    "shares": ("aaabbc", of("it", 10, 'spread(Zone, "a=50%, b=30%")'), {"a": 5, "b": 3, "c": 2}),
    "the others share the rest": ("aaabc", of("it", 8, 'spread(Zone, "a=50%")'), {"a": 4, "b": 2, "c": 2}),
    "shares of zones that are not there go to the others": (
        "aab",
        of("it", 6, 'spread(Zone, "a=25%, x=50%")'),
        {"a": 3, "b": 3},
    ),
    "nothing for zones without a share": ("aab", of("it", 3, 'spread(Zone, "a=100%")'), {"a": 3}),
    "as a term of a rank": ("aab", job("it").tasks(4).group("g").ranks("spread(Zone)"), {"a": 2, "b": 2}),
    "as a preference, a node without the attribute is the last resort": (
        ".a",
        job("it").tasks(3).group("g").ranks('away_from("self", Zone)'),
        {"a": 3},
    ),
    "a gang": ("aab", of("it", 7, "spread(Zone)").gang(), {"a": 4, "b": 3}),
    "a gang with shares": ("aaab", of("it", 8, 'spread(Zone, "a=75%")').gang(), {"a": 6, "b": 2}),
    "a gang of which each has a zone for itself": (
        "abcc",
        of("it", 3, 'away_from("self", Zone)').gang(),
        {"a": 1, "b": 1, "c": 1},
    ),
    "a gang in one zone, the smallest that holds it": ("aaabbcc", of("it", 8, "within(Zone)").gang(), {"b": 8}),
    "a gang in as few zones as possible": (
        "aabbc",
        of("it", 9, "within(Zone) && f(x) = True").gang(),
        {"a": 8, "c": 1},
    ),
    "tasks one by one in the zone of the first": ("ab", of("it", 6, "within(Zone)"), {"a": 4}),
    "near itself": ("aabb", of("it", 8, 'near("self", Zone)').gang(), {"a": 8}),
}


@pytest.mark.parametrize("story", SPREAD)
def test_where_tasks_go(story: str) -> None:
    text, it, expected = SPREAD[story]
    core = world(*zones(text))
    core.submit(it).decide()
    assert where(core, "it") == expected


def test_a_zone_that_is_cordoned_does_not_count() -> None:
    core = world(*zones("aab"))
    core.submit(of("it", 6, "spread(Zone)")).cordon("n3").decide()
    assert where(core, "it") == {"a": 6}
    core.cordon("n3", "").submit(of("more", 4, "spread(Zone)")).decide()
    assert where(core, "more") == {"a": 2, "b": 2}


def test_a_task_that_ends_or_is_lost_is_counted_no_more() -> None:
    core = world(*zones("aabb"))
    core.run(of("it", 6, "spread(Zone)"))
    core.lose_node("n3").decide()
    core.add_node(zones("aab")[2]).decide()
    assert where(core, "it") == {"a": 3, "b": 3}


def test_all_versions_of_a_service_are_spread_together() -> None:
    core = world(*zones("ab"))
    version = of("v1", 3, "spread(Zone)").member_of(90)
    core.run(version, version.named("v2"))
    assert {**Counter(where(core, "v1")) + Counter(where(core, "v2"))} == {"a": 3, "b": 3}


WHY = {
    "spread": (
        "aab", (of("it", 12, "spread(Zone)"),),
        ("no node that satisfies spread(Zone) has enough free (2 of 3 nodes do not satisfy it; 1 lacks cpu); "
            "Zone a has 5 of its 9 tasks, and may have at most 1 more than b (4); "
         "with most_skew 2 one more would start"),
    ),
    "shares": (
        "aab", (of("it", 12, 'spread(Zone, "a=40%")'),),
        ('no node that satisfies spread(Zone, "a=40%") has enough free (2 of 3 nodes do not satisfy it; 1 '
            'lacks cpu); Zone a has 4 of its 8 tasks, and its share is 40 %; '
         "with most_skew 2 one more would start"),
    ),
    "away": (
        "aab", (of("db", 2, "spread(Zone)"), of("it", 1, 'away_from("d*", Zone)')),
        ('no node satisfies away_from("d*", Zone) (3 of 3 nodes do not); tasks of d* run in Zone a, b; '
            'without away_from("d*", Zone), 3 nodes would do'),
    ),
    "the others keep away": (
        "ab", (of("first", 2, 'away_from("it", Zone)', "spread(Zone)"), of("it", 1)),
        ("no node satisfies the distance to job 1, which keeps away from it by Zone (2 of 2 nodes do not); "
            "without that distance 2 nodes would do"),
    ),
    "near what does not run": (
        "ab", (of("it", 1, 'near("db", Zone)'),),
        ('no node satisfies near("db", Zone) (2 of 2 nodes do not); no task of db runs; without near("db", '
            'Zone), 2 nodes would do; there is no job db'),
    ),
    "near what runs in another group": (
        "ab", (of("db", 1).group("h"), of("it", 1, 'near("db", Zone)')),
        ('no node satisfies near("db", Zone) (2 of 2 nodes do not); no task of db runs; without near("db", '
            'Zone), 2 nodes would do; there is no job db, did you mean h/db?'),
    ),
    "near what is full": (
        "ab", (of("db", 1, 'Zone = "b"').cpu(4), of("it", 1, 'near("db", Zone)')),
        ('no node that satisfies near("db", Zone) has enough free (1 of 2 nodes does not satisfy it; 1 lacks '
            'cpu); tasks of db run in Zone b; without near("db", Zone), 1 node would do'),
    ),
    "no node has it": (
        "ab", (of("it", 1, "spread(Zome)"),),
        ("no node of this cluster could ever satisfy spread(Zome) (2 of 2 nodes do not); no node has an "
            "attribute Zome, did you mean zone?"),
    ),
    "shares of zones that are not there": (
        "aab", (of("it", 2, 'spread(Zone, "q=100%")'),),
        ('no node satisfies spread(Zone, "q=100%") (3 of 3 nodes do not); its targets leave no share to Zone '
            'a, b, and with one it could start there; '
         "no node has Zone q"),
    ),
    "no share where it may run": (
        "abc", (of("it", 2, 'spread(Zone, "a=50%, b=50%")', 'Zone = "c"'),),
        ('no node satisfies spread(Zone, "a=50%, b=50%") and Zone = "c" (of 3 nodes 3 do not satisfy the '
            'first, 2 the second); '
         "its targets leave no share to Zone c, and with one it could start there"),
    ),
    "one of two clauses": (
        "ab", (of("db", 2, "spread(Zone)"), of("it", 1, 'away_from("db", Zone)', 'near("db")')),
        ('no node satisfies away_from("db", Zone) (2 of 2 nodes do not); tasks of db run in Zone a, b; '
         'without away_from("db", Zone), 2 nodes would do'),
    ),
    "one of two spreads": (
        "aab", (of("it", 12, "spread(Zone)", "spread(Name, 9)"),),
        ("no node that satisfies spread(Zone) has enough free (2 of 3 nodes do not satisfy it; 1 lacks cpu); "
            "Zone a has 5 of its 9 tasks, and may have at most 1 more than b (4); "
         "with most_skew 2 one more would start (spread(Zone))"),
    ),
    "a gang that no zone holds": (
        "aab", (of("it", 9, "within(Zone)").gang(),),
        "all nodes of this cluster together are too small for all tasks of the gang at once, with within(Zone)",
    ),
    "a gang that no zone holds now": (
        "aab", (of("first", 2, 'Zone = "a"'), of("it", 8, "within(Zone)").gang()),
        ("not enough nodes have enough free for all tasks of the gang; there is room for some of them only, with "
            "within(Zone); without within(Zone) it would start"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", WHY)
def test_who_waits_is_told_what_excludes_how_many_nodes_and_what_would_help(story: str) -> None:
    text, jobs, sentence = WHY[story]
    core = world(*zones(text))
    for each in jobs:
        core.submit(each).decide()
    assert core.why("it") == sentence


def test_it_turns_soft_with_time() -> None:
    core = world(*zones("aab"))
    core.submit(of("it", 12, "spread(Zone) && f(x) = (Waittime > 10min)")).decide()
    assert where(core, "it") == {"a": 5, "b": 4}
    core.wake()
    assert core.now > 600_000_000
    assert where(core, "it") == {"a": 8, "b": 4}


def test_a_gang_widens_in_steps() -> None:
    nodes = [node(f"n{i}").cpu(2).where(switch=f"s{i // 2}", zone="ab"[i // 4]) for i in range(8)]
    core = world(*nodes)
    core.run(
        of("first", 1, 'Switch = "s0"'),
        of("second", 1, 'Switch = "s1"'),
        of("third", 1, 'Switch = "s2"'),
        of("last", 1, 'Switch = "s3"'),
    )
    core.submit(of("it", 4, "within(Switch) && f(x) = (Waittime > 10min)", "within(Zone)").gang()).decide()
    assert core.nodes_of("it") == []
    core.wake()
    assert where(core, "it") == {"a": 4}
    assert where(core, "it", "switch").keys() == {"s0", "s1"}


def test_of_sets_of_switches_the_nearest_is_chosen() -> None:
    nodes = [node(f"n{i}").cpu(2).where(switch=f"s{i}") for i in range(4)]
    core = world(*nodes)
    distances = parse_distances({"switch": {"s0": {"s1": 4, "s2": 4, "s3": 1}, "s1": {"s2": 2}}})
    core.observe([RacksSet((), distances)])
    core.submit(of("it", 4, "within(Switch) && f(x) = True").gang()).decide()
    assert where(core, "it", "switch") == {"s0": 2, "s3": 2}
    core.submit(of("next", 4, "within(Switch) && f(x) = True").gang()).decide()
    assert where(core, "next", "switch") == {"s1": 2, "s2": 2}


def test_a_gang_takes_its_room_from_others_where_its_clause_holds() -> None:
    core = World(group("g", 8), group("h", 1), nodes=zones("aab"))
    core.run(job("other").tasks(12).group("h"))
    core.submit(of("it", 4, "spread(Zone)").gang()).decide()
    core.yield_victims()
    assert where(core, "it") == {"a": 2, "b": 2}


def test_a_gang_gets_a_reservation_where_its_clause_holds_then() -> None:
    core = world(*zones("aab"))
    core.run(of("a", 8, 'Zone = "a"').limit("10min"), of("b", 3, 'Zone = "b"').limit("1h"))
    core.submit(of("it", 3, "spread(Zone)").gang()).decide()
    core.submit(of("long", 1)).decide()
    assert core.nodes_of("long") == []
    core.wait(600).finish("a")
    assert where(core, "it") == {"a": 2, "b": 1}


def test_a_job_with_several_clauses_satisfies_all() -> None:
    nodes = [node(f"n{i}").cpu(4).where(zone="ab"[i % 2], tier=str(i // 2)) for i in range(6)]
    core = world(*nodes)
    core.run(of("it", 6, "spread(Zone)", "spread(Tier)").gang(), of("one", 6, "spread(Zone)", "spread(Tier)"))
    for name in ("it", "one"):
        assert where(core, name) == {"a": 3, "b": 3}
        assert where(core, name, "tier") == {"0": 2, "1": 2, "2": 2}


SELECTED = {
    "a name": ("db", True),
    "another name": ("dbs", False),
    "a pattern": ("d?", True),
    "a label": ("tier=data", True),
    "labels": ("tier=data, env!=test", True),
    "another label": ("tier=data, env=test", False),
    "a condition": ('Job.Labels.Tier = "data" && Job.User = "ann"', True),
    "a condition that names a group": ('Job.Group = "h"', False),
    "the group that it is in": ("g/db", True),
    "every group": ("*/db", True),
    "another group": ("h/db", False),
}


@pytest.mark.parametrize("story", SELECTED)
def test_jobs_are_selected(story: str) -> None:
    jobs, selected = SELECTED[story]
    core = world(*zones("ab"))
    quoted = jobs.replace('"', '\\"')
    core.run(of("db", 1, 'Zone = "b"').labelled(tier="data").user("ann"))
    core.submit(of("it", 1, f'near("{quoted}", Zone)')).decide()
    assert where(core, "it") == ({"b": 1} if selected else {})


def test_who_keeps_away_is_kept_away_from_in_its_own_group_alone() -> None:
    core = world(*zones("ab"))
    core.run(of("db", 1, 'Zone = "a"', 'away_from("*/web*", Zone)'))
    core.run(of("web1", 2))
    assert where(core, "web1") == {"b": 2}
    core.run(of("web2", 2, 'Zone = "a"').group("h"))
    core.finish("db")
    core.run(of("web3", 1, 'Zone = "a"'))


def test_what_ends_keeps_nobody_away_and_jobs_that_no_one_asks_for_share_a_shape() -> None:
    core = world(*zones("a", cpu=2))
    core.run(of("db", 1, 'away_from("web", Zone)'))
    core.submit(job("web").group("g"), job("other").group("g").cpu(8)).decide()
    assert core.nodes_of("web") == []
    assert core.state("other").shape.wants is NO_WANTS
    core.finish("db")
    assert core.nodes_of("web") == ["n1"]


def test_a_soft_distance_keeps_nobody_else_away() -> None:
    core = world(*zones("a"))
    core.run(of("db", 1, 'away_from("web", Zone) && f(x) = True'), of("web", 1))


def test_a_task_that_runs_again_is_spread_again() -> None:
    core = world(*zones("aab"))
    core.run(of("it", 4, "spread(Zone)").type(JobType.SERVICE))
    mine = [start for start in core.running.values() if start.node == "n3"]
    core.end(mine, Outcome.FAILED, again=True).decide()
    assert where(core, "it") == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"switch": {"s1": {"s1": 1}}}, "switch.s1.s1: s1 has no distance to itself (two values)"),
        (
            {"switch": {"s1": {"s2": "far"}}},
            "switch.s1.s2: 'far' is not a distance (a whole number from 1 to 1,000,000)",
        ),
        (
            {"switch": {"s1": {"s2": 1}, "s2": {"s1": 2}}},
            "switch.s2.s1: differs from the distance in the other direction (one distance for both)",
        ),
    ],
)
def test_mistakes_in_distances(value: object, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_distances(value)
    assert str(caught.value) == sentence
