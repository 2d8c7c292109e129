"""A steady stream of pods that requests a stated part of the GPUs for some days, on a cluster in its long-run state.

Pods are drawn from the list, with its own run times. They arrive independently at random times (a Poisson process), as
many as it takes to request that part of the GPUs. A few pods that run for months request most of the GPU time of a
list, so an empty cluster would take months to fill. The stream therefore begins with pods that already run in the long
run: each is drawn in proportion to its run time, at any point of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cress.model.errors import InputError
from cress.simulator.series import Ints, accumulate
from cress.simulator.traces.openb import GPU
from cress.simulator.workload import NO_LIMIT, Floats, Workload


def stream(work: Workload, seed: int, load: float, span: int) -> Workload:
    """Return pods that arrive until ``span`` (µs) and request ``load`` of the GPUs all the time.

    Those that already run at 0 come first. Run times are cut at the end of the stream. This changes nothing before,
    since no pod starts before it arrives. Raise ``InputError``.
    """
    rng = np.random.default_rng(seed)
    asks = gpus(work)
    run = work.run.astype(np.float64)
    worked = float((asks * run).sum())
    if work.notes.count("no times in the trace") or not worked:
        raise InputError(
            "the pods have no run times", hint="a list with creation_time and deletion_time", field="--pods"
        )
    wanted = load * work.cluster.total()[work.cluster.dimensions.index[GPU]]
    rate = wanted / worked * len(work)
    first = _running(rng, run, asks, wanted)
    left = np.ceil(rng.random(len(first)) * run[first]).astype(np.int64)
    number = int(rng.poisson(rate * span))
    later = rng.integers(len(work), size=number)
    submit = np.concatenate([np.zeros(len(first), np.int64), np.sort(rng.integers(1, span, size=number))])
    runs = np.concatenate([left, work.run[later]])
    pods = work.select(np.concatenate([first, later]))
    runs = np.maximum(1, np.minimum(runs, span - submit))
    # The list has no time limits, so the scheduler gets no run times.
    return replace(pods, submit=submit, run=runs, limit=np.full(len(pods), NO_LIMIT, np.int64))


def _running(rng: np.random.Generator, run: Floats, asks: Floats, wanted: float) -> Ints:
    """Return the pods that run at a moment in the long run, in random order, until their requests reach ``wanted``."""
    found: list[Ints] = []
    asked = 0.0
    while asked < wanted:
        some = rng.choice(len(run), size=len(run), p=run / run.sum())
        found.append(some)
        asked += float(asks[some].sum())
    all_pods = np.concatenate(found)
    enough = int(np.searchsorted(np.cumsum(asks[all_pods]), wanted)) + 1
    return all_pods[:enough]


def gpus(work: Workload) -> Floats:
    """Return the GPUs of each pod, in thousandths."""
    amounts = np.array(work.requests, dtype=np.float64)[:, work.cluster.dimensions.index[GPU]]
    return np.asarray(amounts[work.request_index])


def offered(pods: Workload, begin: int, end: int) -> float:
    """Return the share of the GPUs that the pods would use from ``begin`` to ``end`` (µs) if none waited."""
    asks = gpus(pods)
    moments = np.concatenate([pods.submit, pods.submit + pods.run])
    steps = accumulate(moments, np.concatenate([asks, -asks]))
    return steps.mean(begin, end) / pods.cluster.total()[pods.cluster.dimensions.index[GPU]]
