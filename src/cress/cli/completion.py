"""Completion of jobs and nodes with those that are there now.

A shell asks with every press of the key, so a center that does not answer at once completes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cress.client import Client

# Most jobs of each state that are offered.
MOST = 200


def jobs(incomplete: str) -> list[tuple[str, str]]:
    """Return ids and names of jobs that wait or run, each with the other one and the state as its description."""

    def ask(client: Client) -> list[tuple[str, str]]:
        found: dict[str, str] = {}
        for state in ("running", "waiting"):
            for view in client.jobs(state=state, limit=MOST).jobs:
                found.setdefault(str(view.id), f"{view.name}, {view.state}")
                found.setdefault(view.name, f"{view.id}, {view.state}")
        return list(found.items())

    return _begun(incomplete, ask)


def nodes(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of nodes, each with its state."""
    return _begun(incomplete, lambda client: [(node.name, node.state) for node in client.nodes()])


def _begun(incomplete: str, ask: Callable[[Client], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the answers that begin with this text; none if anything goes wrong."""
    try:
        from cress.client import connect

        with connect() as client:
            return [(word, about) for word, about in ask(client) if word.startswith(incomplete)]
    except Exception:  # noqa: BLE001 – an error would end up in the line that the user types
        return []
