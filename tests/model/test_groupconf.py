"""Group.conf: what is read, what is refused and how, and that what is written reads back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.errors import MAX_ERRORS, InputErrors
from cress.model.group import Group, PreemptivePolicy, Quota, QuotaWindow, SchedPolicy
from cress.model.groups.conf import KEYWORDS, ParsedGroups, format_groups, parse_groups
from cress.model.option_text import resolve_options
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import MINUTE
from cress.model.vectors import LEAST_MEMORY

DIMENSIONS = Dimensions(("gpu",))
EXAMPLE = Path(__file__).parents[2] / "examples" / "Group.conf"


def parse(text: str | bytes, accounting: str = "cpu") -> ParsedGroups:
    return parse_groups(text, dimensions=DIMENSIONS, accounting=accounting)


def complaints(text: str | bytes, accounting: str = "cpu") -> list[str]:
    """What is said about a text that is refused."""
    with pytest.raises(InputErrors) as caught:
        parse(text, accounting)
    assert all(error.file == "Group.conf" for error in caught.value.errors)
    return str(caught.value).splitlines()


def cores(count: int) -> Quota:
    return Quota(scalar=count * 1000)


FULL = """\
# The groups of the house
name: mobile    # phones
RESOURCEQUOTA: 10; 07:30-09:00 = 20; Mon-Fri 17:30-19:30 = 20
users: alice | bob

Name: news
ResourceQuota: 20
sched_policy: backfill
PreemptiveSchedPolicy: MOSTRECENTFIRST
Weight: 3
grace: 0m30s
preempt_below: 80%
"""
EXPECTED = (
    Group(
        name="mobile",
        quota=cores(10),
        windows=(
            QuotaWindow(days=(0, 1, 2, 3, 4, 5, 6), start=450, end=540, quota=cores(20)),
            QuotaWindow(days=(0, 1, 2, 3, 4), start=1050, end=1170, quota=cores(20)),
        ),
        users=("alice", "bob"),
    ),
    Group(
        name="news",
        quota=cores(20),
        policy=SchedPolicy.BACKFILL,
        preemptive=PreemptivePolicy.MOST_RECENT_FIRST,
        weight=3,
        options=(("preempt_below", "0.8"), ("grace", "30s")),
    ),
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("as it is", FULL),
        ("written on Windows", FULL.replace("\n", "\r\n")),
        ("written on an old Mac", FULL.replace("\n", "\r")),
        ("with a byte order mark", "\ufeff" + FULL),
        ("as bytes with a byte order mark", b"\xef\xbb\xbf" + FULL.encode()),
        ("with tabs", FULL.replace(": ", ":\t").replace("\n\n", "\n \t \n")),
        ("no space after colons", FULL.replace(": ", ":")),
        ("more blank lines", "\n\n" + FULL.replace("\n\n", "\n\n\n\n") + "\n\n"),
        ("no line end at the end", FULL.rstrip("\n")),
        ("comments do not end a group", FULL.replace("users:", "# who\nusers:")),
        ("comments between groups", FULL.replace("\n\n", "\n\n# more\n\n")),
        (
            "the order of the lines",
            FULL.replace("name: mobile    # phones\n", "").replace("bob\n", "bob\nname: mobile\n"),
        ),
    ],
)
def test_a_file_is_read(name: str, text: str | bytes) -> None:
    assert parse(text).groups == EXPECTED, name


def test_a_group_with_nothing_but_a_name_and_a_quota() -> None:
    (group,) = parse("Name: a\nResourceQuota: 1\n").groups
    assert group == Group(name="a", quota=cores(1))
    assert group.admits("anyone")


def test_every_mistake_of_a_file_is_reported_with_its_line() -> None:
    text = """\
Name: mobile
ResourceQuota: 0; 25:00-09:00 = 20; Mun 09:00-10:00 = 5
Users: alice, bob
SchedPolicy: Urgent
PreemptiveSchedPolicy: LowestUrgency

ResourceQuota: 5
Users:
Weight: 0
Grace: 5 parsec

PreemtiveSchedPolicy: LowPriorityFirst
Cooling: 20s
Name\uff1a x
Name = x
nonsense

