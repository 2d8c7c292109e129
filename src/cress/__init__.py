"""Cress: a cluster resource manager and job scheduler.

The names of its Python API (docs/python.md) are loaded when used.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ClientError",
    "Cron",
    "Dag",
    "Database",
    "Executor",
    "Job",
    "JobFailed",
    "JobHandle",
    "Service",
]

# Where each name is: `import cress` and the command line load none of it.
_PLACES = {
    "AsyncClient": "aio.client",
    "AsyncJobHandle": "aio.handles",
    "Client": "blocking.client",
    "ClientError": "errors",
    "Cron": "jobs",
    "Dag": "jobs",
    "Database": "jobs",
    "Executor": "executor",
    "Job": "jobs",
    "JobFailed": "errors",
    "JobHandle": "blocking.handles",
    "Service": "jobs",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"cress.client.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
