"""``cress licences``: licences, their users, and the jobs waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.cli.common import Columns, Data, Json, Wide, connect, print_json, selection_of
from cress.cli.errors import told
from cress.cli.tables import TableColumn, clean, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cress.client import LicenceUse

EPILOG = """\
\b
A job requests licences with `licences: {matlab: 1}` in its file, or with `cress submit --licence matlab`. Their numbers
are configured in the center (docs/licences.md). JOBS and WAITING list jobs; ×3 means that a job has or needs three.
Columns: name, total, in-use, free, jobs, waiting.
Exit codes: 0 done, 2 bad input, 3 no center reachable.
"""

COLUMNS = (
    TableColumn("NAME"),
    TableColumn("TOTAL", right=True),
    TableColumn("IN USE", right=True),
    TableColumn("FREE", right=True),
    TableColumn("JOBS", gives=True),
    TableColumn("WAITING", gives=True),
)
# Most jobs listed in one cell.
MOST_SHOWN = 5


def licences(columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Data = None) -> None:
    """List the licences of the cluster."""
    with told("licences"):
        with connect(data) as client:
            page = client.licences()
        if as_json:
            print_json(page)
            return
        if not page.licences:
            print("this cluster has no licences (docs/licences.md)")
            return
        rows = [
            [
                clean(licence.name),
                f"{licence.total:,}",
                f"{licence.in_use:,}",
                f"{licence.free:,}",
                _jobs(licence.jobs, licence.having),
                _jobs(licence.waiters, licence.waiting),
            ]
            for licence in page.licences
        ]
        show(COLUMNS, rows, selection_of(columns, wide=wide))


def _jobs(uses: Sequence[LicenceUse], total: int) -> str:
    """Return jobs such as ``12 (sweep), 14 (fit) ×3, 20 more``."""
    parts = [
        f"{use.job} ({clean(use.name)})" + (f" ×{use.number:,}" if use.number > 1 else "") for use in uses[:MOST_SHOWN]
    ]
    more = total - len(parts)
    return ", ".join([*parts, *([f"{more:,} more"] if more else [])]) or "-"
