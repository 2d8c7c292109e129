"""The environment variables that tasks, and the processes that work for them, inherit from the executor.

A task can read the environment of its parent, and the shell that started the executor may have secrets in its own. So
tasks inherit only a short list of variables, and those that the operator names (``--task-env``).
"""

from __future__ import annotations

from collections.abc import Mapping

# Variables with which programs find other programs and use the language of the machine.
_NAMES = frozenset(("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"))
# The variable with the operator's names, separated by commas, for the processes of an executor.
NAMED = "CRESS_TASK_ENV"
# Python's own processes find their modules by it; tasks do not inherit it.
_MODULES = "PYTHONPATH"


def for_tasks(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tasks inherit."""
    named = frozenset(environment.get(NAMED, "").split(","))
    return {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name.startswith("LC_") or name in named) and not name.startswith("CRESS_")
    }


def for_processes(environment: Mapping[str, str], named: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the variables of a process of the executor that works for tasks; ``named`` are added for its tasks."""
    known = {name: environment[name] for name in (NAMED, _MODULES) if name in environment}
    if named:
        known[NAMED] = ",".join(named)
    return for_tasks({**environment, **known}) | known
