"""The checker of linearizability, on histories that people can judge, and against a search through all orders."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.job_histories import ABSENT, CANCELLED, DONE, JOB, REFUSED, SERVICE, SUCCEEDED
from tests.linearizability import UNKNOWN, Call, Model, violations

SUBMIT, READ, CANCEL, LATER = ("submit", 2), ("read",), ("cancel",), 1e9


def history(*calls: tuple[Hashable, float, float, Hashable]) -> list[Call]:
    return [Call("web", what, begin, end, result) for what, begin, end, result in calls]


LINEARIZABLE = {
    "one after the other": (
        (SUBMIT, 0, 1, 1),
        (READ, 2, 3, 2),
        (("scale", 3), 4, 5, DONE),
        (READ, 6, 7, 3),
        (CANCEL, 8, 9, DONE),
        (READ, 10, 11, CANCELLED),
    ),
    "a read during a scale sees either count": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, 9, DONE),
        (READ, 3, 4, 2),
        (READ, 5, 6, 3),
    ),
    "two scales at the same time, the earlier one is the last": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, 6, DONE),
        (("scale", 4), 3, 5, DONE),
        (READ, 7, 8, 3),
    ),
    "a scale without an answer may have had its effect": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, LATER, UNKNOWN),
        (READ, 4, 5, 3),
    ),
    "or never has one": ((SUBMIT, 0, 1, 1), (("scale", 3), 2, LATER, UNKNOWN), (READ, 4, 5, 2)),
    "or has it much later": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, LATER, UNKNOWN),
        (READ, 4, 5, 2),
        (READ, 8, 9, 3),
    ),
    "a scale that comes after the cancel is refused": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, 6, REFUSED),
        (CANCEL, 3, 5, DONE),
    ),
    "a submit without an answer that was taken": ((SUBMIT, 0, LATER, UNKNOWN), (READ, 4, 5, 2)),
}

NOT_LINEARIZABLE = {
    "an acknowledged submit is lost": ((SUBMIT, 0, 1, 1), (READ, 2, 3, ABSENT)),
    "an acknowledged scale is lost": ((SUBMIT, 0, 1, 1), (("scale", 3), 2, 3, DONE), (READ, 4, 5, 2)),
    "an acknowledged cancel is lost": ((SUBMIT, 0, 1, 1), (CANCEL, 2, 3, DONE), (READ, 4, 5, 2)),
    "an old leader answers after a new one": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, 9, DONE),
        (READ, 3, 4, 3),
        (READ, 5, 6, 2),
    ),
    "a scale without an answer takes effect twice": (
        (SUBMIT, 0, 1, 1),
        (("scale", 3), 2, LATER, UNKNOWN),
        (READ, 4, 5, 3),
        (("scale", 4), 6, 7, DONE),
        (READ, 8, 9, 3),
    ),
    "a scale takes effect before it is asked for": (
        (SUBMIT, 0, 1, 1),
        (READ, 2, 3, 3),
        (("scale", 3), 4, LATER, UNKNOWN),
    ),
    "a scale is accepted after the cancel": (
        (SUBMIT, 0, 1, 1),
        (CANCEL, 2, 3, DONE),
        (("scale", 3), 4, 5, DONE),
    ),
    "a read sees a count that nobody asked for": ((SUBMIT, 0, 1, 1), (READ, 2, 3, 7)),
}


@pytest.mark.parametrize("case", LINEARIZABLE)
def test_what_an_honest_center_may_answer_is_accepted(case: str) -> None:
    assert violations(history(*LINEARIZABLE[case]), SERVICE) == []


@pytest.mark.parametrize("case", NOT_LINEARIZABLE)
def test_what_no_honest_center_answers_is_found(case: str) -> None:
    assert len(violations(history(*NOT_LINEARIZABLE[case]), SERVICE)) == 1


def test_an_ordinary_job_ends_once_and_stays_so() -> None:
    submit = ("submit",)
    good = history((submit, 0, 1, 1), (READ, 2, 3, "alive"), (READ, 4, 5, SUCCEEDED), (CANCEL, 6, 7, DONE))
    late = history((submit, 0, 1, 1), (CANCEL, 2, 5, DONE), (READ, 3, 4, "alive"), (READ, 6, 7, CANCELLED))
    assert violations([*good, *late][:4], JOB) == violations(late, JOB) == []
    again = history((submit, 0, 1, 1), (READ, 2, 3, SUCCEEDED), (READ, 4, 5, "alive"))
    both = history((submit, 0, 1, 1), (CANCEL, 2, 3, DONE), (READ, 4, 5, CANCELLED), (READ, 6, 7, SUCCEEDED))
    assert len(violations(again, JOB)) == len(violations(both, JOB)) == 1


def test_the_report_shows_the_calls_and_what_is_unexplained() -> None:
    (found,) = violations(history(*NOT_LINEARIZABLE["an acknowledged scale is lost"]), SERVICE)
    assert str(found).splitlines() == [
        "no order of these calls of 'web' explains their results (! = unexplained):",
        "     0.00 to   1.00  ('submit', 2) -> 1",
        "     2.00 to   3.00  ('scale', 3) -> 'done'",
        " !   4.00 to   5.00  ('read',) -> 2",
    ]


def test_objects_are_judged_one_by_one() -> None:
    bad = history(*NOT_LINEARIZABLE["an acknowledged submit is lost"])
    other = [Call("db", call.what, call.begin, call.end, call.result) for call in bad[:1]]
    assert [found.calls[0].part for found in violations([*other, *bad], SERVICE)] == ["web"]


def test_many_lost_calls_do_not_make_the_search_long() -> None:
    """A service under faults for hours: 200 scales of which nobody knows the outcome, and a lost one of the others."""
    calls: list[tuple[Hashable, float, float, Hashable]] = [(SUBMIT, 0, 1, 1)]
    for at in range(2, 202):
        calls += [(("scale", at % 3), at, LATER, UNKNOWN), (READ, at, at + 0.5, at % 3)]
    assert violations(history(*calls), SERVICE) == []
    assert len(violations(history(*calls, (READ, 300, 301, 9)), SERVICE)) == 1


# --- against all orders -----------------------------------------------------------------------------------------------


def is_linearizable(calls: list[Call], model: Model[Hashable]) -> bool:
    """Try every order of every choice of lost calls."""
    lost = [call for call in calls if call.result is UNKNOWN]
    kept = [call for call in calls if call.result is not UNKNOWN]
    for count in range(len(lost) + 1):
        for chosen in itertools.combinations(lost, count):
            for order in itertools.permutations([*kept, *chosen]):
                if _keeps_time(order) and _explains(order, model):
                    return True
    return False


def _keeps_time(order: tuple[Call, ...]) -> bool:
    """Return whether no call comes behind one that began after its end; lost calls have none."""
    pairs = itertools.combinations(order, 2)
    return all(later.result is UNKNOWN or later.end >= earlier.begin for earlier, later in pairs)


def _explains(order: tuple[Call, ...], model: Model[Hashable]) -> bool:
    states = {model.initial}
    for call in order:
        states = {after for state in states for after in model.step(state, call.what, call.result)}
    return bool(states)


def _calls(what: st.SearchStrategy[tuple[Hashable, Hashable]]) -> st.SearchStrategy[list[Call]]:
    def call(asked: tuple[Hashable, Hashable], begin: int, length: int, known: bool) -> Call:
        result = asked[1] if known else UNKNOWN
        return Call("web", asked[0], begin, begin + length, result)

    known = st.sampled_from([True, True, True, False])
    return st.lists(st.builds(call, what, st.integers(0, 8), st.integers(0, 4), known), max_size=5)


SERVICE_CALLS = st.sampled_from(
    [
        (("submit", 1), 1),
        *((("scale", count), result) for count in (1, 2) for result in (DONE, REFUSED)),
        *((("read",), result) for result in (ABSENT, 1, 2, CANCELLED)),
        (("cancel",), DONE),
    ]
)
JOB_CALLS = st.sampled_from(
    [
        (("submit",), 1),
        *((("read",), result) for result in (ABSENT, "alive", SUCCEEDED, CANCELLED)),
        (("cancel",), DONE),
    ]
)


@given(_calls(SERVICE_CALLS))
def test_services_are_judged_as_by_trying_all_orders(calls: list[Call]) -> None:
    assert (violations(calls, SERVICE) == []) == is_linearizable(calls, SERVICE)


@given(_calls(JOB_CALLS))
def test_jobs_are_judged_as_by_trying_all_orders(calls: list[Call]) -> None:
    assert (violations(calls, JOB) == []) == is_linearizable(calls, JOB)
