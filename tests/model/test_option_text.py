"""Options as text: reading, writing, the values of one group, and the table in the docs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.errors import InputError, InputErrors
from cress.model.group import Group, Quota
from cress.model.option_text import (
    camel_case,
    find_option,
    format_option,
    options_table,
    parse_assignments,
    parse_option,
    resolve_options,
)
from cress.model.options import Options
from cress.model.times import MINUTE, SECOND

DOCS = Path(__file__).parents[2] / "docs" / "groups.md"
BEGIN, END = "<!-- options: begin -->\n", "<!-- options: end -->\n"
NAMES = [each.name for each in dataclasses.fields(Options)]


@pytest.mark.parametrize("key", ["preempt_below", "PreemptBelow", "preempt-below", "PREEMPTBELOW", " preemptBelow "])
def test_a_key_is_known_in_every_way_of_writing_it(key: str) -> None:
    assert find_option(key) == "preempt_below"


@pytest.mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("grace=30s", "grace", 30 * SECOND),
        ("drain_after=1h30m", "drain_after", 90 * MINUTE),
        ("preempt_below=80%", "preempt_below", 0.8),
        ("OverloadCpu=95%", "overload_cpu", 0.95),
        ("overload_memory=2.5G", "overload_memory", 5 * 2**29),
        ("overload_memory=0", "overload_memory", 0),
        ("PreemptAbove=1.25", "preempt_above", 1.25),
        ("backfill_depth=50", "backfill_depth", 50),
        ("backfill=Conservative", "backfill", "conservative"),
        ("node_order=BestFit", "node_order", "best_fit"),
        ("balance_weights=initial, pending", "balance_weights", ("initial", "pending")),
        ("balance_dimensions=cpu|gpu", "balance_dimensions", ("cpu", "gpu")),
        ("initial_weights=cpu=75% | memory=0.25", "initial_weights", (("cpu", 0.75), ("memory", 0.25))),
    ],
)
def test_options_are_read(assignment: str, name: str, value: Any) -> None:
    assert parse_assignments([assignment]) == dataclasses.replace(Options(), **{name: value})


def test_all_mistakes_are_reported_together() -> None:
    wrong = [
        "coling=70s",
        "grace=-1",
        "preempt_below=1.2",
        "preempt_below=0",
        "node_order=bestfit2",
        "backfill_depth=1.5",
        "overload_memory=lots",
        "balance_weights=initial|initial",
        "initial_weights=cpu",
        "initial_weights=cpu=1|cpu=0",
        "backfill=",
        "x",
    ]
    with pytest.raises(InputErrors) as caught:
        parse_assignments(wrong)
    assert str(caught.value).splitlines() == [
        "coling: unknown option 'coling' (did you mean cooling?)",
        "grace: '-1' is negative (a duration such as 90s, 5min, 1h30m, 2h or 1d; a plain number is seconds)",
        "preempt_below: 1.2 is too large (at most 1)",
        "preempt_below: 0.0 is too small (above 0)",
        (
            "node_order: 'bestfit2' is not known (did you mean best_fit? one of fragmentation, balance, "
            "best_fit, spread, first)"
        ),
        "backfill_depth: '1.5' is not a whole number (a whole number from 0 to 1125899906842623)",
        (
            "overload_memory: 'lots' does not begin with a number "
            "(bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)"
        ),
        "balance_weights: 'initial|initial' names something twice (each once)",
        "initial_weights: 'cpu' is not a weight (name=share, such as cpu=0.5 | memory=0.5)",
        "initial_weights: 'cpu=1|cpu=0' names something twice (each once)",
        "backfill: no value is given (one of easy, conservative, off)",
        "'x' is not an option (KEY=VALUE, such as grace=30s)",
    ]


def test_options_that_depend_on_each_other_may_come_in_any_order() -> None:
    for order in (["cooling=70s", "cooling_above_quota=2m"], ["cooling_above_quota=2m", "cooling=70s"]):
        assert parse_assignments(order).cooling == 70 * SECOND
    with pytest.raises(InputError) as caught:
        parse_assignments(["cooling=70s"])
    assert str(caught.value) == "cooling_above_quota: 1m is shorter than cooling (70s) (at least as long)"


def test_an_option_given_twice_must_have_one_value() -> None:
    assert parse_assignments(["grace=1m", "Grace=60s"]).grace == MINUTE
    with pytest.raises(InputError, match="two different values"):
        parse_assignments(["grace=1m", "grace=2m"])


@pytest.mark.parametrize("name", NAMES)
def test_every_default_can_be_written_and_read(name: str) -> None:
    default = getattr(Options(), name)
    assert parse_option(camel_case(name), format_option(name, default)) == (name, default)


@given(st.integers(0, 10**15), st.floats(1, 1e6))
def test_values_can_be_written_and_read(duration: int, ratio: float) -> None:
    assert parse_option("grace", format_option("grace", duration)) == ("grace", duration)
    assert parse_option("preempt_above", format_option("preempt_above", ratio)) == ("preempt_above", ratio)


def test_a_group_has_values_of_its_own() -> None:
    base = Options(grace=5 * SECOND, min_runtime=MINUTE)
    group = Group(name="g", quota=Quota(scalar=1000), options=(("grace", "30s"), ("preempt_below", "0.5")))
    assert resolve_options(base, group) == dataclasses.replace(base, grace=30 * SECOND, preempt_below=0.5)
    assert resolve_options(base, Group(name="h", quota=Quota(scalar=1000))) is base


def test_a_group_has_no_value_for_an_option_of_the_cluster() -> None:
    group = Group(name="g", quota=Quota(scalar=1000), options=(("cooling", "30s"),))
    with pytest.raises(InputError, match="cooling applies to the whole cluster"):
        resolve_options(Options(), group)


def test_the_docs_show_the_options_as_they_are() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert text.split(BEGIN)[1].split(END)[0] == options_table()
    assert all(f"| `{name}` |" in options_table() for name in NAMES)
