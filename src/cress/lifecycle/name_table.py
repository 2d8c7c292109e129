"""The name table: the places of all running tasks by job name, updated by the row changes of each step.

It contains only stored data: a step changes it once its record is durable. The latest changes are kept, so that a
reader who was cut off can continue after the last revision it knows (design note 0019).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cress.lifecycle.context import Context
from cress.lifecycle.name_service import Place, order, place_of
from cress.lifecycle.tables.changes import RowChanges, TableChanges

# Maximum number of changes kept for readers who were cut off.
MOST_KEPT = 20_000
# Fields of a job and a node from which places are made.
_OF_JOB, _OF_NODE = frozenset({"job", "kept", "index"}), frozenset({"node"})
_NO_CHANGES = TableChanges()


class NamesRevision(NamedTuple):
    """The state of the table after a numbered record. Numbers of different epochs cannot be compared."""

    epoch: str
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"


def parse_revision(text: str) -> NamesRevision | None:
    """Parse the text of a revision; None if it is invalid."""
    epoch, _, number = text.rpartition("-")
    if not (epoch and number.isascii() and number.isdigit() and len(number) < 19):
        return None
    return NamesRevision(epoch, int(number))


class PlaceChange(NamedTuple):
    """The change of one attempt's place by a numbered record: None where it has no place."""

    number: int
    before: Place | None
    after: Place | None

    @property
    def name(self) -> str:
        """The name of its job."""
        place = self.after or self.before
        assert place is not None
        return place.name


class NameTable:
    """Places by job name, and by attempt. ``revision`` is that of the last applied step."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self.revision = NamesRevision("", 0)
        self._places: dict[int, Place] = {}
        self._by_name: dict[str, dict[int, Place]] = {}
        self._changes: deque[PlaceChange] = deque()
        self._most_kept = most_kept
        self._known_since = 0  # all changes after this number are kept

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places.values())

    def __len__(self) -> int:
        return len(self._places)

    def load(self, context: Context, revision: NamesRevision) -> None:
        """Load a whole state, of a new epoch."""
        self.revision = revision
        self._known_since = revision.number
        self._changes.clear()
        self._places.clear()
        self._by_name.clear()
        for attempt in context.attempts.values():
            place = place_of(context, context.jobs[attempt.job], attempt)
            if place is not None:
                self._put(place)

    def stepped(self, context: Context, rows: RowChanges, number: int) -> list[PlaceChange]:
        """Apply the changes that a step made to the rows of ``context``, stored as record ``number``."""
        self.revision = self.revision._replace(number=number)
        changed: list[PlaceChange] = []
        for attempt in dict.fromkeys(_touched(context, rows)):
            live = context.attempts.get(attempt)
            now = None if live is None else place_of(context, context.jobs[live.job], live)
            before = self._places.get(attempt)
            if now == before:
                continue
            if before is not None:
                self._remove(before)
            if now is not None:
                self._put(now)
            changed.append(PlaceChange(number, before, now))
        self._keep(changed)
        return changed

    def places(self, name: str, group: str | None = None) -> list[Place]:
        """Return the places of all jobs with a name, in one group or in any, by job and task."""
        found = self._by_name.get(name, {}).values()
        return sorted((place for place in found if group is None or place.group == group), key=order)

    def since(self, name: str, revision: NamesRevision) -> list[PlaceChange] | None:
        """Return the changes of a name after a revision, in order; None if some are no longer kept."""
        now = self.revision
        if revision.epoch != now.epoch or not self._known_since <= revision.number <= now.number:
            return None
        found: list[PlaceChange] = []
        for change in reversed(self._changes):
            if change.number <= revision.number:
                break
            if change.name == name:
                found.append(change)
        return found[::-1]

    def _put(self, place: Place) -> None:
        self._places[place.attempt] = place
        self._by_name.setdefault(place.name, {})[place.attempt] = place

    def _remove(self, place: Place) -> None:
        del self._places[place.attempt]
        there = self._by_name[place.name]
        del there[place.attempt]
        if not there:
            del self._by_name[place.name]

    def _keep(self, changed: Iterable[PlaceChange]) -> None:
        self._changes.extend(changed)
        while len(self._changes) > self._most_kept:
            self._known_since = self._changes.popleft().number


def _touched(context: Context, rows: RowChanges) -> Iterator[int]:
    """Yield the attempts whose place may have changed; some twice."""
    attempts = rows.get("attempts", _NO_CHANGES)
    yield from attempts.removed
    for changes in (attempts.written, attempts.changed):
        for number, _ in changes:
            yield number
    for number in _keys(rows.get("jobs", _NO_CHANGES), _OF_JOB):
        job = context.jobs.get(number)
        if job is not None:
            yield from job.attempts
    for name in _keys(rows.get("nodes", _NO_CHANGES), _OF_NODE):
        yield from context.attempts_on.get(name, ())


def _keys(changes: TableChanges, fields: frozenset[str]) -> Iterator[Any]:
    """Yield the keys of new rows, and of rows with a change of one of these fields."""
    for key, _ in changes.written:
        yield key
    for key, written in changes.changed:
        if _writes(written, fields):
            yield key


def _writes(written: Mapping[str, object], fields: frozenset[str]) -> bool:
    return not fields.isdisjoint(written)
