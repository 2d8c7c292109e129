"""Texts and numbers as pages show them; the filters of the templates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import msgspec
from markupsafe import Markup, escape

from cress.model.explanation import why_unknown
from cress.model.units import rounded_duration

# The class of a state in the style sheet, which gives it a colour; the word itself is always shown too.
TONES = {
    "waiting": "wait",
    "pending": "wait",
    "starting": "wait",
    "running": "run",
    "up": "good",
    "succeeded": "good",
    "free": "good",
    "met": "good",
    "fine": "good",
    "active": "run",
    "held": "run",
    "used": "run",
    "exclusive": "run",
    "shared": "run",
    "coming": "wait",
    "stopping": "wait",
    "kept": "off",
    "at_risk": "wait",
    "overloaded": "wait",
    "cordoned": "wait",
    "draining": "wait",
    "drained": "wait",
    "cancelled": "off",
    "preempted": "off",
}
# Characters of a command, and of all variables of a job, on its page.
MOST_OF_TEXT = 1_000
# Characters that turn the direction of text.
TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Words that were not listed are failures, except these, which say nothing yet.
NEUTRAL = ("", "unknown")


def tone(state: str) -> str:
    """Return the class of a state: wait, run, good, off or bad."""
    return TONES.get(state, "off" if state in NEUTRAL else "bad")


def duration(seconds: float | None) -> str:
    """Return a duration rounded for people, such as ``2h 5min``."""
    if seconds is None:
        return ""
    return rounded_duration(max(0, round(seconds * 1000)) * 1000)


def moment(at: float | None) -> Markup:
    """Return a moment (seconds since the epoch) as UTC; the script shows it in the time zone of the viewer."""
    if at is None:
        return Markup("")
    when = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}" data-at="{}">{} UTC</time>').format(
        when.isoformat(timespec="seconds"), f"{at:.3f}", when.strftime("%Y-%m-%d %H:%M:%S")
    )


def count(number: int, noun: str) -> str:
    """Return ``1 job`` or ``12,000 jobs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def amounts(resources: Mapping[str, str]) -> str:
    """Return resources on one line: ``cpu 2, memory 4G``."""
    return ", ".join(f"{name} {amount}" for name, amount in resources.items())


def size(count: float) -> str:
    """Return a number of bytes in its largest unit: ``512 B``, ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f}".removesuffix(".0") + f" {unit}"
        count /= 1024
    return f"{count:,.1f}".removesuffix(".0") + " TiB"


def some(amount: str) -> str:
    """Return an amount or a vector of amounts; empty if it is nothing."""
    return amount if any(digit in amount for digit in "123456789") else ""


def thousandths(amount: int) -> str:
    """Return thousandths of a device as per cent: ``30 %``, ``33.3 %``."""
    return f"{amount / 10:.1f}".removesuffix(".0") + " %"


def sent(value: object) -> Markup:
    """Return the value of a field of a form, which the browser sends back: every character as it is.

    Those that ``plain_order`` writes out are character references, which it does not see and the browser reads.
    """
    return Markup(TURNS.sub(lambda found: f"&#{ord(found[0])};", escape(value)))  # noqa: S704 – escaped


def plain_order(value: object) -> object:
    """Return a value as it is shown: characters that turn the direction of the text around them are written out.

    Else a user's text could show something else than it is, such as a command.
    """
    if not isinstance(value, str) or value.isascii() or not TURNS.search(value):
        return value
    shown = TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return Markup(shown) if isinstance(value, Markup) else shown  # noqa: S704 – as escaped as it was


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def share(used: float, capacity: float) -> float:
    """Return used / capacity as a number from 0 to 1; 0 without capacity."""
    return min(1.0, max(0.0, used / capacity)) if capacity > 0 else 0.0


def variables(environment: Mapping[str, str]) -> str:
    """Return the variables of a job on one line."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())


def cut(text: str) -> str:
    """Return a text of at most some lines; the rest, such as a whole script, would hide the other facts."""
    return text if len(text) <= MOST_OF_TEXT else f"{text[:MOST_OF_TEXT]} …"


def host(url: str) -> str:
    """Return the host of an address, as people call a server."""
    return urlsplit(url).netloc or url


def script_data(value: object) -> Markup:
    """Return a value as JSON for a ``script`` element, which ends at no tag within it."""
    return Markup(msgspec.json.encode(value).decode().replace("<", "\\u003c"))  # noqa: S704 – no tag is left in it


FILTERS = {
    "script_data": script_data,
    "host": host,
    "tone": tone,
    "duration": duration,
    "moment": moment,
    "why_unknown": why_unknown,
    "count": count,
    "amounts": amounts,
    "bytes": size,
    "thousandths": thousandths,
    "some": some,
    "sent": sent,
    "segment": segment,
    "command": shlex.join,
    "variables": variables,
    "cut": cut,
}
