"""Addresses that are told what became of a job, and the words for what they are told (docs/notifications.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from cress.model.errors import InputError
from cress.model.units import one_of

MOST = 10
MAX_ADDRESS = 1_000
ADDRESS_HINT = "https://HOST/PATH or mailto:NAME@DOMAIN"

HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?"
_URL = re.compile(rf"(?i:https?)://(?P<user>[^/?@]*@)?{HOST}(?:[/?][^\s\x00-\x20\x7f-\x9f|#]*)?")
_MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")


class Occasion(Enum):
    """Moments of a job at which an address is told."""

    STARTED = "started"  # its first task runs
    ENDED = "ended"  # it has its final state
    FAILED = "failed"  # it ended without success, and nobody cancelled it
    LATE = "late"  # it may miss its deadline, or has missed it
    START_CHANGED = "start_changed"  # it waits, and is expected to start at another time


# What addresses are told that do not say.
OF_JOBS = (Occasion.ENDED, Occasion.LATE)
OF_GROUPS = (Occasion.FAILED, Occasion.LATE)


class Notify(msgspec.Struct, frozen=True):
    """An address: a URL that gets a POST request, or ``mailto:NAME@DOMAIN``; ``on``: what it is told, each once."""

    to: str
    on: tuple[Occasion, ...]

    def __str__(self) -> str:
        return " ".join((self.to, "on", *(occasion.value for occasion in self.on)))

    @property
    def mailbox(self) -> str:
        """The mailbox; empty for a URL."""
        scheme, _, rest = self.to.partition(":")
        return rest if scheme == "mailto" else ""

    @property
    def host(self) -> str:
        """The host of the URL, or the domain of the mailbox, in lower case."""
        if self.mailbox:
            return self.mailbox.rpartition("@")[2].lower()
        found = _URL.fullmatch(self.to)
        return "" if found is None else found["host"].strip("[]").lower()


def checked_address(text: str) -> str:
    """Return the address without spaces around it. Raises InputError."""
    text = text.strip()
    scheme, _, rest = text.partition(":")
    shown = repr(text if len(text) <= 80 else text[:80] + "…")
    if len(text) > MAX_ADDRESS:
        raise InputError(f"an address of {len(text):,} characters is too long", hint=f"at most {MAX_ADDRESS:,}")
    if re.fullmatch(_MAILBOX, text):
        raise InputError(f"{shown} is not an address", hint=f"mailto:{text}")
    if scheme.lower() == "mailto":
        if not _MAILBOX.fullmatch(rest):
            raise InputError(f"{shown} is not an address", hint="mailto:NAME@DOMAIN, one mailbox and nothing behind it")
        return f"mailto:{rest}"
    found = _URL.fullmatch(text)
    if found is None or int(found["port"] or 1) not in range(1, 65_536):
        raise InputError(f"{shown} is not an address", hint=ADDRESS_HINT)
    if found["user"]:
        # It would be shown to everybody who may see the job.
        raise InputError("an address may not contain a user or password", hint="a key that is part of the path")
    return text


def checked_words(words: Iterable[str]) -> tuple[Occasion, ...]:
    """Return what these words mean, in the order of ``Occasion``, each once. Raises InputError."""
    known = [occasion.value for occasion in Occasion]
    found = set()
    for word in words:
        plain = word.strip().lower().replace("-", "_")
        if plain not in known:
            raise InputError(f"{word!r} is nothing of which an address is told", hint=one_of(word, known))
        found.add(Occasion(plain))
    if not found:
        raise InputError("it does not say what is told", hint=", ".join(known))
    return tuple(occasion for occasion in Occasion if occasion in found)


def checked_all(entries: Sequence[Notify]) -> tuple[Notify, ...]:
    """Return the entries. Raises InputError if there are too many, or an address twice."""
    if len(entries) > MOST:
        raise InputError(f"{len(entries)} addresses are too many", hint=f"at most {MOST}")
    addresses = [entry.to for entry in entries]
    for address in addresses:
        if addresses.count(address) > 1:
            raise InputError(f"{address} is named twice", hint="once, with everything that it is told")
    return tuple(entries)


def parse_notify(text: str, default: tuple[Occasion, ...]) -> Notify:
    """Parse ``ADDRESS`` or ``ADDRESS on WORD WORD``. Raises InputError."""
    address, _, words = text.strip().partition(" ")
    if not words.strip():
        return Notify(checked_address(address), default)
    begin, *named = words.replace(",", " ").split()
    if begin.lower() != "on":
        raise InputError(f"{begin!r} follows an address", hint=f"{address} on failed late")
    return Notify(checked_address(address), checked_words(named))
