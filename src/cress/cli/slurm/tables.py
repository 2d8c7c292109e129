"""Tables in the forms of Slurm: ``%.18i`` of squeue, ``JobID%20`` of sacct, ``Name:12`` of ``--Format``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from cress.model.errors import InputError

_T = TypeVar("_T")
Value = Callable[..., str]


class TextColumn(NamedTuple):
    """A column: its head, the value of a row, its width (0: as wide as the value), and the text after it."""

    head: str
    value: Value
    width: int = 0
    right: bool = False
    after: str = ""


def widths(text: str, letters: Mapping[str, Value], heads: Mapping[str, str]) -> list[TextColumn]:
    """Return the columns of a format such as ``%.18i %9P|%j``. Raises InputError."""
    columns: list[TextColumn] = []
    first, *parts = re.split(r"%(?=[.\d]*[A-Za-z])", text)
    if first:
        columns.append(TextColumn(first, lambda _row: first))
    for part in parts:
        found = re.match(r"(\.?)(\d*)([A-Za-z])(.*)", part, re.DOTALL)
        assert found is not None
        letter = found[3]
        if letter not in letters:
            known = "".join(sorted(letters))
            raise InputError(f"Invalid job format specification: %{letter}", hint=f"one of {known}", field="--format")
        width = int(found[2]) if found[2] else 0
        columns.append(TextColumn(heads[letter], letters[letter], width, bool(found[1]), found[4]))
    return columns


def columns_of_names(text: str, field: Callable[[str], Value], *, width: int, mark: str = ":") -> list[TextColumn]:
    """Return the columns of names such as ``JobID:12,State``; a width without a sign is to the left for ``:``."""
    columns = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, size = word.partition(mark)
        size = size.lstrip(".")
        value = field(name)
        columns.append(TextColumn(name.upper(), value, int(size) if size.lstrip("-").isdigit() else width))
    return columns


def cell(column: TextColumn, text: str) -> str:
    """Return the text of a cell, cut to its column."""
    if not column.width:
        return text + column.after
    cut = text[: abs(column.width)]
    return (cut.rjust(column.width) if column.right else cut.ljust(abs(column.width))) + column.after


def printed(columns: Sequence[TextColumn], rows: Iterable[_T], *, head: bool) -> None:
    """Print a table."""
    lines = ["".join(cell(column, column.head) for column in columns)] if head else []
    lines += ["".join(cell(column, column.value(row)) for column in columns) for row in rows]
    if lines:
        print("\n".join(line.rstrip() for line in lines))
