"""YAML texts with the lines of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cress.model.errors import InputError
from cress.model.units import closest


def parse_yaml(text: str, file: str) -> Mapping[str, Any]:
    """Return the mapping of a text. Raises ``InputError`` if it is not YAML, or not a mapping."""
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.constructor import RoundTripConstructor
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError as error:
        raise InputError("reading YAML needs more packages", hint="pip install 'cress[sim]'", file=file) from error

    class Constructor(RoundTripConstructor):
        """Numbers with a point stay text: 4.10 may be a version."""

    Constructor.add_constructor("tag:yaml.org,2002:float", Constructor.construct_scalar)
    yaml = YAML(typ="rt")
    yaml.Constructor = Constructor
    try:
        document = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise InputError(
            f"is not valid YAML: {error.problem}",
            hint="see docs/simulate.md",
            file=file,
            line=mark.line + 1 if mark else 0,
        ) from error
    except YAMLError as error:
        raise InputError(f"is not valid YAML: {error}", hint="see docs/simulate.md", file=file) from error
    if not isinstance(document, Mapping):
        raise InputError("is not a mapping", hint="see docs/simulate.md", file=file, line=1)
    return document


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


def line_of(mapping: Any, key: str) -> int:
    """The line of a key, 0 when it is not there."""
    return int(mapping.lc.key(key)[0]) + 1 if key in mapping else 0
