"""Text form of options: ``--option KEY=VALUE``, the keywords of ``Group.conf``, and the table in the docs.

A key may be written in snake_case or CamelCase, in any case. Durations have units (``90s``, ``5min``), ratios may be
written in percent, lists with ``|`` or ``,`` between the values.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import Field
from typing import Any

from cress.model.errors import InputError, InputErrors
from cress.model.group import Group
from cress.model.options import EVERY_LEAST, OFF, REBALANCE_WORDS, Options, check_option
from cress.model.resources import Measure
from cress.model.units import (
    closest,
    format_amount,
    format_duration,
    format_share,
    one_of,
    parse_amount,
    parse_count,
    parse_duration,
    parse_share,
)

_FIELDS: dict[str, Field[Any]] = {field.name: field for field in dataclasses.fields(Options)}
_BY_PLAIN: dict[str, str] = {name.replace("_", ""): name for name in _FIELDS}


def plain_key(text: str) -> str:
    """Return the normalized form of a keyword: lower case, without ``_`` and ``-``."""
    return re.sub(r"[_-]", "", text.strip().lower())


def camel_case(name: str) -> str:
    """Return the name of an option as a keyword: ``PreemptBelow`` for ``preempt_below``."""
    return "".join(part.capitalize() for part in name.split("_"))


def find_option(key: str) -> str | None:
    """Return the name of the option that ``key`` means, or None."""
    return _BY_PLAIN.get(plain_key(key))


def group_options() -> tuple[str, ...]:
    """Return the names of the options that may have a value for each group."""
    return tuple(name for name, field in _FIELDS.items() if field.metadata["per_group"])


def parse_option(key: str, text: str) -> tuple[str, Any]:
    """Parse the value of an option; return its name and value, checked without regard to other options. Raises
    InputError.
    """
    name = find_option(key)
    if name is None:
        raise InputError(f"unknown option {key!r}", hint=one_of(key, _FIELDS), field=key)
    try:
        value = _value(_FIELDS[name], text)
        check_option(name, value)
    except InputError as error:
        raise error.at(field=name) from None
    return name, value


def format_option(name: str, value: Any) -> str:
    """Return the text that ``parse_option`` reads as ``value``."""
    kind = _kind(_FIELDS[name])
    if kind == "duration":
        return format_duration(value)
    if kind == "size":
        return format_amount(value, Measure.BYTES)
    if kind == "number":
        return format_share(float(value))
    if kind == "words":
        return " | ".join(value)
    if kind == "weights":
        return " | ".join(f"{key}={format_share(weight)}" for key, weight in value)
    return str(value)


def parse_assignment(assignment: str) -> tuple[str, Any]:
    """Parse a text ``KEY=VALUE``; return the option's name and value. Raises InputError."""
    key, equals, text = assignment.partition("=")
    if not equals:
        raise InputError(f"{assignment!r} is not an option", hint="KEY=VALUE, such as grace=30s")
    return parse_option(key, text)


def parse_assignments(assignments: Iterable[str], base: Options | None = None) -> Options:
    """Return ``base`` (by default the defaults) with the options of ``KEY=VALUE`` texts. Raises InputErrors with all
    mistakes.
    """
    values: dict[str, Any] = {}
    errors: list[InputError] = []
    for assignment in assignments:
        try:
            name, value = parse_assignment(assignment)
        except InputError as error:
            errors.append(error)
            continue
        if values.setdefault(name, value) != value:
            errors.append(InputError("two different values are given", hint="each option once", field=name))
    if errors:
        raise InputErrors(errors)
    return dataclasses.replace(base or Options(), **values)


def resolve_options(base: Options, group: Group) -> Options:
    """Return the options of ``group``: its own values, else those of ``base``."""
    values: dict[str, Any] = {}
    for key, text in group.options:
        name, value = parse_option(key, text)
        if name not in group_options():
            raise not_per_group(name)
        values[name] = value
    return dataclasses.replace(base, **values) if values else base


def not_per_group(name: str) -> InputError:
    """Return the error of a group's value for an option of the whole cluster."""
    return InputError(
        f"{name} applies to the whole cluster, not to a single group",
        hint="per group: " + ", ".join(camel_case(option) for option in group_options()),
        field=camel_case(name),
    )


