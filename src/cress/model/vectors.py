"""Resource vectors as text: ``<4,8G,500M,50M>`` is cpu, memory, network and disk.

Disk is one amount, which means bytes/s of reading and of writing, or up to four amounts with colons between them:
bytes/s read, bytes/s write, operations/s read, operations/s write (``<4,8G,500M,50M:20M:1K:500>``). Missing parts at
the end are 0. Other dimensions follow by name: ``<4,8G,500M,50M,gpu=2>``; every dimension may be written by its name
(``<cpu=4,memory=8G>``). The angle brackets are optional, since a shell would read them as redirections.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from cress.model.errors import InputError, InputErrors
from cress.model.foreign_words import resource_for
from cress.model.resources import DISK, DISK_DIMENSIONS, MAX_DIMENSIONS, Dimensions, ResourceVector
from cress.model.units import MAX_TEXT, describe_named, format_amount, one_of, parse_dimension

POSITIONS = ("cpu", "memory", "network", DISK)
# Maximum length of a vector as text, in characters.
MAX_VECTOR = 4_000
GPU = "gpu"
# Bytes: programs with a C library need 120 KiB before they begin.
LEAST_MEMORY = 100 * 1024
EXAMPLE = "<cpu,memory,network,disk> such as <4,8G,500M,50M>"


def parse_vector(source: str | Mapping[str, object], dimensions: Dimensions) -> ResourceVector:
    """Parse a vector from a text, or from a mapping by dimension name.

    Values of a mapping are texts or numbers (``{"cpu": 4, "memory": "8G", "gpu": 0.5}``); ``disk`` may also be a list
    of up to four amounts. Numbers are in the dimension's plain unit: cores, bytes, bit/s, bytes/s, 1/s. Raises
    InputError; for a mapping with several mistakes InputErrors with all of them.
    """
    if isinstance(source, str):
        return _from_text(source, dimensions)
    if len(source) > MAX_DIMENSIONS + 1:  # plus one for disk, which stands for several dimensions
        raise InputError(f"{len(source):,} dimensions are too many", hint=f"at most {MAX_DIMENSIONS}")
    amounts: dict[str, int] = {}
    errors: list[InputError] = []
    for key, value in source.items():
        name = str(key)[:MAX_VECTOR].strip().lower()
        try:
            _put(amounts, name, _texts(value) if name == DISK else [_text(value)], dimensions)
        except InputError as error:
            errors.append(error.at(field=str(key)[:MAX_VECTOR]))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return dimensions.vector(**amounts)


def names_in(source: str) -> tuple[str, ...]:
    """Return the names of dimensions in a text, in order, if ``parse_vector`` could read it in some cluster."""
    inner = source.strip().removeprefix("<").removesuffix(">")[:MAX_VECTOR]
    named = (part.partition("=") for part in inner.split(","))
    return tuple(name.strip().lower() for name, equals, _ in named if equals and name.strip().lower() != DISK)


def too_little_memory(memory: int, source: object, *, unit: str) -> tuple[str, str] | None:
    """Return what is wrong with an amount of memory (bytes) in which no program can start, and a hint.

    ``None`` if one can, and for 0. ``source`` is how the amount was written; ``unit`` is the unit that was probably
    meant if that is a plain number.
    """
    if not 0 < memory < LEAST_MEMORY:
        return None
    elsewhere = ", in Slurm and HTCondor it is megabytes" if unit == "M" else ""
    meant = f"did you mean {memory}{unit}? a plain number is bytes{elsewhere}"
    hint = meant if str(memory) in str(source) else "at least 100K; shells need 1M"
    return f"no program can start in {memory:,} bytes of memory", hint


def format_vector(vector: ResourceVector, dimensions: Dimensions) -> str:
    """Return the shortest plain text that ``parse_vector`` reads as ``vector``; ``<0>`` for nothing at all."""
    amounts = dict(zip(dimensions.names, vector, strict=True))
    texts = {name: format_amount(amount, dimensions.measure(name)) for name, amount in amounts.items()}
    parts = [texts[name] for name in POSITIONS if name != DISK]
    parts.append(_disk_text([amounts[name] for name in DISK_DIMENSIONS], [texts[name] for name in DISK_DIMENSIONS]))
    while len(parts) > 1 and parts[-1] == "0":
        parts.pop()
    parts += [f"{name}={texts[name]}" for name in dimensions.custom if amounts[name]]
    return f"<{','.join(parts)}>"


def describe_vector(vector: ResourceVector, dimensions: Dimensions) -> str:
    """Return the amounts above 0 with names and units, for sentences: ``4 cores, memory 8G, gpu 2``."""
    amounts = zip(dimensions.names, vector, strict=True)
    parts = [describe_named(amount, name, dimensions) for name, amount in amounts if amount]
    return ", ".join(parts) or "nothing"


def _from_text(source: str, dimensions: Dimensions) -> ResourceVector:
    text = source.strip()
    if len(text) > MAX_VECTOR:
        raise InputError(f"a vector of {len(text):,} characters is too long", hint=f"at most {MAX_VECTOR:,}: {EXAMPLE}")
    if text.startswith("<") != text.endswith(">"):
        # In YAML's {…} a comma ends a value.
        hint = 'in {…} it is in quotes: "<4,8G>"' if "," not in text and text.startswith("<") else EXAMPLE
        raise InputError(f"{source!r} has only one angle bracket", hint=hint)
    inner = text[1:-1] if text.startswith("<") else text
    if not inner.strip():
        raise InputError("the vector is empty", hint=f"{EXAMPLE}; <0> for nothing")
    amounts: dict[str, int] = {}
    named = False
    for position, part in enumerate(inner.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            value = part
            if named:
                raise InputError(f"{part.strip()!r} follows a part with a name", hint="parts with names come last")
            if position >= len(POSITIONS):
                custom = ", ".join(f"{dimension}=…" for dimension in dimensions.custom)
                raise InputError(
                    f"{part.strip()!r} is one part too many",
                    hint=f"{EXAMPLE}; other dimensions by name: {custom or 'none is declared'}",
                )
            name = POSITIONS[position]
        named = bool(equals)
        name = name.strip().lower()
        try:
            _put(amounts, name, value.split(":") if name == DISK else [value], dimensions)
        except InputError as error:
            raise error.at(field=name) from None
    return dimensions.vector(**amounts)


def _put(amounts: dict[str, int], name: str, values: Sequence[str], dimensions: Dimensions) -> None:
    """Parse the dimension ``name``, or the up to four of the disk, into ``amounts``."""
    if name not in POSITIONS and name not in dimensions.index:
        known = (*POSITIONS, *(dimension for dimension in dimensions.names if dimension not in POSITIONS))
        raise InputError(f"unknown dimension {name!r}", hint=_meant(name, known))
    names = DISK_DIMENSIONS[: max(2, len(values))] if name == DISK else (name,)
    if len(values) > len(DISK_DIMENSIONS):
        raise InputError(
            f"{len(values)} amounts for the disk are too many",
            hint="bytes/s read:bytes/s write:operations/s read:operations/s write",
        )
    for dimension, value in zip(names, (values[0], values[0]) if len(names) > len(values) else values, strict=True):
        if dimension in amounts:
            raise InputError(
                f"{dimension} is given twice", hint="each dimension once; disk stands for disk_read and the rest"
            )
        if not value.strip():
            raise InputError("an amount is missing", hint="0 for none")
        amounts[dimension] = parse_dimension(value, dimension, dimensions)


def _meant(name: str, known: Sequence[str]) -> str:
    meant = resource_for(name) or name
    if meant in known:
        return f"did you mean {meant}?"
    if meant == GPU:
        return "no node has offered gpu yet (docs/devices.md)"
    return one_of(name, known)


def _disk_text(amounts: list[int], texts: list[str]) -> str:
    """Return ``50M`` if reading and writing are equal and there are no operations, else amounts with colons."""
    read, write, *operations = amounts
    if read == write and not any(operations):
        return texts[0]
    last = max(k for k, amount in enumerate(amounts) if amount)
    return ":".join(texts[: max(2, last + 1)])


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return value[:MAX_VECTOR].split(":")
    if isinstance(value, (list, tuple)):
        if not value or len(value) > len(DISK_DIMENSIONS):
            what = f"a list of {len(value):,} amounts" if value else "the list is empty"
            raise InputError(what, hint="one to four amounts")
        return [_text(amount) for amount in value]
    return [_text(value)]


def _text(value: object) -> str:
    """Return a number or text as a person would write it; never with an exponent."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 2**63 else str(2**63)
    if isinstance(value, float) and math.isfinite(value):
        return format(Decimal(repr(value)), "f")
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < MAX_TEXT:
        return format(value, "f")
    raise InputError(f"{repr(value)[:MAX_TEXT]} is not an amount", hint="a number or a text such as 8G")
