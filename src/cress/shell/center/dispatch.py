"""Dispatch: the orders of a step, one message of each kind for a node.

Orders for a node that is not connected are dropped: when the node joins again, the machine repeats the missing orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from cress.lifecycle.effects import Halt, Launch, NewLimit
from cress.lifecycle.tables.rows import LiveNode
from cress.model.run import Run
from cress.protocol import messages
from cress.protocol.messages import (
    LIMITS_SINCE,
    MATERIAL_SINCE,
    PARTS_SINCE,
    USES_SINCE,
    Gang,
    Launches,
    Stop,
    Stops,
    TimeLimit,
    TimeLimits,
)
from cress.protocol.versions import Version
from cress.shell.center.effects import Send, Session

RunOf = Callable[[int], Run | None]


def orders(
    epoch: int,
    launches: Iterable[Launch],
    halts: Iterable[Halt],
    limits: Iterable[NewLimit] = (),
    *,
    sessions: Mapping[str, Session],
    nodes: Mapping[str, LiveNode],
    run_of: RunOf,
    witness: bytes = b"",
) -> list[Send]:
    """Return the messages for the connected nodes: launches first, then stops, then new time limits.

    ``witness`` is the center's signed position.
    """
    sends: list[Send] = []
    starts: dict[str, list[Launch]] = {}
    for launch in launches:
        if launch.node in sessions:
            starts.setdefault(launch.node, []).append(launch)
    for name, start in starts.items():
        session = sessions[name]
        launching = _launches(epoch, start, nodes.get(name), run_of, session.dialect.version, witness)
        sends.append(Send(session, launching))
    stops: dict[str, list[Stop]] = {}
    for halt in halts:
        if halt.node in sessions:
            stops.setdefault(halt.node, []).append(Stop(halt.attempt, _grace(halt, run_of)))
    for name, stop in stops.items():
        sends.append(Send(sessions[name], Stops(epoch=epoch, stops=tuple(stop))))
    changed: dict[str, list[TimeLimit]] = {}
    for limit in limits:
        # An executor of an older release would not know the order; it keeps the limit of the launch.
        if limit.node in sessions and sessions[limit.node].dialect.version >= LIMITS_SINCE:
            changed.setdefault(limit.node, []).append(TimeLimit(limit.attempt, limit.limit))
    for name, new in changed.items():
        sends.append(Send(sessions[name], TimeLimits(epoch=epoch, limits=tuple(new))))
    return sends


def _launches(
    epoch: int, launches: list[Launch], live: LiveNode | None, run_of: RunOf, version: Version, witness: bytes
) -> Launches:
    """Return the launches for a node, whose executor speaks this version of the protocol."""
    runs = {job: run for job in dict.fromkeys(launch.job for launch in launches) if (run := run_of(job))}
    gangs = {launch.job: launch.hosts for launch in launches if launch.hosts}
    return Launches(
        epoch=epoch,
        # Executors do not need the job as it was submitted.
        runs=tuple(msgspec.structs.replace(run, source="") for run in runs.values() if _is_known(run, version)),
        # A launch without a run is refused by the executor with a reason; without the launch its task would wait for
        # ever.
        launches=tuple(
            messages.Launch(launch.attempt, launch.job, launch.task, launch.ports, launch.devices)
            for launch in launches
        ),
        gangs=tuple(Gang(job, hosts) for job, hosts in gangs.items()),
        address=live.node.address if live is not None else "",
        rack=live.node.rack if live is not None else "",
        witness=witness,
        restarts=tuple((launch.attempt, launch.restarts) for launch in launches if launch.restarts),
    )


def _is_known(run: Run, version: Version) -> bool:
    """Return whether an executor can run this job: an older one would ignore its secrets or its parts."""
    return all(
        (
            not run.needs_material or version >= MATERIAL_SINCE,
            not run.parts or version >= PARTS_SINCE,
            not run.uses or version >= USES_SINCE,
        )
    )


def _grace(halt: Halt, run_of: RunOf) -> int:
    if halt.grace is not None:
        return halt.grace
    run = run_of(halt.job)
    return 0 if run is None else run.stop_grace
