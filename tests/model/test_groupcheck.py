"""Quotas against the cluster, the default group, and what applying a changed file changes."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError, InputErrors
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.groups.check import QuotaCheck, check_quotas, default_group, with_default_group
from cress.model.groups.conf import parse_groups
from cress.model.groups.diff import DiffMark, diff_groups, format_diff
from cress.model.options import Options
from cress.model.resources import Dimensions

DIMENSIONS = Dimensions(("gpu",))
CAPACITY = DIMENSIONS.vector(cpu=60_000, memory=64 * 2**30)


def check(text: str, accounting: str = "cpu", nodes: int = 4) -> QuotaCheck:
    parsed = parse_groups(text, dimensions=DIMENSIONS, accounting=accounting)
    return check_quotas(
        parsed.groups,
        CAPACITY,
        nodes,
        accounting=accounting,
        dimensions=DIMENSIONS,
        file=parsed.file,
        lines=parsed.lines,
    )


def texts(found: QuotaCheck) -> list[str]:
    return [f"error: {each}" for each in found.errors] + [f"warning: {each}" for each in found.warnings]


def conf(*quotas: str) -> str:
    return "\n".join(f"Name: g{k}\nResourceQuota: {quota}\n" for k, quota in enumerate(quotas))


ALIKE = "(the groups share in proportion to their quotas)"


def too_high(quota: str, when: str = "") -> str:
    return (
        f"error: Group.conf:2: ResourceQuota: the quota {quota} of group g0{when} is above the capacity "
        "(the cluster has 60 cores)"
    )


def too_many(cores: int, when: str = "") -> str:
    what = f"all quotas together are {cores} cores{when}, the cluster has 60 cores"
    return f"warning: Group.conf: ResourceQuota: {what} {ALIKE}"


@pytest.mark.parametrize(
    ("name", "quotas", "expected"),
    [
        ("all of the cluster", ["60"], []),
        ("one core more", ["61"], [too_high("61"), too_many(61)]),
        (
            "in a window only",
            ["10; Wed 09:00-10:00 = 61"],
            [too_high("61", " from Wed 09:00"), too_many(61, " from Wed 09:00")],
        ),
        ("in a window that is never in force", ["10; 09:00-10:00 = 61; 08:00-11:00 = 20"], []),
        ("together just the cluster", ["30", "30"], []),
        ("together too much all week", ["30", "31"], [too_many(61)]),
        (
            "together too much for an hour",
            ["30; Wed 09:00-12:00 = 40", "20; 11:00-14:00 = 30"],
            [too_many(70, " from Wed 11:00")],
        ),
        ("high quotas that take turns", ["20; 06:00-12:00 = 40", "20; 12:00-18:00 = 40"], []),
    ],
)
def test_quotas_in_cores(name: str, quotas: list[str], expected: list[str]) -> None:
    assert texts(check(conf(*quotas))) == expected, name


@pytest.mark.parametrize(
    ("name", "quotas", "expected"),
    [
        ("as many as there are servers", ["4"], []),
        (
            "one server more",
            ["5"],
            [
                (
                    "error: Group.conf:2: ResourceQuota: the quota 5 of group g0 is above the capacity "
                    "(the cluster has 4 servers)"
                ),
                (
                    "warning: Group.conf: ResourceQuota: all quotas together are 5 servers, the cluster has 4 "
                    f"servers {ALIKE}"
                ),
            ],
        ),
        ("a vector that fits", ["<60,64G>"], []),
        (
            "a vector with too much memory",
            ["<1,65G>"],
            [
                (
                    "error: Group.conf:2: ResourceQuota: the quota <1,65G> of group g0 is above the capacity "
                    "(the cluster has memory 64G)"
                ),
                (
                    "warning: Group.conf: ResourceQuota: all quotas together are 102% of memory, "
                    f"the cluster has memory 64G {ALIKE}"
                ),
            ],
        ),
        (
            "a dimension that the cluster lacks",
            ["<1,gpu=1>"],
            [
                (
                    "error: Group.conf:2: ResourceQuota: the quota <1,gpu=1> of group g0 is above the capacity "
                    "(the cluster has 0 gpu)"
                )
            ],
        ),
        (
            "servers and a vector together",
            ["3", "<30,8G>"],
            [
                (
                    "warning: Group.conf: ResourceQuota: all quotas together are 125% of cpu, "
                    f"the cluster has 60 cores {ALIKE}"
                )
            ],
        ),
    ],
)
def test_quotas_in_servers_and_vectors(name: str, quotas: list[str], expected: list[str]) -> None:
    assert texts(check(conf(*quotas), accounting="dominant")) == expected, name


@pytest.mark.parametrize(
    ("cpu", "nodes", "options", "scalar"),
    [
        (1_000_000, 1, Options(), 20_000),
        (1_213_000, 1, Options(), 24_000),  # 24.26 cores in whole cores
        (1_000_000, 1, Options(default_group_quota=0.05), 50_000),
        (100_000, 1, Options(default_group_quota=0.03), 3_000),  # exactly three, not a little less
        (8_000, 1, Options(), 1_000),
        (0, 0, Options(), 1_000),
        (1_000_000, 100, Options(accounting="dominant"), 2_000_000),
        (1_000_000, 10, Options(accounting="dominant"), 1_000_000),
    ],
)
def test_the_default_group_has_two_percent_and_at_least_one(
    cpu: int, nodes: int, options: Options, scalar: int
) -> None:
    group = default_group(DIMENSIONS.vector(cpu=cpu), nodes, options, dimensions=DIMENSIONS)
    assert group == Group(name="default", quota=Quota(scalar=scalar), policy=SchedPolicy.CAPACITY)
    assert group.admits("anyone")


def test_a_block_named_default_takes_the_place_of_the_default_group() -> None:
    default = default_group(CAPACITY, 4, Options(), dimensions=DIMENSIONS)
    other = Group(name="a", quota=Quota(scalar=1000))
    own = Group(name="default", quota=Quota(scalar=5000), policy=SchedPolicy.CAPACITY)
    assert with_default_group([other], default) == (other, default)
    assert with_default_group([own, other], default) == (own, other)


OLD = """\
Name: mobile
ResourceQuota: 10
Users: bob | alice

