"""The jobs of a workload that its cluster could never run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from cress.core.diagnostics.sentences import too_few
from cress.core.placing.constraints import names_itself
from cress.core.placing.kinds import lasting_wants
from cress.core.scheduler import Scheduler
from cress.model.job import Job
from cress.simulator.jobs import Jobs
from cress.simulator.workload import Bools, Ints, Workload


def never_fit(workload: Workload, scheduler: Scheduler, admitted: Ints, groups: Sequence[str]) -> Bools:
    """Return the jobs ``[n]`` that this cluster could never run; each distinct shape and gang size is checked once.

    ``admitted`` are the positions of the jobs that have one of the ``groups``.
    """
    if any(node.accepts for node in workload.cluster.nodes) or any(map(names_itself, workload.templates)):
        # The job's own attributes matter as well.
        jobs = Jobs(workload, admitted.tolist(), groups)
        never = np.zeros(len(workload), dtype=np.bool_)
        never[admitted] = [scheduler.never_fits(jobs.make(i, i + 1)) for i in admitted.tolist()]
        return never
    # Only the size of a gang matters: the tasks of an array start one by one.
    size = np.where(workload.gang, workload.tasks, 0)
    which = np.zeros_like(size) if workload.template_index is None else workload.template_index
    kinds = (workload.request_index * len(workload.templates) + which) * (int(size.max()) + 1) + size
    _, first, where = np.unique(kinds, return_index=True, return_inverse=True)
    found = np.zeros(len(first), dtype=np.bool_)
    group = groups[0] if groups else ""
    for k, i in enumerate(first.tolist()):
        tasks, request = int(size[i]), workload.requests[int(workload.request_index[i])]
        known = workload.template(i)
        request = known.request if known.parts else request
        job = replace(known, group=group, request=request, tasks=max(1, tasks), gang=tasks > 0)
        found[k] = bool(scheduler.never_fits(job))
    never = np.zeros(len(workload), dtype=np.bool_)
    never[admitted] = found[where][admitted]
    return never


def why_never_fits(core: Scheduler, job: Job) -> str:
    """Return the clauses or licences that exclude every node for a job, as a sentence.

    Empty if the size of its tasks is the reason.
    """
    wants = core.books.asking.as_asked((job,), lasting_wants(job, core.dimensions))
    asked = [(kind.request, kind.wants) for kind in wants.kinds] or [(job.request, wants)]
    request, wants = next((pair for pair in asked if not core.books.fit.ever_fits(*pair)), asked[0])
    if not core.books.fit.ever_fits(request):
        return ""
    if few := core.relations.licences.never(wants.licences):
        return too_few(few, never=True)
    texts = [text for text, _ in core.books.matching.never(wants, np.arange(core.cluster.node_count))]
    return f"no node that is large enough could ever satisfy {' and '.join(texts)}" if texts else ""
