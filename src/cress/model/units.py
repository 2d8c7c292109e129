"""Amounts, durations and shares: text to exact integers and back.

Everything is computed with integers, never with floats, so that a text either means exactly one value or is
refused. The formatters give the shortest text (of the plain ways to write it) that parses back to the same
value.

| what | written | kept as | K, M, G, T |
|---|---|---|---|
| cpu, custom dimensions | ``4``, ``2.5``, ``2.5 cores``, ``500m`` | thousandths | – |
| memory | ``8G``, ``512M``, ``1048576``, ``8GB`` = ``8GiB`` = ``8G`` | bytes | powers of 1024 |
| network | ``500M``, ``10 Gbit/s`` | bit/s | powers of 1000 |
| disk | ``50M``, ``50MB/s`` | bytes/s | powers of 1000 |
| disk operations | ``500``, ``2K``, ``2K/s`` | operations/s | powers of 1000 |
| durations | ``90s``, ``1h30m``, ``5min``, ``250ms``, ``1d``; a plain number is seconds | microseconds | – |
| shares | ``0.9``, ``90%`` | exact decimal | – |
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import islice

from cress.model.errors import InputError
from cress.model.resources import Dimensions, Measure
from cress.model.times import DAY, HOUR, MILLISECOND, MINUTE, SECOND

# Bound of an amount of one vector, so that sums over thousands of nodes stay within int64.
AMOUNT_LIMIT = 2**50
# A hundred years: anything longer is a typing error, and now + duration must stay below ``times.NEVER``.
DURATION_LIMIT = 36_500 * DAY
# Maximum length of a text; it also keeps the integers below small.
MAX_TEXT = 60

# Limits of "did you mean": characters of a word, compared words, and words in a hint.
MAX_WORD = 200
MOST_COMPARED = 200
MOST_LISTED = 100

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")

_PREFIXES = ("", "K", "M", "G", "T")
_SPELLINGS: dict[Measure, tuple[str, ...]] = {
    Measure.BYTES: ("", "B", "iB", "i", " bytes"),
    Measure.BITS_PER_SECOND: ("", "bit/s", "bit", "bits/s", "bps", "b/s", "b"),
    Measure.BYTES_PER_SECOND: ("", "B/s", "B", "bytes/s", "Bps", "/s"),
    Measure.OPERATIONS_PER_SECOND: ("", "/s", "iops", "ops", "op/s", "ops/s"),
}
_EXPECTED: dict[Measure, str] = {
    Measure.MILLI: "a number such as 4, 2.5 or 500m",
    Measure.BYTES: "bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024",
    Measure.BITS_PER_SECOND: "bits per second such as 500M or 10 Gbit/s; K, M, G, T are powers of 1000",
    Measure.BYTES_PER_SECOND: "bytes per second such as 50M or 50MB/s; K, M, G, T are powers of 1000",
    Measure.OPERATIONS_PER_SECOND: "operations per second such as 500 or 2K; K, M, G, T are powers of 1000",
}
_FINEST: dict[Measure, str] = {
    Measure.MILLI: "thousandths",
    Measure.BYTES: "whole bytes",
    Measure.BITS_PER_SECOND: "whole bits per second",
    Measure.BYTES_PER_SECOND: "whole bytes per second",
    Measure.OPERATIONS_PER_SECOND: "whole operations per second",
}
_LONG_SUFFIX: dict[Measure, str] = {
    Measure.BITS_PER_SECOND: "bit/s",
    Measure.BYTES_PER_SECOND: "B/s",
    Measure.OPERATIONS_PER_SECOND: "/s",
}
# The last letters of amounts of memory in Slurm.
_SLURM = {"n": "per node", "c": "per core"}
_CPU_WORDS = ("core", "cores", "cpu", "cpus")

# Spelling → µs; the first spelling of each unit is the one that is written.
_DURATIONS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (7 * DAY, ("w", "week", "weeks")),
    (DAY, ("d", "day", "days")),
    (HOUR, ("h", "hr", "hour", "hours")),
    (MINUTE, ("m", "min", "mins", "minute", "minutes")),
    (SECOND, ("s", "sec", "secs", "second", "seconds")),
    (MILLISECOND, ("ms", "millisecond", "milliseconds")),
    (1, ("us", "µs", "μs", "microsecond", "microseconds")),
)
_DURATION_UNIT: dict[str, int] = {word: unit for unit, words in _DURATIONS for word in words}
_WRITTEN = tuple((unit, words[0]) for unit, words in _DURATIONS if unit != 7 * DAY)
# Days before a hyphen, then hours, minutes and seconds between colons; two numbers are minutes and seconds.
_CLOCK = re.compile(r"(?=.*[-:])(?:(\d{1,7})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_DURATION_HINT = "a duration such as 90s, 5min, 1h30m, 2h or 1d; a plain number is seconds"
_SHARE_HINT = "a share such as 0.9 or 90%"


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word most similar to ``word``, compared without case and ``_``; "" if none is.

    If there are very many known words, only those with the same beginning are compared.
    """
    wanted = _plain(word[:MAX_WORD])
    known = list(known)
    if len(known) > MOST_COMPARED:
        first = (word[:1].lower(), word[:1].upper())
        alike = (name for name in known if name.startswith(first) and abs(len(name) - len(word)) <= 2)
        known = list(islice(alike, MOST_COMPARED))
    plain = {_plain(name): name for name in known if len(name) <= MAX_WORD}
    found = difflib.get_close_matches(wanted, plain, n=3, cutoff=0.6)
    return next((plain[name] for name in found if _is_near(wanted, name)), "")


