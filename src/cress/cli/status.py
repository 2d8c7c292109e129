"""``cress status``: the cluster in a few lines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from cress.cli.common import Data, Json, connect, count, duration, moment, print_json
from cress.cli.errors import told
from cress.cli.tables import Cell, facts

if TYPE_CHECKING:
    from cress.client import CentersPage, StateView

# Seconds from which delays of the center are shown.
SHOWN = 0.25

EPILOG = """\
\b
Exit codes: 0 the center answers, 2 bad input, 3 no center reachable.
"""


def status(as_json: Json = False, data: Data = None) -> None:
    """Show the cluster in a few lines."""
    with told("status"):
        from cress.client import NotFound

        with connect(data) as client:
            view = client.state()
            url = client.url
            centers = None
            with contextlib.suppress(NotFound):  # an older center
                centers = client.centers()
        if as_json:
            print_json(view)
        else:
            facts(about(view, url, centers))


def _delay(view: StateView) -> str:
    """Return the longest delay of the last hour as a sentence; empty if all were short."""
    if view.delay is None or view.delay.length < SHOWN:
        return ""
    return f"{view.delay.length:.2f} s at {moment(view.delay.at)}, the longest of the last hour: {view.delay.what}"


def _others(page: CentersPage | None) -> str:
    """Return the states of the other centers, if there are any."""
    if page is None:
        return ""
    found = [
        f"{center.address} {'leads' if center.leads else 'stands by'}" for center in page.centers if not center.here
    ]
    if found and page.age:
        found.append(f"this answer may be {page.age:.1f} s old")
    return "; ".join(found)


def about(view: StateView, url: str, centers: CentersPage | None = None) -> list[tuple[str, Cell]]:
    """Return the facts about a cluster."""
    return [
        ("Center", f"{url}, version {view.version}"),
        ("Centers", _others(centers)),
        ("Since", f"{moment(view.started)}, for {duration(view.now - view.started)}"),
        ("Problem", (view.problem, "bold red")),
        ("Delay", _delay(view)),
        ("Nodes", f"{view.nodes_up:,} of {view.nodes:,} up"),
        ("Jobs", f"{count(view.jobs_running, 'job')} running, {view.jobs_waiting:,} waiting"),
        ("Tasks", f"{count(view.tasks_running, 'task')} running, {view.tasks_waiting:,} waiting"),
        *((name, f"{view.used.get(name, '0')} of {amount} used") for name, amount in view.capacity.items()),
    ]
