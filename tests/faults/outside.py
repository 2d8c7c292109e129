"""What nodes have beside cores and memory, and what comes and goes outside the cluster: busy nodes, licences, places of
data.

All from a chance of its own, so that histories without it are as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cress.lifecycle.inputs import Input
from cress.model.events import DataLocated, LicencesSet, LoadSeen
from cress.model.job import Job
from cress.model.node import DISK_KIND, Device, Load
from cress.model.times import SECOND
from tests.faults.given import EXCLUSIVE, LOCAL, Given, Said

if TYPE_CHECKING:
    from cress.shell.center.effects import Reply
    from tests.faults.cluster import Cluster

GPU = "gpu"
BANDWIDTH = 100_000_000
LICENCES = {"sim": 2, "ide": 1}
REMOTE = "hdfs://names/set"
LOCAL_PATH = "/sets/faces"
# Tasks ask for so little memory that they do not explain this.
BUSY = Load(cpu=100, memory=1000, free_memory=2**20)
IDLE = Load(cpu=10, free_memory=2**34)
# Share of the histories whose nodes have devices.
DEVICES = 0.6
EVERY = 5 * SECOND


class Outside:
    """Of one cluster: which of these things there are, and what becomes of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.aside = cluster.world.aside
        self.given: Given = cluster.truth.given
        chance = self.aside.random
        self.has_devices, self.has_licences = chance() < DEVICES, chance() < 0.5
        self.has_data, self.has_load = chance() < 0.5, chance() < 0.5
        if self.has_data:
            self.given.places[REMOTE] = Said(self.world, None)
        if self.has_data or self.has_load or self.has_licences:
            self.world.after(SECOND, None, self._look)

    # --- nodes -----------------------------------------------------------------------------------------------

    def fit_out(self, name: str) -> tuple[tuple[Device, ...], tuple[str, ...]]:
        """The devices of a node, and its data."""
        devices: list[Device] = []
        if self.has_devices:
            gpus, disks = self.aside.choice((0, 1, 2, 3)), self.aside.choice((0, 1, 2))
            devices = [Device(kind=GPU, id=str(i), model="A10") for i in range(gpus)]
            devices += [
                Device(kind=DISK_KIND, id=f"sd{i}", path=f"/disks/{i}", bandwidth=(BANDWIDTH, BANDWIDTH, 0, 0))
                for i in range(disks)
            ]
        data = (LOCAL_PATH,) if self.has_data and self.aside.random() < 0.5 else ()
        self.given.nodes[name] = {(each.kind, each.id): each for each in devices}
        self.given.data[name] = data
        if self.has_load:
            self.given.busy[name] = Said(self.world, False)
        return tuple(devices), data

    def forgets_load(self, name: str | None = None) -> None:
        """A node comes or goes, or a center does: the load of the one, or of all, is forgotten now or soon."""
        for each, said in self.given.busy.items():
            if name in (None, each):
                said.say(False)

    # --- jobs ------------------------------------------------------------------------------------------------

    def wishes(self, job: Job) -> dict[str, Any]:
        """What a job asks for, all of which one node has."""
        asks: dict[str, Any] = {}
        choose, chance = self.aside.choice, self.aside.random
        if self.has_licences and chance() < 0.3 and not job.gang:
            asks["licences"] = tuple((name, 1) for name in choose((("ide",), ("sim",), ("ide", "sim"))))
        fit = [node for node in self.cluster.nodes if node.cpus * 1000 >= job.request[0]]
        if job.gang or not fit:
            return asks
        node = choose(fit)
        clauses = [job.requirement] if job.requirement else []
        request = dict(zip(self.cluster.dimensions.names, job.request, strict=True))
        gpus = sum(each.kind == GPU for each in node.devices)
        if gpus and chance() < 0.5:
            request[GPU] = choose([amount for amount in (250, 460, 700, 1000, 2000) if amount <= gpus * 1000])
        if any(each.kind == DISK_KIND for each in node.devices) and chance() < 0.5:
            request["disk_read"] = choose((0, 10, 40, 80)) * 1_000_000
            if not request["disk_read"] or chance() < 0.3:
                clauses.append(EXCLUSIVE)
        if self.has_data and chance() < 0.3:
            soft = " && f(x) = (Waittime > 5s)" if chance() < 0.5 else ""
            clauses.append(LOCAL.format(REMOTE) + soft)
        elif node.data and chance() < 0.3:
            clauses.append(LOCAL.format(LOCAL_PATH))
        return {**asks, "request": self.cluster.dimensions.vector(**request), "requirement": " && ".join(clauses)}

    # --- what comes and goes ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """Operators, and nodes that are kept busy by strangers; in the end all is there and nobody is busy."""
        calm = not self.cluster.disturbed
        choose, chance = self.aside.choice, self.aside.random
        if self.has_licences and (calm or chance() < 0.5):
            counts = LICENCES if calm else {name: choose(range(count + 1)) for name, count in LICENCES.items()}
            self._say(self.given.licences, counts, LicencesSet(counts=tuple(counts.items())))
        if self.has_data and (calm or chance() < 0.5):
            names = tuple(node.name for node in self.cluster.nodes if calm or chance() < 0.5)
            places = None if not calm and chance() < 0.2 else tuple((name, 1000) for name in names)
            said = names if places is not None else None
            self._say(self.given.places[REMOTE], said, DataLocated(data=REMOTE, places=places))
        for name, said_busy in self.given.busy.items():
            if calm or chance() < 0.3:
                busy = not calm and chance() < 0.5
                self._say(said_busy, busy, LoadSeen(name=name, load=BUSY if busy else IDLE))
        self.world.after(EVERY if calm else 100_000 + int(chance() * EVERY), None, self._look)

    def _say(self, said: Said, value: object, word: Input) -> None:
        center = self.cluster.center
        if center is None or center.problem or center.held is not None:
            return
        known = said.say(value)

        def stored(reply: Reply) -> None:
            if reply is None:
                said.stored(known)

        center.post(word, stored)
