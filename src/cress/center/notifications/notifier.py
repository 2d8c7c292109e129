"""The notifier: reads the feed of events, and tells the addresses of jobs and groups what became of their jobs."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import OrderedDict
from pathlib import Path

import msgspec

from cress.center.committing.committer import Committer
from cress.center.keeping.notified_position import read_position, write_position
from cress.center.notifications.delivery import Delivery, DeliveryResult, SenderSettings
from cress.center.notifications.messages import delivery
from cress.center.notifications.outbox import Outbox
from cress.center.notifications.watched_jobs import WatchedJobs
from cress.center.process.turns import in_turns
from cress.center.settings import CenterSettings
from cress.model.errors import InputError
from cress.model.notify import Notify, Occasion
from cress.model.records import JobState
from cress.model.times import SECOND
from cress.protocol.cluster_views import EventView
from cress.protocol.regular_files import read_regular
from cress.store.base import StoreError

# Events read at once, and seconds between two looks at the expected starts.
BATCH, LOOK = 500, 10.0
# Seconds between two stores of the position while events come of which nobody is told, and between two looks at what
# was delivered.
STORED_EVERY = 1.0
# Jobs whose expected starts are watched, and jobs whose first start was told already.
MOST_WATCHED, MOST_STARTED = 20_000, 20_000
# An expected start has changed if it moved by more than these: seconds, and a part of the wait that was left.
LEAST_CHANGE, LEAST_PART = 600.0, 0.25
# Seconds between two events about the same host that cannot be told.
PAUSE = 600.0

_WATCHED_KINDS = {
    "task.started": (Occasion.STARTED,),
    "job.deadline_at_risk": (Occasion.LATE,),
    "job.deadline_missed": (Occasion.LATE,),
    "job.ended": (Occasion.ENDED, Occasion.FAILED),
}
_NO_FAILURE = frozenset({JobState.SUCCEEDED.value, JobState.CANCELLED.value})

_log = logging.getLogger("cress.center")


def sender_settings(settings: CenterSettings) -> tuple[SenderSettings, SenderSettings | None]:
    """Return the settings of the processes for URLs and for mail, if there is a mail server. Raises InputError."""
    urls = SenderSettings(hosts=settings.notify_hosts, key=_secret(settings.notify_key, "--notify-key"))
    if not settings.notify_smtp:
        return urls, None
    password = _secret(settings.notify_password, "--notify-password").decode("utf-8", "strict")
    sender = settings.notify_from or f"cress@{socket.getfqdn()}"
    return urls, SenderSettings(
        hosts=settings.notify_hosts, smtp=settings.notify_smtp, password=password, sender=sender
    )


def _secret(path: Path | None, option: str) -> bytes:
    if path is None:
        return b""
    try:
        found = read_regular(path).strip()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", field=option) from None
    if not found:
        raise InputError(f"{path} is empty", hint="openssl rand -hex 32 > FILE", field=option)
    return found


class Notifier:
    """Tells addresses while its center leads."""

    def __init__(self, committer: Committer, urls: SenderSettings, mail: SenderSettings | None) -> None:
        self._committer = committer
        self._urls = Outbox(urls, self._told)
        self._mail = None if mail is None else Outbox(mail, self._told)
        self._handled = 0
        self._stored = -1
        self._store_at = 0.0  # the earliest time at which the position is stored again, if nobody was told of anything
        self._told_some = False  # since it was stored
        self._started: OrderedDict[int, None] = OrderedDict()
        self._watched = WatchedJobs(MOST_WATCHED)
        self._complained: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        committer = self._committer
        feed = committer.events
        self._handled = min(max(read_position(committer.settings.data, feed.last), feed.first - 1), feed.last)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._urls.run(), name="notifications to URLs")
            if self._mail is not None:
                tasks.create_task(self._mail.run(), name="notifications by mail")
            tasks.create_task(self._expected_starts(), name="changed starts")
            try:
                await self._look_again_and_again()
            finally:
                if (done := self._delivered()) != self._stored:
                    write_position(committer.settings.data, done)

    async def _look_again_and_again(self) -> None:
        while True:
            try:
                await self._look()
            except StoreError as error:
                _log.warning("notifications wait: %s", error)
                await asyncio.sleep(LOOK)
            except Exception:  # noqa: BLE001 – one event must not end all notifications
                _log.exception("an event was told to nobody")
                self._handled += 1
                await asyncio.sleep(1)

    async def _look(self) -> None:
        feed = self._committer.events
        await feed.wait(self._handled, LOOK if self._stored == self._handled else STORED_EVERY)
        self._handled = max(self._handled, feed.first - 1)
        events = feed.after(self._handled, BATCH)
        async for event in in_turns(events):
            await self._handle(event)
            self._handled = event.number
        done = self._delivered()
        now = time.monotonic()
        # Events that nobody is told of may be looked at again after a crash: each step would else wait for the disk.
        if done != self._stored and (self._told_some or now >= self._store_at):
            self._stored, self._store_at, self._told_some = done, now + STORED_EVERY, done < self._handled
            await asyncio.to_thread(write_position, self._committer.settings.data, done)

    def _delivered(self) -> int:
        """Return the number of the last event before which nothing is open."""
        boxes = [box for box in (self._urls, self._mail) if box is not None]
        opened = [number for box in boxes if (number := box.first_open) is not None]
        return min((number - 1 for number in opened), default=self._handled)

    async def _handle(self, event: EventView) -> None:
        if event.job is None:
            return
        if event.kind == "job.submitted":
            self._watch(event.job)
        occasions = _WATCHED_KINDS.get(event.kind, ())
        if not occasions or (event.kind == "task.started" and not self._starts(event)):
            return
        entries = await self._entries(event)
        if not entries:
            return
        event = self._complete(event)
        failed = event.kind == "job.ended" and event.state not in _NO_FAILURE
        for place, (owner, entry) in enumerate(entries):
            for occasion in reversed(occasions):
                if occasion in entry.on and (failed or occasion is not Occasion.FAILED):
                    self._tell(f"{event.number}.{place}", owner, entry, occasion, event)
                    break

    def _starts(self, event: EventView) -> bool:
        """Return whether the task that has started is the first one of its job."""
        job = self._committer.machine.jobs.get(event.job or 0)
        number = event.job or 0
        if number in self._started or (job is not None and abs(job.started / SECOND - event.at) > 1e-3):
            return False
        self._started[number] = None
        while len(self._started) > MOST_STARTED:
            self._started.popitem(last=False)
        return True

    async def _entries(self, event: EventView) -> list[tuple[str, Notify]]:
        """Return the addresses of the job of an event, and of its group, each with the user or group that named it."""
        committer = self._committer
        run = committer.run(event.job or 0)
        if run is None and event.kind == "job.ended":
            record = await committer.history.job(event.job or 0)
            run = None if record is None else record.run
        group = committer.machine.core.groups.by_name.get(event.group)
        of_user = [] if run is None else [(run.user, entry) for entry in run.notify]
        return of_user + ([] if group is None else [(f"group {event.group}", entry) for entry in group.spec.notify])

    def _complete(self, event: EventView) -> EventView:
        """Return an event of a task with the name and the user of its job."""
        run = None if event.user and event.name else self._committer.run(event.job or 0)
        if run is None:
            return event
        return msgspec.structs.replace(event, name=event.name or run.name, user=event.user or run.user)

    def _tell(
        self, id: str, owner: str, entry: Notify, occasion: Occasion, event: EventView, expected: float | None = None
    ) -> None:
        committer = self._committer
        self._told_some = True
        outbox = self._mail if entry.mailbox else self._urls
        made = delivery(id, entry.to, occasion, event, committer.settings.cluster, expected)
        made = msgspec.structs.replace(made, owner=owner)
        if outbox is None:
            self._complain(made, "this center has no mail server (--notify-smtp)")
        elif not outbox.put(made):
            committer.counters.notifications["dropped"] += 1

    def _told(self, sent: Delivery, result: DeliveryResult) -> None:
        if result.problem:
            self._complain(sent, result.problem)
        else:
            self._committer.counters.notifications["sent"] += 1

    def _complain(self, sent: Delivery, problem: str) -> None:
        self._committer.counters.notifications["failed"] += 1
        host = Notify(sent.to, ()).host
        now, what = time.monotonic(), (sent.owner, host)
        if now - self._complained.get(what, -PAUSE) < PAUSE:
            return
        if len(self._complained) > MOST_WATCHED:
            self._complained.clear()
        self._complained[what] = now
        _log.warning("a notification for %s was given up: %s", host, problem)
        text = f"{host} was not told about {sent.subject}: {problem}"
        # Whoever does not see the job does not learn of its addresses either.
        self._committer.tell(EventView(kind="notification.failed", job=sent.job or None, group=sent.group, text=text))

    def _watch(self, number: int) -> None:
        run = self._committer.run(number)
        if run is None or not any(Occasion.START_CHANGED in entry.on for entry in run.notify):
            return
        self._watched.add(number, run.user)

    async def _watch_earlier(self) -> None:
        """Watch the jobs that were submitted before this center began to lead."""
        jobs = self._committer.machine.core.jobs
        async for number in in_turns(list(jobs)):
            if number in jobs and jobs[number].waiting:
                self._watch(number)

    async def _expected_starts(self) -> None:
        await self._watch_earlier()
        while True:
            await asyncio.sleep(LOOK)
            async for number in in_turns(list(self._watched)):
                self._compare(number)

    def _compare(self, number: int) -> None:
        committer = self._committer
        job = committer.machine.jobs.get(number)
        if job is None or job.started:
            self._watched.discard(number)
            return
        now = committer.machine.utc
        start = committer.expected_starts.of(number, now)
        if start is None or start.likely is None:
            return
        likely = start.likely / SECOND
        before = self._watched.told(number)
        left = max(0.0, (before if before is not None else likely) - now / SECOND)
        if before is not None and abs(likely - before) <= max(LEAST_CHANGE, LEAST_PART * left):
            return
        self._watched.tell(number, likely)
        run = committer.run(number)
        if before is None or run is None:
            return
        event = EventView(at=now / SECOND, job=number, group=run.group, name=run.name, user=run.user)
        for place, entry in enumerate(run.notify):
            if Occasion.START_CHANGED in entry.on:
                self._tell(f"{number}.{likely:.0f}.{place}", run.user, entry, Occasion.START_CHANGED, event, likely)
