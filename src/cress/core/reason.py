"""The reason why a job waits: the first gate that refuses its next unit, its place in the order, or missing room."""

from __future__ import annotations

import msgspec
import numpy as np

from cress.core.accounts import AtBound
from cress.core.advance.telling import time_of_day
from cress.core.books import Books
from cress.core.cycle import Cycle
from cress.core.diagnostics.amounts import say_never_allowed
from cress.core.diagnostics.kinds_of_nodes import has_of_kinds
from cress.core.diagnostics.short_parts import named, never_part
from cress.core.gates.advance import reserved_ahead
from cress.core.gates.gate import veto_of
from cress.core.gates.gates import Gates
from cress.core.gates.room import bound_of_gang, closed_nodes, later_start, missing_names, no_room
from cress.core.groups.guarantees import dearest_charge, may_be_dear, too_dear_on
from cress.core.groups.running_limits import head_of, that_may_start
from cress.core.jobs import JobEntry, Rights
from cress.core.making_room.evictions import Evictions
from cress.core.placing.constraints import Wants
from cress.core.placing.kinds import lasting_wants
from cress.core.placing.vetoes import Verdict, Veto
from cress.core.questions import bounds_never_allow, never_fits
from cress.core.queueing import out_of_queue
from cress.core.tree.tree import below_quota_against, branches
from cress.core.unit_constraints import combination
from cress.model.resources import ResourceVector


