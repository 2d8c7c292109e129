"""Answers about waiting jobs: remedies that really help, and starts that are foreseen (design note 0051)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from unittest.mock import patch

from hypothesis import given

from cress.core.answers.changes import Counterfactual, changes_for, holds
from cress.core.answers.explain import MOST_TRIED, explain
from cress.core.answers.forward import Forecast, Forward
from cress.core.answers.groups import why_no_more
from cress.core.answers.nodes import why_not_fuller
from cress.core.answers.placed import best_nodes
from cress.core.answers.preempted import rule_of
from cress.core.answers.prospects import Prospects
from cress.core.books import Books
from cress.core.diagnostics.sentences import sentence
from cress.core.jobs import JobEntry
from cress.core.openings import EndsBy
from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.model.decisions import Preempt, Start
from cress.model.events import Outcome
from cress.model.explanation import Explanation
from cress.model.times import MINUTE, SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.core.settings import ADVANCE, EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, sent_away
from tests.examples import examples

HOUR = 60 * MINUTE


def helps(core: Scheduler, change: Counterfactual) -> bool:
    """Whether a change lets the job start, on a copy that is restored from the state."""
    try:
        return holds(sent_away(core), change)
    except ValueError:
        return False


def explained(world: World, name: str) -> Explanation:
    return explain(world.core, world.ids[name], world.why(name), partial(helps, world.core))


def remedies(world: World, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for remedy in explained(world, name).remedies:
        found.setdefault(remedy.kind, []).append(remedy.text)
    return found


def start_of(world: World, name: str, by: EndsBy = EndsBy.MEAN) -> Forecast:
    return Forward(sent_away(world.core), by, {}).until_starts([world.ids[name]]).get(world.ids[name], Forecast(None))


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


def test_a_remedy_of_the_job_says_the_key_and_its_value() -> None:
    world = busy(job("wait").group("a").cpu(3).limit("1h"))
    told = {remedy.kind: remedy.change for remedy in explained(world, "wait").remedies}
    assert told == {"amount": {"cpu": "2"}, "node": {}, "end": {}}
    world = busy(job("wait").group("a").tasks(4).gang().limit("1h"))
    assert {"tasks": "3"} in [remedy.change for remedy in explained(world, "wait").remedies]


def test_fewer_tasks_of_a_gang() -> None:
    world = busy(job("wait").group("a").tasks(4).gang().limit("1h"))
    assert remedies(world, "wait")["tasks"] == ["with 3 tasks instead of 4"]


def test_a_node_more_for_a_gang_whose_tasks_stay_in_one_zone() -> None:
    world = World(group("a", 16), nodes=[node("n1").cpu(4).where(Zone="a"), node("n2").cpu(4).where(Zone="b")])
    world.run(job("db").group("a").cpu(2).requires('Zone = "a"').limit("1h"))
    world.submit(job("wait").group("a").cpu(1).tasks(6).gang().requires('near("db", Zone)').limit("1h")).decide()
    assert remedies(world, "wait")["node"] == ["with one more node like n1"]


def test_no_part_of_a_gang_is_submitted_anew_while_tasks_of_it_run() -> None:
    world = World(group("a", 9), nodes=nodes(1, cpu=4))
    world.run(job("gang").tasks(3).gang().group("a").limit("1h"))
    world.finish("gang", 1, outcome=Outcome.FAILED, again=True)
    assert world.veto("gang").kind is Verdict.GANG_RUNS
    assert remedies(world, "gang") == {}


def test_without_a_clause() -> None:
    world = World(group("a", 8), nodes=[node("n1").cpu(4).where(Fast=False), node("n2").cpu(4).where(Fast=True)])
    world.run(job("one").cpu(3).requires("Fast = True").limit("1h"))
    world.submit(job("wait").group("a").cpu(3).requires("Fast = True && Cpu >= 1")).decide()
    assert remedies(world, "wait")["clause"] == ["without Fast = True"]


def test_of_many_changes_of_a_kind_only_the_likeliest_are_tried() -> None:
    # A hundred groups use what they are owed; the last one, and only the last of ten clauses, make a difference.
    world = World(*(group(f"g{i:02}", 1).most(1) for i in range(100)), group("last", 4), nodes=[node("n1").cpu(128)])
    world.run(*(job(f"run{i}").group(f"g{i:02}").cpu(1).limit("1h") for i in range(100)))
    clauses = " && ".join([*(f"Cpu >= {i}" for i in range(1, 10)), "Fast = True"])
    world.submit(job("wait").group("g00").cpu(1), job("clause").group("last").cpu(1).requires(clauses)).decide()
    tried = list[str]()

    def noted(change: Counterfactual) -> bool:
        tried.append(change.kind)
        return helps(world.core, change)

    found = [explain(world.core, world.ids[name], "", noted).remedies for name in ("wait", "clause")]
    told = [{remedy.kind: remedy.text for remedy in of_one} for of_one in found]
    assert told[0]["group"] == "in group last"
    assert told[1]["clause"] == "without Fast = True"
    assert max(Counter(tried).values()) <= 2 * MOST_TRIED


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
    # As the reason tells it.
    world.wait(56 * 60 + 25).decide()
    assert remedies(world, "wait")["time_limit"] == ["with a time limit of at most 3m35s"]


def test_another_group_and_more_quota() -> None:
    world = World(group("a", 2), group("b", 6).users("bob"), group("c", 2).most(2), nodes=nodes(1, cpu=8))
    world.run(job("one").group("c").cpu(2).limit("1h"))
    world.submit(job("wait").group("c").cpu(2).user("ann")).decide()
    assert remedies(world, "wait")["group"] == ["in group a", "in group default"]


def test_a_job_that_runs_as_many_tasks_as_its_user_wants_is_sent_to_no_other_group() -> None:
    world = World(group("a", 2), group("b", 6), nodes=nodes(1, cpu=8))
    world.submit(job("array").group("a").tasks(4).at_once(2)).decide()
    assert remedies(world, "array") == {"max_running": ["with max_running = 3"]}
    # What runs stays where it is: only the rest could go elsewhere.
    world = World(group("a", 2).most(2), group("b", 6), nodes=nodes(1, cpu=8))
    world.submit(job("array").group("a").tasks(4)).decide()
    assert remedies(world, "array")["group"][0] == "in group b, if its waiting tasks were a job of their own"


def test_what_a_clause_says_of_other_jobs_differs_in_another_group_and_when_they_end() -> None:
    """The node has room for both: only the clause keeps them apart, and it is about jobs of one group."""
    world = World(group("a", 2), group("b", 6), nodes=nodes(1, cpu=8))
    world.run(job("one").group("a").limit("1h"))
    world.submit(job("wait").group("a").cpu(2).requires('away_from("one")')).decide()
    found = remedies(world, "wait")
    assert (found["group"], found["end"]) == (["in group b", "in group default"], ["when job 1 ends"])


def test_a_job_that_was_passed_over_is_first_again_with_less() -> None:
    """No node has three GPUs, so the second job of the queue is offered in its place."""
    world = World(group("a", 2), nodes=[node("n1").cpu(4).has(gpu=1)], dimensions=("gpu",))
    world.submit(job("wait").group("a").cpu(1).needs(gpu=3), job("first").group("a").cpu(3).tasks(2)).decide()
    assert remedies(world, "wait")["amount"] == ["with gpu of at most 1"]


def test_a_closed_node_would_hold_it() -> None:
    world = World(group("a", 8), nodes=nodes(2, cpu=4)).cordon("n2")
    world.run(job("one").group("a").cpu(4).limit("1h"))
    world.submit(job("wait").group("a").cpu(2)).decide()
    assert remedies(world, "wait")["uncordon"] == ["if node n2 took new tasks again (cress nodes uncordon n2)"]


def test_more_licences() -> None:
    world = World(group("a", 8), nodes=nodes(1, cpu=4)).licences(matlab=1)
    world.run(job("one").group("a").licences(matlab=1).limit("1h"))
    world.submit(job("wait").group("a").cpu(3).licences(matlab=1)).decide()
    told = remedies(world, "wait")
    assert told["licences"] == ["with 1 more of licence matlab"]
    assert told["end"] == ["when job 1 ends"]
    # It is no property of a node.
    assert of_node(world, "n1") == [
        "fits: a task of job 2 has room here, but: waiting for licence matlab: 1 of 1 in use"
    ]
    found = explained(world, "wait")
    assert [near.excluded_by for near in found.nearest] == [()]
    assert found.clauses == ()


def test_the_clauses_and_the_nearest_nodes() -> None:
    world = busy(job("wait").group("a").cpu(3).requires("Fast = True"))
    found = explained(world, "wait")
    assert [(one.clause, one.excludes, one.of, one.alone) for one in found.clauses] == [("Fast = True", 1, 2, 1)]
    assert [(near.node, near.lacks, near.excluded_by) for near in found.nearest] == [
        ("n2", ("cpu 1",), ()),
        ("n1", ("cpu 2",), ("Fast = True",)),
    ]


def test_a_requirement_that_an_older_release_accepted_is_explained() -> None:
    """A new one would be refused: FreeMemory is in bytes, and 4 has no unit."""
    world = busy(job("wait").group("a").cpu(1).requires("(FreeMemory >= 4 || IdleCPU > 9) && Fast = True"))
    assert "(FreeMemory >= 4 || IdleCPU > 9)" in {one.clause for one in explained(world, "wait").clauses}


@examples(6)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_every_remedy_is_true_when_it_is_applied(setting: Setting, story: list[Operation]) -> None:
    every_remedy_is_true(Player(setting, check=False).play(story).core)


@examples(4)
@given(setting=settings_of_any_kind(trees=True, parts="some"), story=operations(ADVANCE))
def test_every_remedy_is_true_in_trees_with_parts_and_reservations(setting: Setting, story: list[Operation]) -> None:
    every_remedy_is_true(Player(setting, check=False).play(story).core)


@examples(4)
@given(setting=settings_of_any_kind(fragments=True), story=operations(EVERYTHING))
def test_every_remedy_is_true_where_leases_lend(setting: Setting, story: list[Operation]) -> None:
    every_remedy_is_true(Player(setting, check=False).play(story).core)


def every_remedy_is_true(core: Scheduler) -> None:
    """Each remedy that is told lets the unit start when it is applied; each unit that waits has a reason."""
    for number in [entry.job.id for entry in core.waiting()]:
        veto = core.veto(number)
        assert veto is not None
        assert sentence(veto)
    for number in [entry.job.id for entry in core.waiting()][:2]:
        told = {remedy.text for remedy in explain(core, number, "", partial(helps, core)).remedies}
        for change in changes_for(core.books, core.jobs[number]):
            if change.text in told:
                applied = sent_away(core)
                applied.observe(core.now, change.events)
                started = [item for item in applied.decide(core.now).items if isinstance(item, Start)]
                assert applied.validate() == []
                assert change.job in {start.job for start in started}, change.text


class Anything(Prospects):
    """Prospects that leave no change out."""

    def __init__(self, core: Books, job: JobEntry) -> None:
        super().__init__(core, job)
        self._simple, self._first = False, None


@examples(6)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_no_change_that_would_help_is_left_out_without_a_trial(setting: Setting, story: list[Operation]) -> None:
    core = Player(setting, check=False).play(story).core
    for number in [entry.job.id for entry in core.waiting()][:2]:
        tried = {change.text for change in changes_for(core.books, core.jobs[number])}
        with patch("cress.core.answers.changes.Prospects", Anything):
            every = list(changes_for(core.books, core.jobs[number]))
        for change in every:
            if change.text not in tried:
                assert not helps(core, change), change.text


# --- running tasks, groups and nodes -------------------------------------------------------------------------------


def test_the_best_nodes_of_a_running_task_term_by_term() -> None:
    fast = node("n2").cpu(8).where(Fast=True)
    world = World(group("a", 8), nodes=[node("n1").cpu(4), fast], node_order="spread")
    world.run(job("one").group("a").cpu(2).limit("1h").ranks("2 * (Fast = True)"))
    found = best_nodes(sent_away(world.core), next(iter(world.core.attempts)))
    assert [(one.node, one.here, one.terms) for one in found] == [
        ("n2", True, (("2 × (Fast = True)", 2.0),)),
        ("n1", False, (("2 × (Fast = True)", 0.0),)),
    ]
    assert {one.order for one in found} == {"mean use with it (less is better)"}
    assert [one.value for one in found] == [0.0625, 0.125]


def test_the_rule_of_a_preemption_has_the_numbers_of_its_moment() -> None:
    world = World(group("a", 4), group("b", 2), nodes=nodes(1, cpu=6))
    world.run(job("one").group("b").tasks(6).cpu(1))
    world.submit(job("wait").group("a").cpu(4))
    facts = [item for item in world.apart().decide(world.now).items if isinstance(item, Preempt)]
    assert {rule_of(world.core.books, fact) for fact in facts} == {
        "group a is owed its quota (uses 0 of 4 cores), and group b uses 6 of 2 cores"
    }


def why_of(world: World, number: int) -> str:
    veto = world.core.veto(number)
    return "" if veto is None else sentence(veto)


def of_group(world: World, name: str) -> list[str]:
    books = world.core.books
    found = why_no_more(books, books.groups.by_name[name], world.core.veto, partial(why_of, world))
    return [f"{one.kind}: {one.text}" for one in found]


def test_why_a_group_gets_no_more() -> None:
    world = World(group("a", 4).most(4), group("b", 4), nodes=nodes(2, cpu=4))
    assert of_group(world, "a") == ["no_demand: no job of the group waits: it has all that it asks for"]
    world.run(job("one").group("a").cpu(4).limit("1h"), job("two").group("b").cpu(4).limit("1h"))
    world.submit(job("three").group("a").cpu(1)).decide()
    told = of_group(world, "a")
    assert told[0] == (
        "max_quota: group a is at its MaxQuota of 4 cores (4 cores used): until one of its tasks ends, "
        "or with a higher MaxQuota"
    )
    assert told[1].startswith("max_quota: job 3 waits: group a is at its MaxQuota")
    world.submit(job("four").group("a").cpu(1)).decide()
    assert of_group(world, "a")[1].startswith("max_quota: 2 of 2 waiting jobs, such as job 3: group a is at its MaxQ")


def test_a_group_that_cools_off_says_until_when_and_for_whom() -> None:
    world = World(group("a", 4), group("b", 2), nodes=nodes(1, cpu=6))
    world.run(job("one").group("b").tasks(6).cpu(1))
    world.submit(job("wait").group("a").cpu(4)).decide()
    assert any(
        one.startswith("cooling: its tasks were preempted for job 2") and "nothing beyond its quota" in one
        for one in of_group(world, "b")
    )


def of_node(world: World, name: str, closed: str = "") -> list[str]:
    books = world.core.books
    found = why_not_fuller(books, books.cluster.index[name], closed, partial(why_of, world))
    return [f"{one.kind}: {one.text}" for one in found]


def test_why_a_node_is_not_fuller() -> None:
    world = busy(job("wide").group("a").cpu(3), job("quick").group("a").cpu(1).requires("Fast = True"))
    name = world.nodes_of("one")[0]
    assert of_node(world, "n1" if name == "n2" else "n2")
    assert "no_fit: job 3 would need more cpu than is free here" in of_node(world, name)
    world.cordon("n1")
    assert of_node(world, "n1", "new disk")[0] == "closed: it takes no new tasks: new disk"


def test_an_empty_cluster_has_no_demand() -> None:
    world = World(group("a", 8), nodes=nodes(2, cpu=4))
    assert of_node(world, "n1") == ["no_demand: no job waits for a node"]


def test_a_node_that_is_kept_says_for_whom() -> None:
    world = World(group("a", 4, "BackFill"), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(2).limit("1h"))
    world.submit(job("first").group("a").cpu(4).limit("1h"), job("next").group("a").cpu(2).limit("2h")).decide()
    assert any(one.startswith("reserved: it is kept free for job 2") for one in of_node(world, "n1"))


def test_a_node_that_is_being_emptied_has_no_time_of_a_start() -> None:
    world = World(group("a", 8), nodes=nodes(1, cpu=4), drain_after=30 * SECOND)
    world.run(job("endless").group("a").cpu(2))
    world.submit(job("large").group("a").cpu(4).limit("1h"), job("small").group("a").cpu(1)).decide()
    world.wait(31).decide()
    assert world.veto("large").kind is Verdict.DRAINING
    told = [one for one in of_node(world, "n1") if "job 2" in one.partition(",")[0]]
    assert told[0] == "draining: it is being emptied for job 2, which has waited long enough"
    assert not any("starts at" in one for one in told)


def test_nothing_is_emptied_for_a_unit_that_has_come_to_wait_for_another_job() -> None:
    world = World(group("a", 8), nodes=nodes(1, cpu=4), drain_after=30 * SECOND)
    world.run(job("first").group("a").cpu(2))
    beside = job("beside").group("a").cpu(4).requires("JobDependency = first")
    world.submit(beside, job("small").group("a").cpu(1)).decide()
    world.wait(31).decide()
    assert world.veto("beside").kind is Verdict.DRAINING
    world.finish("first")
    assert world.veto("beside").kind is Verdict.UNSATISFIED
    assert not any(one.startswith("draining") for one in of_node(world, "n1"))


# --- expected starts -----------------------------------------------------------------------------------------------


def test_the_start_is_that_of_the_end_that_makes_room() -> None:
    world = busy(job("wait").group("a").cpu(3).limit("1h"), job("last").group("a").cpu(4).limit("1h"))
    assert start_of(world, "wait") == Forecast(HOUR, because=1)
    assert start_of(world, "last") == Forecast(2 * HOUR, because=3, behind=1, ahead="a")
    # Half of those that start before it are not most of them.
    world = busy(*(job(f"j{i}").group("ab"[i % 2]).cpu(4).limit("1h") for i in range(3)))
    assert start_of(world, "j2")._replace(start=0) == Forecast(0, because=3, behind=2)


def test_the_estimate_that_is_asked_for_counts() -> None:
    world = World(group("a", 4, "Urgency"), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(4).limit("1h").expected(600, mean=900))
    world.submit(job("wait").group("a").cpu(1)).decide()
    starts = [start_of(world, "wait", by).start for by in (EndsBy.OPTIMISTIC, EndsBy.MEAN, EndsBy.LIMIT)]
    assert starts == [600 * SECOND, 900 * SECOND, HOUR]


def test_a_task_that_was_told_to_stop_ends_with_its_grace() -> None:
    world = World(group("a", 4), group("b", 2), nodes=nodes(1, cpu=6))
    world.run(job("one").group("b").cpu(6))
    world.submit(job("wait").group("a").cpu(4)).decide()
    assert world.victims() == ["one"]
    assert start_of(world, "wait").start == 5 * SECOND


def test_without_a_known_end_no_start_is_known() -> None:
    world = World(group("a", 4), nodes=nodes(1, cpu=4))
    world.run(job("one").group("a").cpu(4))
    world.submit(job("wait").group("a").cpu(1)).decide()
    assert start_of(world, "wait") == Forecast(None)


def test_a_job_that_is_reserved_for_starts_when_the_scheduler_starts_it() -> None:
    """The run forward is the scheduler's own: what it foresees happens when every task runs to its limit."""
    world = World(group("a", 6, "BackFill"), group("b", 2), nodes=nodes(2, cpu=4), preemption="off")
    world.run(job("one").group("a").cpu(3).limit("1h"), job("two").group("b").cpu(3).limit("30m"))
    names = ["wide", "short", "next"]
    world.submit(
        job("wide").group("a").cpu(4).limit("1h"), job("short").group("b").cpu(3).limit("10m"),
        job("next").group("a").cpu(2).limit("2h"),
    ).decide()  # fmt: skip
    foreseen = {name: start_of(world, name).start for name in names}
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
def test_a_foreseen_start_is_never_in_the_past(setting: Setting, story: list[Operation]) -> None:
    core = Player(setting, check=False).play(story).core
    for number in [entry.job.id for entry in core.waiting()][:1]:
        patient = partial(next, iter([True] * 200), False)
        found = Forward(sent_away(core), EndsBy.MEAN, {}, patient).until_starts([number])
        assert all(each.start is None or each.start >= core.now for each in found.values())
