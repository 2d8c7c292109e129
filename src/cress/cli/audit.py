"""``cress audit``: refused calls and administrative changes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, print_json, selection_of
from cress.cli.errors import told
from cress.cli.tables import TableColumn, clean, show

EPILOG = """\
\b
The list contains refused calls, changes of nodes, groups, users and tokens, and calls about jobs of other users. The
newest entries come last. REQUEST is the header X-Request-Id of the answer.
The log is the folder audit in the data directory of the center; its entries never change.
Columns: time, user, how, from, what, status, why, request; a narrow terminal leaves some out.
Exit codes: 0 done, 2 bad input, 3 not an admin, or no center reachable.
"""

COLUMNS = (
    TableColumn("TIME"),
    TableColumn("USER", gives=True),
    TableColumn("HOW", hides=3),
    TableColumn("FROM", gives=True, hides=2),
    TableColumn("WHAT", gives=True),
    TableColumn("STATUS", right=True),
    TableColumn("WHY", gives=True, hides=1),
    TableColumn("REQUEST", hides=4),
)


def audit(
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Maximum number of entries to show.")] = 50,
    user: Annotated[str, typer.Option(metavar="USER", help="Only entries of this user.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only refused calls.")] = False,
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show refused calls and administrative changes."""
    with told("audit"):
        from cress.client import calls

        with connect(data) as client:
            page = client.ask(calls.audit(limit, user, refused=refused))
        if as_json:
            print_json(page)
            return
        if not page.entries:
            print("no refused calls and no administrative changes yet")
            return
        rows = [
            [
                datetime.fromtimestamp(entry.at).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
                clean(entry.user) or "-",
                clean(entry.how) or "-",
                clean(entry.address),
                clean(entry.what),
                str(entry.status),
                clean(entry.why) or "-",
                entry.request,
            ]
            for entry in reversed(page.entries)
        ]
        show(COLUMNS, rows, selection_of(columns, wide=wide))
