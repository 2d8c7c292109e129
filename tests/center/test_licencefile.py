"""The file with the licences: what it says, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.center.files.licence_file import parse_licences, read_licences
from cress.model.errors import InputError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("licences: {matlab: 5, ansys: 0}", (("ansys", 0), ("matlab", 5))),
        ("licenses:\n  2020-suite: 1\n", (("2020-suite", 1),)),
        ("licences: {}", ()),
        ("licences:", ()),
        ('{"licences": {"a": "3"}}', (("a", 3),)),
    ],
)
def test_a_file_says_how_many_there_are(text: str, found: tuple[tuple[str, int], ...]) -> None:
    assert parse_licences(text, "f") == found


MISTAKES = {
    "": "f: it contains no licences (licences: with how many there are of each",
    "[matlab]": "f:1: is not a mapping (licences: with",
    "matlab: 5": "f:1: matlab: is not known (licences: with",
    "licence: {a: 1}": "f:1: licence: is not known (did you mean licences?)",
    "licences: [matlab]": "f:1: licences: is not a mapping (how many there are of each: {matlab: 5})",
    "licences: {a: 1}\nlicences: {b: 1}": "f:2: licences: is given twice",
    "licences:\n  a: 1\n  a: 2": "f:3: licences.a: is given twice (each licence once)",
    "licences:\n  mat lab: 1": (
        "f:2: licences.mat lab: 'mat lab' is not a name of a licence (letters, digits, `_` and `-`"
    ),
    f"licences:\n  {'a' * 65}: 1": f"f:2: licences.{'a' * 65}: 'aaa",
    "licences:\n  a: -1": "f:2: licences.a: '-1' is",
    "licences:\n  a: [1]": "f:2: licences.a: is not a number (how many there are, 0 or more)",
    "licences:\n  a: many\n  b: 2.5\n": "f:2: licences.a: 'many' is not a whole number",
    "licences: {a: 1": "f:1: is not valid YAML: ",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:30])
def test_mistakes_are_told_with_line_and_field(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_licences(text, "f")
    assert str(caught.value).startswith(MISTAKES[text])


def test_all_mistakes_are_told_together() -> None:
    with pytest.raises(InputError) as caught:
        parse_licences("licences:\n  a: many\n  b: 2.5\n", "f")
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["2", "3"]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_licences(tmp_path / "none")