def _is_near(word: str, known: str) -> bool:
    """Return whether few letters were mistyped, or one of the words is the beginning of the other.

    Words that merely share letters, such as ``canary`` and ``near``, are not near.
    """
    short, long = sorted((word, known), key=len)
    return (len(short) > 2 and long.startswith(short)) or _edits(word, known) <= 1 + len(word) // 4


def _edits(word: str, other: str) -> int:
    """Return the fewest letters to insert, leave out, replace, or exchange with their neighbour (optimal alignment)."""
    earlier: list[int] = []
    before = list(range(len(other) + 1))
    for i, letter in enumerate(word, start=1):
        row = [i]
        for j, wanted in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        earlier, before = before, row
    return before[-1]


def one_of(word: str, known: Iterable[str]) -> str:
    """Return the hint for a word that is not in ``known``: the closest word, else all of them, or the first of very
    many.
    """
    names = list(known)
    near = closest(word, names)
    if near:
        return f"did you mean {near}?"
    more = len(names) - MOST_LISTED
    return "one of " + ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def parse_amount(text: str, measure: Measure, *, words: tuple[str, ...] = ()) -> int:
    """Parse a raw integer amount; units may be in any case.

    ``words`` are further names of the unit itself (``cores``). Raises InputError for an unknown unit, a negative
    amount, one finer than the measure, and one of ``AMOUNT_LIMIT`` or more.
    """
    digits, places, unit = _split(text, _EXPECTED[measure])
    factors = _factors(measure, words)
    factor = factors.get(unit.lower().replace(" ", ""))
    if factor is None or (measure is Measure.MILLI and unit == "M"):
        raise _unknown_unit(text, unit, measure, factors)
    if measure is Measure.BITS_PER_SECOND and "B" in unit:
        bits = _shortest(digits * factor * 8 // _power(10, places), measure)
        raise InputError(f"{text!r} is in bytes, network is in bits", hint=f"did you mean {bits}bit/s?")
    value, rest = divmod(digits * factor, _power(10, places))
    if rest:
        hint = f"{_FINEST[measure]}, for instance {format_amount(max(value, 1), measure)}"
        raise InputError(f"{text!r} is finer than {_FINEST[measure]}", hint=hint)
    if value >= AMOUNT_LIMIT:
        raise InputError(f"{text!r} is too large", hint=f"less than {_shortest(AMOUNT_LIMIT, measure)}")
    return value


def format_amount(value: int, measure: Measure) -> str:
    """Return the shortest exact text of a raw amount: ``8G``, ``2.5``, ``50m``, ``1500``.

    The sum over a cluster may be ``AMOUNT_LIMIT`` or more, which no single node or job has.
    """
    if value < 0:
        raise InputError(f"{value} is not an amount", hint="0 or more")
    return _shortest(value, measure)


def parse_dimension(text: str, name: str, dimensions: Dimensions) -> int:
    """Parse a raw amount of dimension ``name``; its own name may follow the number (``2.5 cores``, ``2 gpus``)."""
    if name not in dimensions.index:
        raise InputError(f"unknown dimension {name!r}", hint=one_of(name, dimensions.names))
    words: tuple[str, ...] = ()
    if name == "cpu":
        words = _CPU_WORDS
    elif name in dimensions.custom:
        words = (name, name + "s")
    return parse_amount(text, dimensions.measure(name), words=words)


def describe_amount(value: int, name: str, dimensions: Dimensions) -> str:
    """Return an amount with its unit, for people; it parses back: ``2.5 cores``, ``8G``, ``500Mbit/s``, ``2 gpu``."""
    measure = dimensions.measure(name)
    if measure is Measure.MILLI:
        number = _decimal(value, 1000) or ""
        return f"{number} {'core' if value == 1000 else 'cores'}" if name == "cpu" else f"{number} {name}"
    return format_amount(value, measure) + _LONG_SUFFIX.get(measure, "")


def describe_named(value: int, name: str, dimensions: Dimensions) -> str:
    """Return an amount for sentences, with the dimension's name unless the unit implies it: ``4 cores``, ``memory 8G``,
    ``2 gpu``.
    """
    text = describe_amount(value, name, dimensions)
    return text if name == "cpu" or name in dimensions.custom else f"{name} {text}"


def parse_duration(text: str) -> int:
    """Parse a duration; return µs. It has parts with units from large to small; a plain number means seconds."""
    hint = _DURATION_HINT
    rest = _checked(text, hint)
    if clock := _CLOCK.fullmatch(rest):
        raise InputError(f"{text!r} is not a duration", hint=f"{_from_clock(clock)} {hint}")
    total, smallest, exact = 0, 8 * DAY, True
    alone = True
    while rest:
        digits, places, rest = _number(text, rest, hint)
        word = re.match(r"[^0-9.\s]*", rest)
        unit_text = word.group() if word else ""
        rest = rest[len(unit_text) :].lstrip()
        if not unit_text and not (alone and not rest):
            raise InputError(f"{text!r} has a number without a unit", hint=hint)
        unit = _duration_unit(text, unit_text) if unit_text else SECOND
        if unit >= smallest or not exact:
            raise InputError(
                f"{text!r} is not a duration", hint="parts from large to small, each once, decimals only in the last"
            )
        value, beyond = divmod(digits * unit, _power(10, places))
        if beyond:
            raise InputError(f"{text!r} is finer than microseconds", hint="whole microseconds")
        total, smallest, exact, alone = total + value, unit, places == 0, False
    if total > DURATION_LIMIT:
        raise InputError(f"{text!r} is too long", hint=f"at most {format_duration(DURATION_LIMIT)}, a hundred years")
    return total


def _from_clock(clock: re.Match[str]) -> str:
    """Return a question for a duration as Slurm and PBS write it, such as ``1-12:30:00``, in our spelling."""
    days, *numbers = clock.groups()
    parts = [number for number in numbers if number is not None]
    # Slurm and PBS count minutes and seconds; people often mean hours and minutes.
    orders = ["hms"] if days is not None or len(parts) == 3 else ["ms", "hm"]
    meant = [
        "".join(
            f"{int(number)}{unit}"
            for number, unit in zip([days or "0", *parts], "d" + order, strict=False)
            if int(number)
        )
        for order in orders
    ]
    return f"did you mean {' or '.join(text or '0s' for text in meant)}?"


def format_duration(value: int) -> str:
    """Return the shortest exact text of a duration in µs, with a unit: ``90s``, ``2h``, ``250ms``, ``0s``."""
    if not 0 <= value <= DURATION_LIMIT:
        raise InputError(f"{value} µs is not a duration", hint="0 or more and at most a hundred years")
    if value == 0:
        return "0s"
    candidates: list[tuple[int, bool, int, str]] = []
    for rank, (unit, word) in enumerate(_WRITTEN):
        number = _decimal(value, unit)
        if number is not None:
            candidates.append(_candidate(number + word, rank))
        left, parts = value, ""
        for smaller, name in _WRITTEN[rank:]:
            count, left = divmod(left, smaller)
            parts += f"{count}{name}" if count else ""
        candidates.append(_candidate(parts, rank))
    return min(candidates)[-1]


def rounded_duration(value: int) -> str:
    """Return a duration in µs as people would say it: rounded down to days, hours, minutes, seconds or milliseconds, so
    that it has few digits. It is valid as a duration in job files.
    """
    if value < SECOND:
        return format_duration(max(0, value) // MILLISECOND * MILLISECOND)
    steps = ((10 * DAY, DAY), (2 * DAY, HOUR), (10 * MINUTE, MINUTE))
    unit = next((unit for least, unit in steps if value >= least), SECOND)
    left, told = min(value, DURATION_LIMIT) // unit * unit, ""
    for size, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")):
        number, left = divmod(left, size)
        told += f"{number}{letter}" if number else ""
    return told


def parse_share(text: str) -> Decimal:
    """Parse ``0.9`` or ``90%`` into an exact decimal; not negative, not limited to 1."""
    digits, places, unit = _split(text, _SHARE_HINT)
    if unit not in ("", "%"):
        raise InputError(f"{text!r} has an unknown unit {unit!r}", hint=_SHARE_HINT)
    if unit:
        places += 2
    return Decimal((0, tuple(int(digit) for digit in str(digits)), -places))


def format_share(value: Decimal | float) -> str:
    """Return the plain decimal text of a share: ``0.9``, ``2``; never with an exponent."""
    text = format(value if isinstance(value, Decimal) else Decimal(repr(value)), "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def format_fraction(value: Fraction, places: int = 6) -> str:
    """Return the decimal text of a number of any size, rounded to ``places`` decimals; never with an exponent."""
    # Not str(int), which refuses more than some thousand digits, nor a float, which ends at 1e308.
    digits = str(Decimal(round(value * 10**places))).zfill(places + 1)
    whole, part = digits[:-places], digits[-places:].rstrip("0")
    return f"{whole}.{part}" if part else whole


def parse_count(text: str, *, least: int = 0, most: int = AMOUNT_LIMIT - 1) -> int:
    """Parse a whole number from ``least`` to ``most``."""
    stripped = text.strip()
    hint = f"a whole number from {least} to {most}"
    if not re.fullmatch(r"[0-9]{1,20}", stripped):
        what = "is too small" if re.fullmatch(r"-[0-9]{1,20}", stripped) else "is not a whole number"
        raise InputError(f"{_shown(text)} {what}", hint=hint)
    value = int(stripped)
    if not least <= value <= most:
        raise InputError(f"{value} is too {'small' if value < least else 'large'}", hint=hint)
    return value


def _checked(text: str, hint: str) -> str:
    stripped = text.strip()
    if not stripped:
        raise InputError("nothing is given", hint=hint)
    if len(stripped) > MAX_TEXT:
        raise InputError(f"{_shown(stripped)} is too long a text", hint=hint)
    if re.match(r"[-−]\s*[0-9.]", stripped):
        raise InputError(f"{stripped!r} is negative", hint=hint)
    return stripped


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…")


def _number(text: str, rest: str, hint: str) -> tuple[int, int, str]:
    """Split off the number at the start of ``rest``; return its digits, its decimal places, and the rest."""
    found = _NUMBER.match(rest)
    if not found:
        raise InputError(
            f"{text!r} does not begin with a number" if rest == text else f"{text!r} is garbled", hint=hint
        )
    whole, _, fraction = found.group().partition(".")
    follows = rest[found.end() :].lstrip()
    if follows.startswith(","):
        raise InputError(f"{text!r} has a comma in a number", hint="decimals after a point, nothing between thousands")
    return int(whole + fraction), len(fraction), follows


def _split(text: str, hint: str) -> tuple[int, int, str]:
    return _number(text, _checked(text, hint), hint)


@lru_cache(maxsize=64)
def _factors(measure: Measure, words: tuple[str, ...]) -> Mapping[str, int]:
    """Return every spelling of a unit in lower case, with its size in raw amounts."""
    if measure is Measure.MILLI:
        return {**{word.lower(): 1000 for word in words}, "": 1000, "m": 1}
    return {
        (prefix + spelling.strip()).lower(): _power(_step(measure), power)
        for power, prefix in enumerate(_PREFIXES)
        for spelling in _SPELLINGS[measure]
        if prefix or not spelling.startswith("i") or spelling == "iops"
    }


def _step(measure: Measure) -> int:
    return 1024 if measure is Measure.BYTES else 1000


def _power(base: int, exponent: int) -> int:
    # mypy takes ** of two integers for Any, because of negative exponents.
    return int(base**exponent)


def _unknown_unit(text: str, unit: str, measure: Measure, factors: Mapping[str, int]) -> InputError:
    if measure is Measure.MILLI:
        near = "m" if unit == "M" else closest(unit, (factor for factor in factors if factor))
    else:
        # The letter is clear, as in 8Gbit of memory; the error is in the rest of the unit.
        near = unit[0].upper() if unit[0].upper() in _PREFIXES else ""
    number = text.strip()[: -len(unit)].rstrip()
    space = " " if len(near) > 1 else ""
    guess = f"did you mean {number}{space}{near}? " if near else ""
    if measure is Measure.BYTES and (per := _SLURM.get(unit[-1])) and unit[:-1].upper() in _PREFIXES:
        # ``--mem`` of older versions, and ``ReqMem`` in the accounts of Slurm: megabytes without a letter.
        guess = f"did you mean {number}{unit[:-1].upper() or 'M'}? "
        return InputError(
            f"{text.strip()!r} has the unit of Slurm for an amount {per}",
            hint=f"{guess}here it is that of one task; {_EXPECTED[measure]}",
        )
    return InputError(f"{text.strip()!r} has an unknown unit {unit!r}", hint=guess + _EXPECTED[measure])


def _duration_unit(text: str, word: str) -> int:
    unit = None if word == "M" else _DURATION_UNIT.get(word.lower())
    if unit is None:
        near = "min" if word == "M" else closest(word, _DURATION_UNIT)
        guess = f"did you mean {near}? " if near else ""
        raise InputError(f"{text!r} has an unknown unit {word!r}", hint=guess + _DURATION_HINT)
    return unit


# Thousands of nodes have few different amounts, and a text takes 20 µs.
@lru_cache(maxsize=4096)
def _shortest(value: int, measure: Measure) -> str:
    if measure is Measure.MILLI:
        units = [(1000, ""), (1, "m")]
    else:
        units = [(_power(_step(measure), power), prefix) for power, prefix in enumerate(_PREFIXES)]
    texts = [(_decimal(value, factor), word) for factor, word in units]
    return min(_candidate(number + word, rank) for rank, (number, word) in enumerate(texts) if number is not None)[-1]


def _candidate(text: str, rank: int) -> tuple[int, bool, int, str]:
    return len(text), "." in text, rank, text


def _decimal(value: int, factor: int) -> str | None:
    """Return ``value / factor`` as an exact decimal, or None if it has no short one."""
    whole, rest = divmod(value, factor)
    if not rest:
        return str(whole)
    # With more decimals than the raw integer has digits, the text would never be the shortest.
    for places in range(1, 17):
        digits, beyond = divmod(rest * _power(10, places), factor)
        if not beyond:
            return f"{whole}.{digits:0{places}d}"
    return None
