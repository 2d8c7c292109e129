"""Explanations over random histories of a whole machine: each waiting job has a reason with a row in docs/waiting.md,
and each remedy is true when it is carried out as its reader would do it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.submitted_constraints import replaced
from cress.language.clauses import brief
from cress.language.parser import parse_requirement
from cress.lifecycle.explaining import explained
from cress.lifecycle.inputs import (
    Cancel,
    ChangeJobs,
    Hold,
    Input,
    NodeJoined,
    Promote,
    Reported,
    Scale,
    Submit,
    Update,
)
from cress.lifecycle.jobs.reasons import told
from cress.lifecycle.machine import Machine
from cress.model.decisions import Start
from cress.model.errors import InputError
from cress.model.events import GroupsApplied, LicencesSet, NodeCordoned
from cress.model.explanation import Remedy
from cress.model.group import Group, Quota
from cress.model.job import Condition, Job
from cress.model.limits import Limits
from cress.model.times import MINUTE, SECOND
from cress.model.units import parse_duration
from cress.model.vectors import parse_vector
from tests.examples import examples
from tests.lifecycle.builders import DIMENSIONS, World, after, ended, group, job, started
from tests.lifecycle.kept import Site, database, service
from tests.lifecycle.test_lease_histories import LENDING, HoldersInside
from tests.lifecycle.test_machine_properties import OPTIONS
from tests.lifecycle.test_waiting_page import PAGE

ROWS = frozenset(re.findall(r'<a id="([^"]+)">', Path(PAGE).read_text(encoding="utf-8")))
# Texts of job files as values.
CONVERT: dict[str, Callable[[str], Any]] = {"priority": int, "time_limit": parse_duration, "group": str}
# What the histories came by: kinds of remedies that were true.
seen: Counter[str] = Counter()


class Restored:
    """Copies of a machine, each restored from its state."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def holds(self, trial: Callable[[Machine], bool]) -> bool:
        return trial(Machine.restore(self._machine.export()))


