"""YAML with lines: every value knows where it stands, and what is refused names its line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cress.formats.yaml_text import LinedList, LinedMapping, line_at, line_of, paths_of, read_mapping
from cress.model.errors import InputError

TEXT = """\
# a comment
nodes:
- name: web   # the first
  count: 0x10
  version: 4.10
  since: 2026-01-05
- {name: "7", flags: [yes, true, ~]}
base: &base {rack: r1, name: other}
more:
  <<: *base
  name: own
1: one
"""


def read(text: str) -> Any:
    return read_mapping(text, "f", "a hint")


def test_values_and_their_lines() -> None:
    found = read(TEXT)
    assert found == {
        "nodes": [
            {"name": "web", "count": 16, "version": "4.10", "since": "2026-01-05"},
            {"name": "7", "flags": ["yes", True, None]},
        ],
        "base": {"rack": "r1", "name": "other"},
        "more": {"name": "own", "rack": "r1"},
        "1": "one",
    }
    assert isinstance(found, LinedMapping)
    assert isinstance(found["nodes"], LinedList)
    fields = {
        "": 2,
        "nodes": 2,
        "nodes[0]": 3,
        "nodes[0].since": 6,
        "nodes[1].flags[2]": 7,
        "nodes[1].missing": 7,
        "nodes[9]": 2,
        "more.rack": 8,
        "more.name": 11,
        "1": 12,
    }
    assert {field: line_at(found, field) for field in fields} == fields
    nowhere = line_of(found, "missing"), line_of(found["nodes"], 2), line_of(found["nodes"], -1), line_of(3, "x")
    assert nowhere == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "number"),
    [("10", 10), ("-3", -3), ("010", 10), ("0o17", 15), ("0xff", 255), ("-0x10", -16), ("+2", 2), ("1_000", 1000)],
)
def test_whole_numbers(text: str, number: int) -> None:
    assert read(f"a: {text}") == {"a": number}
    assert read(f"a: '{text}'") == {"a": text}


@pytest.mark.parametrize(
    "text", ["1.5", "1e3", "_1", "0b1", "0xg", "0x_", "9" * 5000, "-x", "+", "1:30", ".inf", "12-1"]
)
def test_everything_else_stays_as_it_is_written(text: str) -> None:
    assert read(f"a: {text}") == {"a": text}


REFUSED = {
    "a key twice": ("a: 1\nb: 2\na: 3", "f:3: a is given twice (first on line 1)"),
    "a key twice inside": ("a:\n- {b: 1, b: 2}", "f:2: b is given twice (each key once)"),
    "a number and its text as keys": ("1: a\n'1': b", "f:2: 1 is given twice (first on line 1)"),
    "a key that is a list": ("a: 1\n? [b]\n: c", "f:2: a key is a text (key: value)"),
    "an unknown tag": ("a: 1\nb: !mine 3", "f:2: !mine is not allowed here (texts and numbers)"),
    "an object": ("a: !!python/name:os.system", "f:1: python/name:os.system is not allowed here (texts and numbers)"),
    "a set": ("a: !!set {b}", "f:1: set is not allowed here (texts and numbers)"),
    "a merge of a text": ("a: 1\n<<: b", "f:2: << needs a mapping (<<: *name)"),
    "itself in itself": ("a: &x\n  b: *x", "f:1: is too much for one file (fewer aliases and levels)"),
    "an alias of nothing": ("a: 1\nb: *x", "f:2: found undefined alias 'x' (&name comes before *name)"),
    "too many levels": ("a:\n " + "[" * 200, "f:2: has too many levels (fewer brackets within brackets)"),
    "a tab": ("a:\n\tb: 1", "f:2: a tab cannot indent YAML (use spaces)"),
    "no end": ("a: 'b", "f:1: is not valid YAML: found unexpected end of stream (a hint)"),
    "a list": ("\n- a", "f:2: is not a mapping (a hint)"),
    "two documents": ("a: 1\n---\nb: 1", "f:3: has more than one document (a hint)"),
    "a bell": ("a: \x07", "f: is not valid YAML: unacceptable character #x0007: special characters are not allowed "),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_has_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value) == message or message.endswith(" ")
    assert str(caught.value).startswith(message.rstrip())


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(InputError, match="is too much for one file"):
        read("\n".join(lines))


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "---\n---\n", "~"])
def test_nothing_is_nothing(text: str) -> None:
    assert read(text) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


MAPPINGS = st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, min_size=1, max_size=4)


@given(value=MAPPINGS, flow=st.booleans())
def test_what_another_writer_wrote_is_read_back_with_lines_inside_the_text(value: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(value, allow_unicode=False, default_flow_style=flow)
    found = read(text)
    assert found == value
    lines = text.count("\n") + 1
    places = dict(paths_of(found))
    assert all(1 <= line <= lines for line in places.values())
    for key, line in found.lines.items():
        assert key in text.splitlines()[line - 1]
