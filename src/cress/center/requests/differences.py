"""Differences between a job as it runs and as a file has it, key by key.

Both are compared as they were submitted, so that keys and values are spelled as in the files. A key whose value is
written in another way but means the same is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cress.model.job import Job
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.key import FAMILY
from cress.model.jobfile.keys import ALIASES, BY_NAME
from cress.model.jobfile.reader import plain
from cress.model.run import Run
from cress.protocol.job_views import KeyChange

# Keys that say nothing about the job: dependencies count only when it is created.
_NOT_COMPARED = frozenset({"name", "group", "type", "after", "hold", "tasks"})
_KEYS = {plain(name): name for name in BY_NAME} | {plain(alias): name for alias, name in ALIASES.items()}
MOST_SHOWN = 200


def changes_of_keys(before: Job, run: Run | None, job: Job, spec: JobSpec) -> tuple[KeyChange, ...]:
    """Return the keys whose values differ, in the order of the table of keys."""
    found: list[KeyChange] = []
    if before.tasks != job.tasks and not getattr(job.plan, "timetable", ()):
        found.append(KeyChange(key="tasks", before=str(before.tasks), after=str(job.tasks)))
    old, new = _mapping(run.source if run is not None else ""), _mapping(spec.run.source)
    if run is None or not old or not new:
        return tuple(found)
    for key in (name for name in BY_NAME if name not in _NOT_COMPARED):
        one, other = old.get(key), new.get(key)
        if one != other and not _means_the_same(key, (before, run), (job, spec.run)):
            found += _below(key, one, other)
    return tuple(found)


def differences_of(one: str, other: str) -> tuple[KeyChange, ...]:
    """Return the keys whose values differ between two jobs as submitted."""
    old, new = _mapping(one), _mapping(other)
    found: list[KeyChange] = []
    for key in (name for name in BY_NAME if name not in _NOT_COMPARED):
        if old.get(key) != new.get(key):
            found += _below(key, old.get(key), new.get(key))
    return tuple(found)


def scaled_back(before: Job, run: Run | None, job: Job) -> bool:
    """Return whether a job was scaled since its version was applied with ``job.tasks`` tasks."""
    written = _mapping(run.source if run is not None else "").get("tasks", 1)
    return before.tasks != job.tasks and str(written) == str(job.tasks)


def _mapping(source: str) -> dict[str, Any]:
    """Return the job as submitted, by the names of its keys."""
    try:
        decoded = msgspec.json.decode(source) if source else {}
    except msgspec.DecodeError:
        return {}
    if not isinstance(decoded, dict):
        return {}
    return {_KEYS.get(plain(str(key)), str(key)): value for key, value in decoded.items()}


def _means_the_same(key: str, before: tuple[Job, Run], after: tuple[Job, Run]) -> bool:
    """Return whether the values of a key were read as the same ones; False if no field has the value of this key."""
    into = BY_NAME[key].into
    structs: dict[str, tuple[Any, Any]] = {
        "job": (before[0], after[0]),
        "run": (before[1], after[1]),
        FAMILY[0]: (before[0].plan, after[0].plan),
    }
    if key == "resource":
        return before[0].request == after[0].request and before[1].limits == after[1].limits
    fields = [struct for struct in into if struct in structs]
    return bool(fields) and all(
        getattr(structs[struct][0], key, None) == getattr(structs[struct][1], key, None) for struct in fields
    )


def _below(key: str, one: object, other: object) -> Iterator[KeyChange]:
    """Yield the change of a key; of a mapping those of its entries."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*one, *other]):
            if one.get(name) != other.get(name):
                yield KeyChange(key=f"{key}.{name}", before=_shown(one.get(name)), after=_shown(other.get(name)))
    else:
        yield KeyChange(key=key, before=_shown(one), after=_shown(other))


def _shown(value: object) -> str | None:
    """Return a value as text of limited length; ``None`` if it is not given."""
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
