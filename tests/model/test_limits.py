"""Limits of what people send: the worst content is refused early, and the work grows no faster than the input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from cress.model.errors import MAX_ERRORS, InputError, InputErrors, MoreErrors
from cress.model.groups.conf import parse_groups
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions
from cress.model.units import one_of

DIMENSIONS = Dimensions(("gpu",))


def groups(text: str) -> object:
    return parse_groups(text, dimensions=DIMENSIONS, accounting="dominant")


def jobs(*entries: dict[str, Any]) -> object:
    return parse_jobs(list(entries), dimensions=DIMENSIONS, user="ann")


def job(**keys: Any) -> dict[str, Any]:
    return {"command": ["true"], **keys}


def dag(steps: int, after: Callable[[int], list[str]]) -> dict[str, Any]:
    return {"type": "dag", "steps": {f"s{k}": job(after=after(k)) for k in range(steps)}}


def calls(work: Callable[[], object]) -> int:
    """Calls of functions, of Python and of C, while this works."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    except InputError:
        pass
    finally:
        sys.setprofile(before)
    return count


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a quota of 250,000 digits": (
        lambda: groups("Name: a\nResourceQuota: " + "1" * 250_000),
        "a text of 250,000 characters is too long",
    ),
    "a quota of blanks": (
        lambda: groups("Name: a\nResourceQuota: 1" + " " * 250_000 + "1"),
        "a text of 250,002 characters is too long",
    ),
    "200,000 users": (
        lambda: groups("Name: a\nResourceQuota: 1\nUsers: " + "|".join(f"u{k}" for k in range(200_000))),
        "200,000 users are too many",
    ),
    "50,000 windows": (
        lambda: groups("Name: a\nResourceQuota: 1" + "; 07:30-09:00 = 2" * 50_000),
        "50,000 windows are too many",
    ),
    "a file of groups of 5 MB": (lambda: groups("x" * 5_000_000), "more than 4 MB"),
    "a command of a million mappings": (lambda: jobs(job(command=[{}] * 1_000_000)), "1,000,000 words are too many"),
    "a million variables": (
        lambda: jobs(job(environment={f"K{k}": "" for k in range(1_000_000)})),
        "1,000,000 variables are too many",
    ),
    "licences of 5 MB": (lambda: jobs(job(licences="a," * 2_500_000)), "is not a licence"),
    "a list of 100,000 licences": (lambda: jobs(job(licences=["a"] * 100_000)), "100,000 licences are too many"),
    "100,000 dimensions": (
        lambda: jobs(job(resource={f"d{k}": 1 for k in range(100_000)})),
        "100,000 dimensions are too many",
    ),
    "a vector of 5 MB": (lambda: jobs(job(resource="," * 5_000_000)), "a vector of 5,000,000 characters is too long"),
    "a job after a million": (lambda: jobs(job(after=list(range(1, 1_000_001)))), "1,000,000 jobs are too many"),
    "100 jobs that come after 1,000 each": (
        lambda: jobs(*(job(after=list(range(1, 1_001))) for _ in range(100))),
        "the jobs come after 100,000 jobs",
    ),
    "a constraint of 120,000 characters": (
        lambda: jobs(job(nodes="a and " * 20_000)),
        "120000 characters are too many",
    ),
    "a million files": (
        lambda: jobs(job(files={f"f{k}": "" for k in range(1_000_000)})),
        "1,000,000 files are too many",
    ),
    "a step after 2,000 others": (
        lambda: jobs(dag(2, lambda _: [f"x{other}" for other in range(2_000)])),
        "2,000 steps are too many",
    ),
    "a service of a million tasks": (
        lambda: jobs(job(type="service", tasks=1_000_000)),
        "1,000,000 tasks are too many for a service (at most 10,000)",
    ),
    "a database of 10,000 tasks": (
        lambda: jobs(job(type="database", tasks=10_000)),
        "10,000 tasks are too many for a database (at most 1,000)",
    ),
    "a number of 5 million digits": (lambda: jobs(job(time_limit="1" * 5_000_000)), "is too long a text"),
    "a decimal of a million places": (lambda: jobs(job(resource={"cpu": "1e1000000"})), "unknown unit"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_worst_content_is_refused_without_much_work(what: str) -> None:
    attempt, said = REFUSED[what]
    with pytest.raises(InputError) as caught:
        attempt()
    assert said in str(caught.value)
    assert len(str(caught.value)) < 100 * MAX_ERRORS


GROWING: dict[str, Callable[[int], object]] = {
    "users of a group": lambda n: groups("Name: a\nResourceQuota: 1\nUsers: " + "|".join(f"u{k}" for k in range(n))),
    "groups": lambda n: groups("\n".join(f"Name: g{k}\nResourceQuota: 1\n" for k in range(n))),
    "jobs": lambda n: jobs(*(job() for _ in range(n))),
    "steps in a row": lambda n: jobs(dag(n, lambda k: [f"s{k - 1}"] if k else [])),
    "steps in a row, the last one first": lambda n: jobs(dag(n, lambda k: [f"s{k + 1}"] if k + 1 < n else [])),
    "jobs with unknown keys": lambda n: jobs(*(job(**{f"k{k}": 1 for k in range(20)}) for _ in range(n))),
    "jobs after unknown jobs": lambda n: jobs(*(job(name=f"j{k}", after=[f"x{k}"]) for k in range(n))),
}


@pytest.mark.parametrize("what", GROWING)
def test_twice_as_much_takes_twice_the_work(what: str) -> None:
    make = GROWING[what]
    make_small, make_large = lambda: make(200), lambda: make(400)
    calls(make_small)  # what is worked out once and kept
    assert calls(make_large) < 2.5 * calls(make_small)


def test_mistakes_beyond_the_first_hundred_are_counted() -> None:
    errors = InputErrors([InputError(f"mistake {k}", file="a") for k in range(412)])
    assert len(errors.errors) == MAX_ERRORS + 1
    assert str(errors).splitlines()[-2:] == ["a: mistake 99", "a: and 312 more errors"]
    again = InputErrors([*errors.errors, InputError("one more")]).errors
    assert isinstance(again[-1], MoreErrors)
    assert again[-1].count == 313


def test_unknown_keys_are_counted_and_only_the_first_ones_told() -> None:
    with pytest.raises(InputErrors) as caught:
        jobs(job(**{f"k{k}": 1 for k in range(1_000)}))
    assert str(caught.value).splitlines()[-1] == "and 900 more errors"


def test_a_submit_with_many_mistakes_says_where_reading_stopped() -> None:
    with pytest.raises(InputErrors) as caught:
        jobs(*(job(**{f"k{k}": 1 for k in range(100)}) for _ in range(1_000)))
    assert str(caught.value).splitlines()[-1] == "and 100 more errors; the text from jobs[2] on was not read"


def test_a_file_of_groups_with_very_many_mistakes_is_not_read_to_its_end() -> None:
    with pytest.raises(InputErrors) as caught:
        groups("nonsense\n" * 100_000)
    last = str(caught.value).splitlines()[-1]
    assert last == "Group.conf: and 901 more errors; the text from line 1002 on was not read"


def test_a_hint_lists_some_of_very_many_words() -> None:
    hint = one_of("x", [f"name{k}" for k in range(10_000)])
    assert hint.startswith("one of name0, name1, ")
    assert hint.endswith(" and 9,900 more")


def test_a_word_is_found_among_very_many() -> None:
    assert one_of("nmae77", [f"name{k}" for k in range(10_000)]) == "did you mean name77?"
