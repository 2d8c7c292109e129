"""Where files come from and go to: paths of the node, and addresses of anything that fsspec knows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>CRESS_\w+)\}|(?P<plain>CRESS_\w+))")
_SCHEME = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*)(?:://|::)")
_LOCAL = frozenset({"file", "local"})
_HTTP = frozenset({"http", "https"})


class Failed(Exception):
    """A file could not be brought or saved; why, as the end of a sentence. ``node``: the node is to blame, not the job."""

    def __init__(self, why: str, *, node: bool = False) -> None:
        super().__init__(why)
        self.node = node


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Put the values of ``$CRESS_…`` and ``${CRESS_…}`` in."""

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"]
        if name not in variables:
            raise Failed(f"this task has no variable {name}")
        return variables[name]

    return _VARIABLE.sub(value, text)


def protocol(address: str) -> str:
    """``file`` for paths of the node; else what stands before ``://``, in small letters."""
    match = _SCHEME.match(address)
    name = match[1].lower() if match else "file"
    return "file" if name in _LOCAL else name


def is_http(address: str) -> bool:
    """Whether it is a page."""
    return protocol(address) in _HTTP


def local_path(address: str) -> Path | None:
    """The path of a file of this node; ``None``: it is elsewhere. Raises Failed for one that is not absolute."""
    if protocol(address) != "file":
        return None
    match = _SCHEME.match(address)
    text = address if match is None else address[match.end() :]
    if match is not None and text.startswith("localhost/"):
        text = text.removeprefix("localhost")
    if not text.startswith("/"):
        raise Failed("it is neither an absolute path nor an address such as https://…")
    return Path(unquote(text) if match else text)


def shown(address: str) -> str:
    """The address without what may be secret: accounts, passwords, and what stands behind a question mark."""
    if protocol(address) == "file":
        return address
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return address.partition("?")[0].rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" + ("?…" if parts.query else "")


def name_of(address: str) -> str:
    """The last part of its path."""
    path = address if protocol(address) == "file" else urlsplit(address).path
    return unquote(path.rstrip("/").rpartition("/")[2])


class FileRoot:
    """Where a task has its files: ``base``, its directory, and the ``walls`` that nothing leads out of (``None``: none)."""

    def __init__(self, base: Path, walls: tuple[Path, ...] | None = None) -> None:
        self.base = base
        self._walls = None if walls is None else tuple(Path(os.path.realpath(each)) for each in walls)

    def place(self, path: str) -> Path:
        """Where ``path`` is. Raises Failed if it leads out of where it may be."""
        if not path.strip("/"):
            raise Failed("it has no path")
        if not path.startswith("/") and ".." in path.split("/"):
            raise Failed("the path leads out of the task's directory")
        return self.base / path

    def check(self, place: Path) -> None:
        """Raise Failed if a link on the way leads out of the walls."""
        if self._walls is None:
            return
        real = Path(os.path.realpath(place))
        if not any(real.is_relative_to(wall) for wall in self._walls):
            raise Failed("the path leads out of the directories of the task's container")
