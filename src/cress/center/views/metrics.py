"""The numbers of ``/metrics`` at one moment: families of Prometheus' text format.

Names have the prefix ``cress_`` and base units: seconds, bytes, cores. The number of time series is bounded: by the
groups (``MOST_GROUPS``), dimensions, states and reasons, and never by jobs, users or nodes.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

import cress
from cress.center.committing.committer import Committer
from cress.center.committing.counters import Histogram
from cress.center.process.turns import in_turns
from cress.center.views.jobs import is_up, node_state, used_of
from cress.model.resources import Measure
from cress.model.times import SECOND

# Groups with a label of their own; the others are added up under one name.
MOST_GROUPS = 200
OTHERS = "(others)"
# Seconds for which the reasons of waiting jobs stand, and seconds of processor in which they are looked at.
REASONS_FRESH, REASONS_COST = 10.0, 0.2
NOT_LOOKED_AT = "not looked at"

_THOUSANDTHS = 1000.0

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]


class Scrapes:
    """Makes the families of a center. The reasons of waiting jobs are kept for ``REASONS_FRESH`` seconds."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._reasons_at = -REASONS_FRESH

    async def collected(self) -> list[Metric]:
        """Return the families of this moment."""
        named = self._labels()
        return [
            *self._center(),
            *self._counted(named),
            *(await self._nodes()),
            *(await self._groups(named)),
            *self._tables(),
        ]

    def _labels(self) -> Callable[[str], str]:
        groups = {group.name for group in list(self._committer.machine.core.groups)[:MOST_GROUPS]}
        return lambda name: name if name in groups else OTHERS

    def _center(self) -> Iterator[Metric]:
        committer = self._committer
        loop = committer.loop
        yield _gauge("cress_info", "The version of the center.", ("version",), [((cress.__version__,), 1)])
        yield _gauge("cress_leader", "1 if this center leads, 0 if it stands by.", value=not loop.is_aside)
        problem = bool(committer.problem) and not loop.is_aside
        yield _gauge("cress_cannot_store", "1 if nothing can be stored, so changes are refused.", value=problem)
        yield _gauge("cress_epoch", "The epoch of the leading center: one more with each change.", value=loop.epoch)
        yield _gauge("cress_records", "The number of records that the cluster has stored.", value=loop.number)
        started = committer.started / SECOND
        yield _gauge("cress_started_seconds", "The start of this center, in seconds since the epoch.", value=started)
        worst = committer.watchdog.worst()
        yield _gauge(
            "cress_longest_delay_seconds",
            "The longest time of the last hour for which the center answered nobody; 0 if below 50 ms.",
            value=worst.length if worst else 0.0,
        )

    def _counted(self, named: Callable[[str], str]) -> Iterator[Metric]:
        counters = self._committer.counters
        yield _histogram("cress_step_seconds", "Time of a step: inputs applied, decisions made.", counters.steps)
        yield _histogram("cress_commit_seconds", "Time in which a step is stored.", counters.commits)
        yield _counter("cress_commits_failed", "Steps that could not be stored.", value=counters.commits_failed)
        what = "Time from the placement of a task to the start of its program on the node."
        yield _histogram("cress_dispatch_seconds", what, counters.dispatch)
        yield _histograms(
            "cress_job_wait_seconds", "Time from the submission of a job to its first start.", counters.waits, named
        )
        by_group: tuple[tuple[str, str, Counter[str]], ...] = (
            ("cress_jobs_submitted", "Submitted jobs.", counters.jobs_submitted),
            ("cress_deadlines_missed", "Jobs whose deadline passed.", counters.deadlines_missed),
            ("cress_deadlines_at_risk", "Warnings that a deadline may be missed.", counters.deadlines_at_risk),
        )
        for name, about, found in by_group:
            yield _counter(name, about, ("group",), self._by_group(found, named))
        results = [((result,), number) for result, number in counters.notifications.items()]
        yield _counter("cress_notifications", "Notifications by what became of them.", ("result",), results)
        for name, about, label, pairs in (
            ("cress_jobs_ended", "Ended jobs by final state.", "state", counters.jobs_ended),
            ("cress_attempts_ended", "Ended attempts by outcome.", "outcome", counters.attempts_ended),
        ):
            samples = _added((((named(group), of), number) for (group, of), number in pairs.items()))
            yield _counter(name, about, ("group", label), samples)

    def _by_group(self, found: Mapping[str, float], named: Callable[[str], str]) -> Samples:
        """Return a sample for each group, 0 if there is nothing to count.

        A series that begins with 1 has not increased: an alert on its increase would miss the first time.
        """
        groups = dict.fromkeys((group.name for group in self._committer.machine.core.groups), 0.0)
        return _added(((named(group),), number) for group, number in (groups | dict(found)).items())

    async def _nodes(self) -> list[Metric]:
        committer = self._committer
        machine = committer.machine
        dimensions = machine.core.dimensions
        states: Counter[tuple[str, ...]] = Counter()
        capacity, used = [0] * len(dimensions), [0] * len(dimensions)
        async for node in in_turns(list(machine.nodes.values())):
            running = len(machine.attempts_on.get(node.node.name, ()))
            states[(node_state(committer, node, running)[0],)] += 1
            if is_up(committer, node):
                for k, (whole, part) in enumerate(zip(node.node.capacity, used_of(committer, node), strict=False)):
                    capacity[k] += whole
                    used[k] += part
        scale = [_THOUSANDTHS if dimensions.measure(name) is Measure.MILLI else 1.0 for name in dimensions.names]

        def of(amounts: list[int]) -> Samples:
            return [((name,), n / s) for name, n, s in zip(dimensions.names, amounts, scale, strict=True)]

        return [
            _gauge("cress_nodes", "Nodes by state.", ("state",), states.items()),
            _gauge("cress_executors", "Connected executors.", value=len(committer.loop.joined)),
            _gauge("cress_capacity", "Capacity of the connected nodes.", ("dimension",), of(capacity)),
            _gauge("cress_used", "Use of the connected nodes.", ("dimension",), of(used)),
            _gauge("cress_tasks_running", "Tasks with an attempt.", value=len(machine.attempts)),
        ]

    async def _groups(self, named: Callable[[str], str]) -> list[Metric]:
        core = self._committer.machine.core
        counts = await self._committer.work_counter.counts(self._committer.machine)
        waiting = self._by_group({group: number for group, number in counts.waiting.items() if number}, named)
        running = _added(((named(group.name),), len(group.attempts)) for group in core.groups)
        alone = [group for group in core.groups if named(group.name) != OTHERS]
        ratio = [((group.name,), float(group.ratio())) for group in alone]
        cooling = [((group.name,), float(self._committer.clock.now() < group.cools_until())) for group in alone]
        await self._look_at_reasons()
        reasons = _added((((named(group), why), number) for (group, why), number in self._reasons.items()))
        return [
            _gauge("cress_group_waiting_tasks", "Waiting tasks of a group.", ("group",), waiting),
            _gauge("cress_group_running_tasks", "Running tasks of a group.", ("group",), running),
            _gauge(
                "cress_group_used_ratio",
                "Use of a group divided by its quota, in its largest measure; above 1 it borrows.",
                ("group",),
                ratio,
            ),
            _gauge("cress_group_cooling", "1 while a group cools off after a preemption.", ("group",), cooling),
            _gauge("cress_waiting_tasks", "Waiting tasks by group and reason.", ("group", "reason"), reasons),
        ]

    async def _look_at_reasons(self) -> None:
        """Count the waiting tasks by group and reason; those for which there is no time are ``NOT_LOOKED_AT``."""
        if time.monotonic() - self._reasons_at < REASONS_FRESH:
            return
        machine = self._committer.machine
        found: Counter[tuple[str, str]] = Counter()
        spent = 0.0
        async for number in in_turns(list(machine.jobs)):
            job, entry = machine.jobs.get(number), machine.core.jobs.get(number)
            if job is None or entry is None or not job.waiting:
                continue
            why = NOT_LOOKED_AT
            if spent < REASONS_COST:
                begun = time.perf_counter()
                veto = machine.core.veto(number)
                spent += time.perf_counter() - begun
                why = "starting" if veto is None else veto.kind.value.replace("_", " ")
            found[entry.group.name, why] += job.waiting
        self._reasons, self._reasons_at = found, time.monotonic()

    def _tables(self) -> Iterator[Metric]:
        core = self._committer.machine.core
        licences = core.relations.licences
        names = sorted(licences.counts)
        for name, about, counted in (
            ("cress_licences", "Licences of the cluster.", licences.counts),
            ("cress_licences_used", "Licences in use.", licences.taken),
        ):
            yield _gauge(name, about, ("licence",), [((licence,), counted.get(licence, 0)) for licence in names])
        leases = core.pool.leases.values()
        yield _gauge("cress_leases", "Leases of workloads.", value=len(leases))
        yield _gauge("cress_loans", "Parts of leases lent to others.", value=sum(len(lease.lent) for lease in leases))