Name: mobile
Name: m2
ResourceQuota: <4,8G>
SchedPolicy: bakfill
UserWeights: alice=0

Name: no-go
ResourceQuota: 1.5
Users: a || b
PreemptAbove: 0.5

Name: empty
"""
    per_group = (
        "PriorityAgeing, UserLimitFactor, Backfill, Estimates, BackfillOrder, OverdueAfter, OverdueBy, Late, "
        "UrgencyThreshold, UrgencyMargin, UrgencyCost, BackfillDepth, PreemptWithin, PreemptBelow, PreemptAbove, "
        "Grace, MinRuntime"
    )
    assert complaints(text) == [
        "Group.conf:2: ResourceQuota: 0 is too small (a positive whole number of cores such as 10)",
        "Group.conf:2: ResourceQuota: '25:00' is not a time of day (hours:minutes from 00:00 to 23:59)",
        (
            "Group.conf:2: ResourceQuota: 'Mun' is not a day "
            "(did you mean Sun? days such as Mon, Mon-Fri or Mon,Wed; none for every day)"
        ),
        (
            "Group.conf:3: Users: 'alice, bob' is not a name of a user "
            "(names with | between them, such as alice | bob; * for everyone)"
        ),
        "Group.conf:4: SchedPolicy: unknown policy 'Urgent' (did you mean Urgency?)",
        "Group.conf:5: PreemptiveSchedPolicy: unknown policy 'LowestUrgency' (did you mean LowestUrgencyFirst?)",
        "Group.conf:7: Name: a group without a name (Name: …; a blank line ends a group)",
        "Group.conf:8: Users: has no value (Users: alice | bob; * for everyone)",
        "Group.conf:9: Weight: 0 is too small (a whole number from 1 to 1000000)",
        (
            "Group.conf:10: Grace: '5 parsec' has an unknown unit 'parsec' "
            "(a duration such as 90s, 5min, 1h30m, 2h or 1d; a plain number is seconds)"
        ),
        "Group.conf:12: unknown keyword 'PreemtiveSchedPolicy' (did you mean PreemptiveSchedPolicy?)",
        (
            "Group.conf:13: Cooling: cooling applies to the whole cluster, not to a single group "
            f"(per group: {per_group})"
        ),
        "Group.conf:14: 'Name\uff1a x' has no colon (did you mean Name: x?)",
        "Group.conf:15: 'Name = x' has no colon (did you mean Name: x?)",
        "Group.conf:16: 'nonsense' is not a line of a group (Keyword: value, such as Name: news)",
        "Group.conf:18: Name: there is a group 'mobile' already, on line 1 (each name once)",
        "Group.conf:19: Name: is given a second time, first on line 18 (a blank line before the next group)",
        (
            "Group.conf:20: ResourceQuota: the vector <4,8G> is not a quota in the accounting cpu "
            "(a whole number of cores, or the accounting dominant)"
        ),
        "Group.conf:21: SchedPolicy: unknown policy 'bakfill' (did you mean BackFill?)",
        "Group.conf:22: UserWeights: alice: 0 is too small (a whole number from 1 to 1000000)",
        "Group.conf:24: Name: 'no-go' is not a name of a group (letters A-Z and a-z, digits and _)",
        "Group.conf:25: ResourceQuota: '1.5' is not a whole number (a positive whole number of cores such as 10)",
        "Group.conf:26: Users: a name is missing (names with | between them, such as alice | bob; * for everyone)",
        "Group.conf:27: PreemptAbove: 0.5 is too small (at least 1)",
        "Group.conf:29: ResourceQuota: group 'empty' has no quota (ResourceQuota: 10)",
    ]


HEAD = "Name: a\nResourceQuota: "


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("07:30-09:00 = 20", "the quota outside the windows is missing (10; 07:30-09:00 = 20)"),
        ("3, 07:30-09:00 = 20", "'07:30-09:00 = 20' follows a comma (3; 07:30-09:00 = 20)"),
        ("10;", "a window is empty (a window such as 07:30-09:00 = 20 or Mon-Fri 17:30-19:30 = 20; no ; at the end)"),
        (
            "10; 07:30-09:00",
            "'07:30-09:00' is not a window (a window such as 07:30-09:00 = 20 or Mon-Fri 17:30-19:30 = 20)",
        ),
        ("10; 7-9 = 3", "'7-9 = 3' is not a window (a window such as 07:30-09:00 = 20 or Mon-Fri 17:30-19:30 = 20)"),
        ("10; 07:60-09:00 = 3", "'07:60' is not a time of day (hours:minutes from 00:00 to 23:59)"),
        ("10; 07:00-24:01 = 3", "'24:01' is not a time of day (hours:minutes from 00:00 to 24:00)"),
        ("10; 07:00-08:00 = 0", "0 is too small (a positive whole number of cores such as 10)"),
        ("-3", "'-3' is too small (a positive whole number of cores such as 10)"),
        ("9" * 15, f"{'9' * 15} is too large (a positive whole number of cores such as 10)"),
    ],
)
def test_quotas_that_are_refused(value: str, complaint: str) -> None:
    assert complaints(HEAD + value) == [f"Group.conf:2: ResourceQuota: {complaint}"]


def test_quotas_are_servers_or_vectors_in_the_accounting_dominant() -> None:
    text = "Name: a\nResourceQuota: 3\n\nName: b\nResourceQuota: <40,160G,gpu=2>; 09:00-17:00 = <80,160G>\n"
    first, second = parse(text, accounting="dominant").groups
    assert first.quota == Quota(scalar=3_000_000)
    assert second.quota == Quota(amounts=(("cpu", 40_000), ("memory", 160 * 2**30), ("gpu", 2_000)))
    assert second.windows[0].quota == Quota(amounts=(("cpu", 80_000), ("memory", 160 * 2**30)))


def test_mistakes_in_vectors_say_which_dimension() -> None:
    found = complaints(HEAD + "<4,8Gbit>; 09:00-17:00 = 5; 10:00-11:00 = <0>", accounting="dominant")
    assert found[0].startswith("Group.conf:2: ResourceQuota: memory: '8Gbit' has an unknown unit")
    assert found[1:] == ["Group.conf:2: ResourceQuota: the quota <0> is empty (at least one amount above 0)"]
    assert complaints(HEAD + "<4>; 09:00-17:00 = 5", accounting="dominant") == [
        "Group.conf:2: ResourceQuota: numbers and vectors are mixed (all numbers, or all vectors)"
    ]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "empty",
            "",
            "Group.conf: there is no group in it (for the default group alone: a block Name: default)",
        ),
        (
            "only comments",
            "# nothing\n\n",
            "Group.conf: there is no group in it (for the default group alone: a block Name: default)",
        ),
        ("a program", b"Name: a\n\x7fELF\xff", "Group.conf:2: byte 0xff is not UTF-8 (save it as UTF-8)"),
        ("saved as UTF-16", "Name: a".encode("utf-16"), "Group.conf:1: it is UTF-16 (save it as UTF-8)"),
        (
            "a zero byte",
            "Name: a\nResourceQuota: 1\0",
            "Group.conf:2: character U+0000 is not a text (a text file in UTF-8)",
        ),
        (
            "bytes that were replaced",
            "Name: a # \ufffd\nResourceQuota: 1",
            "Group.conf:1: character U+FFFD is not a text (a text file in UTF-8)",
        ),
        (
            "a keyword twice",
            HEAD + "1\nWeight: 1\nWEIGHT: 2",
            "Group.conf:4: Weight: is given a second time, first on line 3 (each keyword once in a group)",
        ),
        (
            "a long name",
            f"Name: {'x' * 65}\nResourceQuota: 1",
            "Group.conf:1: Name: a name of 65 characters (at most 64)",
        ),
    ],
)
def test_files_that_are_no_groups(name: str, text: str | bytes, complaint: str) -> None:
    assert complaints(text) == [complaint], name


def test_a_name_of_64_characters_is_no_mistake() -> None:
    assert parse(f"Name: {'x' * 64}\nResourceQuota: 1").groups[0].name == "x" * 64


def test_the_complaints_about_a_very_broken_file_end_somewhere() -> None:
    found = complaints("nonsense\n" * 1000)
    assert len(found) == MAX_ERRORS + 1
    assert found[-1] == "Group.conf: and 900 more errors"


def test_computed_attributes_are_ignored_with_a_note() -> None:
    parsed = parse(HEAD + "1\nPriority: nonsense\nUsedResource: 12\n")
    assert parsed.groups == (Group(name="a", quota=cores(1)),)
    assert [str(note) for note in parsed.notes] == [
        "Group.conf:3: Priority: is computed and was ignored",
        "Group.conf:4: UsedResource: is computed and was ignored",
    ]


def test_many_computed_attributes_draw_one_note_for_each_keyword() -> None:
    text = "".join(f"Name: g{i}\nResourceQuota: 1\nPriority: {10**1500}\n\n" for i in range(7))
    assert [str(note) for note in parse(text).notes] == [
        "Group.conf:3: Priority: is computed and was ignored, here and 6 more times"
    ]


@pytest.mark.parametrize(
    "text",
    ["zone: Europe/Berlin  # here\n\nName: a\nResourceQuota: 1\n", "Name: a\nResourceQuota: 1\n\nZONE: Europe/Berlin"],
)
def test_the_time_zone_of_the_timetables_is_a_block_of_its_own(text: str) -> None:
    parsed = parse(text)
    assert (parsed.zone, parsed.groups) == ("Europe/Berlin", (Group(name="a", quota=cores(1)),))
    written = format_groups(parsed.groups, dimensions=DIMENSIONS, zone=parsed.zone)
    assert written.startswith("Zone: Europe/Berlin\n\nName: a\n")
    assert parse(written).zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Zone: Europe/Berlyn\n\nName: a\nResourceQuota: 1", "1: Zone: there is no time zone 'Europe/Berlyn' (did you mean Europe/Berlin?)"),  # noqa: E501
        ("Zone: ../../../etc/passwd\n\nName: a\nResourceQuota: 1", "1: Zone: there is no time zone '../../../etc/passwd' (a name such as"),  # noqa: E501
        ("Zone: UTC\n\nName: a\nResourceQuota: 1\n\nZone: UTC", "6: Zone: is given a second time, first on line 1"),
        ("Zone: UTC\nZone: UTC\n\nName: a\nResourceQuota: 1", "2: Zone: is given a second time, first on line 1"),
        ("Name: a\nResourceQuota: 1\nZone: UTC", "3: Zone: applies to all groups and cannot be in the block of one group (a block of its own"),  # noqa: E501
        ("Zone:\n\nName: a\nResourceQuota: 1", "1: Zone: has no value (Zone: Europe/Berlin)"),
        ("Zone: UTC", " there is no group in it"),
    ],
)  # fmt: skip
def test_a_wrong_time_zone_is_told(text: str, says: str) -> None:
    (found,) = complaints(text)
    assert found.startswith(f"Group.conf:{says}")


def test_a_mistake_of_a_group_behind_the_time_zone_is_where_the_group_begins() -> None:
    zone, group = complaints("Zone: UTC\nName: a\nUsers: x")
    assert zone.startswith("Group.conf:1: Zone: applies to all groups")
    assert group.startswith("Group.conf:2: ResourceQuota: group 'a' has no quota")


@pytest.mark.parametrize("value", ["1.5", "--7", "-1000001", "1000001", "-", "²"])
def test_a_wrong_priority_for_preemption_is_told_that_it_may_be_negative(value: str) -> None:
    (found,) = complaints(f"{HEAD}1\nPreemptPriority: {value}")
    assert found == (
        f"Group.conf:3: PreemptPriority: {value!r} is not a priority for preemption (a whole number from "
        "-1000000 to 1000000)"
    )
    assert parse(f"{HEAD}1\nPreemptPriority: -7").groups[0].preempt_priority == -7


def test_what_is_lent_may_be_nothing_and_the_error_says_so() -> None:
    (found,) = complaints(f"{HEAD}1\nLendable: -1")
    assert found == "Group.conf:3: Lendable: '-1' is too small (a whole number of cores such as 10, 0 for nothing)"


def test_what_is_odd_and_no_mistake_draws_a_note() -> None:
    text = """\
