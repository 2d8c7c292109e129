"""Tables: with colours and fitted to the width on a terminal, plain aligned columns in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

GAP = "  "
BAR_WIDTH = 20
NARROWEST = 8  # a column that gives way keeps so many characters

# A cell: its text, or its text and a style of rich for terminals.
Cell: TypeAlias = str | tuple[str, str]

STATES = {
    "waiting": "yellow",
    "starting": "yellow",
    "running": "cyan",
    "succeeded": "green",
    "failed": "red",
    "timed out": "red",
    "out of memory": "red",
    "lost": "red",
    "cancelled": "dim",
    "preempted": "magenta",
    "up": "green",
    "overloaded": "yellow",
    "cordoned": "yellow",
    "away": "red",
    "free": "green",
    "shared": "yellow",
    "used": "cyan",
    "exclusive": "cyan",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, where its cells stand, and whether it gives way when the terminal is narrow.

    One that ``goes`` is left out there when it says the same in every row.
    """

    title: str
    right: bool = False
    gives: bool = False
    goes: bool = False


def terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def state(word: str) -> Cell:
    """A state in its colour."""
    return word, STATES.get(word, "")


def shown(value: object) -> str:
    """An attribute of a node: ``true``, ``25,276,514,304``, a text as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def clean(text: str) -> str:
    """``text`` on one line, without what a terminal would take for a command."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def show(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table."""
    if terminal():
        _show_rich(columns, rows)
        return
    for line in plain(columns, rows):
        print(line)


def plain(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The lines of a table without colours: every cell whole, the last column not padded."""
    lines = [[column.title for column in columns], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return [
        GAP.join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def facts(pairs: Sequence[tuple[str, Cell]]) -> None:
    """Print names and values below each other; empty values are left out."""
    told = [(name, value) for name, value in pairs if _text(value)]
    width = max((len(name) for name, _ in told), default=0)
    if not terminal():
        for name, value in told:
            print(f"{name.ljust(width)}{GAP}{_text(value)}")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for name, value in told:
        line = Text(name.ljust(width) + GAP, style="bold")
        line.append(_text(value), style=_style(value) or "not bold")
        console.print(line, soft_wrap=True)


def bar(ratio: float) -> str:
    """A share as a bar: full at 1, ``+`` at its end above."""
    filled = min(BAR_WIDTH, round(max(ratio, 0.0) * BAR_WIDTH))
    return "█" * filled + "░" * (BAR_WIDTH - filled) + ("+" if ratio > 1 else " ")


def _show_rich(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    # The tables of rich shorten every column alike; here only those give way that may.
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    widths = [
        max(cell_len(column.title), *(cell_len(_text(row[k])) for row in rows), 0) for k, column in enumerate(columns)
    ]
    for k in range(len(columns))[::-1]:
        if sum(widths) + len(GAP) * (len(widths) - 1) <= console.width:
            break
        if columns[k].goes and len({_text(row[k]) for row in rows}) < min(2, len(rows)):
            columns, widths = [*columns[:k], *columns[k + 1 :]], [*widths[:k], *widths[k + 1 :]]
            rows = [[*row[:k], *row[k + 1 :]] for row in rows]
    _fit(widths, columns, console.width - len(GAP) * (len(columns) - 1))
    for cells in ([(column.title, "bold") for column in columns], *rows):
        line = Text()
        for column, cell, width in zip(columns, cells, widths, strict=True):
            part = Text(_text(cell), style=_style(cell))
            part.truncate(width, overflow="ellipsis")
            part.align("right" if column.right else "left", width)
            line.append_text(part).append(GAP)
        line.rstrip()
        console.print(line, soft_wrap=True)


def _fit(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Narrow the columns that give way, always the widest of them, until all stand side by side, or none can."""
    able = [k for k, column in enumerate(columns) if column.gives]
    while sum(widths) > room and able:
        widest = max(able, key=lambda k: widths[k])
        if widths[widest] <= NARROWEST:
            return
        widths[widest] -= 1


def _text(cell: Cell) -> str:
    return clean(cell if isinstance(cell, str) else cell[0])


def _style(cell: Cell) -> str:
    return "" if isinstance(cell, str) else cell[1]
