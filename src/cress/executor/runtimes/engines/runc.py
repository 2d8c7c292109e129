"""runc: the one that is everywhere."""

from __future__ import annotations

import zlib

from cress.executor.runtimes.engines import oci
from cress.executor.runtimes.engines.base import Box


class Runc:
    """See ``Engine``. It makes control groups in every hierarchy; they are where ours are, and go with them."""

    name = "runc"

    def command(self, box: Box) -> list[str]:
        """See ``Engine``."""
        bundle = oci.write_bundle(box)
        # Its names are of the machine: units of systemd, for instance.
        name = f"cress-{zlib.crc32(box.folder.encode()):08x}"
        command = ["runc", "--root", f"{box.folder}/state", "run", "--detach", "--bundle", bundle]
        return [*command, "--pid-file", f"{box.folder}/pid", name]

    def first(self, box: Box) -> int:
        """See ``Engine``."""
        return oci.first(box)
