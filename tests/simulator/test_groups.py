"""Which groups there are, which job goes where, and what --policy does to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cress.model.errors import InputError, InputErrors
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.limits import Limits
from cress.simulator.groups import configure, own_policy, parse_policy, place, with_policy
from cress.simulator.workload import Workload
from tests.simulator.builders import workload
from tests.simulator.plain import LogJob

JOBS = [LogJob(i, 5, 1, 5) for i in range(6)]


def _work(names: list[str], users: list[str], pairs: list[tuple[str, str]]) -> Workload:
    """Jobs of these (group, user)."""
    work = workload([LogJob(i, 5, 1, 5) for i in range(len(pairs))])
    zeros = work.group_index
    group_index, user_index = zeros.copy(), zeros.copy()
    for i, (group, user) in enumerate(pairs):
        group_index[i], user_index[i] = names.index(group), users.index(user)
    return replace(work, group_names=names, users=users, group_index=group_index, user_index=user_index, groups=())


def test_without_groups_one_has_the_whole_cluster() -> None:
    work = configure(_work([""], ["ann"], [("", "ann")]), None, "cpu")
    assert work.groups == (Group(name="default", quota=Quota(scalar=10_000), policy=SchedPolicy.FIFO),)
    dominant = configure(_work([""], ["ann"], [("", "ann")]), None, "dominant")
    assert dominant.groups[0].quota == Quota(scalar=1_000_000)


def test_groups_of_the_trace_get_equal_quotas() -> None:
    names = ["web", "", "ops", "never used"]
    work = configure(_work(names, ["ann"], [("web", "ann"), ("", "ann"), ("ops", "ann")]), None, "cpu")
    assert [(group.name, group.quota.scalar) for group in work.groups] == [
        ("default", 3333),
        ("ops", 3333),
        ("web", 3333),
    ]


CONF = """\
Name: ops
ResourceQuota: 4
Users: ann | bob
SchedPolicy: Priority
PriorityAgeing: 2

Name: web
ResourceQuota: 6
Users: *
SchedPolicy: BackFill
Backfill: easy
BackfillDepth: 7
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "Group.conf"
    path.write_text(CONF)
    return path


def test_who_goes_where(conf: Path) -> None:
    names, users = ["", "ops", "web", "lab"], ["", "ann", "cem"]
    pairs = [
        ("ops", "ann"),
        ("web", "cem"),
        ("", "ann"),
        ("", "cem"),
        ("", ""),
        ("web", ""),
    ]
    work = configure(_work(names, users, pairs), conf, "cpu")
    targets, where = place(work)
    assert targets == ("ops", "web", "default")
    assert [targets[i] for i in where.tolist()] == ["ops", "web", "ops", "default", "default", "web"]
    assert not work.notes
    place(work, given=True)
    (note,) = work.notes.sentences()
    assert note == "2 × no group named: in the group default, which --groups does not have (lines 5, 6)"


def test_jobs_that_no_group_takes_are_refused_with_their_number(conf: Path) -> None:
    names, users = ["", "ops", "web", "lab", "wed"], ["", "ann", "cem"]
    pairs = [("lab", "ann"), ("ops", "cem"), ("ops", ""), ("web", "cem"), ("lab", "cem"), ("wed", "ann")]
    with pytest.raises(InputErrors) as caught:
        place(configure(_work(names, users, pairs), conf, "cpu"))
    remedy = "add the group, name another one in the trace, or leave out --groups for groups with equal quotas"
    assert str(caught.value).splitlines() == [
        (
            "2: 2 of 6 jobs name the group 'lab', which does not exist; nothing was simulated (the groups are "
            f"ops, web; {remedy})"
        ),
        (
            "7: 1 of 6 jobs names the group 'wed', which does not exist; nothing was simulated (did you mean "
            f"web?; {remedy})"
        ),
        (
            "3: 2 of 6 jobs belong to users that group ops does not admit: no user (1), cem (1); nothing was simulated "
            "(add them to Users of ops, or name another group in the trace)"
        ),
    ]


