"""A question before a change: on a terminal, a command first shows what the change would do, and asks.

Scripts are not asked: without a terminal, with ``--json`` and with ``--yes`` the change is made at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cress.cli.errors import NOT_ACCEPTED
from cress.cli.tables import terminal

if TYPE_CHECKING:
    from cress.client import Client

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Make the change without showing its consequences and asking.")]
# Seconds for which a preview is computed.
SECONDS = 10.0


def is_asked(*, yes: bool, as_json: bool) -> bool:
    """Return True if a person at a terminal shall be asked."""
    return terminal() and sys.stdin.isatty() and not yes and not as_json


def show_consequences(client: Client, change: dict[str, Any]) -> None:
    """Print what a change would do to running and waiting work; a center that cannot tell does not prevent it."""
    from cress.cli.consequences import tell
    from cress.client import ClientError, calls

    try:
        found = client.ask(calls.what_if(change, SECONDS))
    except ClientError as error:
        print(f"what it would do to the work of the cluster is not known: {error}")
        return
    tell(found)


def ask(question: str) -> None:
    """Ask whether to go on; end the command if the answer is not yes."""
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
        print()
    if answer.strip().lower() not in ("y", "yes"):
        print("nothing was changed")
        raise typer.Exit(NOT_ACCEPTED)
