"""The measure of fragments: the idle devices that the next task could not use, by the whole workload's shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from cress.core.placing.fragmentation import Fragmentation
from cress.core.placing.mix import MOST_SHAPES, Kind, Likely, Mix, MixState
from cress.core.scheduler import Scheduler
from cress.model.options import Options
from cress.simulator.workload import Workload

# The most frequent shapes count in the measure, up to this share of the tasks.
MEASURED = 0.95


def shape_counts(work: Workload) -> Counter[Kind]:
    """Return the number of tasks of each request and requirement in the workload."""
    which = np.zeros(len(work), np.int64) if work.template_index is None else work.template_index
    kinds, where = np.unique(work.request_index * len(work.templates) + which, return_inverse=True)
    tasks = np.bincount(where, weights=work.tasks, minlength=len(kinds)).astype(np.int64).tolist()
    counts: Counter[Kind] = Counter()
    for kind, number in zip(kinds.tolist(), tasks, strict=True):
        request, template = divmod(kind, len(work.templates))
        counts[work.requests[request], work.templates[template].requirement] += number
    return counts


def measured(core: Scheduler, counts: Mapping[Kind, int]) -> Fragmentation:
    """Return a measure of fragments by the most frequent of these shapes, the same for every order of nodes."""
    whole = sum(counts.values())
    likely: list[Likely] = []
    seen = 0
    for kind, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen >= MEASURED * whole or len(likely) == MOST_SHAPES:
            break
        likely.append(Likely(*kind, number))
        seen += number
    mix = Mix(max(1, whole))
    mix.restore(MixState(likely=likely))
    return Fragmentation(core.cluster, core.books.matching, mix, Options())
