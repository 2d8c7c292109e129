"""The text of a notification: JSON for a URL, subject and text of a mail."""

from __future__ import annotations

import time

import msgspec

from cress.center.notifications.delivery import Delivery
from cress.model.notify import Occasion
from cress.protocol.cluster_views import EventView


class NotificationBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON of a notification. ``id`` is the same when a notification is sent again,
    ``occasion`` is a word of ``Occasion``, ``at`` its time in seconds since the epoch.

    ``state`` is the final state of a job that ended, ``reason`` what is known about the cause. ``expected_start`` is
    in seconds since the epoch.
    """

    id: str
    occasion: str
    cluster: str
    at: float
    job: int
    name: str
    group: str
    user: str
    state: str = ""
    reason: str = ""
    expected_start: float | None = None


_SAID = {
    Occasion.STARTED: "has started",
    Occasion.LATE: "may be late",
    Occasion.START_CHANGED: "is expected to start at another time",
}


def delivery(id: str, to: str, occasion: Occasion, event: EventView, cluster: str, expected: float | None) -> Delivery:
    """Return the delivery of a notification about the job of an event; ``expected`` is its expected start."""
    body = NotificationBody(
        id=id,
        occasion=occasion.value,
        cluster=cluster,
        at=event.at,
        job=event.job or 0,
        name=event.name,
        group=event.group,
        user=event.user,
        state=event.state,
        reason=event.text,
        expected_start=expected,
    )
    said = f"has ended: {event.state}" if event.state else _SAID[occasion]
    if event.kind == "job.deadline_missed":
        said = "has missed its deadline"
    named = f"job {event.job}" + (f" ({event.name})" if event.name else "")
    lines = [f"{named} {said}.", ""]
    lines += [f"{what:<15} {value}" for what, value in _rows(event, cluster, expected) if value]
    return Delivery(
        id,
        to,
        msgspec.json.encode(body).decode(),
        f"[{cluster or 'cress'}] {named} {said}",
        "\n".join((*lines, "", f"cress job {event.job}", "")),
        event.number,
        job=event.job or 0,
        group=event.group,
    )


def _rows(event: EventView, cluster: str, expected: float | None) -> list[tuple[str, str]]:
    return [
        ("Cluster", cluster),
        ("Time", _moment(event.at)),
        ("Expected start", "" if expected is None else _moment(expected)),
        ("Group", event.group),
        ("User", event.user),
        ("Reason", " ".join(event.text.split())),
    ]


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
