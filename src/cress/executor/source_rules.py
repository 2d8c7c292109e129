"""Rules of a node for addresses of files, outputs and copies of logs: schemes, hosts, and paths of the node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fsspec.registry import available_protocols

from cress.executor.addresses import Failed, is_http, protocol
from cress.model.allowed_sources import AllowedSources
from cress.network.connection_guard import ConnectionGuard


class SourceRules:
    """The rules for one process.

    ``allowed`` are the sources that it may use, ``hidden`` the folders of the node of which only ``visible`` parts may
    be used.
    """

    def __init__(self, allowed: AllowedSources, hidden: Sequence[str] = (), visible: Sequence[Path] = ()) -> None:
        self._allowed = allowed
        self._hidden = tuple(map(Path, hidden))
        self._visible = tuple(path.resolve() for path in visible)

    def enforce(self) -> None:
        """Restrict the connections of this process to what the rules allow, for the rest of its life."""
        ConnectionGuard(self._allowed).install()

    def allow(self, scheme: str) -> bool:
        """Return whether jobs may use addresses of this scheme."""
        return scheme in self._allowed.schemes

    def check(self, address: str) -> None:
        """Raise Failed unless the scheme of the address is allowed, and the schemes of all addresses that it chains."""
        for name in schemes_of(address):
            if self.allow(name):
                continue
            if name == "file":
                raise Failed("paths of this node may not be used (--allow-scheme)")
            if name in available_protocols():
                raise Failed(f"{name}:// may not be used on this node (--allow-scheme)")
            raise Failed(f"{name}:// is not a known protocol")

    def check_place(self, real: Path) -> None:
        """Raise Failed if this path, with all links resolved, is in a hidden folder of the node or around one."""
        if any(real.is_relative_to(folder) for folder in self._visible):
            return
        if any(real.is_relative_to(folder) or folder.is_relative_to(real) for folder in self._hidden):
            raise Failed(f"{real} is hidden from the tasks of this node")


def schemes_of(address: str) -> list[str]:
    """Return the scheme of an address and of those that it chains with ``::``, as fsspec splits them."""
    if is_http(address):
        return [protocol(address)]
    found = []
    for part in address.split("::"):
        if "://" in part:
            name = part.partition("://")[0].lower()
        else:
            name = "file" if part not in available_protocols() and re.search(r"[^a-z]", part) else part
        found.append("file" if name in ("", "local") else name)
    return found
