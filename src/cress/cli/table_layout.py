"""The layout of a table: the columns shown, and their widths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from cress.model.errors import InputError
from cress.model.units import one_of

GAP = "  "
NARROWEST = 8  # the least width of a column that is narrowed, however much it loses

# A cell: its text, or its text and a style of rich for terminals.
Cell: TypeAlias = str | tuple[str, str]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its title, the alignment of its cells, and its behaviour on a narrow terminal.

    A column that ``gives`` way is shortened, down to ``least`` characters. Then columns with a number ``hides`` are
    left out, the smallest number first, and among them first those with the same value in every row.
    """

    title: str
    right: bool = False
    gives: bool = False
    hides: int = 0
    least: int = 12


@dataclass(frozen=True, slots=True)
class Selection:
    """The choice of a user: the names of columns in their order (empty: all), and whether all must be shown."""

    names: tuple[str, ...] = ()
    wide: bool = False


ALL = Selection()


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns shown, with their rows and widths, and the names of the columns left out."""

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Cell]]
    widths: Sequence[int]
    hidden: tuple[str, ...] = ()


def name_of(title: str) -> str:
    """Return the name of a column for ``--columns``: ``in-use`` for ``IN USE``."""
    return title.lower().replace(" ", "-")


def names_of(columns: Iterable[TableColumn]) -> str:
    """Return the names of columns for ``--help``."""
    return ", ".join(name_of(column.title) for column in columns if column.title)


def chosen(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], names: Sequence[str]
) -> tuple[Sequence[TableColumn], Sequence[Sequence[Cell]]]:
    """Return the columns of these names, in this order, with their cells. Raise InputError."""
    if not names:
        return columns, rows
    places = {name_of(column.title): k for k, column in enumerate(columns) if column.title}
    for name in names:
        if name_of(name) not in places:
            raise InputError(f"there is no column {name!r}", hint=one_of(name_of(name), places), field="--columns")
    order = [places[name_of(name)] for name in names]
    return _only(columns, order), [_only(row, order) for row in rows]


def fitted(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], width: int, length: Callable[[str], int] = len
) -> TableLayout:
    """Shorten columns and leave columns out until the lines of a table fit ``width`` characters."""
    widths = [
        max(length(column.title), *(length(text_of(row[k])) for row in rows), 0) for k, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    alike = {k for k in kept if len({text_of(row[k]) for row in rows}) < 2 <= len(rows)}
    able = sorted((k for k in kept if columns[k].hides), key=lambda k: (k not in alike, columns[k].hides))

    def room() -> int:
        return width - len(GAP) * (len(kept) - 1)

    def least() -> int:
        return sum(min(widths[k], columns[k].least) if columns[k].gives else widths[k] for k in kept)

    hidden = []
    while able and least() > room():
        hidden.append(able.pop(0))
        kept.remove(hidden[-1])
    narrow = _narrowed([widths[k] for k in kept], [columns[k] for k in kept], room())
    return TableLayout(
        columns=_only(columns, kept),
        rows=[_only(row, kept) for row in rows],
        widths=narrow,
        hidden=tuple(name_of(columns[k].title) for k in sorted(hidden) if columns[k].title),
    )


def text_of(cell: Cell) -> str:
    """Return the text of a cell on one line."""
    return clean(cell if isinstance(cell, str) else cell[0])


def clean(text: str) -> str:
    """Return ``text`` on one line, without control characters for the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _narrowed(widths: list[int], columns: Sequence[TableColumn], room: int) -> list[int]:
    """Narrow the columns that give way, always the widest of them, until all fit or none can be narrowed."""
    for least in (None, NARROWEST):
        able = [k for k, column in enumerate(columns) if column.gives]
        while sum(widths) > room and able:
            widest = max(able, key=lambda k: widths[k])
            if widths[widest] <= (columns[widest].least if least is None else least):
                able.remove(widest)
            else:
                widths[widest] -= 1
    return widths


def _only(items: Sequence[_T], places: Iterable[int]) -> list[_T]:
    return [items[k] for k in places]
