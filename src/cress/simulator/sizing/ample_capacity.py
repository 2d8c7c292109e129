"""The proof that a larger cluster does not help: a simulation that was never short of resources."""

from __future__ import annotations

import numpy as np

from cress.simulator.request import Result
from cress.simulator.series import Ints, accumulate
from cress.simulator.sizing.kinds import CORE, Processors, Scaling, place_of
from cress.simulator.workload import Bools


def is_ample(result: Result, scaling: Scaling, spare: int) -> bool:
    """Return whether a simulation of some size was never short of resources, so that a larger cluster changes nothing.

    At each moment, nodes of each kind and rack that varies were empty: as many as the largest waiting gang has tasks.
    So the jobs that still waited had another reason. In addition ``spare`` nodes were empty: those that quotas and
    reservations may keep from others.
    """
    waited = _waited(result)
    if isinstance(scaling, Processors):
        return _processors_left(result, waited, spare)
    work = result.run.workload
    gangs = work.tasks[waited & work.gang]
    needed = int(gangs.max(initial=1))
    size = dict.fromkeys(scaling.places, 0)
    own = np.full(len(work.cluster.nodes), -1, dtype=np.int64)
    number = {place: i for i, place in enumerate(size)}
    for i, node in enumerate(work.cluster.nodes):
        place = place_of(node)
        if place in number:
            size[place] += 1
            own[i] = number[place]
    left = [count - most for count, most in zip(size.values(), _most_occupied(result, own, len(size)), strict=True)]
    return min(left) >= needed and sum(left) >= needed + spare


def _waited(result: Result) -> Bools:
    """Return the jobs ``[n]`` that did not start as soon as they could, or did not run through at once."""
    times, run = result.analysis.times, result.run
    return np.asarray((times.start != times.ready) | (times.attempts != run.workload.tasks) | ~times.finished)


def _processors_left(result: Result, waited: Bools, spare: int) -> bool:
    """Return whether enough processors were idle at each moment to fit each job that waited, and ``spare`` more."""
    work, attempts = result.run.workload, result.run.attempts
    cores = np.array([request[0] for request in work.requests], dtype=np.int64)[work.request_index]
    asked = cores[attempts.job]
    used = accumulate(np.concatenate([attempts.start, attempts.end]), np.concatenate([asked, -asked]))
    needed = int(cores[waited].max(initial=0)) + spare * CORE
    return work.cluster.total()[0] - int(used.values.max(initial=0)) >= needed


def _most_occupied(result: Result, own: Ints, places: int) -> list[int]:
    """Return the most nodes of each place that were occupied at once; ``own`` is the place of each node, or -1."""
    attempts = result.run.attempts
    node = np.concatenate([attempts.node, attempts.node])
    time = np.concatenate([attempts.start, attempts.end])
    change = np.repeat(np.array([1, -1], dtype=np.int64), len(attempts))
    # By node, then time, starts before ends: the running sum is the number of attempts on the node, as each node ends
    # with 0.
    order = np.lexsort((-change, time, node))
    node, time, change = node[order], time[order], change[order]
    count = np.cumsum(change)
    turns = np.where(change > 0, count == 1, count == 0)
    node, time, change = node[turns], time[turns], change[turns]
    most = []
    for place in range(places):
        here = own[node] == place
        most.append(int(accumulate(time[here], change[here]).values.max(initial=0)))
    return most
