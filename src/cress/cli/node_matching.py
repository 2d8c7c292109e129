"""``cress nodes --where``: nodes that satisfy a requirement, best first, and the reasons of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.cli.tables import Cell, Selection, TableColumn, show, shown, state

if TYPE_CHECKING:
    from cress.client import MatchView, NodeView

NODES = (
    TableColumn("NAME", gives=True),
    TableColumn("SCORE", right=True),
    TableColumn("STATE"),
    TableColumn("RACK", gives=True, hides=2),
    TableColumn("ADDRESS", gives=True, hides=1),
    TableColumn("TASKS", right=True),
)
OTHERS = (TableColumn("NAME", gives=True), TableColumn("STATE"), TableColumn("WHY NOT", gives=True, least=40))


def show_matches(nodes: Sequence[NodeView], *, ranked: bool, selection: Selection) -> None:
    """Print both tables, the second only if it has rows. Scores are shown if there is a rank."""
    good, others = tables(nodes)
    if good and ranked:
        show(NODES, good, selection)
    elif good:
        show((NODES[0], *NODES[2:]), [[cells[0], *cells[2:]] for cells in good], selection)
    else:
        print("no node satisfies it")
    if others:
        print()
        show(OTHERS, others, selection)


def tables(nodes: Sequence[NodeView]) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Return the rows of the matching nodes, best score first, and of the others, in the order of registration."""
    matched = [(node, node.match) for node in nodes if node.match is not None]
    good = sorted((pair for pair in matched if pair[1].satisfied), key=lambda pair: -pair[1].score)
    rows: list[list[Cell]] = [
        [node.name, f"{match.score:.4g}", state(node.state), node.rack or "-", node.address or "-", str(node.running)]
        for node, match in good
    ]
    others: list[list[Cell]] = [
        [node.name, state(node.state), why_not(match)] for node, match in matched if not match.satisfied
    ]
    return rows, others


def why_not(match: MatchView) -> str:
    """Return the clause that a node fails, and the value of the node: ``Rack = "r1" (Rack is r3)``."""
    has = ", ".join(f"no {name}" if value is None else f"{name} is {shown(value)}" for name, value in match.has.items())
    undefined = " is undefined" if match.undefined and None not in match.has.values() else ""
    return match.clause + undefined + (f" ({has})" if has else "")
