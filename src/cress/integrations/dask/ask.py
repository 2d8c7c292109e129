"""The request of one lease with its Dask workers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dask.utils import parse_bytes, parse_timedelta

from cress.client.job_keywords import Duration
from cress.client.lease_keywords import LeaseKeys, body_of
from cress.model.errors import InputError
from cress.model.units import one_of

# Keys of a request that the cluster itself sets.
OWN = ("resource", "workload", "count", "command", "gang", "name", "uses", "tasks")
# Keys that a user may set.
KEYS = (*LeaseKeys.__annotations__, "group", "min_time", "term")
# The time for a worker to move its data away when its lease is taken; the center's option `grace` bounds it.
STOP_GRACE = "30s"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One lease: ``cores`` and ``memory`` (bytes) for all its ``processes`` together, and the program in it.

    ``keys`` are further ones of the request, ``options`` those of ``distributed.Worker``, ``tls`` the files of its
    ``Security``; ``death_timeout`` is in seconds (``None``: never).
    """

    workload: str
    cores: float
    memory: int
    processes: int = 1
    python: str = sys.executable
    local_directory: str = ""
    death_timeout: float | None = 60.0
    keys: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    tls: Mapping[str, str] = field(default_factory=dict)

    def workers(self, name: str) -> list[str]:
        """Return the names of the Dask workers in a lease."""
        return [name] if self.processes == 1 else [name + suffix for suffix in self.suffixes]

    @property
    def suffixes(self) -> list[str]:
        """The ends of the worker names in one lease."""
        return [f"-{number}" for number in range(self.processes)]

    @property
    def threads(self) -> int:
        """The number of threads of one worker."""
        return max(1, int(self.cores / self.processes))

    def command(self, name: str, scheduler: str) -> list[str]:
        """Return the command of the program in a lease."""
        given = {
            "scheduler": scheduler,
            "names": self.workers(name),
            "nthreads": self.threads,
            "memory_limit": self.memory // self.processes,
            "death_timeout": self.death_timeout,
            "local_directory": self.local_directory,
            "options": dict(self.options),
            "tls": dict(self.tls),
        }
        return [self.python, "-P", "-m", "cress.integrations.dask.program", json.dumps(given)]

    def request(self, name: str, scheduler: str) -> dict[str, Any]:
        """Return the keywords of ``client.leases.request`` for a lease."""
        return {
            "workload": self.workload,
            "name": name,
            "resource": {"cpu": self.cores, "memory": self.memory},
            "command": self.command(name, scheduler),
            "stop_grace": STOP_GRACE,
            **self.keys,
        }

    def text(self, name: str, scheduler: str) -> str:
        """Return the request as YAML, as in ``POST /v1/leases``."""
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in body_of(self.request(name, scheduler)).items())


def made(
    *,
    workload: str,
    cores: float,
    memory: str | int,
    processes: int,
    death_timeout: Duration | None,
    env: Mapping[str, str] | None,
    job_extra: Mapping[str, Any] | None,
    keys: Mapping[str, Any],
    **more: Any,
) -> Ask:
    """Return the request for these keywords of a cluster. Raises ``InputError``."""
    if not 0 < cores < math.inf:
        raise InputError(f"{cores} cores", hint="more than 0", field="cores")
    if processes < 1 or int(processes) != processes:
        raise InputError(f"{processes} processes", hint="1 or more", field="processes")
    if processes > max(1, cores):
        raise InputError(
            f"{processes} processes have {cores:g} cores", hint="at least one core for each", field="processes"
        )
    amount = _parsed(parse_bytes, memory, "memory", "an amount such as 4GB or 4GiB")
    if amount <= 0:
        raise InputError(f"memory of {memory!r}", hint="an amount such as 4GB or 4GiB", field="memory")
    given = {name: value for name, value in {**keys, **(job_extra or {})}.items() if value is not None}
    for name in given:
        if name in OWN:
            raise InputError(f"the cluster itself sets {name}", hint="leave it out", field=name)
        if name not in KEYS:
            raise InputError(f"a cluster has no key {name!r}", hint=one_of(name, sorted(KEYS)), field=name)
    if env:
        given["environment"] = {**given.get("environment", {}), **env}
    return Ask(
        workload=workload,
        cores=cores,
        memory=int(amount),
        processes=int(processes),
        death_timeout=seconds_of(death_timeout, "death_timeout"),
        keys=given,
        **more,
    )


def seconds_of(duration: Duration | None, name: str) -> float | None:
    """Return a duration in Dask's form in seconds; ``name`` is its keyword. Raises ``InputError``."""
    if duration is None:
        return None
    seconds: float = _parsed(parse_timedelta, duration, name, "a duration such as 60s")
    return seconds


def _parsed(parse: Any, value: object, name: str, hint: str) -> Any:
    try:
        return parse(value)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{value!r} cannot be read", hint=hint, field=name) from None
