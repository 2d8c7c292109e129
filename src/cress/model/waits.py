"""Things for which jobs wait: files, addresses and pages outside of the cluster (design note 0078), and times."""

from __future__ import annotations

import re

import msgspec

from cress.model.errors import InputError
from cress.model.times import SECOND

# The kinds of things, which are keys of job files as well.
PATH, URL, ADDRESS, TIME = "path", "url", "address", "time"
KINDS = (PATH, URL, ADDRESS, TIME)
# µs between two looks, by default and at least; most things for one job.
EVERY, SOONEST, MOST = 10 * SECOND, SECOND, 16
LONGEST = 2_000
HINT = "{path: /data/in.csv}, {url: https://…} or {address: HOST:PORT}, each with timeout and every; or {time: 2h}"

_URL = re.compile(r"https?://(?P<user>[^/@\s]*@)?[^/\s@]+(/\S*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")


class WaitFor(msgspec.Struct, frozen=True, array_like=True):
    """One thing: its kind, its name, µs between two looks, and µs after which the job fails (``None``: never).

    The name of a time is written as a deadline: a length from the beginning of the wait on, or a moment.
    """

    kind: str
    name: str
    every: int = EVERY
    timeout: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def checked_name(kind: str, text: str) -> str:
    """Return the name of a thing without spaces around it. Raises InputError."""
    text = text.strip()
    if len(text) > LONGEST or not text.isprintable():
        raise InputError(f"{text[:60]!r} is no {kind}", hint=f"at most {LONGEST:,} printable characters")
    if kind == PATH and not (text.startswith("/") and "/../" not in f"{text}/"):
        raise InputError(f"{text[:60]!r} is not an absolute path", hint="/data/in.csv")
    found = _URL.fullmatch(text) if kind == URL else _ADDRESS.fullmatch(text) if kind == ADDRESS else None
    if kind == URL and (found is None or found["user"]):
        raise InputError(
            f"{text[:60]!r} is not a URL that a job can wait for", hint="https://HOST/PATH, without a password"
        )
    if kind == ADDRESS and (found is None or not 0 < int(found["port"]) < 65_536):
        raise InputError(f"{text[:60]!r} is not an address", hint="HOST:PORT, such as db.example.org:5432")
    return text
