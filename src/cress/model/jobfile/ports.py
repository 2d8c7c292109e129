"""Ports in a job file: ``80``, ``dynamic``, or a mapping by name, ``{http: 8080, admin: dynamic}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from cress.model.errors import InputError
from cress.model.jobfile.values import as_number, raise_all, shown

# Names and numbers; 0 is a dynamic one.
Ports: TypeAlias = tuple[tuple[str, int], ...]

# The name of the only port of a job if it has none.
UNNAMED = "port"
DYNAMIC = "dynamic"
MAX_PORTS = 32
MAX_NAME = 32

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_HINT = f"1 to 65535, or {DYNAMIC}; of several each with a name: {{http: 8080, admin: {DYNAMIC}}}"


def ports(value: object) -> Ports:
    """Parse the ports of each task."""
    if not isinstance(value, Mapping):
        return ((UNNAMED, _number(value)),)
    if not value:
        raise InputError("is empty", hint=_HINT)
    if len(value) > MAX_PORTS:
        raise InputError(f"{len(value)} ports are too many", hint=f"at most {MAX_PORTS}")
    found: list[tuple[str, int]] = []
    errors: list[InputError] = []
    for name, port in value.items():
        try:
            found.append((_name(name), _number(port)))
        except InputError as error:
            errors.append(error.at(field=shown(name).strip("'\"")))
    numbers = [number for _, number in found if number]
    twice = {number for number in numbers if numbers.count(number) > 1}
    errors += (InputError(f"port {number} is given twice", hint="each number once") for number in sorted(twice))
    raise_all(errors)
    return tuple(found)


def named(names: Iterable[str], numbers: Sequence[int]) -> dict[str, int]:
    """Return the ports of a task by name: those of its job in order, then those of ``Port = …`` clauses."""
    known = list(names)[: len(numbers)]
    more = numbers[len(known) :]
    found = dict(zip(known, numbers, strict=False))
    for number in more:
        found[UNNAMED if len(more) == 1 and UNNAMED not in found else f"{UNNAMED}_{number}"] = number
    return found


def _number(value: object) -> int:
    if isinstance(value, (bool, Mapping, list, tuple)):
        raise InputError(f"{shown(value)} is not a port", hint=_HINT)
    text = re.sub(r"^port\s*=\s*", "", as_number(value).strip(), flags=re.IGNORECASE)
    if "&&" in text:
        raise InputError(f"{shown(value)}: a port cannot be relaxed", hint=_HINT)
    if text.lower() == DYNAMIC:
        return 0
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise InputError(f"{shown(value)} is not a port", hint=_HINT)
    return int(text)


def _name(name: object) -> str:
    # The name becomes part of a variable's name, CRESS_PORT_name.
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        hint = f"letters, digits and `_`, beginning with a letter, at most {MAX_NAME}"
        raise InputError(f"{shown(name)} is not a name of a port", hint=hint)
    return name