def options_table() -> str:
    """Return the options as a Markdown table, for the docs."""
    rows = ["| option | default | allowed | per group | meaning | source |", "|---|---|---|---|---|---|"]
    for name, field in _FIELDS.items():
        about = field.metadata
        default = format_option(name, field.default) or "–"
        own = f"`{camel_case(name)}`" if about["per_group"] else ""
        rows.append(
            f"| `{name}` | {_cell(default)} | {_allowed(field)} | {own} | {about['text']} | {about['source']} |"
        )
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _kind(option: Field[Any]) -> str:
    about = option.metadata
    if about["form"]:
        return str(about["form"])
    if about["unit"] == "µs":
        return "duration"
    if about["unit"] == "bytes":
        return "size"
    if isinstance(option.default, bool):
        raise TypeError(f"no way to write the option {option.name}")
    if isinstance(option.default, int):
        return "count"
    if isinstance(option.default, float):
        return "number"
    if isinstance(option.default, tuple):
        return "weights" if "float" in str(option.type) else "words"
    return "word"


def _value(option: Field[Any], text: str) -> Any:
    kind, choices = _kind(option), option.metadata["choices"]
    if kind == "schedule":
        return _schedule(text)
    if kind == "duration":
        return parse_duration(text)
    if kind == "size":
        return parse_amount(text, Measure.BYTES)
    if kind == "count":
        return parse_count(text)
    if kind == "number":
        return float(parse_share(text))
    words = [word.strip() for word in re.split(r"[|,]", text) if word.strip()]
    if kind == "weights":
        weights = tuple(_weight(word) for word in words)
        if len(dict(weights)) < len(weights):
            raise InputError(f"{text.strip()!r} names something twice", hint="each once")
        return weights
    if kind == "words":
        if len({word.lower() for word in words}) < len(words):
            raise InputError(f"{text.strip()!r} names something twice", hint="each once")
        return tuple(_choice(word, choices) if choices else word.lower() for word in words)
    return _choice(text.strip(), choices)


def _schedule(text: str) -> str:
    """Return the canonical form of a word, an interval or a cron expression; the center checks the expression."""
    word = " ".join(text.split())
    if word.lower().removeprefix("@") in (OFF, *REBALANCE_WORDS):
        return word.lower().removeprefix("@")
    if " " in word:
        return word
    try:
        interval = parse_duration(word)
    except InputError:
        words = (OFF, *REBALANCE_WORDS)
        raise InputError(
            f"{word!r} is not a valid schedule",
            hint=one_of(word, words) + "; an interval (30min), or a cron expression (0 3 * * *)",
        ) from None
    if interval < EVERY_LEAST:
        raise InputError(f"every {word} is too often", hint="1min or more")
    return format_duration(interval)


def _choice(word: str, choices: tuple[str, ...]) -> str:
    if not word:
        raise InputError("no value is given", hint="one of " + ", ".join(choices))
    for choice in choices:
        if plain_key(word) == plain_key(choice):
            return choice
    near = closest(word, choices)
    guess = f"did you mean {near}? " if near else ""
    raise InputError(f"{word!r} is not known", hint=guess + "one of " + ", ".join(choices))


def _weight(word: str) -> tuple[str, float]:
    name, equals, text = word.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{word!r} is not a weight", hint="name=share, such as cpu=0.5 | memory=0.5")
    return name.strip().lower(), float(parse_share(text))


def _allowed(option: Field[Any]) -> str:
    about = option.metadata
    if about["choices"]:
        return ", ".join(f"`{choice}`" for choice in about["choices"])
    kind = _kind(option)
    if kind == "schedule":
        words = ", ".join(f"`{word}`" for word in (OFF, *REBALANCE_WORDS))
        return f"{words}, duration ≥ {format_duration(EVERY_LEAST)}, cron expression"
    show = format_duration if kind == "duration" else format_share
    bounds = []
    if about["above"] is not None:
        bounds.append(f"> {show(about['above'])}")
    if about["least"] is not None:
        bounds.append(f"≥ {show(about['least'])}")
    if about["most"] is not None:
        bounds.append(f"≤ {show(about['most'])}")
    limits = f" {', '.join(bounds)}" if bounds else ""
    unit = f" ({about['unit']})" if about["unit"] and kind not in ("duration", "size") else ""
    names = {"words": "names", "weights": "`name=share`"}
    return names.get(kind, kind) + limits + unit
