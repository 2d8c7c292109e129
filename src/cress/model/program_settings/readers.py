"""Parsers of the values of settings; each takes a text and returns the value of a field, or raises InputError."""

from __future__ import annotations

import re

from cress.model.access import Role, role_of
from cress.model.allowed_sources import parse_host_rule
from cress.model.attributes import parse_labels, parse_ports
from cress.model.errors import InputError
from cress.model.node import Value
from cress.model.notify import HOST
from cress.model.resources import Dimensions, Measure
from cress.model.units import one_of, parse_amount, parse_duration

_MAIL_SERVER = re.compile(rf"smtps?://(?P<user>[^/?@\s]+@)?{HOST}/?")
RUNTIMES = ("process", "container", "auto")


def duration(text: str) -> int:
    """Parse ``90d``; return µs."""
    return parse_duration(text)


def seconds(text: str) -> float:
    """Parse ``90d``; return seconds."""
    return parse_duration(text) / 1e6


def size(text: str) -> int:
    """Parse ``1G``; return bytes."""
    return parse_amount(text, Measure.BYTES)


def names(text: str) -> tuple[str, ...]:
    """Parse a list of names such as ``alice,postgres``; return none for an empty text."""
    found = tuple(word.strip() for word in text.split(",")) if text else ()
    if not all(found) or any(" " in word for word in found):
        raise InputError(f"{text!r} is not a list of names", hint="with commas between them: alice,postgres")
    return found


def dimensions(declared: tuple[str, ...]) -> Dimensions:
    """Return the dimensions of a cluster that declares these."""
    return Dimensions(declared)


def labels(texts: tuple[str, ...]) -> dict[str, Value]:
    """Parse labels such as ``ssd=true``."""
    return parse_labels(texts)


def ports(text: str) -> tuple[int, int]:
    """Parse ``20000-32767`` into the first and the last port."""
    return parse_ports(text)


def runtime(text: str) -> str:
    """Parse the name of a runtime."""
    if text not in RUNTIMES:
        raise InputError(f"{text!r} is not a runtime", hint=one_of(text, RUNTIMES))
    return text


def role(text: str) -> Role:
    """Return the role with this name."""
    return role_of(text, "")


def zone(name: str) -> str:
    """Check the name of a time zone, and return it; empty: none was given."""
    if not name:
        return ""
    from cress.model.zones import zone_of

    try:
        return str(zone_of(name))
    except InputError as error:
        raise InputError(error.what, hint=error.hint) from None


def inherited(variables: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of variables that tasks inherit from their executor, and return them."""
    for name in variables:
        if not name.isidentifier() or name.startswith("CRESS_"):
            raise InputError(
                f"{name!r} is not the name of a variable that tasks can inherit",
                hint="a name such as HTTP_PROXY; its value is that of the executor, and a job's own are set by `env`",
            )
    return variables


def once_each(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinct texts, sorted."""
    return tuple(sorted(set(texts)))


def opposite(on: bool) -> bool:
    """Return the value of a field that the setting switches off."""
    return not on


def host_rules(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check rules for hosts."""
    for text in texts:
        parse_host_rule(text)
    return texts


def folders(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check the absolute paths of folders."""
    for text in texts:
        if not text.startswith("/"):
            raise InputError(f"{text!r} is not an absolute path", hint="/shared")
    return texts


def mail_server(text: str) -> str:
    """Check the URL of a mail server."""
    found = _MAIL_SERVER.fullmatch(text)
    if text and found is None:
        raise InputError(
            f"{text!r} is not a mail server", hint="smtp://mail.example.org or smtps://ann@mail.example.org:465"
        )
    if found is not None and ":" in (found["user"] or ""):
        raise InputError("the URL of a mail server may not contain a password", hint="--notify-password FILE")
    return text


def part(text: str) -> float:
    """Parse a number from 0 to 1."""
    if not re.fullmatch(r"0(\.[0-9]{1,9})?|1(\.0{1,9})?|\.[0-9]{1,9}", text):
        raise InputError(f"{text!r} is not a part", hint="a number from 0 to 1, such as 0.05")
    return float(text)
