"""Answers about waiting jobs: remedies that really help, and starts that are foreseen (design note 0051)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given

from cress.core.answers.changes import changes_for
from cress.core.answers.explain import expected_start, explain
from cress.core.answers.forward import Forecast
from cress.core.scheduler import Scheduler
from cress.model.decisions import Start
from cress.model.explanation import ExpectedStart, Explanation
from cress.model.times import MINUTE, SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.core.settings import EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, sent_away
from tests.examples import examples

HOUR = 60 * MINUTE


class Restored:
    """Copies of a scheduler, each restored from its state."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._moments = 200

    def holds(self, trial: Callable[[Scheduler], bool]) -> bool:
        return trial(sent_away(self._core))

    def forecast(self, trial: Callable[[Scheduler], Forecast]) -> Forecast:
        return trial(sent_away(self._core))

    def patient(self) -> bool:
        self._moments -= 1
        return self._moments > 0


def explained(world: World, name: str) -> Explanation:
    return explain(world.core, world.ids[name], world.why(name), Restored(world.core))


def remedies(world: World, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for remedy in explained(world, name).remedies:
        found.setdefault(remedy.kind, []).append(remedy.text)
    return found


def start_of(world: World, name: str) -> ExpectedStart:
    return expected_start(world.ids[name], Restored(world.core), {})


def busy(*waiting: JobBuilder, **options: Any) -> World:
    """Two groups on two nodes of 4 cores: one runs 3 cores for an hour, the other 2 cores for two hours."""
    world = World(
        group("a", 4), group("b", 4), nodes=[node("n1").cpu(4), node("n2").cpu(4).where(Fast=True)], **options
    )
    world.run(job("one").group("a").cpu(3).limit("1h"), job("two").group("b").cpu(2).limit("2h"))
    assert world.nodes_of("one") != world.nodes_of("two")
    world.submit(*waiting).decide()
    return world


# --- remedies ------------------------------------------------------------------------------------------------------


def test_less_of_an_amount_and_the_end_that_is_waited_for() -> None:
    world = busy(job("wait").group("a").cpu(3).limit("1h"))
    assert remedies(world, "wait") == {
        "amount": ["with cpu of at most 2"],
        "node": ["with one more node like n1"],
        "end": ["when job 1 ends"],
    }


def test_fewer_tasks_of_a_gang() -> None:
    world = busy(job("wait").group("a").tasks(4).gang().limit("1h"))
    assert remedies(world, "wait")["tasks"] == ["with 3 tasks instead of 4"]


def test_without_a_clause() -> None:
    world = World(group("a", 8), nodes=[node("n1").cpu(4).where(Fast=False), node("n2").cpu(4).where(Fast=True)])
    world.run(job("one").cpu(3).requires("Fast = True").limit("1h"))
    world.submit(job("wait").group("a").cpu(3).requires("Fast = True && Cpu >= 1")).decide()
    assert remedies(world, "wait")["clause"] == ["without Fast = True"]


def test_a_release_and_a_job_ahead() -> None:
    world = busy(job("held").group("a").cpu(1), job("behind").group("a").cpu(1))
    world.hold("held")
    world.submit(job("wait").group("a").cpu(1)).hold("wait")
    assert remedies(world, "wait")["release"] == [f"if it were released (cress release {world.ids['wait']})"]


def test_another_priority_helps_where_the_policy_orders_by_it() -> None:
    world = World(group("a", 4, "Priority"), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(2).limit("1h"))
    world.submit(job("first").group("a").cpu(3).priority(5), job("wait").group("a").cpu(2).priority(1)).decide()
    assert remedies(world, "wait")["priority"] == ["with priority 6"]


def test_a_shorter_time_limit_lets_it_start_before_a_reservation() -> None:
    world = World(group("a", 4, "BackFill"), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(2).limit("1h"))
    world.submit(job("first").group("a").cpu(4).limit("1h"), job("wait").group("a").cpu(2).limit("2h")).decide()
    assert remedies(world, "wait")["time_limit"] == ["with a time limit of at most 1h"]


def test_another_group_and_more_quota() -> None:
    world = World(group("a", 2), group("b", 6).users("bob"), group("c", 2).most(2), nodes=nodes(1, cpu=8))
    world.run(job("one").group("c").cpu(2).limit("1h"))
    world.submit(job("wait").group("c").cpu(2).user("ann")).decide()
    assert remedies(world, "wait")["group"] == ["in group a", "in group default"]


def test_a_closed_node_would_hold_it() -> None:
    world = World(group("a", 8), nodes=nodes(2, cpu=4)).cordon("n2")
    world.run(job("one").group("a").cpu(4).limit("1h"))
    world.submit(job("wait").group("a").cpu(2)).decide()
    assert remedies(world, "wait")["uncordon"] == ["if node n2 took new tasks again (cress nodes uncordon n2)"]


def test_more_licences() -> None:
    world = World(group("a", 8), nodes=nodes(1, cpu=4)).licences(matlab=1)
    world.run(job("one").group("a").licences(matlab=1).limit("1h"))
    world.submit(job("wait").group("a").licences(matlab=1)).decide()
    assert remedies(world, "wait")["licences"] == ["with 1 more of licence matlab"]


def test_the_clauses_and_the_nearest_nodes() -> None:
    world = busy(job("wait").group("a").cpu(3).requires("Fast = True"))
    found = explained(world, "wait")
    assert [(one.clause, one.excludes, one.of, one.alone) for one in found.clauses] == [("Fast = True", 1, 2, 1)]
    assert [(near.node, near.lacks, near.excluded_by) for near in found.nearest] == [
        ("n2", ("cpu 1",), ()),
        ("n1", ("cpu 2",), ("Fast = True",)),
    ]


@examples(6)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_every_remedy_is_true_when_it_is_applied(setting: Setting, story: list[Operation]) -> None:
    core = Player(setting, check=False).play(story).core
    for number in [entry.job.id for entry in core.waiting()][:2]:
        told = {remedy.text for remedy in explain(core, number, "", Restored(core)).remedies}
        for change in changes_for(core.books, core.jobs[number]):
            if change.text in told:
                applied = sent_away(core)
                applied.observe(core.now, change.events)
                started = [item for item in applied.decide(core.now).items if isinstance(item, Start)]
                assert applied.validate() == []
                assert change.job in {start.job for start in started}, change.text


# --- expected starts -----------------------------------------------------------------------------------------------


def test_the_start_is_that_of_the_end_that_makes_room() -> None:
    world = busy(job("wait").group("a").cpu(3).limit("1h"), job("last").group("a").cpu(4).limit("1h"))
    assert start_of(world, "wait") == ExpectedStart(earliest=HOUR, likely=HOUR, latest=HOUR, because=1)
    assert start_of(world, "last") == ExpectedStart(
        earliest=2 * HOUR, likely=2 * HOUR, latest=2 * HOUR, because=3, behind=1, ahead="a"
    )


def test_estimates_make_an_interval() -> None:
    world = World(group("a", 4, "Urgency"), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(4).limit("1h").expected(600, mean=900))
    world.submit(job("wait").group("a").cpu(1)).decide()
    found = start_of(world, "wait")
    assert found.likely == 900 * SECOND
    assert found.earliest == 600 * SECOND


def test_a_task_that_was_told_to_stop_ends_with_its_grace() -> None:
    world = World(group("a", 4), group("b", 2), nodes=nodes(1, cpu=6))
    world.run(job("one").group("b").cpu(6))
    world.submit(job("wait").group("a").cpu(4)).decide()
    assert world.victims() == ["one"]
    assert start_of(world, "wait").likely == 5 * SECOND


def test_without_a_known_end_no_start_is_known() -> None:
    world = World(group("a", 4), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(4))
    world.submit(job("wait").group("a").cpu(1)).decide()
    assert start_of(world, "wait") == ExpectedStart()


def test_a_job_that_is_reserved_for_starts_when_the_scheduler_starts_it() -> None:
    """The run forward is the scheduler's own: what it foresees happens when every task runs to its limit."""
    world = World(group("a", 6, "BackFill"), group("b", 2), nodes=nodes(2, cpu=4), preemption="off")
    world.run(job("one").group("a").cpu(3).limit("1h"), job("two").group("b").cpu(3).limit("30m"))
    names = ["wide", "short", "next"]
    world.submit(
        job("wide").group("a").cpu(4).limit("1h"), job("short").group("b").cpu(3).limit("10m"),
        job("next").group("a").cpu(2).limit("2h"),
    ).decide()  # fmt: skip
    foreseen = {name: start_of(world, name).likely for name in names}
    runs = {"one": 60, "two": 30, "wide": 60, "short": 10, "next": 120}
    for minute in range(1, 300):
        world.wait(60).decide()
        for start in list(world.running.values()):
            name = world.names[start.job]
            if minute == began(world, name) + runs[name]:
                world.finish(name)
    assert {name: began(world, name) * MINUTE for name in names} == foreseen


def began(world: World, name: str) -> int:
    """The minute at which a job started."""
    return round(next(start.at for start in world.starts if start.job == name) / 60)


@examples(6)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_a_foreseen_start_is_never_in_the_past_and_its_bounds_are_in_order(
    setting: Setting, story: list[Operation]
) -> None:
    core = Player(setting, check=False).play(story).core
    for number in [entry.job.id for entry in core.waiting()][:1]:
        found = expected_start(number, Restored(core), {})
        known = [at for at in (found.earliest, found.likely, found.latest) if at is not None]
        assert known == sorted(known)
        assert all(at >= core.now for at in known)