Name: news
ResourceQuota: 20
Grace: 30s

Name: games
ResourceQuota: 20
"""
NEW = """\
Name: research
ResourceQuota: 8
SchedPolicy: BackFill
Weight: 2

Name: news
ResourceQuota: 20; Mon-Fri 09:00-18:00 = 50
SchedPolicy: Priority
MinRuntime: 1h

Name: mobile
ResourceQuota: 10
Users: alice | bob
"""


def test_a_diff_reads_like_this() -> None:
    old, new = (parse_groups(text, dimensions=DIMENSIONS).groups for text in (OLD, NEW))
    assert format_diff(diff_groups(old, new, dimensions=DIMENSIONS)) == (
        "- games\n"
        "~ news\n"
        "    ResourceQuota: 20 -> 20; Mon-Fri 09:00-18:00 = 50\n"
        "    SchedPolicy: FIFO -> Priority\n"
        "    Grace: 30s -> (not set)\n"
        "    MinRuntime: (not set) -> 1h\n"
        "+ research\n"
        "    ResourceQuota: 8\n"
        "    Users: *\n"
        "    SchedPolicy: BackFill\n"
        "    PreemptiveSchedPolicy: LowPriorityFirst\n"
        "    Weight: 2\n"
    )


def test_the_order_of_groups_and_users_is_no_change() -> None:
    old = parse_groups(OLD, dimensions=DIMENSIONS).groups
    assert diff_groups(old, tuple(reversed(old)), dimensions=DIMENSIONS) == []
    assert format_diff([]) == "no changes\n"


def test_a_diff_back_is_the_opposite() -> None:
    old, new = (parse_groups(text, dimensions=DIMENSIONS).groups for text in (OLD, NEW))
    there, back = diff_groups(old, new, dimensions=DIMENSIONS), diff_groups(new, old, dimensions=DIMENSIONS)
    opposite = {DiffMark.ADDED: DiffMark.REMOVED, DiffMark.REMOVED: DiffMark.ADDED}
    assert [(opposite.get(each.kind, each.kind), each.name) for each in there] == [
        (each.kind, each.name) for each in back
    ]
    assert {(value.keyword, value.before, value.after) for each in there for value in each.values} == {
        (value.keyword, value.after, value.before) for each in back for value in each.values
    }


def test_several_errors_keep_being_several_when_their_place_is_added() -> None:
    errors = InputErrors([InputError("a", line=3), InputError("b")]).at(file="f", line=7)
    assert str(errors) == "f:3: a\nf:7: b"
