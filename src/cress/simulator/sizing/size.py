"""A sizing from beginning to end.

It reads, searches the least cluster under each policy, and compares it with separate clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace as changed

from cress.model.errors import InputError
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.groups.measures import total_of
from cress.model.groups.tree import inner_names
from cress.model.job import JobType
from cress.model.node import Node
from cress.model.option_text import parse_assignments, resolve_options
from cress.model.resources import Dimensions
from cress.model.units import format_duration, parse_duration, parse_share, rounded_duration
from cress.model.vectors import describe_vector, names_in, parse_vector
from cress.simulator import run
from cress.simulator.attempts import JobEnd
from cress.simulator.groups import NOWHERE, PolicyChoice, with_policy
from cress.simulator.request import Plan, Result
from cress.simulator.sizing.ample_capacity import is_ample
from cress.simulator.sizing.criteria import DEFAULT_WAIT, Criteria, JobSubset, by_group, by_type, figures_of, stuck_in
from cress.simulator.sizing.kinds import OneNodeKind, Processors, Proportional, Scaling, kinds_of
from cress.simulator.sizing.request import GROUP, TYPE, Comparison, Sized, SizePlan, SizeRequest, Trial
from cress.simulator.sizing.search import OutOfReach, Search
from cress.simulator.sizing.together import SHARED, together
from cress.simulator.traces import GENERATORS
from cress.simulator.workload import NO_LIMIT, SimulatedCluster, Workload

# Called with the label of the simulation, the events so far and the total of events.
Progress = Callable[[str, int, int], None]
# The load at which the search begins, if all work came evenly.
FIRST_LOAD = 0.8

T = TypeVar("T")


def read_criteria(wait_p95: str, missed: str, short: str) -> Criteria:
    """Read the criteria from the texts of their options; the waits count by default if no other criterion is given.

    Raise ``InputError``.
    """
    wait = _read(parse_duration, wait_p95, "--wait-p95") if wait_p95 else None if missed else DEFAULT_WAIT
    return Criteria(
        wait_p95=wait,
        missed=_read(_share, missed, "--deadlines-missed") if missed else None,
        short=_read(_share, short, "--services-short"),
    )


def _read(parse: Callable[[str], T], text: str, option: str) -> T:
    try:
        return parse(text)
    except InputError as error:
        raise error.at(field=option) from None


def _share(text: str) -> float:
    value = float(parse_share(text))
    if not 0 <= value <= 1:
        raise InputError(f"{text!r} is not between 0 and 1", hint="1%, 0.01")
    return value


def plan(request: SizeRequest) -> SizePlan:
    """Read and check all arguments and files. Raise ``InputError``; write nothing."""
    base = request.run
    if request.node_resource and base.cluster is not None:
        raise InputError("cannot be combined with --cluster", hint="only one of them", field="--node-resource")
    if request.separate and request.vary:
        raise InputError(
            "cannot be combined with --separate", hint="separate clusters have all kinds of nodes", field="--vary"
        )
    generated = base.trace.partition(":")[0] in GENERATORS
    own = _two_nodes(request.node_resource, None) if request.node_resource and not generated else None
    ready = run.plan(base, own)
    workload = ready.workload
    if request.node_resource and generated:
        cluster = _two_nodes(request.node_resource, workload.cluster.dimensions)
        ready = replace(ready, workload=replace(workload, cluster=cluster))
        workload = ready.workload
    if workload.cluster.outages or workload.cluster.drains:
        raise InputError("nodes with outages or drains cannot be multiplied", hint="without them", field="--cluster")
    if request.criteria.missed is not None and workload.deadline is None:
        raise InputError("no job has a deadline", hint="--deadlines draws some", field="--deadlines-missed")
    scaling = _scaling(request, workload)
    subsets: tuple[JobSubset, ...] = ()
    if request.separate == GROUP:
        subsets = by_group(ready.group_names, ready.group_of)
    elif request.separate == TYPE:
        subsets = by_type(workload)
    if len(subsets) == 1:
        raise InputError(
            f"all jobs are of one {request.separate}: {subsets[0].name}", hint="without --separate", field="--separate"
        )
    found = SizePlan(request=request, plan=ready, scaling=scaling, subsets=subsets)
    _check_runnable(found)
    _check_deadlines(found)
    return found


def _two_nodes(text: str, dimensions: Dimensions | None) -> SimulatedCluster:
    """Return two nodes of this vector: more than one, so that a log of processors is spread over nodes."""
    try:
        dimensions = dimensions or Dimensions(names_in(text))
        capacity = parse_vector(text, dimensions)
    except InputError as error:
        raise InputError(str(error), field="--node-resource") from None
    if not any(capacity):
        raise InputError("has no resources", hint="<16, 64G>", field="--node-resource")
    return SimulatedCluster(dimensions, tuple(Node(name=f"node-{i + 1}", capacity=capacity) for i in range(2)))


def _scaling(request: SizeRequest, workload: Workload) -> Scaling:
    cluster = workload.cluster
    if len(cluster.nodes) == 1 and request.run.cluster is None:
        if request.vary:
            raise InputError("a log of processors has no kinds of nodes", hint="without --vary", field="--vary")
        return Processors(cluster)
    kinds = kinds_of(cluster)
    return OneNodeKind(cluster, kinds, request.vary) if request.vary else Proportional(cluster, kinds)


def _check_runnable(found: SizePlan) -> None:
    """Raise ``InputError`` if a task fits no node, however many there are.

    Further nodes are copies of the present ones, in their racks.
    """
    ready, scaling = found.plan, found.scaling
    if isinstance(scaling, Processors):
        return
    workload = ready.workload
    single = replace(ready, workload=replace(workload, gang=np.zeros(len(workload), np.bool_)))
    never = run.never_fits(single, ready.choices[0])
    if never.any():
        i = int(np.flatnonzero(never)[0])
        asks = describe_vector(workload.requests[int(workload.request_index[i])], workload.cluster.dimensions)
        clauses, others = run.why_never(single, ready.choices[0], i), int(never.sum()) - 1
        more = f"; {others:,} other job{'s' * (others > 1)} fit{'s' * (others == 1)} on none either" if others else ""
        kind = "a kind of node for which that holds" if clauses else "a larger kind of node"
        raise InputError(
            (
                f"job {workload.ids[i]} fits on no node, however many there are: "
                f"{clauses or f'a task asks for {asks}'}{more}"
            ),
            hint=f"{kind}, or a trace without it",
            file=ready.request.trace,
            line=int(workload.line[i]),
        )


def _check_deadlines(found: SizePlan) -> None:
    """Raise ``InputError`` if too many deadlines are shorter than the run times: these are missed on any cluster."""
    workload, most = found.plan.workload, found.request.criteria.missed
    if most is None or workload.deadline is None:
        return
    jobs = workload.deadline != NO_LIMIT
    # A run of a cron job has a deadline of its own.
    plain = np.array(
        [template.type not in (JobType.CRON, JobType.SERVICE, JobType.DATABASE) for template in workload.templates]
    )
    jobs &= plain[0] if workload.template_index is None else plain[workload.template_index]
    hopeless = jobs & (workload.submit + np.maximum(0, workload.run) > workload.deadline)
    count, whole = int(hopeless.sum()), int((workload.deadline != NO_LIMIT).sum())
    if count <= most * whole:
        return
    i = int(np.flatnonzero(hopeless)[0])
    within = int(workload.deadline[i] - workload.submit[i])
    raise InputError(
        (
            f"no number of {found.scaling.unit} is enough: {count / whole:.2%} of the deadlines are shorter than the "
            f"run times; job {workload.ids[i]} runs for {format_duration(int(workload.run[i]))} and should end within "
            f"{format_duration(within)}"
        ),
        hint="a larger share in --deadlines-missed, or longer deadlines",
        file=found.plan.request.trace,
        line=int(workload.line[i]),
    )


def size_all(found: SizePlan, progress: Progress | None = None) -> list[Comparison]:
    """Search under each policy in turn. Raise ``InputError`` if no size is enough."""
    return [compare(found, choice, progress) for choice in found.plan.choices]


def compare(found: SizePlan, choice: PolicyChoice, progress: Progress | None = None) -> Comparison:
    """Search the shared cluster under one policy, and those of the subsets."""
    separate = tuple(
        _size(found, choice, subset.name, np.flatnonzero(subset.jobs & (found.plan.group_of != NOWHERE)), progress)
        for subset in found.subsets
    )
    everything = np.arange(len(found.plan.workload))
    guess = sum(sized.size for sized in separate) or None
    shared = _size(found, choice, "", everything, progress, guess)
    if not separate:
        return Comparison(shared=shared)
    label = f"{choice.label} {SHARED}"
    result = replace(
        shared.result,
        run=replace(shared.result.run, label=label),
        directory=found.plan.request.out / PolicyChoice(label).directory,
    )
    return Comparison(
        shared=replace(shared, result=result), subsets=separate, separate=together(found.plan, choice.label, separate)
    )


def _size(
    found: SizePlan,
    choice: PolicyChoice,
    subset: str,
    jobs: np.ndarray[tuple[int], np.dtype[np.int64]],
    progress: Progress | None,
    guess: int | None = None,
) -> Sized:
    """Search the least size for these jobs."""
    scaling, criteria = found.scaling, found.request.criteria
    whole = found.plan.workload
    workload = whole if len(jobs) == len(whole) else whole.select(jobs)
    group_of = found.plan.group_of[jobs]
    judged = () if subset else found.subsets
    trials: dict[int, Trial] = {}
    results: dict[int, Result] = {}
    failed: dict[int, Result] = {}
    label = " ".join(word for word in (choice.label, subset) if word)

    def ready_for(size: int) -> Plan:
        cluster = scaling.cluster(size)
        sized = replace(workload, cluster=cluster, groups=fitted_groups(found, cluster, alone=bool(subset)))
        return replace(found.plan, workload=sized, group_of=group_of)

    def simulate(size: int) -> Result:
        def told(_: str, events: int, expected: int) -> None:
            if progress is not None:
                progress(f"{label}: {size:,} {scaling.unit}", events, expected)

        return run.simulate(ready_for(size), choice, told)

    def passes(size: int) -> bool:
        result = simulate(size)
        figures = figures_of(result, judged)
        trials[size] = Trial(size=size, figures=figures, unmet=tuple(criteria.unmet(figures)))
        if trials[size].unmet:
            failed.clear()
            failed[size] = result
            return False
        # Only one result is kept, since those of a long trace are large.
        if not results or size < next(iter(results)):
            results.clear()
            results[size] = result
        return True

    def is_hopeless(size: int) -> bool:
        """Return whether a simulation that failed proves that no larger size is enough."""
        result = failed.get(size)
        if result is None:
            # This size failed before a larger one passed.
            return False
        if result.run.ended(JobEnd.REFUSED).any():
            return True
        rejected = result.run.rejected
        if not rejected.any():
            return is_ample(result, scaling, spare) and not _limits_grow(found, choice, size, alone=bool(subset))
        # The gang has more tasks than all nodes can take: a node for each of its tasks, of every kind and in every
        # rack, is enough.
        ample = min(int(workload.tasks[rejected].max()) * max(1, scaling.given), scaling.most)
        return ample <= size or bool((rejected & run.never_fits(ready_for(ample), choice)).any())

    spare = _kept_apart(found) * scaling.given
    first = guess or _first_guess(workload, scaling)
    try:
        size = Search(passes, is_hopeless, least=scaling.least, most=scaling.most).run(first)
    except OutOfReach as error:
        last = failed[error.size] if error.size in failed else simulate(error.size)
        raise _out_of_reach(found, label, trials[error.size], last) from None
    return Sized(
        policy=choice.label,
        subset=subset,
        size=size,
        kinds=scaling.counts(size),
        trials=tuple(trials[tried] for tried in sorted(trials)),
        workload=workload,
        positions=jobs,
        result=results[size] if size in results else simulate(size),
    )


def fitted_groups(found: SizePlan, cluster: SimulatedCluster, *, alone: bool = False) -> tuple[Group, ...]:
    """Return the groups with quotas that this cluster can provide, at most all of it; ``alone``: exactly all of it.

    Without a file of groups, equal quotas were dealt to the groups of the trace: these grow and shrink with the
    cluster.
    """
    plan, total = found.plan, cluster.total()
    groups, accounting = plan.workload.groups, plan.options.accounting
    whole = total[0] if accounting == "cpu" else len(cluster.nodes) * 1_000_000
    if alone:
        inner, own = inner_names(groups), Quota(scalar=max(1, whole))
        # No other group shares the cluster.
        free: dict[str, Any] = {"windows": (), "parent": "", "max_quota": None, "lendable": None}
        return tuple(changed(group, quota=own, **free) for group in groups if group.name not in inner)
    if any(group.parent for group in groups):
        # The quotas inside a group are parts of its quota, however small the cluster is.
        return groups
    if (
        len({group.quota for group in groups}) == 1
        and not any(group.windows for group in groups)
        and plan.request.groups is None
    ):
        return tuple(changed(group, quota=Quota(scalar=max(1, whole // len(groups)))) for group in groups)

    def fitted(quota: Quota) -> Quota:
        if quota.amounts:
            wholes = [total_of(name, cluster.nodes, cluster.dimensions) for name, _ in quota.amounts]
            return Quota(
                amounts=tuple(
                    (name, max(1, min(amount, most)))
                    for (name, amount), most in zip(quota.amounts, wholes, strict=True)
                )
            )
        return Quota(scalar=max(1, min(quota.scalar, whole)))

    return tuple(
        changed(
            group,
            quota=fitted(group.quota),
            windows=tuple(changed(window, quota=fitted(window.quota)) for window in group.windows),
        )
        for group in groups
    )


def _limits_grow(found: SizePlan, choice: PolicyChoice, size: int, *, alone: bool) -> bool:
    """Return whether a larger cluster raises what one user may use: a multiple of a quota that grows with the cluster.

    Then jobs may wait for more nodes although nodes are empty.
    """
    options = parse_assignments([f"{key}={text}" for key, text in choice.options], found.plan.options)
    groups, larger = (
        with_policy(fitted_groups(found, found.scaling.cluster(many), alone=alone), choice) for many in (size, 2 * size)
    )
    limited = any(
        group.policy is SchedPolicy.CAPACITY and resolve_options(options, group).user_limit_factor for group in groups
    )
    return limited and [group.quota for group in groups] != [group.quota for group in larger]


def _kept_apart(found: SizePlan) -> int:
    """Return the number of reasons for which nodes may stay empty while jobs wait: unlent quotas, reservations.

    Each reason holds back at most the number of given nodes.
    """
    workload = found.plan.workload
    return sum(group.lendable is not None for group in workload.groups) + bool(workload.cluster.reservations)


def _first_guess(workload: Workload, scaling: Scaling) -> int:
    """Return the size at which all work, if it came evenly, would give the load ``FIRST_LOAD``."""
    if isinstance(scaling, OneNodeKind):
        return max(scaling.least, scaling.given)
    run_time = workload.run
    if workload.until is not None:
        run_time = np.where(run_time == NO_LIMIT, np.maximum(0, workload.until - workload.submit), run_time)
    run_time = np.maximum(run_time, 0)
    long = int((workload.submit + run_time).max() - workload.submit.min())
    weights = run_time.astype(np.float64) * workload.tasks
    work = (np.array(workload.requests, dtype=np.float64)[workload.request_index] * weights[:, None]).sum(axis=0)
    given = np.array(workload.cluster.total(), dtype=np.float64) * max(1, long) / scaling.given
    need = max((float(needed / one) for needed, one in zip(work, given, strict=True) if one), default=1.0)
    return max(scaling.least, round(need / FIRST_LOAD))


def _out_of_reach(found: SizePlan, label: str, last: Trial, result: Result) -> InputError:
    """Return the error for a workload for which no size is enough, or no size that is tried.

    ``result`` is the last simulation.
    """
    figures, scaling = last.figures, found.scaling
    what, hint = [], "a weaker criterion, or more of other things that jobs wait for: licences, limits of groups"
    if figures.unfinished:
        i = int(np.flatnonzero(stuck_in(result.run))[0])
        refused = result.run.history.refusals.get(i)
        what.append(
            f"job {result.run.workload.ids[i]} " + (f"is refused ({refused})" if refused else "still does not run")
        )
        hint = "`cress simulate` shows details; use a trace without it"
    elif "waits" in last.unmet:
        what.append(f"the 95th percentile of the waits is {rounded_duration(figures.wait_p95)}")
    if "deadlines missed" in last.unmet and not figures.unfinished:
        what.append(f"{figures.missed:.2%} of the deadlines are missed")
    if "services short of tasks" in last.unmet and not figures.unfinished:
        what.append(f"a service lacks {figures.short:.2%} of its task time")
    size = f"{last.size:,} {scaling.unit}"
    if last.size >= scaling.most:
        verdict, more = "not found", "more were not tried"
    else:
        verdict, more = f"no number of {scaling.unit} is enough", "though room was never short"
    return InputError(
        f"{label}: {verdict}: with {size} {' and '.join(what)}, {more}", hint=hint, file=found.plan.request.trace
    )
