"""What attempts were given beside cores: devices, licences, nodes that have data, nodes that are not too busy.

Kept from what was launched and from what operators said, whatever the core believes; and the rules for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cress.lifecycle.effects import Launch
from cress.model.job import Job
from cress.model.node import DISK_KIND, Allocated, Device
from cress.model.resources import DISK_DIMENSIONS, Dimensions
from tests.faults.world import Violation, World

WHOLE = 1000
EXCLUSIVE = "ExclusiveDisk = True"
LOCAL = 'DataLocality = "{}"'


class Said:
    """What was said of one thing, word by word, and which words may be in force.

    A word comes into force when it is stored: perhaps never, and perhaps without anybody knowing.
    """

    def __init__(self, world: World, value: object) -> None:
        self.world = world
        self.words: list[tuple[object, list[int]]] = [
            (value, [0])
        ]  # each with the moment at which it was stored, if known

    def say(self, value: object) -> list[int]:
        """Somebody says it now. What is returned is for ``stored``."""
        known: list[int] = []
        self.words.append((value, known))
        return known

    def stored(self, known: list[int]) -> None:
        """A word is stored: none from before it is in force any more."""
        known.append(self.world.now)

    def since(self, moment: int) -> list[object]:
        """All that may have been in force at that moment or later."""
        first = max(i for i, (_, known) in enumerate(self.words) if known and known[0] <= moment)
        return [value for value, _ in self.words[first:]]


class Given:
    """Sees every launch before it is sent, and is asked when processes begin."""

    def __init__(self, world: World, dimensions: Dimensions) -> None:
        self.world = world
        self.dimensions = dimensions
        self.nodes: dict[str, dict[tuple[str, str], Device]] = {}  # their devices
        self.data: dict[str, tuple[str, ...]] = {}  # paths, by node
        self.launches: dict[int, Launch] = {}
        self.jobs: dict[int, Job] = {}  # by attempt
        self.decided_at: dict[int, int] = {}
        self.running: set[int] = set()  # attempts that have begun
        self.licences = Said(world, {})
        self.places: dict[str, Said] = {}  # by name of data: node names, or None
        self.busy: dict[str, Said] = {}  # by node: whether it is

    # --- decisions -------------------------------------------------------------------------------------------

    def decided(self, launch: Launch, job: Job) -> None:
        """The center orders a start, perhaps again."""
        attempt, before = launch.attempt, self.launches.get(launch.attempt)
        if attempt in self.running:
            if before is not None and before.devices != launch.devices:
                raise Violation(f"attempt {attempt} has {before.devices}, and is given {launch.devices}")
            return
        self.launches[attempt], self.jobs[attempt] = launch, job
        if before is not None and (before.job, before.task, before.node) == (launch.job, launch.task, launch.node):
            return
        # It may be another one of this number: that was decided before, and never stored.
        self.decided_at[attempt] = self.world.now
        self._check_devices(launch, job)
        self._check_node(launch, job)

    def _check_devices(self, launch: Launch, job: Job) -> None:
        """It has what it asks for, of devices that are there."""
        known = self.nodes[launch.node]
        for each in launch.devices:
            if (each.kind, each.id) not in known:
                raise Violation(f"attempt {launch.attempt} is given {each}, which {launch.node} does not have")
        for kind in self.dimensions.custom:
            asked = job.request[self.dimensions.index[kind]]
            parts = sorted(each.amount for each in launch.devices if each.kind == kind)
            right = [asked] if 0 < asked < WHOLE else [WHOLE] * (asked // WHOLE)
            if parts != right:
                raise Violation(f"attempt {launch.attempt} asks for {asked} of {kind}, and is given {parts}")
        disks = [each.amount for each in launch.devices if each.kind == DISK_KIND]
        shares = any(job.request[self.dimensions.index[name]] for name in DISK_DIMENSIONS)
        right = [WHOLE] if EXCLUSIVE in job.requirement else [0] if shares else []
        if disks != right:
            raise Violation(f"attempt {launch.attempt} is to have disks {right}, and has {disks}")

    def _check_node(self, launch: Launch, job: Job) -> None:
        """The node is not too busy, and has the data that the job cannot do without."""
        now, node = self.world.now, launch.node
        if node in self.busy and all(self.busy[node].since(now)):
            raise Violation(f"attempt {launch.attempt} is sent to {node}, which is overloaded")
        for name, said in self.places.items():
            clause = LOCAL.format(name)
            hard = clause in job.requirement and f"{clause} && f(x)" not in job.requirement
            if hard and not any(node in _names(value) for value in said.since(now)):
                raise Violation(f"attempt {launch.attempt} wants {name}, and is sent to {node}")
        for name in {path for paths in self.data.values() for path in paths}:
            if LOCAL.format(name) in job.requirement and name not in self.data[node]:
                raise Violation(f"attempt {launch.attempt} wants {name}, and is sent to {node}")

    # --- processes -------------------------------------------------------------------------------------------

    def begun(self, attempt: int, on_node: Iterable[int], everywhere: Iterable[int]) -> None:
        """An attempt begins; these are alive, itself among them, on its node and on all nodes."""
        self.running.add(attempt)
        launch = self.launches.get(attempt)
        if launch is None:
            return  # one whose number was changed on purpose
        self._check_shares(launch.node, sorted(set(on_node) & self.launches.keys()))
        self._check_licences(sorted(set(everywhere) & self.launches.keys()))

    def _check_shares(self, node: str, attempts: list[int]) -> None:
        """No device has more than it is, no disk of somebody's own is another's too."""
        had: dict[tuple[str, str], list[tuple[int, Allocated]]] = {}
        for attempt in attempts:
            for each in self.launches[attempt].devices:
                had.setdefault((each.kind, each.id), []).append((attempt, each))
        for (kind, name), those in had.items():
            if kind != DISK_KIND:
                if sum(each.amount for _, each in those) > WHOLE:
                    raise Violation(f"{kind} {name} of {node} is given more than once: {those}")
                continue
            if len(those) > 1 and any(each.amount for _, each in those):
                raise Violation(f"disk {name} of {node} is one attempt's own, and others have it: {those}")
            for k, total in zip(DISK_DIMENSIONS, self.nodes[node][kind, name].bandwidth, strict=True):
                asked = sum(self.jobs[attempt].request[self.dimensions.index[k]] for attempt, _ in those)
                if asked > total:
                    raise Violation(f"disk {name} of {node} gives {total} of {k}, {asked} is wanted: {those}")

    def _check_licences(self, attempts: list[int]) -> None:
        taken: Counter[str] = Counter()
        since: dict[str, int] = {}
        for attempt in attempts:
            for name, count in self.jobs[attempt].licences:
                taken[name] += count
                since[name] = min(self.decided_at[attempt], since.get(name, self.world.now))
        for name, count in taken.items():
            most = max(value.get(name, 0) for value in self.licences.since(since[name]) if isinstance(value, dict))
            if count > most:
                raise Violation(f"{count} licences {name} are in use, there were never more than {most}: {attempts}")


def _names(places: object) -> tuple[str, ...]:
    return places if isinstance(places, tuple) else ()
