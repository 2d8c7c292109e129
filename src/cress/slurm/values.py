"""Values of Slurm's options as text: times, amounts of memory, counts."""

from __future__ import annotations

import re

from cress.model.errors import InputError

MINUTE, HOUR, DAY = 60, 3600, 86400
_UNITS = {"": 20, "K": 10, "M": 20, "G": 30, "T": 40}
_ENDLESS = ("UNLIMITED", "INFINITE", "-1")


def seconds(text: str) -> int | None:
    """Return the seconds of a time limit; ``None`` for ``UNLIMITED`` and for 0, which means no limit.

    The spellings are ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours``,
    ``days-hours:minutes`` and ``days-hours:minutes:seconds``. Raises InputError.
    """
    word = text.strip()
    if word.upper() in _ENDLESS:
        return None
    found = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", word)
    if found is None:
        raise InputError(
            f"{text!r} is not a time", hint="minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS, such as 1-12:00:00"
        )
    days, first, second, third = (int(part) if part else None for part in found.groups())
    assert first is not None
    if days is not None:
        total = days * DAY + first * HOUR + (second or 0) * MINUTE + (third or 0)
    elif third is not None:
        total = first * HOUR + (second or 0) * MINUTE + third
    else:
        total = first * MINUTE + (second or 0)
    return total or None


def time_text(total: float) -> str:
    """Return seconds as ``[D-]HH:MM:SS``."""
    minutes, rest = divmod(max(int(total), 0), MINUTE)
    days, minutes = divmod(minutes, DAY // MINUTE)
    clock = f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"
    return f"{days}-{clock}" if days else clock


def short_time_text(total: float) -> str:
    """Return seconds as ``squeue`` prints them: ``M:SS``, ``H:MM:SS`` or ``D-HH:MM:SS``."""
    whole = max(int(total), 0)
    if whole >= DAY:
        return time_text(whole)
    if whole >= HOUR:
        return f"{whole // HOUR}:{whole % HOUR // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def memory(text: str) -> int:
    """Return the bytes of an amount of memory: megabytes without a unit, else K, M, G or T, in powers of 1024.

    Raises InputError.
    """
    found = re.fullmatch(r"(\d{1,15})(?:([KMGT])(?:i?B)?)?[nc]?", text.strip(), re.IGNORECASE)
    if found is None:
        raise InputError(f"{text!r} is not an amount of memory", hint="megabytes, or with a unit: 4000, 4000M, 4G")
    return int(found[1]) << _UNITS[(found[2] or "").upper()]


def memory_text(amount: float) -> str:
    """Return bytes as ``seff`` prints them: ``1.50 GB``."""
    for unit, shift in (("TB", 40), ("GB", 30), ("MB", 20)):
        if amount >= 1 << shift:
            return f"{amount / (1 << shift):.2f} {unit}"
    return f"{amount / 1024:.2f} KB"


def number(text: str, *, least: int = 1, most: int = 10_000_000) -> int:
    """Return a whole number between these bounds. Raises InputError."""
    word = text.strip()
    if not re.fullmatch(r"\d{1,12}", word) or not least <= int(word) <= most:
        raise InputError(f"{text!r} is not a number from {least} to {most:,}", hint=f"such as {max(least, 4)}")
    return int(word)


def node_count(text: str) -> int:
    """Return the number of nodes in ``2`` or ``2-4``, of which the least counts. Raises InputError."""
    least, _, most = text.strip().partition("-")
    found = number(least)
    if most and number(most) < found:
        raise InputError(f"{text!r} has more nodes at least than at most", hint="such as 2-4")
    return found
