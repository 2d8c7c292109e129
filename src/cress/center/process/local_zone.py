"""The time zone of this machine, by its name in the time zone database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cress.model.errors import InputError
from cress.model.zones import zone_of

_LOCALTIME, _TIMEZONE = Path("/etc/localtime"), Path("/etc/timezone")
# The name of a zone follows this part of a path.
_DATABASE = "/zoneinfo/"


def local_zone(localtime: Path = _LOCALTIME, timezone: Path = _TIMEZONE) -> str:
    """Return the name of the local time zone, from ``TZ`` or the machine's files; empty if it has no name."""
    if not os.environ.get("TZ") and not localtime.exists():
        return "UTC"
    for name in _candidates(localtime, timezone):
        try:
            return str(zone_of(name))
        except InputError:
            continue
    return ""


def _candidates(localtime: Path, timezone: Path) -> Iterator[str]:
    given = os.environ.get("TZ")
    if given is not None:
        # An empty value means UTC; a colon may precede a name or a path.
        name = given.removeprefix(":") or "UTC"
        yield name.partition(_DATABASE)[2] or name
        return
    for path in (str(localtime.resolve()), str(localtime.readlink()) if localtime.is_symlink() else ""):
        yield path.partition(_DATABASE)[2].removeprefix("posix/").removeprefix("right/")
    try:
        yield timezone.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return
