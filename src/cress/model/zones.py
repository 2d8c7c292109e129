"""Time zones by name: the only module of the pure rooms that reads files, those of the time zone database.

Zones are constants: a zone is cached, and is the same on every machine with the same version of the database.
"""

from __future__ import annotations

import functools
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from cress.model.errors import InputError
from cress.model.units import closest

# Entries of the database other than places: a copy with leap seconds, and the setting of the computer.
_NO_ZONES = ("posix/", "right/", "localtime", "posixrules", "Factory")


@functools.lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """Return the time zone of this name. Raises ``InputError``."""
    if name == str(UTC):
        return UTC
    try:
        if not name.startswith(_NO_ZONES):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    near = _near(name)
    hint = f"did you mean {near}?" if near else "a name such as Europe/Berlin, Asia/Shanghai or UTC"
    raise InputError(f"there is no time zone {name!r}", hint=hint, field="zone")


@functools.cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


def _near(name: str) -> str | None:
    """Return the zone that was probably meant: the name in another case, a zone with this city, or a similar name."""
    names = _names()
    plain = name.strip().lower().replace(" ", "_")
    same = {zone.lower(): zone for zone in names}
    cities = {zone.rpartition("/")[2].lower(): zone for zone in names if "/" in zone and not zone.startswith("Etc/")}
    return same.get(plain) or cities.get(plain.rpartition("/")[2]) or closest(name, names)
