"""Names of jobs that others depend on: what they mean, who is behind whom, and circles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.tables.dependencies import DependencyTable, JobKey, Relation, key_of
from cress.model.errors import InputError


def relation(name: str, *on: str, group: str = "g") -> Relation:
    return Relation(JobKey(group, name), tuple(key_of(text, group) for text in on))


def dependencies(*relations: Relation) -> DependencyTable:
    """Jobs 1, 2, … with these relations."""
    made = DependencyTable(lambda: ((number, each.key) for number, each in enumerate(relations, 1)))
    for number, each in enumerate(relations, 1):
        made.add(number, each)
    return made


def test_a_name_is_one_of_the_group_unless_it_says_which() -> None:
    assert key_of("db", "shop") == ("shop", "db")
    assert key_of("infra/db", "shop") == ("infra", "db")


def test_a_name_stands_for_all_live_jobs_that_have_it() -> None:
    made = dependencies(relation("a"), relation("b", "a"), relation("a"), relation("a", group="other"))
    assert made.named(JobKey("g", "a")) == [1, 3]
    made.remove(1, JobKey("g", "a"))
    assert made.named(JobKey("g", "a")) == [3]
    made.remove(3, JobKey("g", "a"))
    assert made.named(JobKey("g", "a")) == []


def test_dependants_go_by_name() -> None:
    made = dependencies(relation("a"), relation("b", "a"), relation("c", "b"), relation("d"), relation("", "c", "a"))
    assert made.behind(JobKey("g", "a")) == [2, 5]
    assert made.behind(JobKey("g", "d")) == []
    made.remove(5, JobKey("g", ""))
    assert made.behind(JobKey("g", "a")) == [2]


def test_jobs_of_other_groups() -> None:
    made = dependencies(relation("db", group="infra"), relation("web", "infra/db"), relation("web", "db"))
    assert made.behind(JobKey("infra", "db")) == [2]


@pytest.mark.parametrize(
    ("live", "new", "said"),
    [
        pytest.param([], [("a", "a")], "job a depends on itself", id="on itself"),
        pytest.param([], [("a", "b"), ("b", "a")], "these jobs depend on each other: a → b → a", id="on each other"),
        pytest.param(
            [("b", "c"), ("c", "a")], [("a", "b")], "depend on each other: a → b → c → a", id="through one that lives"
        ),
        pytest.param([("b", "g/a")], [("a", "b")], "depend on each other: a → b → a", id="by its full name"),
        pytest.param([("b", "c")], [("x",), ("c", "b")], "depend on each other: c → b → c", id="the second of two"),
        pytest.param([], [("a", "b", "c"), ("b", "d"), ("c", "d"), ("d",)], None, id="two ways to one job"),
        pytest.param([], [("a", "later")], None, id="on a job that is not there yet"),
        pytest.param([], [("a", "other/a")], None, id="the same name in another group"),
        pytest.param([("b", "c"), ("c", "b")], [("a", "b")], None, id="a circle of others is not its fault"),
        pytest.param([], [("", "a"), ("a",)], None, id="jobs without a name"),
    ],
)
def test_circles_are_refused(live: list[tuple[str, ...]], new: list[tuple[str, ...]], said: str | None) -> None:
    made = dependencies(*(relation(*each) for each in live))
    if said is None:
        made.check(relation(*each) for each in new)
    else:
        with pytest.raises(InputError, match=said):
            made.check(relation(*each) for each in new)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_jobs_submitted_one_by_one_never_close_a_circle(edges: list[tuple[int, int]]) -> None:
    made = DependencyTable(lambda: ())
    accepted: dict[int, set[int]] = {}
    for number, (a, b) in enumerate(edges, 1):
        reached, left = {b}, [b]
        while left:
            more = accepted.get(left.pop(), set()) - reached
            reached |= more
            left += more
        new = relation(str(a), str(b))
        if a in reached:
            with pytest.raises(InputError):
                made.check([new])
        else:
            made.check([new])
            made.add(number, new)
            accepted.setdefault(a, set()).add(b)
