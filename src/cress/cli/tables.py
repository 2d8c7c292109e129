"""Tables: coloured and fitted to the width on a terminal, plain aligned columns in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cress.cli.table_layout import ALL, GAP, Cell, Selection, TableColumn, TableLayout, chosen, clean, fitted, text_of

__all__ = ["Cell", "Selection", "TableColumn", "bar", "clean", "facts", "plain", "show", "shown", "state", "terminal"]

BAR_WIDTH = 20

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
    "held": "cyan",
    "kept": "dim",
    "stopping": "magenta",
    "preempted": "magenta",
    "up": "green",
    "overloaded": "yellow",
    "cordoned": "yellow",
    "draining": "yellow",
    "drained": "yellow",
    "away": "red",
    "free": "green",
    "shared": "yellow",
    "used": "cyan",
    "exclusive": "cyan",
}


def terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def state(word: str) -> Cell:
    """Return a state in its colour."""
    return word, STATES.get(word, "")


def shown(value: object) -> str:
    """Return an attribute of a node as text: ``true``, ``25,276,514,304``, a text unchanged."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def show(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], selection: Selection = ALL) -> None:
    """Print a table, or the chosen columns of it. Raise InputError for an unknown column."""
    columns, rows = chosen(columns, rows, selection.names)
    if terminal():
        _show_rich(columns, rows, wide=selection.wide)
        return
    for line in plain(columns, rows):
        print(line)


def plain(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a table without colours: every cell whole, the last column not padded."""
    lines = [[column.title for column in columns], *([text_of(cell) for cell in row] for row in rows)]
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
    told = [(name, value) for name, value in pairs if text_of(value)]
    width = max((len(name) for name, _ in told), default=0)
    if not terminal():
        for name, value in told:
            print(f"{name.ljust(width)}{GAP}{text_of(value)}")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for name, value in told:
        line = Text(name.ljust(width) + GAP, style="bold")
        line.append(text_of(value), style=_style(value) or "not bold")
        console.print(line, soft_wrap=True)


def bar(ratio: float) -> str:
    """Return a share as a bar: full at 1, above that with ``+`` at its end."""
    filled = min(BAR_WIDTH, round(max(ratio, 0.0) * BAR_WIDTH))
    return "█" * filled + "░" * (BAR_WIDTH - filled) + ("+" if ratio > 1 else " ")


def _show_rich(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], *, wide: bool) -> None:
    # The tables of rich shorten every column; here only the columns that give way are shortened.
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    layout = fitted(columns, rows, sys.maxsize if wide else console.width, cell_len)
    for cells in ([(column.title, "bold") for column in layout.columns], *layout.rows):
        line = Text()
        for column, cell, width in zip(layout.columns, cells, layout.widths, strict=True):
            part = Text(text_of(cell), style=_style(cell))
            part.truncate(width, overflow="ellipsis")
            part.align("right" if column.right else "left", width)
            line.append_text(part).append(GAP)
        line.rstrip()
        if not wide:
            line.truncate(console.width, overflow="ellipsis")
        console.print(line, soft_wrap=True)
    if layout.hidden:
        console.print(Text(hidden_line(layout, console.width), style="dim"), soft_wrap=True)


def hidden_line(layout: TableLayout, width: int) -> str:
    """Return the line below a table that names the columns left out, and how to see them."""
    line = f"hidden: {', '.join(layout.hidden)} (--wide shows all, --columns some)"
    short = f"{len(layout.hidden)} columns hidden (--wide)"
    return line if len(line) <= width else short


def _style(cell: Cell) -> str:
    return "" if isinstance(cell, str) else cell[1]