class Reader:
    """Somebody who reads a remedy of a job, and knows nothing else of how it was found."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.machine = world, world.machine
        self.live = self.machine.jobs[number]
        self.number = number

    def carries_out(self, remedy: Remedy) -> Iterator[Input]:
        """What is done about it."""
        if ", if its waiting tasks were a job of their own" in remedy.text:
            remedy = msgspec.structs.replace(remedy, text=remedy.text.partition(", if ")[0])
            assert self.live.attempts or self.machine.core.jobs[self.number].claims, remedy
        change, numbers = remedy.change, [int(text) for text in re.findall(r"\bjob (\d+)", remedy.text)]
        match remedy.kind:
            case "release":
                yield Hold(job=int(remedy.text.split()[-1].rstrip(")")), held=False)
            case "after":
                left = tuple(pair for pair in self.live.job.after if pair[0] not in numbers) if numbers else ()
                yield from self.anew(after=left)
            case "tasks":
                yield from self.anew(tasks=int(change["tasks"]))
            case "priority" | "group" | "time_limit" | "max_running":
                value: Any = change[remedy.kind]
                converts: dict[str, Callable[[str], Any]] = {
                    "priority": int,
                    "max_running": int,
                    "time_limit": parse_duration,
                    "group": str,
                }
                yield from self.updated(remedy.kind, **{remedy.kind: converts[remedy.kind](value)})
            case "amount":
                ((name, text),) = change.items()
                has = list(self.live.job.request)
                place = DIMENSIONS.index[name]
                has[place] = parse_vector(f"<{text}, 0>" if name == "cpu" else f"<0, {text}>", DIMENSIONS)[place]
                yield from self.updated("resource", request=tuple(has))
            case "clause":
                clauses = parse_requirement(self.live.job.requirement).clauses
                dropped = next(one for one in clauses if f"without {brief(one)}" == remedy.text)
                rest = " && ".join(str(one) for one in clauses if one is not dropped)
                yield from self.updated("requirement", requirement=replaced(self.live.job.requirement, rest))
            case "quota":
                groups = self.machine.core.groups.configured
                cores = Quota(scalar=parse_vector(f"<{change['ResourceQuota']}, 0>", DIMENSIONS)[0])
                yield GroupsApplied(
                    tuple(
                        msgspec.structs.replace(one, quota=cores) if one.name == change["group"] else one
                        for one in groups
                    )
                )
            case "licences":
                found = re.fullmatch(r"with (\d+) more of licence (\w+)", remedy.text)
                assert found is not None
                counts = dict(self.machine.core.relations.licences.counts)
                counts[found[2]] = counts.get(found[2], 0) + int(found[1])
                yield LicencesSet(tuple(counts.items()))
            case "uncordon":
                yield NodeCordoned(name=change["node"], cordoned=False)
            case "back":
                known = self.machine.nodes[change["node"]]
                running = tuple(started(one.id) for one in self.machine.on_node(change["node"]))
                yield NodeJoined(node=known.node, boot=known.boot, reports=running)
            case "node":
                like = self.machine.nodes[remedy.text.rsplit(" ", 1)[1]].node
                yield NodeJoined(node=msgspec.structs.replace(like, name="another"), boot="new")
            case "end":
                yield from self.ends(numbers[0])
            case _:
                raise AssertionError(f"nobody knows how to carry out {remedy}")

    def anew(self, **changed: Any) -> Iterator[Input]:
        """The job, or its waiting tasks, are submitted again with a change."""
        old, attempts = self.live.job, self.live.attempts
        tasks = old.tasks if not attempts else max(1, self.machine.core.jobs[self.number].waiting)
        known = tuple((number, record.state) for number, record in self.world.over.items())
        new = msgspec.structs.replace(old, **{"id": 0, "family": 0, "tasks": tasks, **changed})
        if attempts or self.machine.core.jobs[self.number].claims:
            yield Hold(job=self.number, held=True)
        else:
            yield Cancel(job=self.number)
        yield Submit(jobs=(new,), known=known)

    def updated(self, key: str, **changed: Any) -> Iterator[Input]:
        """`cress update`; for a member of a service `cress apply`."""
        if self.live.kept is not None:
            family = self.machine.families[self.live.job.family]
            yield Update(job=family.job.id, spec=msgspec.structs.replace(family.job, id=0, **changed))
        elif self.live.job.is_lease or (self.live.attempts and key in ("group", "resource", "requirement")):
            yield from self.anew(**changed)
        else:
            new = msgspec.structs.replace(self.live.job, **changed)
            yield ChangeJobs(jobs=(self.number,), values=new, keys=(key,))

    def ends(self, number: int) -> Iterator[Input]:
        live = self.machine.jobs[number]
        if self.machine.core.jobs[number].waiting:
            yield Hold(job=number, held=True)
        for attempt in list(live.attempts.values()):
            yield Reported(node=attempt.node, reports=(ended(attempt.id, 0),))

    def starts(self, inputs: list[Input]) -> str:
        """What keeps the job from its start after these inputs; empty: it starts."""
        copy = Machine.restore(self.machine.export())
        replies: list[object] = []
        facts: list[object] = []
        while True:
            step = copy.step(copy.now + 1000, copy.utc + 1000, inputs)
            inputs, replies, facts = [], [*replies, *step.replies], [*facts, *step.facts.core]
            if not step.more:
                break
        refused = [str(reply) for reply in replies if isinstance(reply, InputError)]
        if refused:
            return refused[0]
        assert copy.validate() == []
        mine = {self.number, *(new for reply in replies if isinstance(reply, tuple) for new in reply)}
        # A task that starts together with others may be told to lead other ones after a change.
        entry = self.machine.core.jobs[self.number]
        mine |= {lead.job.id for lead in entry.carried.values()}
        if self.live.kept is not None:
            mine |= {each for each, live in copy.jobs.items() if live.job.family == self.live.job.family}
        if any(isinstance(fact, Start) and fact.job in mine for fact in facts):
            return ""
        return "; ".join(told(copy, each).text for each in mine if each in copy.jobs) or "it is gone"


def check(world: World, most: int = 3) -> None:
    """Each waiting job has a reason; what is told of some of them is true."""
    machine = world.machine
    waiting = [entry.job.id for entry in machine.core.waiting()]
    for number in waiting:
        why = told(machine, number)
        assert why.text, f"job {number} waits without a reason"
        assert why.kind in ROWS, why
    for number in waiting[: most - 1] + waiting[most - 1 :][-1:]:
        found = explained(machine, number, Restored(machine))
        assert found is not None
        for remedy in found.remedies:
            reader = Reader(world, number)
            fault = reader.starts(list(reader.carries_out(remedy)))
            assert not fault, f"job {number} ({found.reason}) would start {remedy.text!r}, but: {fault}"
            seen[remedy.kind] += 1


class Everybody(HoldersInside):
    """Jobs of all kinds: gangs with parts, leases and jobs inside them, services that start as a whole, databases."""

    def some_job(self, world: World, place: int, count: int) -> Job:
        random = self.random
        name = f"{world.machine.next_job}-{place}"
        where = random.choice([each.name for each in world.machine.core.groups.configured])
        if random.random() < 0.1:
            plan = {"surge": random.choice((0, 1)), "canary": random.choice((0, 1))}
            return service(
                random.randint(1, 3), name, cpus=random.randint(1, 3), gang=random.random() < 0.6, group=where, **plan
            )
        if random.random() < 0.05:
            return database(random.randint(1, 3), name, cpus=random.randint(1, 2), group=where)
        made = super().some_job(world, place, count)
        if made.parts or made.is_lease or made.inside is not None or made.plan is not None:
            return made
        return msgspec.structs.replace(
            made,
            licences=random.choice(((), (), (), (("x", 1),))),
            requirement=random.choice(
                ("", "", 'Name = "n1"', 'Name = "n2" && CPU >= 2', 'f(x) = (Waittime > 5s) && Name = "n1"')
            ),
            max_per_node=0 if made.gang else random.choice((0, 0, 1)),
            time_limit=random.choice((None, 5 * SECOND, MINUTE, 10 * MINUTE)),
            priority=random.choice((0, 0, 3)),
        )

    def next_input(self, world: World) -> Input:
        random, machine = self.random, world.machine
        kept = [number for number, family in machine.families.items() if not family.cancelling]
        if kept and random.random() < 0.06:
            number = random.choice(kept)
            spec = msgspec.structs.replace(machine.families[number].job, id=0, priority=random.randint(0, 5))
            return random.choice(
                (Scale(job=number, tasks=random.randint(0, 3)), Update(job=number, spec=spec), Promote(job=number))
            )
        return super().next_input(world)


def history(seed: int, steps: int = 40) -> None:
    """Random inputs, and a look at the explanations now and then."""
    random = Random(seed)
    world = World(LENDING if seed % 2 else OPTIONS)
    limited = msgspec.structs.replace(group("b", 4), limits=Limits(time_limit=MINUTE, tasks=4))
    world.step(GroupsApplied(groups=(group("a", 4), limited)), LicencesSet((("x", 1),)))
    everybody = Everybody(random)
    for place in range(steps):
        something = everybody.next_input(world)
        world.step(something, after=random.randint(1, 2 * SECOND))
        everybody.remember(world, something)
        everybody.obey(world)
        if place % 12 == 11:
            check(world)


@examples(3)
@given(seed=st.integers(0, 100_000))
def test_every_remedy_is_true_when_its_reader_carries_it_out(seed: int) -> None:
    history(seed)


# --- what the scheduler alone did not know ---------------------------------------------------------------------------


def remedies(world: World, number: int) -> dict[str, list[str]]:
    found = explained(world.machine, number, Restored(world.machine))
    assert found is not None
    told_of: dict[str, list[str]] = {}
    for remedy in found.remedies:
        told_of.setdefault(remedy.kind, []).append(remedy.text)
    check(world)
    return told_of


def full(*more: Group) -> World:
    """One node of 4 cores, which a job of group a fills; group b has a limit."""
    world = World()
    world.join("n1", 4)
    world.step(GroupsApplied(groups=(group("a", 4), group("b", 4), *more)))
    world.submit(job(cpus=4, group="a", time_limit=MINUTE))
    return world


def test_a_node_that_is_away_is_not_to_be_uncordoned_but_to_come_back() -> None:
    world = full()
    world.join("n2", 4)
    world.leave("n2")
    (number,) = world.submit(job(cpus=4, group="a"))
    assert remedies(world, number).get("back") == ["if the executor of node n2 were connected"]
    assert "uncordon" not in remedies(world, number)
    # One that is cordoned as well would need two changes.
    world.step(NodeCordoned(name="n2", cordoned=True))
    assert remedies(world, number).keys().isdisjoint({"back", "uncordon"})


def test_a_group_that_would_refuse_the_job_is_no_remedy() -> None:
    most = Limits(time_limit=MINUTE)
    short = Group(name="short", quota=Quota(scalar=4000), limits=most)
    bounded = msgspec.structs.replace(group("c", 1), max_quota=Quota(scalar=1000))
    world = World()
    world.join("n1", 4)
    world.step(GroupsApplied(groups=(bounded, short, group("long", 4))))
    first, number = world.submit(job(group="c"), job(group="c", time_limit=10 * MINUTE))
    assert world.machine.jobs[first].attempts
    assert remedies(world, number)["group"] == ["in group default", "in group long"]


def test_the_end_of_a_job_helps_first_those_that_come_after_it() -> None:
    world = full()
    follower, number = world.submit(job(cpus=4, group="a", after=after(1)), job(cpus=4, group="a"))
    assert "end" not in remedies(world, number)
    assert "after" not in remedies(world, follower), "it has no room either"
    world.cancel(follower)
    assert remedies(world, number)["end"] == ["when job 1 ends"]


def test_the_end_of_a_task_that_is_kept_running_is_not_waited_for() -> None:
    site = Site("n1", cpus=4)
    site.begin(service(1, cpus=4))
    (number,) = site.submit(job(cpus=4))
    assert "end" not in remedies(site, number)


def test_members_that_start_together_change_together() -> None:
    site = Site("n1", "n2", cpus=4)
    site.begin(service(1, "other", cpus=3))
    number = site.begin(service(2, "web", cpus=3, gang=True))
    first, second = (remedies(site, member.job.id) for member in site.members(number).values())
    assert first == second
    assert first["amount"] == ["with cpu of at most 2"]


@pytest.mark.parametrize("condition", [Condition.OK, Condition.ANY])
def test_a_job_that_waits_for_two_is_told_of_both(condition: Condition) -> None:
    world = World()
    world.join("n1", 4)
    one, two = world.submit(job(), job())
    (number,) = world.submit(job(after=after(one, two, condition=condition)))
    assert remedies(world, number) == {"after": ["if it did not wait for other jobs"]}


@pytest.mark.parametrize("some_run", [False, True])
def test_tasks_that_wait_for_those_of_another_job_start_only_after_them_or_without_them(some_run: bool) -> None:
    world = World()
    world.join("n1", 9)
    world.step(GroupsApplied(groups=(group("a", 9), group("b", 9))))
    (load,) = world.submit(job(3, group="a"))
    (fit,) = world.submit(job(3, group="a", after=after(load, condition=Condition.TASKS)))
    alone = ""
    if some_run:
        (attempt, *_) = world.machine.jobs[load].attempts
        world.report("n1", ended(attempt, 0))
        assert len(world.machine.jobs[fit].attempts) == 1
        alone = ", if its waiting tasks were a job of their own"
    expected = {"after": [f"if it did not wait for job {load}{alone}"], "end": [f"when job {load} ends"]}
    assert remedies(world, fit) == expected