class Reasons:
    """Tells why jobs wait, by the gates, the books and the last pass."""

    def __init__(self, books: Books, gates: Gates, evictions: Evictions, cycle: Cycle) -> None:
        self._books = books
        self._gates = gates
        self._evictions = evictions
        self._cycle = cycle

    def why_waiting(self, job_id: int) -> Veto | None:
        """Return the first gate of the cycle that holds back the next unit of the job; ``None`` if no task of it
        waits.
        """
        core = self._books
        job = core.jobs.get(job_id)
        if job is None or not job.is_waiting:
            return None
        veto = self._first_reason(job)
        if veto.until is not None:
            veto = msgspec.structs.replace(veto, ends=time_of_day(core, veto.until))
        if job.waits_whole:
            veto = msgspec.structs.replace(veto, whole=job.as_unit.type.value)
        if not (job.queued and job.shares_node and job.unit()) or veto.kind is Verdict.MOVING:
            return veto
        running = job.still_running()
        return msgspec.structs.replace(
            veto,
            together=tuple(dict.fromkeys(other.job.counted_as for other, _ in job.unit())),
            together_on=core.cluster.names[running[0].node] if running else "",
            beside=job.upcoming in job.foreseen.homes,
        )

    def _first_reason(self, job: JobEntry) -> Veto:
        core, gates = self._books, self._gates
        if (outside := self._outside(job)) is not None:
            return outside
        if job.shares_node and (veto := _of_unit(core, job)) is not None:
            return veto
        if (veto := gates.veto(job)) is not None:
            return veto
        if job.group.visited != core.pass_number or job.foreseen.arrived == core.pass_number:
            return self._unvisited(job)
        without_room = not core.fit.has_free(job.shape) or self._behind(job) is not None
        if without_room and (veto := gates.veto_without_room(job)) is not None:
            return veto
        return (
            self._behind(job)
            or reserved_ahead(core, job)
            or self._owed(job)
            or self._too_dear(job)
            or later_start(core, job)
            or self._held_to_quota(job)
            or no_room(core, job)
        )

    def _outside(self, job: JobEntry) -> Veto | None:
        """Return the veto of a job that is in no queue, has claimed tasks, or could never run."""
        core, kind = self._books, out_of_queue(job)
        if kind is Verdict.HELD:
            return veto_of(job, kind)
        if kind is Verdict.AFTER:
            assert job.behind is not None
            return veto_of(job, kind, core.jobs.get(job.behind))
        if kind is Verdict.TOGETHER:
            leader = job.carried[min(job.carried)]
            kind = Verdict.AS_WHOLE if leader.waits_whole else kind
            return veto_of(job, kind, leader, because=self.why_waiting(leader.job.id))
        if never_fits(core, job.as_unit):
            return _beyond_cluster(core, job)
        bound = bounds_never_allow(core, job)
        # Absent nodes may come back, and then more is left beside what other groups keep.
        if bound is not None and (bound.account or not any(core.cluster.lost)):
            kind = Verdict.MAX_QUOTA if bound.account else Verdict.KEPT
            told = say_never_allowed(core, job, bound)
            return veto_of(job, kind, never=True, at_bound=(bound,), bounded=told)
        if job.has_claimed:
            claim = next(claim for claim in job.claims if claim.tasks)
            places = tuple(dict.fromkeys(core.cluster.names[f] for f, _ in claim.reservation.nodes))
            return veto_of(job, Verdict.VICTIMS, until=claim.expected, places=places)
        if kind is Verdict.BACKOFF:
            times = job.later.values()
            return veto_of(job, kind, until=max(times) if job.job.gang else min(times))
        if kind is Verdict.FULL:
            return veto_of(job, kind, at_bound=(AtBound("", job.most, len(job.attempts)),))
        return None if kind is None else veto_of(job, kind)

    def _unvisited(self, job: JobEntry) -> Veto:
        """Return the veto of a job whose group the last pass did not reach."""
        blocked = self._cycle.last.last_blocked
        if blocked is not None and self._cycle.others_may_be_below_quota() and job.group.held_behind is not None:
            blocked = job.group.held_behind
        # The cycle examined the first job of the group; the others are behind it.
        head = head_of(job.group)
        shape = None if head is None else head.shape
        if blocked is not None and not below_quota_against(job.group, blocked.group, shape):
            return _behind_blocked(self._books, job, blocked)
        return veto_of(job, Verdict.UNVISITED)

    def _behind(self, job: JobEntry) -> Veto | None:
        """Return the veto of a job that the policy of its group does not offer, because another one comes first."""
        group, passed_over = job.group, self._gates.passed_over
        if group.policy.plans and group.counters:
            planned = (other for other in group.policy.looked_at(passed_over) if other is job or not passed_over(other))
            if job not in that_may_start(group, planned):
                # The jobs before it will take the remaining places.
                return veto_of(job, Verdict.BEHIND, group.offered or head_of(group))
        if job is group.offered or group.policy.looks_at(job, passed_over):
            return None
        first = group.offered or next((other for other in group.policy if not passed_over(other)), None)
        return veto_of(job, Verdict.BEHIND, first or head_of(group))

    def _owed(self, job: JobEntry) -> Veto | None:
        """Return the veto of a unit that has room which another group would take back at once."""
        last = self._cycle.last
        owed = self._evictions.taken_back_by(job, last)
        cluster = self._books.cluster
        if owed is None and last.owed and (may_be_dear(job, cluster) or too_dear_on(job, cluster) is not None):
            owed = self._evictions.taken_back_by(job, last, charge=dearest_charge(job, cluster))
        if owed is None or not self._books.fit.has_free(job.shape):
            return None
        return veto_of(job, Verdict.OWED, owed)

    def _too_dear(self, job: JobEntry) -> Veto | None:
        """Return the veto of a unit that has room only where it takes its group, which cools off, beyond its rights.

        What a task is charged depends on its node, so that the gate, which asks for the least charge, lets it pass.
        """
        group, gates = job.group, self._gates
        # Where starts are planned, the last verdict is about the unit whose start had come.
        planned = group.policy.plans and job is group.offered and group.verdict is Verdict.OWED
        if not (planned or self._cycle.last.too_dear.get(job) is Rights.ABOVE):
            return None
        if not (gates.must_cool(group) and self._books.fit.has_free(job.shape)):
            return None
        return gates.rights.veto(job, Rights.ABOVE)

    def _held_to_quota(self, job: JobEntry) -> Veto | None:
        """Return the veto of the unit offered by its group, if it must wait for a unit ahead without a known start."""
        if job is job.group.offered and job.group.verdict is Verdict.QUOTA:
            return _behind_blocked(self._books, job, self._cycle.last.last_blocked)
        return None


