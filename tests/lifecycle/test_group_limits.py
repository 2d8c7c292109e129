"""Limits of groups on what is submitted: numbers of jobs, sizes and times of one job, closed groups, and changes of one
group.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cress.lifecycle.effects import RunSkipped
from cress.lifecycle.inputs import Cancel, Scale, SetGroup, Submit, Update
from cress.lifecycle.tables.family_rows import CronState
from cress.model.events import GroupsApplied
from cress.model.family import Cron, Dag, Overlap, Service
from cress.model.group import Group, Quota
from cress.model.job import Job, JobType
from cress.model.limits import Limits
from cress.model.times import HOUR, MINUTE, SECOND
from tests.lifecycle.builders import UTC_AT_START, World, group, job


def world(**values: object) -> World:
    """Two nodes, and a group ``lab`` with these fields (of limits, those of ``Limits``)."""
    made = World(followed=True)
    made.join("n1")
    made.join("n2")
    made.step(GroupsApplied(groups=(lab(**values), group("other", 4)), by="eve"))
    return made


def lab(**values: object) -> Group:
    own = {key: values.pop(key) for key in ("closed", "admins") if key in values}
    return Group(name="lab", quota=Quota(scalar=4000), limits=Limits(**values), **own)  # type: ignore[arg-type]


def in_lab(tasks: int = 1, **more: object) -> Job:
    return job(tasks, group="lab", **more)  # type: ignore[arg-type]


def dag(steps: int) -> tuple[Job, ...]:
    plan = Dag(steps=tuple(f"s{i}" for i in range(steps)))
    whole = in_lab(steps, name="dag", type=JobType.DAG, plan=plan)
    return (whole, *(in_lab(name=f"s{i}", family=-1) for i in range(steps)))


def service(tasks: int, **plan: object) -> Job:
    return in_lab(tasks, name="web", type=JobType.SERVICE, plan=Service(**plan))  # type: ignore[arg-type]


WAIT = "wait for some to end, or ask an admin"
TOO_MANY = [
    (
        "a job too many",
        {"jobs": 2},
        (in_lab(), in_lab(), in_lab()),
        (
            f"group: group lab has 0 of at most 2 jobs that wait or run, and 3 more were submitted ({WAIT}: MaxJobs "
            "of group lab)"
        ),
    ),
    (
        "a user's job too many",
        {"jobs_per_user": 1},
        (in_lab(user="bob"), in_lab(), in_lab()),
        (
            f"group: ann has in group lab 0 of at most 1 jobs that wait or run, and 2 more were submitted ({WAIT}: "
            "MaxJobsPerUser of group lab)"
        ),
    ),
    (
        "an array is one job, and its tasks count for themselves",
        {"jobs": 1, "tasks": 10},
        (in_lab(11),),
        (
            "tasks: 11 tasks are more than the 10 that a job of group lab may have (fewer tasks, or several "
            "jobs, or ask an admin: MaxTasks of group lab)"
        ),
    ),
    (
        "each step of a dag is a job",
        {"jobs": 2},
        dag(3),
        (
            f"group: group lab has 0 of at most 2 jobs that wait or run, and 3 more were submitted ({WAIT}: MaxJobs "
            "of group lab)"
        ),
    ),
    (
        "a waiting job too many",
        {"waiting": 0},
        (in_lab(),),
        f"group: group lab has 0 of at most 0 waiting jobs ({WAIT}: MaxWaitingJobs of group lab)",
    ),
    (
        "too large",
        {"size": 3000},
        (in_lab(4),),
        (
            "tasks: the job asks for 4 cores at once, more than the 3 cores that a job of group lab may use (fewer "
            "tasks, or max_running, or ask an admin: MaxJobSize of group lab)"
        ),
    ),
    (
        "too large in one dimension",
        {"amounts": (("memory", 2 << 30),)},
        (in_lab(3),),
        (
            "tasks: the job asks for memory 3G at once, more than the memory 2G that a job of group lab may use "
            "(fewer tasks, or max_running, or ask an admin: MaxJobSize of group lab)"
        ),
    ),
    (
        "too long",
        {"time_limit": HOUR},
        (in_lab(time_limit=2 * HOUR),),
        (
            "time_limit: a time limit of 2h is more than the 1h that group lab allows (at most 1h, or ask an "
            "admin: MaxTimeLimit of group lab)"
        ),
    ),
]


@pytest.mark.parametrize(
    ("limits", "jobs", "told"), [each[1:] for each in TOO_MANY], ids=[each[0] for each in TOO_MANY]
)
def test_what_is_too_much_is_refused_as_a_whole(limits: dict[str, object], jobs: tuple[Job, ...], told: str) -> None:
    made = world(**limits)
    before = made.machine.next_job
    refused = made.refuse(Submit(jobs=jobs))
    assert refused.removeprefix("jobs[0]: ").removeprefix("jobs[0].") == told
    assert made.machine.next_job == before
    assert not made.machine.jobs
    assert not made.machine.families


def test_as_many_as_may_are_accepted_and_their_ends_give_place() -> None:
    made = world(jobs=2)
    first, second = made.submit(in_lab(), in_lab())
    assert "2 of at most 2 jobs" in made.refuse(Submit(jobs=(in_lab(),)))
    made.submit(job(group="other"))
    made.finish(first)
    (third,) = made.submit(in_lab())
    made.step(Cancel(job=second))
    assert made.machine.group_load.of("lab") == 2  # cancelled, and not over: it still runs
    assert third in made.machine.jobs


def test_jobs_that_run_do_not_count_as_waiting() -> None:
    made = world(waiting=1, waiting_per_user=1)
    made.submit(in_lab(4))
    made.submit(in_lab(4))
    made.submit(in_lab())
    assert "1 of at most 1 waiting jobs" in made.refuse(Submit(jobs=(in_lab(user="bob"),)))


def test_a_service_is_one_job_and_grows_to_its_limits() -> None:
    made = world(jobs=1, tasks=3)
    (web,) = made.submit(service(2))
    assert made.machine.group_load.of("lab") == 1
    assert "1 of at most 1 jobs" in made.refuse(Submit(jobs=(in_lab(),)))
    made.step(Scale(job=web, tasks=3))
    assert "4 tasks are more than the 3" in made.refuse(Scale(job=web, tasks=4))
    assert "9 tasks are more than the 3" in made.refuse(Update(job=web, spec=service(2, timetable=(("0 8 * * *", 9),))))
    # A service that is there may be changed, and made smaller, although the group is full and closed.
    made.step(SetGroup(name="lab", values=(("Submit", "closed"), ("MaxTasks", "1")), by="eve"))
    assert made.step(Scale(job=web, tasks=2)).replies == [None]
    assert "2 tasks are more than the 1" in made.refuse(Update(job=web, spec=service(2)))
    assert isinstance(made.step(Update(job=web, spec=service(1))).replies[0], tuple)


@pytest.mark.parametrize(
    ("limits", "given", "limit"),
    [
        ({"default_time_limit": HOUR}, None, HOUR),
        ({"default_time_limit": HOUR, "time_limit": 2 * HOUR}, None, HOUR),
        ({"time_limit": 2 * HOUR}, None, 2 * HOUR),
        ({"default_time_limit": HOUR, "time_limit": 2 * HOUR}, 2 * HOUR, 2 * HOUR),
        ({"default_time_limit": HOUR}, 9 * HOUR, 9 * HOUR),
        ({}, None, None),
    ],
)
def test_a_job_without_a_time_limit_gets_the_default(
    limits: dict[str, object], given: int | None, limit: int | None
) -> None:
    made = world(**limits)
    (number,) = made.submit(in_lab(time_limit=given))
    assert made.machine.jobs[number].job.time_limit == limit
    assert made.machine.core.jobs[number].job.time_limit == limit
    (web,) = made.submit(service(1))
    assert made.machine.families[web].job.time_limit is None


def cron(**plan: object) -> Job:
    return in_lab(name="tidy", type=JobType.CRON, plan=Cron(when="* * * * *", **plan))  # type: ignore[arg-type]


def skipped(made: World, minutes: int) -> list[str]:
    """What was told of skipped runs in the next minutes."""
    told = []
    for _ in range(minutes):
        step = made.step(after=MINUTE)
        told += [each.text for each in step.notices if isinstance(each, RunSkipped)]
    return told


def test_a_run_of_a_cron_job_that_finds_the_group_full_or_closed_is_skipped_and_told() -> None:
    made = world(jobs=1)
    (number,) = made.submit(cron())
    (other,) = made.submit(in_lab())
    first = datetime.fromtimestamp((UTC_AT_START + made.now) / SECOND + 60, UTC)
    assert skipped(made, 1) == [
        f"the run of {first:%Y-%m-%d %H:%M} UTC: group lab has 1 of at most 1 jobs that wait or run"
    ]
    family = made.machine.families[number]
    assert isinstance(family.state, CronState)
    assert (family.state.runs, family.state.skipped) == (0, 1)
    assert made.machine.reason(number).startswith("last run skipped: group lab has 1 of at most 1 jobs")
    made.finish(other)
    assert skipped(made, 1) == []
    assert family.state.runs == 1
    (run,) = family.members.values()
    made.finish(run)
    made.step(SetGroup(name="lab", values=(("Submit", "closed"),), by="eve"))
    (told,) = skipped(made, 1)
    assert "group lab is closed since 20" in told
    made.step(SetGroup(name="lab", values=(("Submit", "open"),), by="eve"))
    assert skipped(made, 1) == []
    assert family.state.runs == 2
    assert made.machine.reason(number).startswith("next run at ")


def test_a_run_that_replaces_another_needs_no_place_of_its_own() -> None:
    made = world(jobs=1)
    (number,) = made.submit(cron(overlap=Overlap.REPLACE))
    assert skipped(made, 2) == []
    family = made.machine.families[number]
    assert isinstance(family.state, CronState)
    assert family.state.runs == 2


def test_a_closed_group_says_since_when_and_goes_on_with_what_it_has() -> None:
    made = world(admins=("eve", "kim"))
    (running,) = made.submit(in_lab(4))
    (waiting,) = made.submit(in_lab(8))
    made.step(SetGroup(name="lab", values=(("Submit", "closed"),), by="eve"))
    when = datetime.fromtimestamp((UTC_AT_START + made.now) / SECOND, UTC)
    told = f"group: group lab is closed since {when:%Y-%m-%d %H:%M} UTC and takes no new jobs"
    hint = "(another group, or an administrator of the group (eve, kim) opens it: `cress groups set lab Submit=open`)"
    made.now += HOUR
    assert made.refuse(Submit(jobs=(in_lab(),))) == f"{told} {hint}"
    made.finish(running)
    assert made.machine.jobs[waiting].running
    # Applying the same groups again is no new moment, and opening forgets it.
    made.step(GroupsApplied(groups=(lab(admins=("eve", "kim"), closed=True), group("other", 4)), by="eve"))
    assert made.refuse(Submit(jobs=(in_lab(),))).startswith(told)
    made.step(SetGroup(name="lab", values=(("Submit", None),), by="eve"))
    made.submit(in_lab())
    assert made.machine.core.groups.get("lab").spec.closed_at == 0


def test_a_change_of_one_group_is_a_revision_and_leaves_the_others() -> None:
    made = world(jobs=5)
    made.step(SetGroup(name="lab", values=(("max_running_jobs", "3"), ("MaxJobs", None)), by="kim"))
    assert made.machine.core.groups.get("lab").spec.limits == Limits(running=3)
    last = list(made.machine.tables.revisions.values())[-1]
    assert (last.by, last.what) == ("kim", "group lab: max_running_jobs=3, MaxJobs-")
    assert "MaxRunningJobs: 3" in last.text


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("nobody", (("MaxJobs", "3"),), "there is no group 'nobody'"),
        ("default", (("MaxJobs", "3"),), "group default is not configured, its quota follows the cluster"),
        ("lab", (("MaxJobs", "many"),), "MaxJobs: 'many' is not a whole number"),
        ("lab", (("MaxJbos", "3"),), "MaxJbos: 'MaxJbos' cannot be set (did you mean MaxJobs?"),
        ("lab", (("Name", "web"),), "Name: 'Name' cannot be set"),
        ("lab", (("MaxJobs", "3\nWeight: 9"),), "MaxJobs: has more than a value"),
        ("lab", (("Submit", "ajar"),), "Submit: 'ajar' is neither open nor closed"),
        (
            "lab",
            (("DefaultTimeLimit", "2h"), ("MaxTimeLimit", "1h")),
            "DefaultTimeLimit: 2h is longer than MaxTimeLimit",
        ),
        ("lab", (("Admins", "*"),), "Admins: not everyone can administer a group"),
    ],
)
def test_a_wrong_change_changes_nothing(name: str, values: tuple[tuple[str, str | None], ...], told: str) -> None:
    made = world(jobs=5)
    before = made.machine.core.groups.configured
    assert made.refuse(SetGroup(name=name, values=values)).startswith(told)
    assert made.machine.core.groups.configured == before


def test_limits_follow_jobs_that_move_to_another_group() -> None:
    made = world()
    made.submit(in_lab(), service(1))
    other = Group(name="other", quota=Quota(scalar=4000), limits=Limits(jobs=2))
    made.step(GroupsApplied(groups=(other,), moves=(("lab", "other"),), by="eve"))
    assert made.machine.group_load.of("other") == 2
    assert "2 of at most 2 jobs" in made.refuse(Submit(jobs=(job(group="other"),)))


def test_in_a_tree_what_is_closed_or_full_above_counts_below_and_each_group_can_be_changed() -> None:
    made = World(followed=True)
    made.join("n1")
    all_ = Group(name="all", quota=Quota(scalar=4000), limits=Limits(jobs=2))
    lab, web = (Group(name=name, quota=Quota(scalar=2000), parent="all") for name in ("lab", "web"))
    made.step(GroupsApplied(groups=(all_, lab, web), by="eve"))
    made.submit(job(group="lab"), job(group="web"))
    assert "group all has 2 of at most 2 jobs" in made.refuse(Submit(jobs=(job(group="lab"),)))
    made.step(SetGroup(name="all", values=(("MaxJobs", None), ("Submit", "closed")), by="eve"))
    assert "group all is closed" in made.refuse(Submit(jobs=(job(group="lab"),)))
    made.step(SetGroup(name="all", values=(("Submit", None),), by="eve"))
    made.step(SetGroup(name="lab", values=(("MaxJobsPerUser", "1"),), by="eve"))
    assert "in group lab 1 of at most 1 jobs" in made.refuse(Submit(jobs=(job(group="lab"),)))
    told = made.refuse(SetGroup(name="lab", values=(("ResourceQuota", "3"),)))
    assert "the groups in all have quotas of 5 cores together, its own is 4 cores" in told


def tree(above: Limits, own: Limits) -> World:
    """A group ``physics`` with these limits, and in it ``lab`` with its own."""
    made = World(followed=True)
    made.join("n1")
    physics = Group(name="physics", quota=Quota(scalar=4000), limits=above)
    inside = Group(name="lab", quota=Quota(scalar=4000), parent="physics", limits=own)
    made.step(GroupsApplied(groups=(physics, inside), by="eve"))
    return made


IN_A_TREE = [
    ("what the group above allows", Limits(time_limit=HOUR), Limits(), HOUR),
    ("the least that any allows", Limits(time_limit=HOUR), Limits(time_limit=2 * HOUR), HOUR),
    ("the default of the group above", Limits(default_time_limit=MINUTE), Limits(), MINUTE),
    ("the nearest default", Limits(default_time_limit=MINUTE), Limits(default_time_limit=HOUR), HOUR),
    ("a default, not what is allowed", Limits(default_time_limit=MINUTE), Limits(time_limit=HOUR), MINUTE),
    # Such groups are refused in a file; older ones may be there.
    ("no more than is allowed above", Limits(time_limit=MINUTE), Limits(default_time_limit=HOUR), MINUTE),
    ("no more than the group itself allows", Limits(default_time_limit=HOUR), Limits(time_limit=MINUTE), MINUTE),
]


@pytest.mark.parametrize(
    ("above", "own", "given"), [each[1:] for each in IN_A_TREE], ids=[each[0] for each in IN_A_TREE]
)
def test_in_a_tree_a_job_without_a_time_limit_gets_that_of_the_groups_above(
    above: Limits, own: Limits, given: int
) -> None:
    made = tree(above, own)
    made.submit(in_lab(), in_lab(9))
    made.submit(*dag(2))
    assert [live.job.time_limit for live in made.machine.jobs.values()] == [given] * 4
    (number,) = made.submit(cron())
    assert skipped(made, 1) == []
    (run,) = made.machine.families[number].members.values()
    assert made.machine.jobs[run].job.time_limit == given


def test_runs_of_a_cron_job_without_a_time_limit_get_the_one_that_came_later() -> None:
    made = tree(Limits(), Limits())
    (number,) = made.submit(cron())
    made.step(SetGroup(name="physics", values=(("MaxTimeLimit", "30min"),), by="eve"))
    assert skipped(made, 1) == []
    (run,) = made.machine.families[number].members.values()
    assert made.machine.jobs[run].job.time_limit == 30 * MINUTE


def test_a_default_longer_than_a_group_above_allows_is_refused_from_either_side() -> None:
    made = tree(Limits(time_limit=HOUR), Limits(default_time_limit=HOUR))
    before = made.machine.core.groups.configured
    told = "DefaultTimeLimit: 2h of group lab is longer than MaxTimeLimit of group physics, 1h"
    assert made.refuse(SetGroup(name="lab", values=(("DefaultTimeLimit", "2h"),))).startswith(told)
    told = "DefaultTimeLimit: 1h of group lab is longer than MaxTimeLimit of group physics, 30m"
    assert made.refuse(SetGroup(name="physics", values=(("MaxTimeLimit", "30min"),))).startswith(told)
    assert made.machine.core.groups.configured == before


@pytest.mark.parametrize(
    ("tasks", "gang", "refused"),
    [
        pytest.param(5, True, False, id="beside what is kept"),
        pytest.param(6, True, True, id="more than others ever lend"),
        pytest.param(6, False, False, id="one task after the other"),
    ],
)
def test_a_gang_for_which_others_keep_too_much_even_on_the_empty_cluster_is_refused(
    tasks: int, gang: bool, refused: bool
) -> None:
    made = World(followed=True)
    made.join("n1")
    made.join("n2")
    keeps = Group(name="keeps", quota=Quota(scalar=4000), lendable=Quota(scalar=1000))
    made.step(GroupsApplied(groups=(group("lab", 2), keeps), by="eve"))
    if not refused:
        made.submit(in_lab(tasks, gang=gang))
        return
    assert made.refuse(Submit(jobs=(in_lab(tasks, gang=gang),))) == (
        "resource: all tasks of the gang ask for 6 cores, and at most 5 cores may be used at once in group lab: "
        "the cluster has 8 cores, of which group keeps keeps 3 cores for itself (Lendable) "
        "(ask for at most 5 cores, raise Lendable of group keeps by 1 core, or choose another group)"
    )
