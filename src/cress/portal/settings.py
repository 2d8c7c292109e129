"""Settings of the portal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

HOST = "127.0.0.1"
# The file in the data directory with the address of a running portal, and the secret for new links (0600).
PLACE = "portal.json"


class WrittenJob(NamedTuple):
    """One job of a text: its mapping, and the function that returns the line of a key."""

    mapping: Mapping[str, object]
    line_of: Callable[[str], int]


# Reads the jobs of a YAML or JSON text. Raises InputError with the line.
ReadJobs = Callable[[str], Sequence[WrittenJob]]


class PortalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one portal.

    ``data`` is the data directory of the center, for the owner of that directory; None: the center that the
    environment names. ``folder`` is where ``portal.json`` is written. ``names`` are further values of ``Host`` that are
    accepted. ``reports`` is the folder of reports of simulations. ``port`` 0 is the port of the last time, or a free
    one. With ``parent_pipe`` the portal stops when standard input ends.
    """

    folder: Path
    read_jobs: ReadJobs
    data: Path | None = None
    host: str = HOST
    port: int = 0
    names: tuple[str, ...] = ()
    reports: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    parent_pipe: bool = False

    @property
    def scheme(self) -> str:
        """The scheme of the portal's addresses."""
        return "http" if self.tls_cert is None else "https"


class PortalPlace(msgspec.Struct, frozen=True):
    """The content of ``portal.json``: the address of a running portal, its process, and the secret for new links."""

    url: str
    pid: int
    secret: str
