"""Trees in ``Group.conf``: what is read, written, compared, and refused with its line."""

from __future__ import annotations

import pytest

from cress.model.errors import InputErrors
from cress.model.group import Group, Quota
from cress.model.groups.check import check_quotas
from cress.model.groups.conf import format_groups, parse_groups
from cress.model.groups.diff import diff_groups, format_diff
from cress.model.groups.tree import leaf_names, leaves_below, weeks_of
from cress.model.resources import Dimensions

D = Dimensions(("gpu",))

UNIVERSITY = """\
Name: physics
ResourceQuota: 60
MaxQuota: 80

Name: theory
Parent: physics
ResourceQuota: 20
Lendable: 0

Name: lab
Parent: physics
ResourceQuota: 30; Mon-Fri 08:00-18:00 = 40
Lendable: 10

Name: sciences
"""


def read(text: str, accounting: str = "cpu") -> tuple[Group, ...]:
    return parse_groups(text, dimensions=D, accounting=accounting).groups


def test_a_tree_is_read_and_written_alike() -> None:
    text = UNIVERSITY.replace("Name: physics\n", "Name: physics\nParent: sciences\n")
    groups = read(text)
    by_name = {group.name: group for group in groups}
    assert by_name["theory"].parent == "physics"
    assert by_name["theory"].lendable == Quota()
    assert by_name["physics"].max_quota == Quota(scalar=80_000)
    assert by_name["sciences"].quota == Quota()
    assert leaf_names(groups) == {"theory", "lab", "default"}
    assert leaves_below(groups, "sciences") == ["theory", "lab"]
    assert read(format_groups(groups, dimensions=D)) == groups


def test_a_group_without_a_quota_has_the_sum_of_those_in_it_all_week() -> None:
    text = """\
Name: all

Name: day
Parent: all
ResourceQuota: 10; 08:00-20:00 = 30

Name: night
Parent: all
ResourceQuota: 10; 20:00-08:00 = 30
"""
    week = weeks_of(read(text))["all"]
    assert week == [(0, Quota(scalar=40_000))]


def test_vectors_and_their_bounds() -> None:
    text = "Name: a\nResourceQuota: <10,40G>\nMaxQuota: <20,80G>\nLendable: <0,10G>\n"
    (group,) = read(text, "dominant")
    assert group.max_quota == Quota(amounts=(("cpu", 20_000), ("memory", 80 * 2**30)))
    assert group.lendable == Quota(amounts=(("memory", 10 * 2**30),))
    assert read(format_groups([group], dimensions=D, accounting="dominant"), "dominant") == (group,)


def block(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines) + "\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            block("Name: a", "ResourceQuota: 1", "Parent: phisics") + block("Name: physics", "ResourceQuota: 5"),
            ["Group.conf:3: Parent: there is no group 'phisics' (did you mean physics?)"],
            id="unknown",
        ),
        pytest.param(
            block("Name: a", "Parent: b", "ResourceQuota: 1"),
            ["Group.conf:2: Parent: there is no group 'b' (a block with Name: b)"],
            id="unknown, and the only group",
        ),
        pytest.param(
            block("Name: a", "Parent: b", "ResourceQuota: 1") + block("Name: b", "Parent: a", "ResourceQuota: 1"),
            [
                "Group.conf:2: Parent: group a is in itself: a in b in a (a group above it)",
                "Group.conf:6: Parent: group b is in itself: b in a in b (a group above it)",
            ],
            id="a circle",
        ),
        pytest.param(
            block("Name: default", "ResourceQuota: 1", "Parent: a") + block("Name: a", "ResourceQuota: 5"),
            ["Group.conf:3: Parent: the default group is in no other group (leave it out)"],
            id="default",
        ),
        pytest.param(
            block("Name: p", "ResourceQuota: 40")
            + block("Name: a", "Parent: p", "ResourceQuota: 10; Tue 08:00-09:00 = 30")
            + block("Name: b", "Parent: p", "ResourceQuota: 15"),
            [
                ("Group.conf:2: ResourceQuota: the groups in p have quotas of 45 cores together from Tue "
                    "08:00, its own is "
                "40 cores (at least 45 cores, or none: the sum of theirs)")
            ],
            id="more than the parent for an hour",
        ),
        pytest.param(
            block("Name: a", "ResourceQuota: 10; Sun 10:00-11:00 = 20", "MaxQuota: 15"),
            ["Group.conf:3: MaxQuota: 15 cores is below the quota of 20 cores from Sun 10:00 (at least 20 cores)"],
            id="a ceiling below the quota for an hour",
        ),
        pytest.param(
            block("Name: a", "ResourceQuota: 10", "MaxQuota: 15; Sun = 20"),
            ["Group.conf:3: MaxQuota: has no timetable (a number or a vector, the same all week)"],
            id="a timetable of ceilings",
        ),
        pytest.param(
            block("Name: a", "MaxQuota: 15"), ["Group.conf:1: ResourceQuota: group 'a' has no quota (ResourceQuota: 10)"], id="no quota"  # noqa: E501
        ),
    ],
)  # fmt: skip
def test_mistakes_have_their_lines(text: str, told: list[str]) -> None:
    with pytest.raises(InputErrors) as caught:
        read(text)
    assert [str(each) for each in caught.value.errors] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            block("Name: a", "ResourceQuota: 8", "Lendable: 9"),
            [("Group.conf:3: Lendable: 9 cores is more than the quota of 8 cores (at most 8 cores, or leave it "
                "out: all of it)")],
            id="more than the quota",
        ),
        pytest.param(
            block("Name: a", "ResourceQuota: 8; Mon-Fri 08:00-18:00 = 10", "Lendable: 11"),
            [("Group.conf:3: Lendable: 11 cores is more than the largest quota of 10 cores (at most 10 cores, "
                "or leave it out: all of it)")],
            id="more than at any time",
        ),
        pytest.param(
            block("Name: p", "Lendable: 9") + block("Name: a", "Parent: p", "ResourceQuota: 8"),
            [("Group.conf:2: Lendable: 9 cores is more than the quota of 8 cores (at most 8 cores, or leave it "
                "out: all of it)")],
            id="more than the sum of those in it",
        ),
        pytest.param(
            block("Name: p", "MaxTimeLimit: 30min")
            + block("Name: a", "Parent: p", "ResourceQuota: 8", "MaxTimeLimit: 2h", "DefaultTimeLimit: 45min"),
            [("Group.conf:8: DefaultTimeLimit: 45m of group a is longer than MaxTimeLimit of group p, 30m (at "
                "most 30m)")],
            id="a default longer than the group above allows",
        ),
        pytest.param(
            block("Name: q", "MaxTimeLimit: 30min")
            + block("Name: p", "Parent: q", "DefaultTimeLimit: 1h")
            + block("Name: a", "Parent: p", "ResourceQuota: 8", "DefaultTimeLimit: 31min"),
            [
                ("Group.conf:6: DefaultTimeLimit: 1h of group p is longer than MaxTimeLimit of group q, 30m "
                    "(at most 30m)"),
                ("Group.conf:11: DefaultTimeLimit: 31m of group a is longer than MaxTimeLimit of group q, 30m "
                    "(at most 30m)"),
            ],
            id="defaults longer than the outermost group allows",
        ),
    ],
)  # fmt: skip
def test_contradictions_have_their_lines(text: str, told: list[str]) -> None:
    with pytest.raises(InputErrors) as caught:
        read(text)
    assert [str(each) for each in caught.value.errors] == told


