"""The parameters of a mixed workload, with defaults (docs/mixed.md)."""

from __future__ import annotations

from dataclasses import dataclass

from cress.model.errors import InputError
from cress.simulator.traces.parameters import parse_parameters


@dataclass(frozen=True)
class MixedParameters:
    """Parameters of a mixed workload.

    ``services``, ``databases``, ``dags`` and ``cron`` are shares of the reserved core hours; batch arrays are the rest.
    The ``…_use`` are used / reserved.
    """

    nodes: int = 40
    days: int = 1
    load: float = 0.8  # reserved core hours / those of the cluster
    groups: int = 1  # of services and databases, and as many others
    services: float = 0.5
    databases: float = 0.05
    dags: float = 0.1
    cron: float = 0.05
    applications: int = 4  # services of each group
    peak: float = 20.0  # hour of day at which services want most tasks
    apart: float = 1.0  # hours: sigma of the peaks of single services around it
    night: float = 0.4  # lowest / highest task count of a service
    surges: float = 1.0  # sudden surges a day of each service
    surge: float = 1.5  # wanted tasks / usual ones, in a surge
    surge_hours: float = 1.0  # the length of a surge
    headroom: float = 1.3  # quota of a group of services / their usual demand in that hour
    service_use: float = 0.75
    database_use: float = 0.6
    batch_use: float = 0.9  # of arrays, dags and cron jobs
    office: float = 0.0  # share of the arrays that come from 9 to 18 o'clock, more than the usual
    nightly: float = 0.2  # share of the dags and cron jobs that come from 0 to 6 o'clock
    run: float = 400.0  # median run time of batch tasks, s
    spread: float = 0.8  # sigma of the logarithm of the run times
    tasks: float = 3.0  # tasks of an array, on average


SHARES = {
    "services",
    "databases",
    "dags",
    "cron",
    "night",
    "service_use",
    "database_use",
    "batch_use",
    "office",
    "nightly",
}
FROM_ZERO = {"spread", "surges", "apart", "peak"}


def parse(text: str) -> MixedParameters:
    """Return the parameters of a text such as ``nodes=40,night=0.5``. Raise ``InputError`` with the parameter."""
    chosen = parse_parameters("mixed", text, MixedParameters(), SHARES, FROM_ZERO)
    place = f"mixed:{text}"
    if chosen.services + chosen.databases + chosen.dags + chosen.cron > 1 + 1e-9:
        raise InputError(
            "the shares of services, databases, dags and cron are more than 1 together",
            hint="services=0.5,databases=0.05",
            file=place,
        )
    if not chosen.peak < 24:
        raise InputError(f"{chosen.peak:g} is not an hour of day", hint="peak=20", file=place, field="peak")
    if chosen.surge < 1:
        raise InputError(f"{chosen.surge:g} is less than 1", hint="surge=1.5", file=place, field="surge")
    return chosen
