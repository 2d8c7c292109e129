"""Addresses of files: paths of the node, and URLs of any protocol that fsspec supports."""

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
    """Error: a file could not be fetched or saved; the message is the end of a sentence.

    ``node``: the cause is the node, not the job.
    """

    def __init__(self, why: str, *, node: bool = False) -> None:
        super().__init__(why)
        self.node = node


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with ``$CRESS_…`` and ``${CRESS_…}`` replaced by the values of these variables."""

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"]
        if name not in variables:
            raise Failed(f"this task has no variable {name}")
        return variables[name]

    return _VARIABLE.sub(value, text)


def protocol(address: str) -> str:
    """Return ``file`` for paths of the node, else the scheme before ``://`` in lower case."""
    match = _SCHEME.match(address)
    name = match[1].lower() if match else "file"
    return "file" if name in _LOCAL else name


def is_http(address: str) -> bool:
    """Return whether the address is served over HTTP."""
    return protocol(address) in _HTTP


def local_path(address: str) -> Path | None:
    """Return the path of a file of this node, ``None`` if it is elsewhere. Raise Failed if the path is relative."""
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
    """Return the address without its secrets: account, password and query."""
    if protocol(address) == "file":
        return address
    return "::".join(map(_shown, address.split("::"))) if not is_http(address) else _shown(address)


def _shown(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return address.partition("?")[0].rpartition("@")[2]
    start = f"{parts.scheme}://" if "://" in address else parts.scheme and f"{parts.scheme}:"
    return f"{start}{host}{parts.path}" + ("?…" if parts.query else "")


def without_secrets(text: str, address: str) -> str:
    """Return the text of an error without the secrets of the address, since libraries repeat the address."""
    text = text.replace(address, shown(address))
    for part in address.split("::"):
        before, _, query = part.partition("?")
        account = before.partition("://")[2].rpartition("@")[0]
        for secret in (query, account, account.partition(":")[2], unquote(account.partition(":")[2])):
            if len(secret) > 2:
                text = text.replace(secret, "…")
    return text


def name_of(address: str) -> str:
    """Return the last part of the path of an address."""
    path = address if protocol(address) == "file" else urlsplit(address).path
    return unquote(path.rstrip("/").rpartition("/")[2])


class FileRoot:
    """Root of a task's files: its directory ``base``, and the ``walls`` that paths must not leave (``None``: none)."""

    def __init__(self, base: Path, walls: tuple[Path, ...] | None = None) -> None:
        self.base = base
        self._walls = None if walls is None else tuple(Path(os.path.realpath(wall)) for wall in walls)

    def place(self, path: str) -> Path:
        """Return the absolute path of ``path``. Raise Failed if it leaves the task's directory."""
        if not path.strip("/"):
            raise Failed("it has no path")
        if not path.startswith("/") and ".." in path.split("/"):
            raise Failed("the path leads out of the task's directory")
        return self.base / path

    def check(self, place: Path) -> None:
        """Raise Failed if a link on the path leads out of the walls."""
        if self._walls is None:
            return
        real = Path(os.path.realpath(place))
        if not any(real.is_relative_to(wall) for wall in self._walls):
            raise Failed("the path leads out of the directories of the task's container")
