"""Plain twins for the tests: EASY and FIFO on one node of processors, as lists and loops, nothing clever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cress.model.decisions import Decision, Decisions, Start
from cress.model.events import Event, GroupsApplied, JobSubmitted, NodeAdded, TaskEnded
from cress.model.job import Job
from cress.model.resources import ResourceVector


@dataclass(frozen=True)
class LogJob:
    """A line of a processor log; times in seconds."""

    submit: int
    run: int
    procs: int
    limit: int


def easy_starts(jobs: Sequence[LogJob], processors: int) -> list[int]:  # noqa: C901, a plain twin stays in one piece
    """The start of every job under EASY, the events of one second handled one at a time.

    The rules: submissions first, in the order of the log, then completions in the order of the starts; before
    any event, tasks whose predicted end has come give back their processors; a submission leads to a pass only
    if the job fits into what is free, a completion always does.
    """
    starts: dict[int, int] = {}
    running: list[int] = []  # in the order of their starts, until the completion was handled
    holding: list[int] = []  # those that hold processors
    queue: list[int] = []
    position, now = 0, 0

    def free() -> int:
        return processors - sum(jobs[j].procs for j in holding)

    def predicted(j: int) -> int:
        return starts[j] + jobs[j].limit

    def start(j: int) -> None:
        starts[j] = now
        queue.remove(j)
        running.append(j)
        holding.append(j)

    def give_back() -> None:
        for j in list(holding):
            if predicted(j) <= now:
                holding.remove(j)

    def a_pass() -> None:
        while queue and jobs[queue[0]].procs <= free():
            start(queue[0])
        if not queue:
            return
        head = queue[0]
        gained, reserved, extra = free(), 0, 0
        for end in sorted({predicted(j) for j in holding}):
            gained += sum(jobs[j].procs for j in holding if predicted(j) == end)
            if gained >= jobs[head].procs:
                reserved, extra = end, gained - jobs[head].procs
                break
        for j in queue[1:]:
            if jobs[j].procs > free():
                continue
            if now + jobs[j].limit <= reserved:
                start(j)
            elif jobs[j].procs <= extra:
                extra -= jobs[j].procs
                start(j)

    while position < len(jobs) or running:
        ends = [starts[j] + jobs[j].run for j in running]
        times = ([jobs[position].submit] if position < len(jobs) else []) + ends
        now = min(times)
        give_back()
        while position < len(jobs) and jobs[position].submit == now:
            give_back()
            queue.append(position)
            if jobs[position].procs <= free():
                a_pass()
            position += 1
        while True:
            done = [j for j in running if starts[j] + jobs[j].run == now]
            if not done:
                break
            give_back()
            running.remove(done[0])
            if done[0] in holding:
                holding.remove(done[0])
            a_pass()
    return [starts[j] for j in range(len(jobs))]


class PlainCore:
    """EASY (or FIFO) behind the core's interface: one node, the first dimension only, one task a job.

    ``log`` tells what reached it, for tests of the order of events.
    """

    def __init__(self, *, backfill: bool = True) -> None:
        self.backfill = backfill
        self.free = 0
        self.queue: list[Job] = []
        self.running: dict[int, tuple[int, Job]] = {}
        self.log: list[tuple[object, ...]] = []
        self._attempt = 0

    def observe(self, now: int, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, NodeAdded):
                self.free += event.node.capacity[0]
            elif isinstance(event, JobSubmitted):
                self.queue.append(event.job)
                self.log.append((now, "submit", event.job.id))
            elif isinstance(event, TaskEnded):
                _, job = self.running.pop(event.attempt)
                self.free += job.request[0]
                self.log.append((now, "end", job.id))
            elif not isinstance(event, GroupsApplied):
                raise TypeError(event)

    def needs_estimate(self, job: Job) -> bool:
        return False

    def settled(self, jobs: Iterable[int]) -> list[int]:
        return list(jobs)

    def decide(self, now: int) -> Decisions:
        self.log.append((now, "decide"))
        items: list[Decision] = []
        while self.queue and self.queue[0].request[0] <= self.free:
            items.append(self._start(self.queue[0], now))
        if self.queue and self.backfill:
            need = self.queue[0].request[0]
            gained, reserved, extra = self.free, 0, 0
            for end in sorted({end for end, _ in self.running.values()}):
                gained += sum(job.request[0] for each, job in self.running.values() if each == end)
                if gained >= need:
                    reserved, extra = end, gained - need
                    break
            for job in self.queue[1:]:
                if job.request[0] > self.free:
                    continue
                if now + (job.time_limit or 0) <= reserved:
                    items.append(self._start(job, now))
                elif job.request[0] <= extra:
                    extra -= job.request[0]
                    items.append(self._start(job, now))
        return Decisions(items)

    def _start(self, job: Job, now: int) -> Start:
        self.queue.remove(job)
        self.free -= job.request[0]
        self._attempt += 1
        self.running[self._attempt] = (now + (job.time_limit or 0), job)
        return Start(self._attempt, job.id, 0, "machine")

    def next_wakeup(self) -> int | None:
        return None

    def fits_now(self, request: ResourceVector) -> bool:
        return request[0] <= self.free

    def validate(self) -> list[str]:
        return [] if self.free >= 0 else ["capacity"]
