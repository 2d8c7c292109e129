"""The rows of ``cress top``: cells as texts, with the values by which they are sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cress.cli.common import duration
from cress.cli.events import about
from cress.cli.groups import in_tree
from cress.cli.jobs import starts
from cress.cli.tables import clean

if TYPE_CHECKING:
    from cress.cli.top_source import Look
    from cress.client import EventView, GroupView, JobView, NodeView

BAR = 10


@dataclass(frozen=True)
class TopRow:
    """One row: the ``key`` of its subject (its kind and name), its cells, and the value of each for sorting.

    ``text`` is told in full while the row is marked, with a ``note`` that has no column.
    """

    key: tuple[str, str]
    cells: tuple[str, ...]
    values: tuple[Any, ...]
    note: str = ""

    @property
    def text(self) -> str:
        """The kind and name of its subject, the note, and its last cell."""
        head = " ".join(self.key) + (f", {self.note}" if self.note else "")
        return f"{head}: {clean(self.cells[-1])}" if self.cells[-1] else head


@dataclass(frozen=True)
class TopTable:
    """A table: its title, its columns with their widths (0: what is left), and its rows in one look."""

    title: str
    columns: tuple[tuple[str, int], ...]
    rows: Callable[[Look], list[TopRow]]


def _groups(look: Look) -> list[TopRow]:
    return [_group(view, lead) for view, lead in in_tree(look.groups)]


def _group(view: GroupView, lead: str) -> TopRow:
    filled = min(BAR, round(max(view.ratio, 0) * BAR))
    bar = "█" * filled + "░" * (BAR - filled)
    notes = ["cooling off"] if view.cooling else []
    notes += ["closed"] if view.closed else []
    notes += [f"borrows {view.borrowed}"] if view.borrowed.strip("0") else []
    cells = (
        lead + view.name,
        f"{bar} {view.ratio:4.0%}",
        view.quota,
        str(view.running),
        str(view.waiting),
        "; ".join(notes),
    )
    return TopRow(("group", view.name), cells, (view.name, view.ratio, view.quota, view.running, view.waiting, notes))


def _waiting(look: Look) -> list[TopRow]:
    return [_job(view, look.state.now) for view in look.waiting]


def _job(view: JobView, now: float) -> TopRow:
    cells = (str(view.id), view.name or "-", view.group, duration(now - view.submitted), view.reason)
    values = (view.id, view.name, view.group, now - view.submitted, view.reason)
    start = view.expected_start
    note = "" if start is None else f"expected start {starts(start, now)}"
    return TopRow(("job", str(view.id)), cells, values, note)


def _nodes(look: Look) -> list[TopRow]:
    return [_node(view) for view in look.nodes or ()]


def _node(view: NodeView) -> TopRow:
    used = ", ".join(f"{view.used.get(name, '0')}/{amount} {name}" for name, amount in view.capacity.items() if amount)
    cells = (view.name, view.state, str(view.running), view.reason or used)
    return TopRow(("node", view.name), cells, (view.name, view.state, view.running, cells[3]))


def _events(look: Look) -> list[TopRow]:
    return [_event(view) for view in reversed(look.events)]


def _event(view: EventView) -> TopRow:
    at = datetime.fromtimestamp(view.at).astimezone().strftime("%H:%M:%S")
    text = " ".join(about(view))
    kind, name = ("job", str(view.job)) if view.job is not None else ("node", view.node)
    key = (kind, name) if name else ("group", view.group)
    return TopRow(key, (at, view.kind, text), (view.number, view.kind, text))


GROUPS = TopTable(
    "Groups",
    (("GROUP", 14), ("USED OF QUOTA", 15), ("QUOTA", 16), ("RUN", 5), ("WAIT", 5), ("NOTE", 0)),
    _groups,
)
WAITING = TopTable("Waiting", (("JOB", 6), ("NAME", 12), ("GROUP", 10), ("FOR", 7), ("WHY", 0)), _waiting)
NODES = TopTable("Nodes", (("NODE", 16), ("STATE", 10), ("TASKS", 5), ("USED", 0)), _nodes)
EVENTS = TopTable("Just now", (("TIME", 8), ("WHAT", 15), ("ABOUT", 0)), _events)


def shown(
    table: TopTable, look: Look, *, word: str = "", sort: int | None = None, backwards: bool = False
) -> list[TopRow]:
    """Return the rows that contain a word, by a column; without one in the order of the center."""
    rows = [row for row in table.rows(look) if not word or any(word.lower() in cell.lower() for cell in row.cells)]
    if sort is not None:
        rows.sort(key=lambda row: _comparable(row.values[sort]), reverse=backwards)
    return rows


def fitted(table: TopTable, row: TopRow, width: int) -> list[str]:
    """Return the cells cut to the widths of their columns in a table ``width`` characters wide."""
    cells = []
    for (_, most), cell in zip(table.columns, row.cells, strict=True):
        most = most or max(10, width - sum(other + 2 for _, other in table.columns) - 2)
        text = clean(cell)
        cells.append(text if len(text) <= most else text[: most - 1] + "…")
    return cells


def heading(look: Look) -> str:
    """Return the line over all tables."""
    state = look.state
    at = datetime.fromtimestamp(state.now).astimezone().strftime("%H:%M:%S")
    use = ", ".join(f"{name} {state.used.get(name, '0')}/{amount}" for name, amount in _first(state.capacity, 2))
    return (
        f"{at}  {state.nodes_up:,} of {state.nodes:,} nodes up  "
        f"{state.jobs_running:,} jobs run, {state.jobs_waiting:,} wait  {use}"
    )


def _first(amounts: Any, most: int) -> Sequence[tuple[str, str]]:
    return list(amounts.items())[:most]


def _comparable(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, int | float) else (1, str(value))
