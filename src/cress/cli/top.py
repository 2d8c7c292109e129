"""``cress top``: the cluster on one screen, as it changes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cress.cli.common import Data, connect
from cress.cli.errors import told
from cress.model.errors import InputError

EPILOG = """\
\b
Keys:
  Tab           the next table                 Enter   the story of the marked job, node or group
  s             sort by the next column        S       turn the order round
  /             filter the tables by a word    Esc     no filter, or back
  n, w          nodes, or what waits           p       pause
  q             quit

\b
It shows groups against their quotas, what waits and why, nodes, and what just happened. It fits into 80×24 characters.
It needs: pip install 'cress[top]'.
Exit codes: 0 done, 2 bad input, 3 no center reachable, 130 interrupted.
"""


def top(
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, max=3600, help="Seconds between two looks at the center.")
    ] = 5.0,
    data: Data = None,
) -> None:
    """Watch groups, waiting jobs, nodes and events on one screen."""
    with told("top", "top"):
        from cress.cli.top_app import TopApp
        from cress.cli.top_source import ClientSource

        if not sys.stdout.isatty():
            raise InputError("standard output is not a terminal", hint="`cress status` prints the same figures once")
        with connect(data) as client:
            client.state()  # a center that is not reachable is told before the screen is taken
            TopApp(ClientSource(client), every).run()