class _Families:
    """Families in the form that the library writes."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families, and those of the process."""
        yield from self._families
        yield from ProcessCollector(registry=None).collect()


def written(families: list[Metric]) -> bytes:
    """Return families in Prometheus' text format, with processor time and memory of this process."""
    return generate_latest(_Families(families))


def _added(samples: Samples) -> Samples:
    """Return the sums of samples with equal labels."""
    total: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for labels, number in samples:
        total[labels] += number
    return sorted(total.items())


def _gauge(
    name: str, about: str, labels: tuple[str, ...] = (), samples: Samples = (), *, value: float | None = None
) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for of, number in samples if value is None else [((), value)]:
        family.add_metric(of, float(number))
    return family


def _counter(
    name: str, about: str, labels: tuple[str, ...] = (), samples: Samples = (), *, value: float | None = None
) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for of, number in samples if value is None else [((), value)]:
        family.add_metric(of, float(number))
    return family


def _histogram(name: str, about: str, found: Histogram) -> Metric:
    family = HistogramMetricFamily(name, about)
    family.add_metric((), _buckets(found.bounds, found.counts), found.sum)
    return family


def _histograms(name: str, about: str, found: Mapping[str, Histogram], named: Callable[[str], str]) -> Metric:
    """Return one histogram for each group; those of groups without a label of their own are added up."""
    total: dict[str, Histogram] = {}
    for group, one in sorted(found.items()):
        into = total.setdefault(named(group), Histogram(one.bounds))
        into.counts = [a + b for a, b in zip(into.counts, one.counts, strict=True)]
        into.sum += one.sum
    family = HistogramMetricFamily(name, about, labels=("group",))
    for group, one in total.items():
        family.add_metric((group,), _buckets(one.bounds, one.counts), one.sum)
    return family


def _buckets(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Return the numbers at or below each bound, as Prometheus wants them."""
    found: list[tuple[str, float]] = []
    so_far = 0
    for bound, number in zip((*bounds, float("inf")), counts, strict=True):
        so_far += number
        found.append(("+Inf" if bound == float("inf") else repr(bound), float(so_far)))
    return found
