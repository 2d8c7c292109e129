"""YAML files of the simulator: parsing, keys and texts."""

from __future__ import annotations

from typing import Any

from cress.formats.yaml_text import LinedMapping, line_of, read_mapping
from cress.model.errors import InputError
from cress.model.units import closest

_HINT = "see docs/simulate.md"


def parse_yaml(text: str, file: str) -> LinedMapping:
    """Return the mapping of a text. Raise ``InputError`` if it is not YAML, or not a mapping."""
    found = read_mapping(text, file, _HINT)
    if found is None:
        raise InputError("is not a mapping", hint=_HINT, file=file, line=1)
    return found


def plain_text(value: Any) -> str:
    """Return a value as text without spaces around it, empty for nothing."""
    return "" if value is None else str(value).strip()


def check_keys(mapping: Any, known: tuple[str, ...], errors: list[InputError]) -> None:
    """Add a mistake for each key that is not one of ``known``."""
    for key in mapping:
        if key not in known:
            near = closest(str(key), known)
            hint = f"did you mean {near}?" if near else "one of " + ", ".join(known)
            errors.append(InputError("unknown key", hint=hint, line=line_of(mapping, key), field=str(key)))
