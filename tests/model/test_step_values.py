"""Values that steps hand on, and the conditions that read them."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions
from cress.model.step_condition import Reference, holds, parse_condition, references
from cress.model.step_values import MOST_BYTES, as_reason, in_reason, parse_values, variable

DIMENSIONS = Dimensions()
VALUES = {
    "check.rows": "12",
    "check.kind": "new",
    "check.empty": "",
    "check.no": "false",
    "a.b.x": "1",
    "check.v": "1.10",
}


def value(step: str, key: str) -> str:
    return {"state": "succeeded"}.get(key) or VALUES.get(f"{step}.{key}", "")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("check.rows > 9", True),  # as numbers, though "12" < "9" as texts
        ("check.rows >= 12 && check.rows<=12.0", True),
        ("check.rows = 12", True),
        ("check.rows == '12' && check.rows != 13", True),
        ("check.kind = new", True),
        ('check.kind != "new"', False),
        ("check.kind < old", True),
        ("check.v = 1.1", True),
        ("check.missing > 0", False),
        ("check.missing <= 0", False),
        ("check.missing = ''", True),
        ("check.missing != 3", True),
        ("check.rows", True),
        ("check.no", False),
        ("!check.empty", True),
        ("check.no || check.rows > 20 || check.kind = new", True),
        ("check.kind = new && (check.no || check.rows > 20)", False),
        ("!(check.rows > 20) && check.state = succeeded", True),
        ("a.b.x = 1", True),
    ],
)
def test_what_a_condition_comes_to(text: str, wanted: bool) -> None:
    assert holds(parse_condition(text), value) is wanted


def test_what_a_condition_reads() -> None:
    found = set(references(parse_condition("!(a.x = 3) && (b-2.y || 'c.z' = d.e.f)")))
    assert found == {Reference("a", "x"), Reference("b-2", "y"), Reference("d.e", "f")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("check.rows >", "ends too early"),
        ("check.rows > 3)", "')' is not expected here"),
        ("(check.rows > 3", "lacks a closing parenthesis"),
        ("new", "'new' is compared with nothing"),
        ("check.rows > 3 check.x", "'check.x' is not expected here"),
        ("check.rows ~ 3", "'~ 3' is not understood"),
        ("&& a.b", "'&&' is not expected here"),
        ("(" * 60 + "a.b" + ")" * 60, "has too many parentheses"),
        ("a.b = " + "x" * 2_000, "has 2,006 characters"),
    ],
)
def test_conditions_that_nobody_can_read(text: str, said: str) -> None:
    with pytest.raises(InputError) as found:
        parse_condition(text)
    assert found.value.what.startswith(said)


def test_values_of_a_file() -> None:
    found = parse_values(b"rows=12\n\nname = x\r\nrows=13\nempty=\nurl=a=b\n".replace(b"name = x", b"name= x "))
    assert found == (("rows", "13"), ("name", " x "), ("empty", ""), ("url", "a=b"))
    assert in_reason(as_reason(found)) == found
    assert (as_reason(()), in_reason(""), in_reason("values {x")) == ("", (), ())
    assert variable("load-2.raw", "rows") == "CRESS_OUTPUT_LOAD_2_RAW_ROWS"


@pytest.mark.parametrize(
    ("data", "line", "said"),
    [
        (b"rows=1\nrows\n", 2, "'rows' is not KEY=VALUE"),
        (b"two words=1", 1, "'two words=1' is not KEY=VALUE"),
        (b"rows=1\nRows=2", 2, "rows and Rows differ only in case"),
        (b"state=ok", 1, "state is the state of the step itself"),
        (b"x=\xff", 0, "is not UTF-8"),
        (b"x=a\0b", 1, "the value of x has a zero byte"),
        (b"x" * (MOST_BYTES + 1), 0, "is longer than 8,192 bytes"),
        (b"".join(b"k%d=1\n" % number for number in range(65)), 0, "has 65 values"),
    ],
)
def test_files_of_values_that_are_refused(data: bytes, line: int, said: str) -> None:
    with pytest.raises(InputError) as found:
        parse_values(data)
    assert (found.value.line, found.value.what) == (line, said)


def test_the_conditions_of_a_dag_read_steps_before_them() -> None:
    steps = {
        "a": {"command": "x"},
        "b": {"command": "x", "after": ["a"], "when": "a.rows > 0 && c.x = 1"},
        "c": {"command": "x", "after": {"a": "any"}, "when": "typo.rows > 0"},
        "d": {"command": "x", "when": "3 >"},
    }
    with pytest.raises(InputError) as found:
        parse_jobs([{"type": "dag", "steps": steps}], dimensions=DIMENSIONS, user="ann")
    assert str(found.value).splitlines()[0].startswith("jobs[0].steps.d.when: ends too early")
    del steps["d"]
    with pytest.raises(InputError) as found:
        parse_jobs([{"type": "dag", "steps": steps}], dimensions=DIMENSIONS, user="ann")
    told = str(found.value)
    assert "jobs[0].steps.b.when: reads c.x, and c is not in `after` (after: [a, c])" in told
    assert "jobs[0].steps.c.when: reads typo.rows, and there is no step typo" in told
    with pytest.raises(InputError, match="belongs to jobs of type cron"):
        parse_jobs([{"command": "x", "when": "a.x > 0"}], dimensions=DIMENSIONS, user="ann")