def test_what_lends_all_of_its_largest_quota_is_no_mistake() -> None:
    read(block("Name: a", "ResourceQuota: 8; Mon-Fri 08:00-18:00 = 10", "Lendable: 10"))
    read(block("Name: p", "Lendable: 8") + block("Name: a", "Parent: p", "ResourceQuota: 8"))
    read(block("Name: a", "ResourceQuota: <10,40G,gpu(A100)=2>", "Lendable: <gpu(A100)=2>"), "dominant")


@pytest.mark.parametrize(
    ("lent", "told"),
    [
        ("<4,gpu(A100)=3>", "3 gpu(A100) is more than the quota of 2 gpu(A100) (at most 2 gpu(A100), or leave it out"),
        ("<4,gpu(T4)=1>", "1 gpu(T4) is lent, and the quota has no gpu(T4) (leave it out)"),
        ("<4,41G>", "memory 41G is more than the quota of memory 40G (at most memory 40G, or leave it out: all of it)"),
    ],
)
def test_each_amount_that_is_lent_is_within_the_quota(lent: str, told: str) -> None:
    with pytest.raises(InputErrors) as caught:
        read(block("Name: a", "ResourceQuota: <10,40G,gpu(A100)=2>", f"Lendable: {lent}"), "dominant")
    assert [str(each).partition(told)[:2] for each in caught.value.errors] == [("Group.conf:3: Lendable: ", told)]


def test_kinds_are_not_mixed_in_a_tree() -> None:
    text = block("Name: p", "ResourceQuota: <10,40G>") + block("Name: a", "Parent: p", "ResourceQuota: 3")
    with pytest.raises(InputErrors, match="the quotas of a tree are all of one kind, here a vector of cpu, memory"):
        read(text, "dominant")


def test_the_diff_shows_moves_in_the_tree() -> None:
    old = read(UNIVERSITY.replace("\nName: sciences\n", ""))
    new = read(
        UNIVERSITY.replace("Parent: physics\nResourceQuota: 20\nLendable: 0", "ResourceQuota: 20").replace(
            "\nName: sciences\n", ""
        )
    )
    assert format_diff(diff_groups(old, new, dimensions=D)) == (
        "~ theory\n    Parent: physics -> (not set)\n    Lendable: 0 -> (not set)\n"
    )


def test_what_is_in_a_group_counts_once_against_the_cluster() -> None:
    groups = read(UNIVERSITY.replace("\nName: sciences\n", ""))
    found = check_quotas(groups, D.vector(cpu=60_000), 1, accounting="cpu", dimensions=D)
    assert (found.errors, found.warnings) == ((), ())
    found = check_quotas(groups, D.vector(cpu=50_000), 1, accounting="cpu", dimensions=D)
    assert [each.what for each in found.errors] == ["the quota 60 of group physics is above the capacity"]
