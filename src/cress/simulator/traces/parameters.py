"""Parameters of generated workloads: ``jobs=1000,load=0.8`` as a dataclass of numbers."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import fields, replace
from typing import Any, TypeVar

from cress.model.errors import InputError
from cress.model.units import closest

P = TypeVar("P", bound=Any)

MOST = 10_000_000


def parse_parameters(source: str, text: str, default: P, shares: Container[str], from_zero: Container[str]) -> P:
    """Return ``default`` with the parameters of ``text``; ``source`` is the name of the generator.

    ``shares`` are from 0 to 1; those ``from_zero`` may be 0; all others are positive. Raise ``InputError`` with the
    parameter.
    """
    known: dict[str, type[int | float]] = {field.name: type(getattr(default, field.name)) for field in fields(default)}
    result, given = default, set[str]()
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, equals, value = (word.strip() for word in part.partition("="))
        place = f"{source}:{text}"
        if name not in known:
            near = closest(name, known)
            hint = f"did you mean {near}?" if near else "one of " + ", ".join(known)
            raise InputError("unknown parameter", hint=hint, file=place, field=name)
        if name in given:
            raise InputError("is given twice", hint="once", file=place, field=name)
        given.add(name)
        wanted = "a whole number" if known[name] is int else "a number"
        try:
            number = known[name](value)
        except ValueError:
            raise InputError(
                f"{value!r} is not {wanted}", hint=f"{name}={getattr(result, name)}", file=place, field=name
            ) from None
        least = 0 if name in shares or name in from_zero else 1 if known[name] is int else 0.001
        most = 1 if name in shares else MOST
        if not equals or not least <= number <= most:
            raise InputError(
                f"{value!r} is out of range", hint=f"{wanted} from {least:,} to {most:,}", file=place, field=name
            )
        result = replace(result, **{name: number})
    return result
