"""Cron jobs: which runs are made, and when; clocks that step, centers that were away, runs that are not over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from cress.lifecycle.effects import StepResult
from cress.lifecycle.families import crons
from cress.lifecycle.inputs import Hold, Input, NodeJoined, Submit, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.family_rows import CronState
from cress.model.family import Cron, Missed, Overlap
from cress.model.job import Job, JobType
from cress.model.records import JobState
from cress.model.times import DAY, HOUR, MINUTE, SECOND
from tests.lifecycle.builders import UTC_AT_START, World, after, job, node


def cron(when: str = "0 * * * *", name: str = "tidy", tasks: int = 1, **plan: object) -> Job:
    return job(tasks, name=name, type=JobType.CRON, plan=Cron(when=when, **plan))  # type: ignore[arg-type]


@dataclass
class Wall(World):
    """A world whose wall clock can be set, and in which time passes."""

    start: str = "2024-05-01 11:30"
    zone: str = "UTC"
    ahead: int = 0
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.set(self.start)
        super().__init__()
        self.join("n1", 64)

    def set(self, text: str) -> None:
        """Set the wall clock, to a local time of the zone."""
        moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(self.zone))
        self.ahead = round(moment.timestamp()) * 1_000_000 - UTC_AT_START - getattr(self, "now", 0)

    @property
    def utc(self) -> int:
        return UTC_AT_START + self.now + self.ahead

    def step(self, *inputs: Input, after: int = 0) -> StepResult:
        self.now += after
        self.last = self.machine.step(self.now, self.utc, inputs)
        assert not self.last.more
        assert self.machine.validate() == []
        for record in self.last.jobs:
            assert record.id not in self.over
            self.over[record.id] = record
        for _ in self.last.launches:
            local = datetime.fromtimestamp(self.utc / 1e6, ZoneInfo(self.zone))
            self.made.append(f"{local:%d %H:%M}")
        return self.last

    def until(self, text: str) -> None:
        """Let time pass; the machine takes a step whenever it wants one."""
        end = round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(self.zone)).timestamp()) * 1_000_000
        while (wakeup := self.machine.next_wakeup()) is not None and wakeup + UTC_AT_START + self.ahead <= end:
            self.step(after=max(0, wakeup - self.now))
        self.step(after=end - self.utc)

    def away(self, text: str) -> None:
        """Let time pass without any step, until one at that moment."""
        end = round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(self.zone)).timestamp()) * 1_000_000
        self.step(after=end - self.utc)

    def clock(self, number: int) -> CronState:
        state = self.machine.families[number].state
        assert isinstance(state, CronState)
        return state

    def run_of(self, number: int) -> int:
        """The only run that is alive."""
        (run,) = self.machine.families[number].members.values()
        return run


def short(world: Wall, number: int) -> None:
    """All runs there are end well."""
    for run in list(world.machine.families[number].members.values()):
        world.finish(run)


def counts(clock: CronState) -> tuple[int, int, int]:
    return clock.runs, clock.skipped, clock.missed


def test_a_run_is_made_at_each_moment_and_is_an_ordinary_job() -> None:
    world = Wall()
    (number,) = world.submit(cron(tasks=2))
    assert world.machine.next_wakeup() == world.now + 30 * MINUTE
    assert not world.machine.jobs
    world.until("2024-05-01 12:10")
    assert world.made == ["01 12:00", "01 12:00"]
    run = world.machine.jobs[world.run_of(number)]
    assert (run.job.name, run.job.type, run.job.family, run.job.tasks, run.index) == (
        "tidy",
        JobType.BATCH,
        number,
        2,
        0,
    )
    assert (run.job.plan, run.template) == (None, number)
    world.finish(run.job.id)
    record = world.over[run.job.id]
    assert (record.state, record.family, record.index, record.template) == (JobState.SUCCEEDED, number, 0, number)
    world.until("2024-05-01 13:10")
    family, clock = world.machine.families[number], world.clock(number)
    assert world.made == ["01 12:00"] * 2 + ["01 13:00"] * 2
    assert (counts(clock), family.succeeded) == ((2, 0, 0), 1)
    assert clock.last_job == world.run_of(number)
    assert clock.next - clock.last == HOUR


OVERLAPS: list[tuple[Overlap, list[str], tuple[int, int, int]]] = [
    (Overlap.FORBID, ["01 12:00", "01 15:00"], (2, 2, 0)),
    (Overlap.ALLOW, ["01 12:00", "01 13:00", "01 14:00", "01 15:00"], (4, 0, 0)),
    (Overlap.REPLACE, ["01 12:00", "01 13:05", "01 14:05", "01 15:00"], (4, 0, 0)),
]


@pytest.mark.parametrize(("overlap", "made", "expected"), OVERLAPS)
def test_a_run_that_is_not_over_at_the_next_moment(
    overlap: Overlap, made: list[str], expected: tuple[int, int, int]
) -> None:
    world = Wall()
    (number,) = world.submit(cron(overlap=overlap))
    for hour in (13, 14):
        world.until(f"2024-05-01 {hour}:05")
        for attempt in [each for each in world.machine.attempts.values() if each.halted]:
            # What was told to stop takes five minutes for it.
            world.finish(attempt.job, code=1)
    world.until("2024-05-01 14:30")
    short(world, number)
    world.until("2024-05-01 15:30")
    assert world.made == made
    assert counts(world.clock(number)) == expected


def test_what_replaces_a_run_waits_until_that_is_gone_and_only_the_newest_starts() -> None:
    world = Wall()
    (number,) = world.submit(cron(overlap=Overlap.REPLACE))
    world.until("2024-05-01 12:30")
    first = world.run_of(number)
    world.until("2024-05-01 14:30")
    # The first one does not stop; the second one was replaced before it started.
    second, third = first + 1, first + 2
    assert world.over[second].reason == "the next run of its cron job replaced it"
    assert sorted(world.machine.families[number].members.values()) == [first, third]
    assert world.machine.reason(third) == f"waiting for job {first} (tidy)"
    world.finish(first, code=1)
    assert world.over[first].state is JobState.CANCELLED
    assert [each.job for each in world.last.launches] == [third]


MISSED: list[tuple[Missed, str, list[str], tuple[int, int, int]]] = [
    # On time is what comes within a minute; what is made up for was missed all the same.
    (Missed.SKIP, "2024-05-01 14:00", ["01 12:00", "01 14:00"], (2, 0, 1)),
    (Missed.ONCE, "2024-05-01 14:00", ["01 12:00", "01 14:00"], (2, 0, 1)),
    (Missed.SKIP, "2024-05-01 13:00:59", ["01 12:00", "01 13:00"], (2, 0, 0)),
    (Missed.SKIP, "2024-05-01 13:01", ["01 12:00"], (1, 0, 1)),
    (Missed.ONCE, "2024-05-01 13:01", ["01 12:00", "01 13:01"], (2, 0, 1)),
    (Missed.SKIP, "2024-05-01 17:20", ["01 12:00"], (1, 0, 5)),
    (Missed.ONCE, "2024-05-01 17:20", ["01 12:00", "01 17:20"], (2, 0, 5)),
]


@pytest.mark.parametrize(("missed", "back", "made", "expected"), MISSED)
def test_a_center_that_was_away(
    missed: Missed, back: str, made: list[str], expected: tuple[int, int, int]
) -> None:  # fmt: skip
    world = Wall()
    (number,) = world.submit(cron(missed=missed))
    world.until("2024-05-01 12:10")
    short(world, number)
    world.away(back)
    assert world.made == made
    assert counts(world.clock(number)) == expected
    short(world, number)
    next_hour = 1 + int(back[11:13])
    world.until(f"2024-05-01 {next_hour}:10")
    assert world.made == [*made, f"01 {next_hour}:00"]
    # The wall clock says the same as ever: nothing is due twice after a restart.
    assert Machine.restore(world.machine.export()).export() == world.machine.export()


def test_ten_years_away_are_over_in_a_moment() -> None:
    world = Wall()
    (number,) = world.submit(cron("* * * * *", missed=Missed.ONCE))
    world.until("2024-05-01 11:31")
    short(world, number)
    world.away("2034-05-01 12:30:30")
    assert world.made == ["01 11:31", "01 12:30"]
    assert counts(world.clock(number)) == (2, 0, 999)


@pytest.mark.parametrize(("missed", "made"), [(Missed.SKIP, []), (Missed.ONCE, ["01 14:30"])])
def test_while_it_is_held_runs_are_missed(missed: Missed, made: list[str]) -> None:
    world = Wall()
    (number,) = world.submit(cron(missed=missed))
    world.hold(number)
    world.until("2024-05-01 14:30")
    assert (world.made, world.clock(number).missed) == ([], 3)
    world.hold(number, held=False)
    assert world.made == made
    short(world, number)
    world.until("2024-05-01 15:30")
    assert world.made == [*made, "01 15:00"]


def test_held_when_it_is_submitted_it_waits_for_its_release() -> None:
    world = Wall()
    (number,) = world.submit(job(name="tidy", type=JobType.CRON, plan=Cron(when="0 * * * *"), hold=True))
    world.until("2024-05-01 12:30")
    world.hold(number, held=False)
    world.until("2024-05-01 13:30")
    assert world.made == ["01 13:00"]


@dataclass
class Stepped:
    """The wall clock is set at 12:10, after the run of 12:00: what is made then, until when."""

    name: str
    to: str
    missed: Missed
    until: str
    made: list[str]


STEPS = [
    Stepped("a minute back", "2024-05-01 12:09", Missed.SKIP, "2024-05-01 13:10", ["01 13:00"]),
    Stepped("back before its last run", "2024-05-01 11:50", Missed.ONCE, "2024-05-01 13:10", ["01 13:00"]),
    Stepped("back by three hours", "2024-05-01 09:10", Missed.SKIP, "2024-05-01 13:10", ["01 13:00"]),
    Stepped("back to the right day", "2024-04-30 12:10", Missed.SKIP, "2024-04-30 14:10", ["30 13:00", "30 14:00"]),
    Stepped("forward over nothing", "2024-05-01 12:50", Missed.SKIP, "2024-05-01 13:10", ["01 13:00"]),
    Stepped("forward to just after a moment", "2024-05-01 13:00:30", Missed.SKIP, "2024-05-01 14:10",
            ["01 13:00", "01 14:00"]),
    Stepped("forward over a moment", "2024-05-01 13:10", Missed.SKIP, "2024-05-01 14:10", ["01 14:00"]),
    Stepped("forward over one to be made up", "2024-05-01 13:10", Missed.ONCE, "2024-05-01 14:10",
            ["01 13:10", "01 14:00"]),
    Stepped("forward by a year", "2025-05-01 13:10", Missed.SKIP, "2025-05-01 14:10", ["01 14:00"]),
]  # fmt: skip


@pytest.mark.parametrize("case", STEPS, ids=lambda case: case.name)
def test_the_wall_clock_is_set(case: Stepped) -> None:
    world = Wall()
    (number,) = world.submit(cron(missed=case.missed))
    world.until("2024-05-01 12:10")
    short(world, number)
    assert world.made.pop() == "01 12:00"
    world.set(case.to)
    world.step()
    while world.utc < round(datetime.fromisoformat(case.until).replace(tzinfo=UTC).timestamp()) * 1_000_000:
        short(world, number)
        wakeup = world.machine.next_wakeup()
        assert wakeup is not None
        end = round(datetime.fromisoformat(case.until).replace(tzinfo=UTC).timestamp()) * 1_000_000
        world.step(after=min(wakeup - world.now, end - world.utc))
    assert world.made == case.made


def test_clocks_that_do_not_run_alike_make_no_run_twice() -> None:
    world = Wall()
    (number,) = world.submit(cron())
    for _ in range(5):
        # The wall clock loses most of a second an hour, which nobody tells the machine.
        world.ahead -= 900_000
        wakeup = world.machine.next_wakeup()
        assert wakeup is not None
        world.step(after=wakeup - world.now)
        short(world, number)
        world.step(after=SECOND)
    clock = world.clock(number)
    assert clock.runs in (3, 4, 5)
    assert len(set(world.made)) == len(world.made) == clock.runs


def test_in_its_own_zone_clocks_are_put_forward_and_back() -> None:
    for start, end, expected in (
        ("2024-03-30 12:00", "2024-04-01 12:00", ["31 03:00", "01 02:30"]),
        ("2024-10-26 12:00", "2024-10-28 12:00", ["27 02:30", "28 02:30"]),
    ):
        world = Wall(start=start, zone="Europe/Berlin")
        (number,) = world.submit(cron("30 2 * * *", zone="Europe/Berlin", overlap=Overlap.ALLOW))
        assert "next run at" in _why(world, number)
        world.until(end)
        assert world.made == expected


def _why(world: Wall, number: int) -> str:
    return crons.why(world.machine, world.machine.families[number], world.now)


def test_an_update_changes_the_runs_to_come() -> None:
    world = Wall()
    (number,) = world.submit(cron())
    world.until("2024-05-01 12:10")
    old = world.run_of(number)
    step = world.step(Update(job=number, spec=cron("*/30 * * * *", tasks=3, overlap=Overlap.ALLOW)))
    (reply,) = step.replies
    assert isinstance(reply, tuple)
    world.until("2024-05-01 12:40")
    assert world.made == ["01 12:00"] + ["01 12:30"] * 3
    assert world.machine.jobs[old].template == number
    new = world.machine.jobs[world.clock(number).last_job]
    assert (new.template, new.job.tasks) == (reply[0], 3)
    # Other words about overlap move no moment.
    before = world.clock(number).next
    world.step(Update(job=number, spec=cron("*/30 * * * *")), after=5)
    assert world.clock(number).next == before


def test_an_update_that_makes_no_sense_changes_nothing() -> None:
    world = Wall()
    (number,) = world.submit(cron())
    said = world.refuse(Update(job=number, spec=cron("61 * * * *")))
    assert said.startswith("when: '61' is not a valid minute")
    assert world.machine.families[number].version == 1
    assert "zone: there is no time zone 'Europe/Berln'" in world.refuse(
        Submit(jobs=(cron(name="other", zone="Europe/Berln"),))
    )


def test_cancelled_it_makes_no_more_runs_and_its_runs_end() -> None:
    world = Wall()
    (number,) = world.submit(cron())
    world.until("2024-05-01 12:10")
    run = world.run_of(number)
    world.cancel(number)
    assert [each.job for each in world.last.halts] == [run]
    world.until("2024-05-01 15:10")
    assert number in world.machine.families
    world.finish(run, code=1)
    assert (world.over[number].state, world.over[run].state) == (JobState.CANCELLED, JobState.CANCELLED)
    assert world.machine.next_wakeup() is None


def test_it_comes_after_another_job_and_its_time_begins_then() -> None:
    world = Wall()
    first, number = world.submit(job(), msgspec.structs.replace(cron(), after=after(-1)))
    world.until("2024-05-01 12:30")
    assert world.made == ["01 11:30"]
    world.finish(first)
    world.until("2024-05-01 13:30")
    assert world.made == ["01 11:30", "01 13:00"]
    assert counts(world.clock(number)) == (1, 0, 0)


def test_what_never_comes_again_waits_for_nothing() -> None:
    world = Wall(start="9999-12-31 23:30")
    (number,) = world.submit(cron("0 0 1 1 *"))
    assert world.machine.next_wakeup() is None
    assert _why(world, number) == "0 0 1 1 * never fires again"


def test_a_run_can_be_released_by_itself() -> None:
    world = Wall()
    (number,) = world.submit(cron(overlap=Overlap.ALLOW))
    world.until("2024-05-01 12:10")
    run = world.run_of(number)
    world.step(Hold(job=run, held=True))
    assert world.machine.jobs[run].held
    world.until("2024-05-01 13:10")
    assert world.made == ["01 12:00", "01 13:00"]
    assert DAY > world.clock(number).next - world.utc > 0


def test_each_run_has_a_deadline_of_its_own() -> None:
    wall = Wall()
    spec = msgspec.structs.replace(cron(), within=2 * HOUR)
    wall.step(Submit(jobs=(spec,)))
    wall.step(after=30 * MINUTE)
    (run,) = wall.machine.jobs.values()
    assert (run.job.deadline, run.job.within) == (wall.utc + 2 * HOUR, 0)


def test_runs_that_overlap_keep_apart() -> None:
    world = Wall()
    world.step(NodeJoined(node=node("n2"), boot="b1"))
    (number,) = world.submit(
        msgspec.structs.replace(cron(overlap=Overlap.ALLOW), requirement='away_from("tidy", Name)')
    )
    world.until("2024-05-01 14:05")
    first, second, third = world.machine.families[number].members.values()
    on = {each.job: each.node for each in world.machine.attempts.values()}
    assert set(on) == {first, second}
    assert set(on.values()) == {"n1", "n2"}
    assert 'away_from("tidy")' in world.machine.reason(third)
    world.finish(first)
    assert {each.job: each.node for each in world.machine.attempts.values()} == {second: on[second], third: on[first]}