def test_limits_at_submit_do_not_hold_on_either_path_and_groups_without_jobs_are_told(tmp_path: Path) -> None:
    file = tmp_path / "Group.conf"
    file.write_text(
        "Name: ops\nResourceQuota: 4\nMaxTasks: 1\nMaxJobSize: <1>\nMaxRunningJobs: 2\nSubmit: "
        "closed\n\nName: web\nResourceQuota: 4\n"
    )
    work = configure(_work(["ops"], ["ann"], [("ops", "ann")]), file, "cpu")
    assert [(group.limits, group.closed) for group in work.groups] == [(Limits(running=2), False), (Limits(), False)]
    place(work, given=True)
    assert work.notes.sentences() == [
        (
            "1 × limit at submit: does not hold: jobs of a trace were accepted [MaxTasks, MaxJobSize, Submit: "
            "closed of ops]"
        ),
        "1 × group without jobs: keeps its quota [web]",
    ]


def test_a_policy_replaces_every_groups_own(conf: Path) -> None:
    groups = configure(_work([""], ["ann"], [("", "ann")]), conf, "cpu").groups
    assert own_policy(groups).label == "configured"
    assert with_policy(groups, own_policy(groups)) == groups
    changed = with_policy(groups, parse_policy("fifo"))
    assert [group.policy for group in changed] == [SchedPolicy.FIFO, SchedPolicy.FIFO]
    assert [group.options for group in changed] == [group.options for group in groups]
    assert own_policy(changed).label == "FIFO"


def test_a_variant_replaces_the_groups_option_and_keeps_the_rest(conf: Path) -> None:
    groups = configure(_work([""], ["ann"], [("", "ann")]), conf, "cpu").groups
    choice = parse_policy("backfill/Conservative")
    assert (choice.label, choice.directory) == ("BackFill/conservative", "BackFill-conservative")
    options = [dict(group.options) for group in with_policy(groups, choice)]
    assert [each["backfill"] for each in options] == ["conservative", "conservative"]
    assert sum("7" in each.values() for each in options) == 1
    assert all(len(each) == 2 for each in options)


def test_only_options_of_groups_are_given_to_groups(conf: Path) -> None:
    groups = configure(_work([""], ["ann"], [("", "ann")]), conf, "cpu").groups
    choice = parse_policy("urgency/cluster")
    assert choice.options == (("order", "urgency"),)
    changed = with_policy(groups, choice)
    assert {group.policy for group in changed} == {SchedPolicy.URGENCY}
    assert [group.options for group in changed] == [group.options for group in groups]


NAMES = {
    "a typing error": ("Backfil", "--policy: 'Backfil' is not a policy (did you mean BackFill?)"),
    "no variants": ("FIFO/easy", "--policy: FIFO has no variants (FIFO)"),
    "no such variant": (
        "BackFill/lazy",
        ("--policy: BackFill has no variant 'lazy' (one of BackFill/easy, BackFill/conservative, BackFill/predicted)"),
    ),
}


@pytest.mark.parametrize(("text", "message"), NAMES.values(), ids=NAMES.keys())
def test_wrong_policies_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_policy(text)
    assert message in str(caught.value)


def test_jobs_go_to_the_groups_without_others_in_them(tmp_path: Path) -> None:
    file = tmp_path / "Group.conf"
    file.write_text("Name: all\nResourceQuota: 8\n\nName: ops\nParent: all\nResourceQuota: 4\nUsers: ann\n")
    work = configure(_work(["all", "ops", ""], ["ann"], [("all", "ann"), ("ops", "ann"), ("", "ann")]), file, "cpu")
    with pytest.raises(InputErrors) as caught:
        place(work)
    assert "1 of 3 jobs names the group all, which holds groups and takes no jobs" in str(caught.value)
    names, where = place(work.select(work.group_index > 0))
    assert names == ("ops", "default")
    assert where.tolist() == [0, 0]
    assert {group.name: group.parent for group in work.groups} == {"all": "", "ops": "all"}
