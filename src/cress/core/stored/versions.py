"""Versions of the state: states of earlier releases, converted step by step to the present struct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from cress.core.stored.state import VERSION, CoreState
from cress.model.times import NEVER

Plain: TypeAlias = dict[str, Any]


class _StateVersion(msgspec.Struct):
    version: int | None = None


_decode = msgspec.msgpack.Decoder(CoreState).decode
_decode_version = msgspec.msgpack.Decoder(_StateVersion).decode


def state_of(state: CoreState | Plain | msgspec.Raw) -> CoreState:
    """Return a state as a struct of this version; raise ``ValueError`` if it cannot be converted.

    It may be encoded with msgpack. Fields added by a newer release are ignored.
    """
    if isinstance(state, CoreState):
        return state
    if isinstance(state, msgspec.Raw):
        if _decode_version(state).version == VERSION:
            # Without plain data in between, which would need as much memory again.
            return _decode(state)
        return state_of(msgspec.msgpack.decode(state))
    version = state.get("version")
    if version not in _CONVERTERS and version != VERSION:
        raise ValueError(
            f"a state of version {version} cannot be restored, only versions {min(_CONVERTERS)} to {VERSION}"
        )
    while version in _CONVERTERS:
        state = _CONVERTERS[version](state)
        version += 1
    return msgspec.convert({**state, "version": VERSION}, CoreState)


def _from_3(state: Plain) -> Plain:
    """Convert version 3, which listed the stops not proposed yet."""
    state = dict(state)
    outbox = state.pop("outbox")
    return {
        **state,
        "others": [],
        "to_stop": [[entry["attempt"], state["now"]] for entry in outbox],
        "units_in_doubt": False,
    }


def _from_4(state: Plain) -> Plain:
    """Convert version 4, which mixed foreseen values with the others, and had pairs instead of tables by number."""
    at, who = state["preempted_at"], state.get("preempted_for", {})
    jobs = {job["job"]["id"]: job for job in state["jobs"]}
    memory = state["memory"]
    return {
        **{name: value for name, value in state.items() if name in CoreState.__struct_fields__},
        "kept": {name: {"preempted_at": at.get(name), "preempted_for": who.get(name)} for name in {**at, **who}},
        "jobs": [_job_from_4(job) for job in jobs.values()],
        "attempts": [_attempt_from_4(attempt, jobs[attempt["job"]]["job"]) for attempt in state["attempts"]],
        "claims": [
            {**claim, "since": claim.get("since", jobs[claim["reservation"]["job"]]["since"])}
            for claim in state["claims"]
        ],
        "lending": state.get("lending", {}),
        "mix": state.get("mix") or {},
        "ending": dict(state.get("ending", ())),
        "to_stop": dict(state["to_stop"]),
        "foreseen": {
            **{name: state[name] for name in ("cursor", "loosened", "wake", "units_in_doubt", "reservations")},
            "limits_count": state.get("limits_count", False),
            "passes": memory["passes"],
            "last_blocked": memory["last_blocked"],
            "turns": memory.get("turns", []),
            "jobs": {
                number: _only(job, "soft", "arrived", "held_since", "drain") | {"homes": dict(job.get("homes", ()))}
                for number, job in jobs.items()
            },
            "groups": {name: _tried_from_4(entry) for name, entry in memory["groups"].items()},
            "plans": state["plans"],
        },
    }


def _only(entry: Plain, *names: str) -> Plain:
    return {name: entry[name] for name in names}


def _job_from_4(job: Plain) -> Plain:
    again, spec = list(job["again"]), job["job"]
    waits = {} if spec.get("gang") else dict(job.get("waits") or [(task, job["since"]) for task in sorted(again)])
    return {
        **{name: value for name, value in job.items() if name not in ("since", "overdue_at")},
        "queued_at": job["since"],
        "waits": waits,
        "later": dict(job["later"]),
        "was_on": dict(job.get("was_on", ())),
        "overdue_at": job.get("overdue_at", NEVER),
    }


def _attempt_from_4(attempt: Plain, job: Plain) -> Plain:
    limit = job.get("time_limit")
    ends = NEVER if limit is None else attempt["start"] + max(1, limit)
    last_end = attempt.get("last_end", attempt["end"]) if attempt["stopping"] else max(attempt["end"], ends)
    return {"amounts": _request(job, attempt["task"]), **attempt, "last_end": last_end}


def _request(job: Plain, task: int) -> list[int]:
    """Return the request of a task: that of its part, or that of the job."""
    for part in job.get("parts", ()):
        if task < part["tasks"]:
            found: list[int] = part["request"]
            return found
        task -= part["tasks"]
    request: list[int] = job["request"]
    return request


def _tried_from_4(entry: Plain) -> Plain:
    victims = entry["no_victims"]
    found = _only(entry, "visited", "verdict", "offered")
    return {
        **found,
        "held_behind": entry.get("held_behind"),
        "start": entry["failed"],
        "victims": None if victims is None else [victims[0], victims[1], victims[2:]],
        "victims_again": entry["retry_victims_at"],
        "order_at": entry.get("order_at"),
        "memo": entry.get("memo"),
        "bounds": entry.get("bounds"),
    }


# By version, the function that converts to the next one.
_CONVERTERS: dict[int, Callable[[Plain], Plain]] = {3: _from_3, 4: _from_4}