def _beyond_cluster(core: Books, job: JobEntry) -> Veto:
    """Return the veto of a job that no node, or not even all nodes together, could ever hold."""
    if job.shape.kinds:
        return _never_in_parts(core, job)
    # An absent node may come back.
    if job.queued and (closed := closed_nodes(core, job)):
        return veto_of(job, Verdict.NO_NODE, closed=closed)
    return _never(
        core, job, job.job.request, core.asking.as_asked((job.job,), lasting_wants(job.as_unit, core.dimensions))
    )


def _of_unit(core: Books, job: JobEntry) -> Veto | None:
    """Return the veto of a unit of several jobs that is being moved, or that no node could ever hold."""
    running = job.still_running()
    if job.moving:
        places = (core.cluster.names[running[0].node],)
        return veto_of(job, Verdict.MOVING, running[0].job, places=places)
    unit = job.unit()
    if not unit or job.upcoming in job.foreseen.homes:
        return None
    request, wants = combination(
        core.relations.dependencies, job, unit, core.now, core.balance.utilisation, lasting=True
    )
    wants = core.asking.unit_as_asked(job, wants)
    if core.fit.ever_fits(request, wants):
        return None
    # Companions may end or be cancelled, so the veto is not permanent.
    return msgspec.structs.replace(_never(core, job, request, wants), never=False)


def _never(core: Books, job: JobEntry, request: ResourceVector, wants: Wants) -> Veto:
    """Return the veto of a job, or of its unit with this request and these wants, that can never run on this
    cluster.
    """
    cluster = core.cluster
    if not core.fit.ever_fits(request):
        return veto_of(job, Verdict.NEVER, never=True, nodes=cluster.usable_count)
    if few := core.relations.licences.never(wants.licences):
        return veto_of(job, Verdict.LICENCE, never=True, at_bound=few)
    kind = Verdict.NEVER_TOGETHER if core.fit.ever_fits(request, wants) else Verdict.NEVER_SATISFIED
    there = cluster.present()
    clauses = core.matching.never(wants, there)
    fit = there[core.matching.ever(wants)[there]]
    small = np.array([cluster.capacity_of(f) for f in fit.tolist()]).reshape(len(fit), cluster.k_count) < np.array(
        request
    )
    lacking = zip(core.dimensions.names, small.sum(axis=0).tolist(), strict=True)
    return veto_of(
        job,
        kind,
        never=True,
        nodes=len(there),
        clauses=clauses,
        lacking=tuple(each for each in lacking if each[1]),
        missing=missing_names(core, job, wants, clauses),
        bound=bound_of_gang(core, job, wants),
    )


def _never_in_parts(core: Books, job: JobEntry) -> Veto:
    """Return the veto of a gang of several kinds of tasks that can never run on this cluster: one kind, or the
    whole.
    """
    found = never_part(core, job.job)
    if found is None:
        nodes, bound = core.cluster.usable_count, bound_of_gang(core, job, lasting_wants(job.job, core.dimensions))
        return veto_of(job, Verdict.NEVER_TOGETHER, never=True, nodes=nodes, bound=bound)
    kind, wants = found
    veto = _never(core, job, kind.job.request, wants)
    return msgspec.structs.replace(veto, details=(f"this applies to {named(job.job, kind)}",))


def _behind_blocked(core: Books, job: JobEntry, blocked: JobEntry | None) -> Veto:
    """Return the veto of a unit behind a blocked one.

    In a tree it names the group, where their paths part, that is not below its quota.
    """
    parted = branches(job.group, blocked.group) if blocked is not None and job.group.parent is not None else None
    details = has_of_kinds(core, job) if job.queued else ()
    level = "" if parted is None or parted[0] is job.group else parted[0].name
    return veto_of(job, Verdict.QUOTA, blocked, details=details, level=level)
