"""The programs of a node: the supervisor, which is the parent of the tasks, and the agent, which talks to the center.

``run`` is the agent's program, ``keep`` starts it again when it dies; it starts the supervisor when none runs. Nothing
heavy is imported before it is called: the supervisor lives in this room too, and stays small.
"""

from __future__ import annotations

from cress.executor.settings import ExecutorSettings

__all__ = ["ExecutorSettings", "keep", "run"]


def run(settings: ExecutorSettings) -> int:
    """Run an executor until it is told to stop.

    Return the exit code: 0 stopped; 3 it cannot work, and has reported why.
    """
    from cress.executor.agent import main
    from cress.executor.runtimes.linux import not_dumpable

    # The agent has the token of its center, or the key of its bundle.
    not_dumpable()
    return main(settings)


def keep(settings: ExecutorSettings, again: list[str]) -> int:
    """Run an executor as ``run`` does, and start its agent again, by the command ``again``, when that dies."""
    from cress.executor.folder import SupervisorFolder
    from cress.executor.keeper import Keeper
    from cress.executor.runtimes.linux import not_dumpable

    not_dumpable()
    return Keeper(lambda: run(settings), again, SupervisorFolder(settings.directory).lock).run()
