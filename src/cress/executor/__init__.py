"""The programs of a node: the supervisor, which is the parent of the tasks, and the agent, which talks to the center.

``run`` is the agent's program; it starts the supervisor when none runs. Nothing heavy is imported before it is called:
the supervisor lives in this room too, and stays small.
"""

from __future__ import annotations

from cress.executor.settings import Settings

__all__ = ["Settings", "run"]


def run(settings: Settings) -> int:
    """Run an executor until it is told to stop. Return the exit code: 0 stopped; 3 it cannot work, and has reported why."""
    from cress.executor.agent import main

    return main(settings)
