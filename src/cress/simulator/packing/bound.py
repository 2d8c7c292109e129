"""An upper bound on the GPUs that any placement of some pods could allocate: a relaxation without nodes.

Take any set S of GPU models. On nodes with these models, the pods that may only use models of S allocate no more than
the nodes' cores (or memory) allow, taken in the order of GPUs per core, the last pod in part. Nor do they allocate more
than the GPUs can hold of the requested parts (``patterns``). The other pods allocate at most their requests. Each such
sum is a bound, and so is the least of them. For all models together S is the whole cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from cress.simulator.packing.patterns import WHOLE, most_by_patterns

# Most models in requirements for which all sets of models are tried.
MOST_MODELS = 12


class Pod(NamedTuple):
    """The request of a pod: GPUs in thousandths; ``models`` are those that it may use."""

    cpu: int
    memory: int
    gpu: int
    models: frozenset[str]


class ModelRoom(NamedTuple):
    """The total amounts of the nodes of one model."""

    cpu: int
    memory: int
    gpu: int


def most_allocated(pods: Mapping[Pod, int], rooms: Mapping[str, ModelRoom]) -> int:
    """Return a bound, in thousandths, for these numbers of pods of each kind on the nodes of these models."""
    asking = {pod: number for pod, number in pods.items() if pod.gpu}
    return min((_bound(asking, rooms, some) for some in _sets(asking, rooms)), default=0)


def _sets(pods: Iterable[Pod], rooms: Mapping[str, ModelRoom]) -> list[frozenset[str]]:
    """Return the whole cluster, and the unions of the sets of models that pods name."""
    everything = frozenset(rooms)
    named = sorted({pod.models & everything for pod in pods if not everything <= pod.models}, key=sorted)[:MOST_MODELS]
    unions = {frozenset().union(*some) for n in range(1, len(named) + 1) for some in combinations(named, n)}
    return [everything, *sorted(unions, key=sorted)]


def _bound(pods: Mapping[Pod, int], rooms: Mapping[str, ModelRoom], models: frozenset[str]) -> int:
    inside = {pod: number for pod, number in pods.items() if pod.models & set(rooms) <= models}
    outside = sum(pod.gpu * number for pod, number in pods.items() if pod not in inside)
    have = ModelRoom(*(sum(column) for column in zip((0, 0, 0), *(rooms[model] for model in models), strict=True)))
    by_cpu = _fractional([(pod.cpu, pod.gpu, number) for pod, number in inside.items()], have.cpu)
    by_memory = _fractional([(pod.memory, pod.gpu, number) for pod, number in inside.items()], have.memory)
    parts: Counter[int] = Counter()
    for pod, number in inside.items():
        parts[WHOLE] += pod.gpu // WHOLE * number
        parts[pod.gpu % WHOLE] += number
    del parts[0]
    return min(most_by_patterns(parts, have.gpu // WHOLE), by_cpu, by_memory) + outside


def _fractional(pieces: Sequence[tuple[int, int, int]], room: int) -> int:
    """Return the most value of pieces (size, value, number) that fits, where one piece may be cut; rounded up."""
    value = 0
    for size, worth, number in sorted(pieces, key=lambda piece: (piece[0] / piece[1], piece[0])):
        fit = number if not size else min(number, room // size)
        value += fit * worth
        room -= fit * size
        if fit < number:
            return value - (-room * worth // size)
    return value
