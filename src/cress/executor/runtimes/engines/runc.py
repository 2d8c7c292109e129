"""runc: the most common engine."""

from __future__ import annotations

import zlib

from cress.executor.runtimes.engines import oci
from cress.executor.runtimes.engines.base import Box


class Runc:
    """Engine ``runc``; see ``Engine``.

    It makes control groups in every hierarchy, at the same paths as the executor, and they are removed together.
    """

    name = "runc"
    stays = False
    emptied = ""

    def command(self, box: Box) -> list[str]:
        """See ``Engine``."""
        bundle = oci.write_bundle(box)
        # Its names must be unique on the machine: systemd units are named after them, for instance.
        name = f"cress-{zlib.crc32(box.folder.encode()):08x}"
        command = ["runc", "--root", f"{box.folder}/state", "run", "--detach", "--bundle", bundle]
        return [*command, "--pid-file", f"{box.folder}/pid", name]

    def direct(self, box: Box) -> None:
        """See ``Engine``: another executor may remove its control groups meanwhile, so it is tried again."""

    def first(self, box: Box) -> int:
        """See ``Engine``."""
        return oci.first(box)
