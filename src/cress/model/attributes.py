"""Attributes of nodes: their names, and labels as text.

Case, ``_`` and ``-`` in names are ignored, as everywhere in the constraint language (design note 0005).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite

from cress.model.errors import InputError
from cress.model.node import DYNAMIC_PORTS, Value
from cress.model.resources import Dimensions

MOST = 256
MAX_NAME = 64
MAX_TEXT = 512
# Maximum number of names that a node repels or a job tolerates.
MOST_TOLERANCES = 16

# Names with another meaning in constraints: common to all nodes, or not attributes at all.
_RESERVED = frozenset(
    "address and clusterload cpuload datalocality defined dependedjob diskload dynamicport exclusivedisk f false "
    "freememory in jobdependency memoryload networkadjacent networkload node nodes not or port rack resource "
    "true undefined waittime weight".split()
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_TRUTHS = {"true": True, "false": False}
_HINT = "NAME=VALUE, such as zone=eu, ssd=true, slots=4 or features={avx2,ssd}"


def plain(name: str) -> str:
    """Return the normalized form of a name: lower case, without ``_`` and ``-``."""
    return name.lower().replace("_", "").replace("-", "")


def parse_label(text: str) -> tuple[str, Value]:
    """Parse a label such as ``zone=eu`` into a name and a value. Raises InputError.

    ``true`` and ``false`` become truth values, whole numbers become numbers, ``{a,b}`` is a set. Everything else is
    text, also a number with a point, which may be a version.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise InputError(f"{text!r} is not a label", hint=_HINT)
    check_name(name)
    if value.lower() in _TRUTHS:
        return name, _TRUTHS[value.lower()]
    if _INTEGER.fullmatch(value):
        return name, int(value)
    if value[0] == "{":
        value = _set_of(name, value)
    _check_text(name, value)
    return name, value


@lru_cache(maxsize=16_384)
def members_of(text: str) -> frozenset[str] | None:
    """Return the members of a set such as ``{avx2,ssd}`` in lower case; ``None`` for any other text."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    return frozenset(member.strip().casefold() for member in text[1:-1].split(",") if member.strip())


def _set_of(name: str, text: str) -> str:
    """Return the text of a set with each member once, sorted. Raises InputError."""
    members = [member.strip() for member in text[1:-1].split(",")] if text.endswith("}") else [""]
    if members == [""] and text.endswith("}"):
        return "{}"
    if not all(members) or any(char in member for member in members for char in "{}"):
        raise InputError(f"the value of {name} is not a set: {text}", hint="members with commas between: {avx2,ssd}")
    return "{" + ",".join(sorted({member.casefold(): member for member in members}.values(), key=str.casefold)) + "}"


def parse_labels(texts: Iterable[str]) -> dict[str, Value]:
    """Parse several labels with different names. Raises InputError."""
    labels: dict[str, Value] = {}
    for text in texts:
        name, value = parse_label(text)
        _once(name, labels)
        labels[name] = value
    return labels


def with_labels(found: Mapping[str, Value], labels: Mapping[str, Value]) -> dict[str, Value]:
    """Merge detected attributes with labels of the operator; labels take precedence."""
    said = {plain(name) for name in labels}
    return {name: value for name, value in found.items() if plain(name) not in said} | dict(labels)


def check_name(name: str) -> None:
    """Raise InputError unless an attribute may have this name."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        hint = f"letters, digits, `_` and `-`, beginning with a letter, at most {MAX_NAME}"
        raise InputError(f"{name[:MAX_NAME]!r} is not a name of a label", hint=hint)
    if plain(name) in _RESERVED:
        raise InputError(f"{name} means something else in constraints", hint="another name for the label")


def check_attributes(attributes: Mapping[str, Value], dimensions: Dimensions) -> None:
    """Raise InputError unless a node of a cluster with these dimensions may have these attributes."""
    if len(attributes) > MOST:
        raise InputError(f"{len(attributes)} attributes are too many", hint=f"at most {MOST}")
    amounts = {plain(name) for name in (*dimensions.names, "disk")}
    amounts |= {f"idle{name}" for name in amounts}
    known: dict[str, Value] = {}
    for name, value in attributes.items():
        check_name(name)
        _once(name, known)
        known[name] = value
        if plain(name) in amounts:
            raise InputError(f"{name} is a resource, not a label", hint="another name; --resource sets resources")
        if isinstance(value, str):
            _check_text(name, value)
        if isinstance(value, float) and not isfinite(value):
            raise InputError(f"the value of {name} is not a number", hint="a finite one")


def check_tolerances(names: Sequence[str], field: str) -> None:
    """Raise InputError unless these names may be repelled by a node or tolerated by a job."""
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
            hint = f"letters, digits, `_` and `-`, beginning with a letter, at most {MAX_NAME}"
            raise InputError(f"{name[:MAX_NAME]!r} is not a name", hint=hint, field=field)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), "")
    if twice:
        raise InputError(f"{twice} is given twice", hint="each name once", field=field)
    if len(names) > MOST_TOLERANCES:
        raise InputError(f"{len(names)} names are too many", hint=f"at most {MOST_TOLERANCES}", field=field)


def parse_ports(text: str) -> tuple[int, int]:
    """Parse ``20000-32767`` into the first and the last dynamic port of a node. Raises InputError."""
    match = re.fullmatch(r"\s*([0-9]{1,5})\s*-\s*([0-9]{1,5})\s*", text)
    if match is not None and are_ports(int(match[1]), int(match[2])):
        return int(match[1]), int(match[2])
    hint = f"the first and the last dynamic port, such as {DYNAMIC_PORTS[0]}-{DYNAMIC_PORTS[1]}"
    raise InputError(f"{text!r} is not a range of ports", hint=hint)


def are_ports(first: int, last: int) -> bool:
    """Return whether these are valid as first and last dynamic port of a node."""
    return 1 <= first <= last <= 65_535


def _once(name: str, known: Mapping[str, Value]) -> None:
    for other in known:
        if plain(other) == plain(name):
            same = "it is given twice" if other == name else f"{other} is the same name"
            raise InputError(f"label {name}: {same}", hint="each name once")


def _check_text(name: str, value: str) -> None:
    if len(value) > MAX_TEXT or not value.isprintable():
        raise InputError(
            f"the value of {name} is not a text for a label", hint=f"at most {MAX_TEXT} printable characters"
        )
