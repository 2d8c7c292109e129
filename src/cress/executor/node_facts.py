"""Facts of a node, as the agent sends them in its hello: its devices, attributes, compilers and paths of data."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from functools import partial

from cress.executor import devices, facts
from cress.executor.background import in_background
from cress.executor.datasets import Datasets
from cress.executor.images import TOOLS as IMAGE_TOOLS
from cress.executor.settings import ExecutorSettings
from cress.executor.versions import versions
from cress.model.attributes import with_labels
from cress.model.node import DISK_KIND, Device, Value
from cress.model.reports import Checked
from cress.protocol.messages import Hello, Inventory

# Seconds that registration waits for the versions of compilers.
VERSIONS = 1.0
# For tests: treats the executor as on another machine than the center, so that terms apply to it.
PRETENDED_BOOT = "CRESS_PRETENDED_BOOT"


class NodeFacts:
    """Finds the facts of this node. ``devices`` is ``None`` until the first search.

    ``asking`` is the running search for versions of compilers; ``told`` are the versions in the last hello.
    """

    def __init__(self, settings: ExecutorSettings, say: Callable[[str], None]) -> None:
        self.devices: tuple[Device, ...] | None = None
        self.datasets = Datasets(settings.data, say)
        self._settings = settings
        self._say = say
        self.asking: asyncio.Future[dict[str, str]] | None = None
        self._versions: dict[str, str] = {}  # of the compilers that have answered
        self.told: dict[str, str] = {}

    async def prepare(self) -> None:
        """Search for devices, once, and for versions of compilers."""
        if self.devices is None:
            self.devices = await in_background(self._find_devices)
        if self.asking is None or self.asking.done():
            self.asking = in_background(partial(versions, self._settings.directory.absolute()))

    async def hello(self, inventory: Inventory, address: str, reports: tuple[Checked, ...]) -> Hello:
        """Return the hello of the node, with this ``address`` unless its settings name another."""
        settings = self._settings
        self.told = found = await self.versions(VERSIONS)
        attributes = {**facts.attributes(settings.directory), **_containers(inventory), **found}
        return Hello(
            version=0,
            name=settings.name,
            resource=settings.resource
            or facts.resource(disks=any(device.kind == DISK_KIND for device in self.devices or ())),
            boot=os.environ.get(PRETENDED_BOOT, ""),
            rack=settings.rack,
            address=settings.address or address,
            attributes=with_labels(attributes, settings.labels),
            ports=settings.ports,
            reports=reports,
            data=await self.datasets.look(),
            judged=settings.judged,
            accepts=settings.accepts,
            repels=settings.repels,
            devices=self.devices or (),
        )

    async def versions(self, patience: float | None) -> dict[str, str]:
        """Return the versions of compilers that are known after at most ``patience`` seconds."""
        assert self.asking is not None
        await asyncio.wait({self.asking}, timeout=patience)
        if self.asking.done():
            self._versions = self.asking.result()
        return self._versions

    async def changed(self) -> None:
        """Wait until the known versions differ from those in the last hello."""
        if await self.versions(None) == self.told:
            await asyncio.Event().wait()

    def _find_devices(self) -> tuple[Device, ...]:
        found = []
        for device in devices.of_node(self._settings):
            if device.kind == DISK_KIND and not os.path.isdir(device.path):  # noqa: PTH112
                self._say(f"{device.path} is not a folder, so the node does not offer the disk {device.id}")
            else:
                found.append(device)
        return tuple(found)


def _containers(known: Inventory) -> dict[str, Value]:
    """Return the facts about containers for constraints: if they can be run, and by which engine."""
    if not known.container:
        return {"Container": False, "Images": False}
    images = all(shutil.which(tool) for tool in IMAGE_TOOLS)
    return {"Container": True, "ContainerEngine": known.container, "Images": images}
