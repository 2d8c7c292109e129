"""crun: the quickest engine that follows the Open Container Initiative."""

from __future__ import annotations

from cress.executor.runtimes import linux
from cress.executor.runtimes.engines import oci
from cress.executor.runtimes.engines.base import Box

CGROUPS = "/sys/fs/cgroup"


class Crun:
    """Engine ``crun``; see ``Engine``."""

    name = "crun"
    stays = False

    def command(self, box: Box) -> list[str]:
        """See ``Engine``."""
        # It refuses hosts with control groups of both versions, even if told to leave them alone.
        linux.mount("tmpfs", CGROUPS, "tmpfs", 0)
        bundle = oci.write_bundle(box)
        command = ["crun", "--root", f"{box.folder}/state", "--cgroup-manager=disabled", "run", "--detach"]
        return [*command, "--bundle", bundle, "--pid-file", f"{box.folder}/pid", "box"]

    def first(self, box: Box) -> int:
        """See ``Engine``."""
        return oci.first(box)
