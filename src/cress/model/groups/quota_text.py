"""Text of ``ResourceQuota``: a number, a vector, or a timetable of them (G).

In the vector of a quota a dimension may be of one kind of node: ``<40,160G,gpu(A100)=8>`` (``measures.py``).

``10; 07:30-09:00 = 20; Mon-Fri 17:30-19:30 = 20``: first the quota outside all windows, then windows of the local week,
each with its own quota. A window whose end is not after its start ends on the next day. Days are those on which it
starts (``Mon``, ``Mon-Fri``, ``Fri-Mon``, ``Mon,Wed,Sat-Sun``; without days: every day).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cress.model.errors import InputError, InputErrors
from cress.model.group import Quota, QuotaWindow
from cress.model.groups.measures import describe_measure, parse_measure, place_of, split
from cress.model.groups.timetable import DAY_MINUTES
from cress.model.resources import Dimensions
from cress.model.units import AMOUNT_LIMIT, closest, format_amount, parse_count, parse_dimension
from cress.model.vectors import format_vector, parse_vector

CPU, DOMINANT = "cpu", "dominant"
# Raw amount of one core (millicores) and of one server (millionths).
SCALE = {CPU: 1_000, DOMINANT: 1_000_000}
UNIT = {CPU: "cores", DOMINANT: "servers"}

# Maximum length of one quota or window in characters, and number of windows of one group.
MAX_TEXT = 1_000
MAX_WINDOWS = 200

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT = tuple(day[:3] for day in _DAYS)
_EVERY_DAY = tuple(range(7))
_WINDOW = re.compile(r"(?P<days>.*?)\s*(?P<start>[0-9]{1,9}:[0-9]{1,9})\s*[-–]\s*(?P<end>[0-9]{1,9}:[0-9]{1,9})")
_WINDOW_HINT = "a window such as 07:30-09:00 = 20 or Mon-Fri 17:30-19:30 = 20"


def parse_resource_quota(text: str, accounting: str, dimensions: Dimensions) -> tuple[Quota, tuple[QuotaWindow, ...]]:
    """Parse the quota outside all windows, and the windows. Raises InputErrors with every mistake of the value."""
    first, *rest = text.split(";")
    if len(rest) > MAX_WINDOWS:
        raise InputError(f"{len(rest):,} windows are too many", hint=f"at most {MAX_WINDOWS} for a group")
    errors: list[InputError] = []
    quotas: list[Quota] = []
    windows: list[QuotaWindow] = []
    try:
        quotas.append(_parse_guarantee(first, accounting, dimensions))
    except InputError as error:
        errors.append(error)
    for part in rest:
        try:
            windows.append(_parse_window(part, accounting, dimensions))
        except InputError as error:
            errors.append(error)
    quotas += [window.quota for window in windows]
    if len({bool(quota.amounts) for quota in quotas}) > 1:
        errors.append(InputError("numbers and vectors are mixed", hint="all numbers, or all vectors"))
    if errors:
        raise InputErrors(errors)
    return quotas[0], tuple(windows)


def parse_bound(text: str, accounting: str, dimensions: Dimensions, *, zero: bool = False) -> Quota:
    """Parse a bound in the measures of a quota: a number or a vector. ``zero`` also allows ``0``, nothing at all."""
    if ";" in text:
        raise InputError("has no timetable", hint="a number or a vector, the same all week")
    if zero and text.strip() in ("0", "<0>"):
        return Quota()
    return _parse_quota(text, accounting, dimensions, zero=zero)


def format_bound(quota: Quota, accounting: str, dimensions: Dimensions) -> str:
    """Return the text that ``parse_bound`` reads as this bound."""
    return format_quota(quota, accounting, dimensions) if quota != Quota() else "0"


def format_resource_quota(
    quota: Quota, windows: tuple[QuotaWindow, ...], accounting: str, dimensions: Dimensions
) -> str:
    """Return the text that ``parse_resource_quota`` reads as this quota and these windows."""
    parts = [format_quota(quota, accounting, dimensions)]
    parts += [f"{_window_text(window)} = {format_quota(window.quota, accounting, dimensions)}" for window in windows]
    return "; ".join(parts)


def format_quota(quota: Quota, accounting: str, dimensions: Dimensions) -> str:
    """Format one quota: whole cores or servers, or a vector. Raises InputError if it is not a whole number."""
    if quota.amounts:
        return format_measures(dict(quota.amounts), dimensions)
    whole, rest = divmod(quota.scalar, SCALE[accounting])
    if rest or whole < 1:
        raise InputError(f"a quota of {quota.scalar}/{SCALE[accounting]} {UNIT[accounting]}", hint="a whole number")
    return str(whole)


def format_measures(amounts: Mapping[str, int], dimensions: Dimensions) -> str:
    """Format amounts by measure as a vector, kinds of nodes last; ``<0>`` for nothing at all."""
    plain = {name: amount for name, amount in amounts.items() if not split(name)[1]}
    kinds = [
        f"{name}={format_amount(amounts[name], dimensions.measure(split(name)[0]))}"
        for name in sorted(amounts.keys() - plain.keys(), key=lambda name: place_of(name, dimensions))
        if amounts[name]
    ]
    if not kinds:
        return format_vector(dimensions.vector(**plain), dimensions)
    if any(plain.values()):
        kinds.insert(0, format_vector(dimensions.vector(**plain), dimensions)[1:-1])
    return f"<{','.join(kinds)}>"


def format_moment(minute_of_week: int) -> str:
    """Format a minute of the week as ``Mon 07:30``."""
    day, minute = divmod(minute_of_week, DAY_MINUTES)
    return f"{_SHORT[day]} {_clock(minute)}"


def _parse_guarantee(text: str, accounting: str, dimensions: Dimensions) -> Quota:
    """Parse one quota of a timetable.

    Raises InputError also if kinds of nodes together have more of a dimension than the quota has in all.
    """
    quota = _parse_quota(text, accounting, dimensions)
    amounts = dict(quota.amounts)
    kinds: dict[str, list[str]] = {}
    for name in amounts:
        if split(name)[1]:
            kinds.setdefault(split(name)[0], []).append(name)
    for dimension, names in kinds.items():
        together, whole = sum(amounts[name] for name in names), amounts.get(dimension)
        if whole is not None and together > whole:
            has = describe_measure(together, names[0] if len(names) == 1 else dimension, dimensions)
            which = has if len(names) == 1 else f"{has} of the kinds {', '.join(split(name)[1] for name in names)}"
            least = format_amount(together, dimensions.measure(dimension))
            raise InputError(
                f"{which} are more than the {describe_measure(whole, dimension, dimensions)} of all kinds",
                hint=f"{dimension}={least} or more, which counts all kinds",
            )
    return quota


def _parse_quota(text: str, accounting: str, dimensions: Dimensions, *, zero: bool = False) -> Quota:
    stripped = _short(text)
    if _WINDOW.match(" ".join(stripped.split())):
        quota, comma, window = (part.strip() for part in stripped.partition(","))
        if comma and quota.isdecimal():
            raise InputError(f"{window!r} follows a comma", hint=f"{quota}; {window}")
        raise InputError("the quota outside the windows is missing", hint=f"10; {stripped}")
    if "<" in stripped or "(" in stripped:
        if accounting != DOMINANT:
            raise InputError(
                f"the vector {stripped} is not a quota in the accounting {accounting}",
                hint=f"a whole number of {UNIT[accounting]}, or the accounting {DOMINANT}",
            )
        return Quota(amounts=_parse_measures(stripped, dimensions))
    scale = SCALE[accounting]
    try:
        count = parse_count(stripped, least=1, most=(AMOUNT_LIMIT - 1) // scale)
    except InputError as error:
        or_vector = " or a vector such as <40,160G>" if accounting == DOMINANT else ""
        what = error.what if stripped else "a quota is missing"
        number = "whole number of {} such as 10, 0 for nothing" if zero else "positive whole number of {} such as 10"
        raise InputError(what, hint=f"a {number.format(UNIT[accounting])}{or_vector}") from None
    return Quota(scalar=count * scale)


def _parse_measures(text: str, dimensions: Dimensions) -> tuple[tuple[str, int], ...]:
    """Return the amounts above 0 of a vector by measure: dimensions in their order, then kinds of nodes.

    Raises InputError.
    """
    if text.startswith("<") != text.endswith(">"):
        raise InputError(f"{text!r} has only one angle bracket", hint="<40,160G,gpu(A100)=8>")
    inner = text[1:-1] if text.startswith("<") else text
    kinds: dict[str, int] = {}
    others: list[str] = []
    for part in inner.split(","):
        key, _, value = part.partition("=")
        if "(" not in key:
            name, colon, kind = (word.strip() for word in key.partition(":"))
            if colon and name in dimensions.index:
                raise InputError(f"{key.strip()!r} is not a dimension", hint=f"{name}({kind})={value.strip() or 1}")
            if kinds and "=" not in part:
                raise InputError(f"{part.strip()!r} follows a part with a name", hint="parts with names come last")
            others.append(part)
            continue
        try:
            measure = parse_measure(key, dimensions)
        except InputError as error:
            raise error.at(field=key.strip()) from None
        if not value.strip():
            raise InputError("an amount is missing", hint=f"{measure}=8", field=measure)
        if measure in kinds:
            raise InputError(f"{measure} is given twice", hint="each kind of node once", field=measure)
        try:
            kinds[measure] = parse_dimension(value, split(measure)[0], dimensions)
        except InputError as error:
            raise error.at(field=measure) from None
        if not kinds[measure]:
            raise InputError(
                "0 of a kind of node has no effect", hint="leave it out, or an amount above 0", field=measure
            )
    vector = parse_vector(f"<{','.join(others)}>", dimensions) if others else ()
    amounts = {name: amount for name, amount in zip(dimensions.names, vector, strict=False) if amount}
    amounts |= {name: kinds[name] for name in sorted(kinds, key=lambda name: place_of(name, dimensions))}
    if not amounts:
        raise InputError(f"the quota {text} is empty", hint="at least one amount above 0")
    return tuple(amounts.items())


def _short(text: str) -> str:
    """Strip a quota or window. Raises InputError for a text above the maximum length."""
    stripped = text.strip()
    if len(stripped) > MAX_TEXT:
        hint = f"at most {MAX_TEXT}; a quota such as 10, or {_WINDOW_HINT}"
        raise InputError(f"a text of {len(stripped):,} characters is too long", hint=hint)
    return stripped


def _parse_window(text: str, accounting: str, dimensions: Dimensions) -> QuotaWindow:
    text = _short(text)
    when, equals, quota = text.partition("=")
    found = _WINDOW.fullmatch(" ".join(when.split()))
    if not equals or not found:
        if not text:
            raise InputError("a window is empty", hint=f"{_WINDOW_HINT}; no ; at the end")
        raise InputError(f"{text!r} is not a window", hint=_WINDOW_HINT)
    return QuotaWindow(
        days=parse_days(found["days"]),
        start=_parse_clock(found["start"], last=DAY_MINUTES - 1),
        # 24:00 is 00:00 of the next day, at which a window that crosses midnight ends.
        end=_parse_clock(found["end"], last=DAY_MINUTES) % DAY_MINUTES,
        quota=_parse_guarantee(quota, accounting, dimensions),
    )


def _parse_clock(text: str, last: int) -> int:
    hours, _, minutes = text.partition(":")
    value = int(hours) * 60 + int(minutes) if len(hours) <= 2 else DAY_MINUTES + 1
    if len(minutes) != 2 or int(minutes) > 59 or value > last:
        raise InputError(f"{text!r} is not a time of day", hint=f"hours:minutes from 00:00 to {_clock(last)}")
    return value


def parse_days(text: str) -> tuple[int, ...]:
    """Parse days such as ``Mon-Fri,Sun`` (0 Monday … 6); an empty result means all days. Raises ``InputError``."""
    if not text.strip():
        return _EVERY_DAY
    days: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.replace("–", "-").partition("-")
        start = _parse_day(first)
        end = _parse_day(last) if dash else start
        days.update((start + k) % 7 for k in range((end - start) % 7 + 1))
    return tuple(sorted(days))


def _parse_day(text: str) -> int:
    word = text.strip().lower()
    for day, name in enumerate(_DAYS):
        if len(word) >= 3 and name.lower().startswith(word):
            return day
    near = closest(word, (*_SHORT, *_DAYS))
    guess = f"did you mean {near[:3]}? " if near else ""
    raise InputError(
        f"{text.strip()!r} is not a day", hint=guess + "days such as Mon, Mon-Fri or Mon,Wed; none for every day"
    )


def _window_text(window: QuotaWindow) -> str:
    end = window.end or DAY_MINUTES
    days = days_text(window.days)
    return f"{days} {_clock(window.start)}-{_clock(end)}".lstrip()


def days_text(days: tuple[int, ...]) -> str:
    """Format days for ``parse_days``; empty if they are all."""
    if days == _EVERY_DAY:
        return ""
    parts = []
    for day in days:
        if (day - 1) % 7 in days:
            continue  # inside a range
        last = day
        while (last + 1) % 7 in days:
            last = (last + 1) % 7
        parts.append(_SHORT[day] if last == day else f"{_SHORT[day]}-{_SHORT[last]}")
    return ",".join(parts)


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
