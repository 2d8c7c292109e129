"""The programs of a node: the supervisor, the parent of the tasks, and the agent, which talks to the center.

``run`` is the agent's program. It starts the supervisor when none runs. ``keep`` restarts the agent when it dies. Heavy
modules are imported only when they are called, since the supervisor lives in this room too and stays small.
"""

from __future__ import annotations

from cress.executor.settings import ExecutorSettings

__all__ = ["ExecutorSettings", "keep", "run"]


def run(settings: ExecutorSettings) -> int:
    """Run an executor until it is told to stop.

    Return the exit code: 0 if it stopped; 3 if it cannot work and has reported why.
    """
    from cress.executor.agent import main
    from cress.executor.runtimes.linux import not_dumpable

    # The agent authenticates with the token of its center, or with the key of its bundle.
    not_dumpable()
    return main(settings)


def keep(settings: ExecutorSettings, again: list[str]) -> int:
    """Run an executor as ``run`` does; when its agent dies, start it again by the command ``again``."""
    from cress.executor.folder import SupervisorFolder
    from cress.executor.keeper import Keeper
    from cress.executor.runtimes.linux import not_dumpable

    not_dumpable()
    return Keeper(lambda: run(settings), again, SupervisorFolder(settings.directory).lock).run()
