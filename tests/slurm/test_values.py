"""Values as Slurm spells them."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.cli.slurm.control import CHANGES
from cress.cli.slurm.reports import _with_parents
from cress.model.errors import InputError
from cress.slurm.arrays import OWN_ID, compressed, job_words, parse_array, parse_job
from cress.slurm.dependencies import parse_dependency
from cress.slurm.moments import read_begin, read_deadline
from cress.slurm.nodelist import compressed as nodelist
from cress.slurm.nodelist import expanded
from cress.slurm.values import memory, node_count, seconds, short_time_text, time_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("2:00:00", 7200),
        ("1-0", 86400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("2-03:04:05", 183_845),
        ("UNLIMITED", None),
        ("infinite", None),
        ("0", None),
    ],
)
def test_times(text: str, expected: int | None) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "1h", "1-", "1:2:3:4", "1-1:1:1:1", "-5", "ten"])
def test_what_is_no_time_is_refused_with_the_spellings(text: str) -> None:
    with pytest.raises(InputError, match="D-HH:MM:SS"):
        seconds(text)


@given(st.integers(1, 10**8))
def test_a_time_is_read_back(total: int) -> None:
    assert seconds(time_text(total)) == total


def test_times_of_squeue() -> None:
    assert [short_time_text(total) for total in (5, 65, 3600, 90_061)] == ["0:05", "1:05", "1:00:00", "1-01:01:01"]


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("100", 100), ("100M", 100), ("4G", 4096), ("2GB", 2048), ("1T", 1 << 20), ("2048K", 2)]
)
def test_amounts_of_memory_are_megabytes_without_a_unit(text: str, mebibytes: int) -> None:
    assert memory(text) == mebibytes << 20


def test_nodes_may_be_a_range_of_which_the_least_counts() -> None:
    assert (node_count("3"), node_count("2-4")) == (3, 2)
    with pytest.raises(InputError, match="more nodes at least"):
        node_count("4-2")


@pytest.mark.parametrize(
    ("text", "elements", "most"),
    [
        ("1-5", (1, 2, 3, 4, 5), 0),
        ("0-15:4", (0, 4, 8, 12), 0),
        ("1,5,9-11%2", (1, 5, 9, 10, 11), 2),
        ("7", (7,), 0),
    ],
)
def test_arrays(text: str, elements: tuple[int, ...], most: int) -> None:
    array = parse_array(text)
    assert (array.elements, array.most_running) == (elements, most)


@pytest.mark.parametrize("text", ["", "5-1", "1-", "a", "1-5%0", "1,1", "1-5:0"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_array(text)


def test_numbers_become_ranges() -> None:
    assert compressed([1, 2, 3, 7, 9, 10]) == "1-3,7,9-10"


def test_names_of_jobs() -> None:
    assert job_words("12_[1,5],13, 14") == ["12_[1,5]", "13", "14"]
    assert parse_job("12") == (12, None, None, "")
    assert parse_job("12_3").elements == (3,)
    assert parse_job("12_[1-3,7]").elements == (1, 2, 3, 7)
    assert parse_job("12.batch").step == "batch"
    assert parse_job(str(4 * OWN_ID + 12)) == (12, None, 3, "")
    with pytest.raises(InputError, match="Invalid job id"):
        parse_job("twelve")


def test_dependencies() -> None:
    found = parse_dependency("afterok:12:13,afterany:14,singleton,aftercorr:15")
    assert [(one.condition, one.ids, one.singleton) for one in found] == [
        ("ok", (12, 13), False),
        ("any", (14,), False),
        ("", (), True),
        ("tasks", (15,), False),
    ]
    assert [one.ids for one in parse_dependency("afterok:12,13")] == [(12,), (13,)]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("after:12", "afterany"),
        ("afterok:12?afterany:13", "all of them"),
        ("afterok", "afterok:12"),
        ("afterok:12_3", "the id of the array"),
        ("later:12", "afterok:12"),
    ],
)
def test_dependencies_that_are_refused_say_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        parse_dependency(text)
    assert hint in error.value.hint


def test_lists_of_nodes() -> None:
    assert expanded("n[1-3,07],login") == ["n1", "n2", "n3", "n07", "login"]
    assert expanded("rack[1-2]n[01-02]") == ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]
    assert nodelist(["n1", "n2", "n3", "n07", "login"]) == "n[1-3],n07,login"
    for text in ("n[1-", "n[\u00b2]", f"n[{'1' * 5000}]", "n[1-\u00b2]"):
        with pytest.raises(InputError, match="not a list of nodes"):
            expanded(text)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20, unique=True))
def test_a_list_of_nodes_is_read_back(numbers: list[int]) -> None:
    names = [f"node{number}" for number in sorted(numbers)]
    assert expanded(nodelist(names)) == names


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the zone of the machine for a test."""

    def set_to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("now", ""),
        ("now+90", "2026-11-28 10:01:30 Z"),
        ("now+2days", "2026-11-30 10:00:00 Z"),
        ("16:00", "2026-11-28 16:00:00 Z"),
        ("08:00", "2026-11-29 08:00:00 Z"),  # the next one
        ("8:30am", "2026-11-29 08:30:00 Z"),
        ("8:30 PM", "2026-11-28 20:30:00 Z"),
        ("8:30:15 am", "2026-11-29 08:30:15 Z"),
        ("now + 2 hours", "2026-11-28 12:00:00 Z"),
        ("tomorrow", "2026-11-29 00:00:00 Z"),
        ("midnight", "2026-11-29 00:00:00 Z"),
        ("noon", "2026-11-28 12:00:00 Z"),
        ("2026-12-01T08:00", "2026-12-01 08:00:00 Z"),
        ("2026-11-01", ""),  # it has come
        ("12/01/26", "2026-12-01 00:00:00 Z"),
        ("12/01/26-08:30", "2026-12-01 08:30:00 Z"),
        ("12.01.26", "2026-12-01 00:00:00 Z"),
        ("02/29", "2028-02-29 00:00:00 Z"),
        ("12/31-08:30", "2026-12-31 08:30:00 Z"),
        ("0131", "2027-01-31 00:00:00 Z"),  # of the next year
        ("11.28-09:59:59", "2027-11-28 09:59:59 Z"),
    ],
)
def test_times_of_begin(zone: Callable[[str], None], text: str, begins: str) -> None:
    zone("UTC")
    assert read_begin(text, datetime(2026, 11, 28, 10, tzinfo=UTC).timestamp()) == begins


