"""Names of data: absolute paths of nodes, and files and folders of HDFS (docs/data.md)."""

from __future__ import annotations

import re

import msgspec

from cress.model.errors import InputError

HINT = '"/data/sets/a" on nodes, or "hdfs://namenode:8020/logs/2026"'
MOST_CHARACTERS = 4_096
# The path of WebHDFS below the address of a namenode or gateway.
WEBHDFS = "/webhdfs/v1"
# Scheme of the name → scheme of the request; the namenode's own protocol is never used.
SCHEMES = {"hdfs": "http", "webhdfs": "http", "swebhdfs": "https", "http": "http", "https": "https"}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_PLACE = re.compile(r"([A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")


class DataName(msgspec.Struct, frozen=True):
    """A name of data: ``scheme`` is empty for a path on nodes; otherwise ``host`` and ``port`` (0: none given) locate
    the service.
    """

    path: str
    scheme: str = ""
    host: str = ""
    port: int = 0

    @property
    def place(self) -> str:
        """The text ``host:port``, as far as both are given."""
        return f"{self.host}:{self.port}" if self.port else self.host

    def __str__(self) -> str:
        if not self.scheme:
            return self.path
        gateway = WEBHDFS if self.scheme in ("http", "https") else ""
        return f"{self.scheme}://{self.place}{gateway}{self.path}"


def parse_data_name(text: str) -> DataName:
    """Parse the name of data; its ``str`` is the canonical text. Raises InputError."""
    if len(text) > MOST_CHARACTERS or not text.isprintable():
        raise InputError("it is not a name of data", hint=f"printable, at most {MOST_CHARACTERS} characters")
    url = _URL.fullmatch(text)
    if url is None:
        if not text.startswith("/"):
            raise InputError(f"{_shown(text)} is not an absolute path and no URL", hint=HINT)
        return DataName(_path(text, text))
    scheme, place, path = url[1].lower(), url[2], url[3]
    if scheme == "file":
        return DataName(_path(path, text))
    if scheme not in SCHEMES:
        raise InputError(f"data of {scheme}:// cannot be located", hint=HINT)
    where = _PLACE.fullmatch(place)
    if where is None or int(where[2] or 1) not in range(1, 65_536):
        what = f"{_shown(place)} is not a host" if place else f"{_shown(text)} names no namenode"
        raise InputError(what, hint=HINT)
    if scheme in ("http", "https"):
        if not path.startswith(WEBHDFS + "/") or "?" in path:
            raise InputError(
                f"{_shown(text)} is not an address of WebHDFS",
                hint=f"{scheme}://{place}{WEBHDFS}/logs/2026, without ?op=…",
            )
        path = path.removeprefix(WEBHDFS)
    return DataName(_path(path, text), scheme, where[1].lower(), int(where[2] or 0))


def _path(path: str, whole: str) -> str:
    """Return the normalized path, without ``//`` and a trailing ``/``. Raises InputError."""
    steps = [step for step in path.split("/") if step]
    if not steps:
        raise InputError(f"{_shown(whole)} names no file or folder", hint=HINT)
    if any(step in (".", "..") for step in steps):
        raise InputError(f"{_shown(whole)} has a . or .. in its path", hint="the path as it is without them")
    return "/" + "/".join(steps)


def within(path: str) -> list[str]:
    """Return a path and its parent folders, the nearest first, without the root."""
    steps = path.split("/")
    return ["/".join(steps[:end]) for end in range(len(steps), 1, -1)]


def _shown(text: str) -> str:
    return f'"{text}"' if len(text) <= 120 else f'"{text[:119]}…"'
