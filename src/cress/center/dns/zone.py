"""The zone: the names below the domain of the cluster, and the places behind each.

``JOB.GROUP`` has all places of the jobs with a name, ``TASK.JOB.GROUP`` those of one task, ``aATTEMPT.JOB.GROUP`` one
place. The prefixes ``_PORT._tcp`` and ``_PORT._udp`` ask for one port by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from cress.center.dns.labels import label_of, labels_of
from cress.lifecycle.name_service import Place
from cress.lifecycle.name_table import PlaceChange

PROTOCOLS = ("_tcp", "_udp")


class FoundPlaces(NamedTuple):
    """The places of a name; none if the name only has others below it.

    ``port`` is the requested port (empty: every port). ``is_service`` says that the name begins with a port or
    protocol.
    """

    places: Sequence[Place] = ()
    port: str = ""
    is_service: bool = False


class _Job:
    """The places of the jobs with one name in one group."""

    __slots__ = ("places", "tasks")

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self.tasks: dict[int, dict[int, Place]] = {}

    def add(self, place: Place) -> None:
        self.places[place.attempt] = place
        self.tasks.setdefault(place.task, {})[place.attempt] = place

    def remove(self, place: Place) -> None:
        del self.places[place.attempt]
        task = self.tasks[place.task]
        del task[place.attempt]
        if not task:
            del self.tasks[place.task]


class Zone:
    """Places by the labels of group and job.

    ``services`` returns the labels of live services and databases by the label of their group. Their names exist even
    while they have no ready task.
    """

    def __init__(self, services: Callable[[], Mapping[str, frozenset[str]]] = dict) -> None:
        self._groups: dict[str, dict[str, _Job]] = {}
        self._services = services

    def load(self, places: Iterable[Place]) -> None:
        """Replace all places."""
        self._groups.clear()
        for place in places:
            self._add(place)

    def change(self, changes: Iterable[PlaceChange]) -> None:
        """Apply changes of places."""
        for change in changes:
            if change.before is not None:
                self._remove(change.before)
            if change.after is not None:
                self._add(change.after)

    def find(self, labels: Sequence[str]) -> FoundPlaces | None:
        """Return the places of a name below the domain, given as labels in lower case; None for an unknown name."""
        if not labels:
            return FoundPlaces()
        *before, group = labels
        if not before:
            return FoundPlaces() if group in self._groups or group in self._services() else None
        *before, name = before
        job = self._groups.get(group, {}).get(name)
        if job is None:
            return FoundPlaces() if not before and name in self._services().get(group, ()) else None
        return _in_job(job, before)

    def is_alone(self, place: Place) -> bool:
        """Return whether the name of this place's task has no other place."""
        group, name = labels_of(place)
        return len(self._groups[group][name].tasks[place.task]) == 1

    def _add(self, place: Place) -> None:
        if not place.name:
            return
        group, name = labels_of(place)
        self._groups.setdefault(group, {}).setdefault(name, _Job()).add(place)

    def _remove(self, place: Place) -> None:
        if not place.name:
            return
        group, name = labels_of(place)
        jobs = self._groups[group]
        jobs[name].remove(place)
        if not jobs[name].places:
            del jobs[name]
            if not jobs:
                del self._groups[group]


def labels_by_group(names: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return the labels of names, by the label of the group, from pairs of a group and a name."""
    found: dict[str, set[str]] = {}
    for group, name in names:
        found.setdefault(label_of(group), set()).add(label_of(name))
    return {group: frozenset(labels) for group, labels in found.items()}


def _in_job(job: _Job, before: Sequence[str]) -> FoundPlaces | None:
    places: Sequence[Place] = list(job.places.values())
    service = list(before)
    if service and service[-1] not in PROTOCOLS:
        one = _one(job, service.pop())
        if one is None:
            return None
        places = one
    if not service:
        return FoundPlaces(places)
    return _with_port(places, service)


def _one(job: _Job, label: str) -> Sequence[Place] | None:
    """Return the places of a task or an attempt by its label."""
    if label.isascii() and label.isdigit() and str(int(label)) == label:
        return list(job.tasks.get(int(label), {}).values()) or None
    if label[:1] == "a" and label[1:].isascii() and label[1:].isdigit():
        place = job.places.get(int(label[1:]))
        return None if place is None else (place,)
    return None


def _with_port(places: Sequence[Place], service: Sequence[str]) -> FoundPlaces | None:
    """Return the places with a port, for ``_PORT._tcp``; ``_tcp`` alone exists where a place has ports."""
    if len(service) > 2 or service[-1] not in PROTOCOLS:
        return None
    if len(service) == 1:
        return FoundPlaces(is_service=True) if any(place.ports for place in places) else None
    port = service[0][1:]
    if service[0][:1] != "_" or not port:
        return None
    having = [place for place in places if any(name.lower() == port for name, _ in place.ports)]
    return FoundPlaces(having, port, is_service=True) if having else None