def test_the_next_clock_is_of_the_next_day_though_the_clocks_change(zone: Callable[[str], None]) -> None:
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    assert read_begin("10:00", datetime(2026, 3, 28, 11, tzinfo=UTC).timestamp()) == "2026-03-29 08:00:00 Z"


@pytest.mark.parametrize("text", ["now+999999999weeks", "now+²", "9999-12-31T23:59:59", "1332", "12/31-25:00"])
def test_a_time_beyond_the_calendar_is_refused(zone: Callable[[str], None], text: str) -> None:
    zone("EST5")
    with pytest.raises(InputError, match="is not a time"):
        read_begin(text, datetime(2026, 11, 28, 10, tzinfo=UTC).timestamp())


def test_a_deadline_is_the_next_time_and_may_not_have_passed(zone: Callable[[str], None]) -> None:
    zone("UTC")
    now = datetime(2026, 11, 28, 10, tzinfo=UTC).timestamp()
    assert read_deadline("09:00", now) == "2026-11-29 09:00:00 Z"
    with pytest.raises(InputError, match="--deadline: '2026-11-27' has passed"):
        read_deadline("2026-11-27", now)


def test_an_empty_deadline_of_scontrol_is_none() -> None:
    key, read = CHANGES["deadline"]
    assert (key, read("")) == ("deadline", None)


def test_a_group_above_others_has_their_use() -> None:
    parents = {"lab": "", "a": "lab", "a1": "a", "b": "lab", "web": ""}
    used = _with_parents({"a1": 2.0, "b": 3.0, "web": 1.0, "gone": 7.0}, parents)
    assert used == {"a1": 2.0, "a": 2.0, "lab": 5.0, "b": 3.0, "web": 1.0, "gone": 7.0}
