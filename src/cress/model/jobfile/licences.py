"""Text of licences: ``{matlab: 1}``, ``matlab``, ``matlab=2``, or a list of such texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from cress.model.errors import InputError
from cress.model.jobfile.values import as_number, mistakes, raise_all, shown
from cress.model.units import parse_count

# Licences and their numbers, by name.
Licences: TypeAlias = tuple[tuple[str, int], ...]

# Maximum number of licences of a job, and of kinds of licences in a cluster.
MAX_LICENCES = 64
MAX_KINDS = 10_000
MAX_NAME = 64
MAX_TEXT = 100 * MAX_LICENCES
MOST = 1_000_000_000
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"

_NAME = re.compile(NAME)
_HINT = "matlab, matlab=2, or {matlab: 2, ansys: 1}"


def licences(value: object) -> Licences:
    """Parse the licences that each task takes."""
    if isinstance(value, Mapping):
        return _amounts(list(value.items()), least=1)
    written = value if isinstance(value, (list, tuple)) else [value]
    if len(written) > MAX_LICENCES:
        raise _too_many(len(written), MAX_LICENCES)
    texts = [entry for text in written for entry in _texts(text)]
    pairs: list[tuple[object, object]] = []
    for text in texts:
        name, equals, number = text.partition("=")
        pairs.append((name.strip(), number.strip() if equals else 1))
    return _amounts(pairs, least=1)


def totals(value: object) -> Licences:
    """Parse the number of each licence in a cluster."""
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is not a mapping", hint="how many there are of each: {matlab: 5}")
    return _amounts(list(value.items()), least=0) if value else ()


def _texts(value: object) -> list[str]:
    if not isinstance(value, str) or not value[:MAX_TEXT].strip() or len(value) > MAX_TEXT:
        raise InputError(f"{shown(value)} is not a licence", hint=_HINT)
    return value.split(",", MAX_LICENCES)


def _too_many(number: int, most: int) -> InputError:
    return InputError(f"{number:,} licences are too many", hint=f"at most {most:,}")


def _amounts(pairs: list[tuple[object, object]], *, least: int) -> Licences:
    if not pairs:
        raise InputError("is empty", hint=_HINT)
    most = MAX_LICENCES if least else MAX_KINDS
    if len(pairs) > most:
        raise _too_many(len(pairs), most)
    found: dict[str, int] = {}
    errors: list[InputError] = []
    for written, value in pairs:
        try:
            name, number = named(written), amount(value, least=least)
        except InputError as error:
            errors += (mistake.at(field=shown(written).strip("'\"")) for mistake in mistakes(error))
            continue
        if name in found:
            errors.append(InputError(f"licence {name} is given twice", hint="each once"))
        found[name] = number
    raise_all(errors)
    return tuple(sorted(found.items()))


def named(value: object) -> str:
    """Parse the name of a licence."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        hint = f"letters, digits, `_` and `-`, at most {MAX_NAME}, beginning with a letter or digit"
        raise InputError(f"{shown(value)} is not a name of a licence", hint=hint)
    return value


def amount(value: object, *, least: int) -> int:
    """Parse the number of one licence."""
    return parse_count(as_number(value), least=least, most=MOST)