Name: news
ResourceQuota: 20
Users: alice | bob | alice
UserWeights: carol=2 | bob=1

Name: NEWS
ResourceQuota: 1

Name: Default
ResourceQuota: 1
"""
    assert [str(note) for note in parse(text).notes] == [
        "Group.conf:3: Users: alice is named twice",
        "Group.conf:4: UserWeights: has no effect under SchedPolicy FIFO (SchedPolicy: Capacity)",
        "Group.conf:4: UserWeights: carol has a weight and may not submit to this group",
        "Group.conf:6: Name: 'NEWS' and 'news' differ only in case and are two groups",
        "Group.conf:9: Name: 'Default' and 'default' differ only in case and are two groups",
    ]


def test_settings_of_jobs_in_a_group_without_jobs_of_its_own_draw_a_note() -> None:
    text = """\
Name: physics
Users: alice | bob
SchedPolicy: Urgency
PreemptBelow: 0.8
Grace: 5s

Name: lab
Parent: physics
ResourceQuota: 5
"""
    told = "has no effect in group physics, which contains groups and holds no jobs (in the blocks of lab)"
    notes = [str(note) for note in parse(text).notes]
    assert notes == [
        f"Group.conf:{line}: {name}: {told}" for line, name in ((2, "Users"), (3, "SchedPolicy"), (5, "Grace"))
    ]
    assert (
        parse(
            format_groups(
                parse(text.replace("Users: alice | bob\nSchedPolicy: Urgency\n", "").replace("Grace: 5s\n", "")).groups,
                dimensions=DIMENSIONS,
            )
        ).notes
        == ()
    )


def test_the_lines_of_the_quotas_are_known_afterwards() -> None:
    parsed = parse(FULL)
    assert (parsed.file, parsed.lines) == ("Group.conf", {"mobile": 3, "news": 7})


def test_what_is_written() -> None:
    text = format_groups(
        EXPECTED,
        dimensions=DIMENSIONS,
        used={"mobile": 2_500, "news": 21_000},
        priority={"mobile": 3, "news": "7"},
    )
    assert text == (
        "Name: mobile\n"
        "ResourceQuota: 10; 07:30-09:00 = 20; Mon-Fri 17:30-19:30 = 20\n"
        "Users: alice | bob\n"
        "SchedPolicy: FIFO\n"
        "PreemptiveSchedPolicy: LowPriorityFirst\n"
        "Priority: 3\n"
        "UsedResource: 2.5\n"
        "\n"
        "Name: news\n"
        "ResourceQuota: 20\n"
        "Users: *\n"
        "SchedPolicy: BackFill\n"
        "PreemptiveSchedPolicy: MostRecentFirst\n"
        "Weight: 3\n"
        "PreemptBelow: 0.8\n"
        "Grace: 30s\n"
        "Priority: 7\n"
        "UsedResource: 21\n"
    )


def test_half_a_server_is_written_as_such() -> None:
    group = Group(name="a", quota=Quota(scalar=2_000_000))
    text = format_groups([group], dimensions=DIMENSIONS, accounting="dominant", used={"a": 500_000})
    assert text.endswith("UsedResource: 0.5\n")


names = st.text(alphabet="abcXYZ019_", min_size=1, max_size=64)
users = st.text(alphabet="abz09._@-\\é", min_size=1, max_size=8)
minutes = st.integers(0, 1439)
positive_amounts = st.dictionaries(st.sampled_from(DIMENSIONS.names), st.integers(1, 2**50 - 1), min_size=1)
# Less memory than a program needs to start is a mistake.
least = {"memory": LEAST_MEMORY}
vector_quotas = positive_amounts.map(
    lambda amounts: Quota(
        amounts=tuple((name, max(amounts[name], least.get(name, 1))) for name in DIMENSIONS.names if name in amounts)
    )
)


def groups_with(quotas: st.SearchStrategy[Quota]) -> st.SearchStrategy[Group]:
    windows = st.builds(
        QuotaWindow,
        days=st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
        start=minutes,
        end=minutes,
        quota=quotas,
    )
    own_options = st.fixed_dictionaries(
        {},
        optional={
            "user_limit_factor": st.sampled_from(["0.5", "2"]),
            "backfill": st.sampled_from(["easy", "conservative"]),
            "preempt_above": st.sampled_from(["1", "1.25"]),
            "grace": st.sampled_from(["0s", "90s", "2h"]),
        },
    )
    return st.builds(
        Group,
        name=names,
        quota=quotas,
        windows=st.lists(windows, max_size=4).map(tuple),
        users=st.lists(st.one_of(users, st.just("*")), min_size=1, max_size=4, unique=True).map(tuple),
        policy=st.sampled_from(SchedPolicy),
        preemptive=st.sampled_from(PreemptivePolicy),
        weight=st.integers(1, 1_000_000),
        user_weights=st.dictionaries(users, st.integers(1, 1_000_000), max_size=3).map(
            lambda each: tuple(each.items())
        ),
        options=own_options.map(
            lambda each: tuple(
                (name, each[name])
                for name in ("user_limit_factor", "backfill", "preempt_above", "grace")
                if name in each
            )
        ),
    )


@given(st.data(), st.sampled_from(["cpu", "dominant"]))
def test_what_is_written_reads_back(data: st.DataObject, accounting: str) -> None:
    scale = 1000 if accounting == "cpu" else 1_000_000
    numbers = st.integers(1, 10**9 // 2).map(lambda count: Quota(scalar=count * scale))
    of_one_kind = [groups_with(numbers)] + ([groups_with(vector_quotas)] if accounting == "dominant" else [])
    groups = data.draw(st.lists(st.one_of(of_one_kind), min_size=1, max_size=4, unique_by=lambda group: group.name))
    used = {groups[0].name: data.draw(st.integers(0, 2**50))}
    text = format_groups(groups, dimensions=DIMENSIONS, accounting=accounting, used=used, priority={groups[0].name: 6})
    parsed = parse(text, accounting)
    assert parsed.groups == tuple(groups)
    assert sum("is computed" in note.what for note in parsed.notes) == 2


lines = st.one_of(
    st.text(max_size=20),
    st.builds(
        "{}: {}".format,
        st.sampled_from(["Name", "ResourceQuota", "Users", "SchedPolicy", "Weight", "UserWeights", "Grace", "Nmae"]),
        st.one_of(st.text(max_size=12), st.sampled_from(["a", "1", "10; 09:00-10:00 = 2", "*", "FIFO", "a=1", "5s"])),
    ),
)


@given(st.lists(lines, max_size=8).map("\n".join))
def test_any_text_is_groups_or_complaints_with_places(text: str) -> None:
    try:
        parsed = parse(text)
    except InputErrors as caught:
        assert caught.errors
        assert all(error.line <= text.count("\n") + text.count("\r") + 1 for error in caught.errors)
    else:
        assert parse(format_groups(parsed.groups, dimensions=DIMENSIONS)).groups == parsed.groups


@given(st.binary(max_size=60))
def test_any_bytes_are_groups_or_complaints(data: bytes) -> None:
    try:
        assert parse(data).groups
    except InputErrors as caught:
        assert str(caught)


def test_the_example_file_is_read_without_a_note() -> None:
    parsed = parse(EXAMPLE.read_bytes())
    assert [group.name for group in parsed.groups] == ["mobile", "news", "games", "research", "default"]
    assert parsed.notes == ()
    research = resolve_options(Options(), parsed.groups[3])
    assert (research.backfill, research.grace, research.min_runtime) == ("conservative", 2 * MINUTE, 10 * MINUTE)


def test_the_example_in_the_docs_is_read() -> None:
    text = (EXAMPLE.parents[1] / "docs" / "groups.md").read_text(encoding="utf-8")
    parsed = parse(text.split("```\n")[1])
    assert [group.name for group in parsed.groups] == ["mobile", "news"]
    assert parsed.notes == ()


def test_every_keyword_is_in_the_docs() -> None:
    text = (EXAMPLE.parents[1] / "docs" / "groups.md").read_text(encoding="utf-8")
    assert [keyword for keyword in KEYWORDS if f"`{keyword}`" not in text] == []
    usable = [each.value for kind in (SchedPolicy, PreemptivePolicy) for each in kind]
    assert [policy for policy in usable if f"`{policy}`" not in text] == []
