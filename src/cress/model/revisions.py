"""The configuration of a cluster as one document, and its revisions."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cress.model.group import Group
from cress.model.groups.conf import group_blocks
from cress.model.option_text import format_option
from cress.model.options import Options
from cress.model.resources import Dimensions

# Maximum number of stored revisions, and of their characters; the last two are always kept.
MOST_REVISIONS, MOST_CHARACTERS = 100, 4_000_000

_PLAIN = re.compile(r"[A-Za-z0-9][\w.%/-]*")
# Words that YAML reads as values other than text.
_TAKEN = re.compile(r"(?i:on|off|yes|no|true|false|null|y|n)")


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the configuration: its number, its time (µs), the user and action that made it, and the document.

    ``by`` is empty if there was no user: at the start of a center, or for a file that it read.
    """

    number: int
    utc: int
    by: str
    what: str
    text: str


def changed_options(options: Options) -> dict[str, str]:
    """Return the options that differ from their defaults, as text."""
    return {
        field.name: format_option(field.name, getattr(options, field.name))
        for field in dataclasses.fields(Options)
        if getattr(options, field.name) != field.default
    }


def format_document(
    options: Options,
    licences: Mapping[str, int],
    groups: Sequence[Group],
    *,
    dimensions: Dimensions,
    zone: str = "",
) -> str:
    """Return the document: options that differ from their defaults, licences, and groups as in ``Group.conf``."""
    return "".join(document_parts(options, licences, groups, dimensions=dimensions, zone=zone))


def document_parts(
    options: Options,
    licences: Mapping[str, int],
    groups: Sequence[Group],
    *,
    dimensions: Dimensions,
    zone: str = "",
) -> Iterator[str]:
    """Yield the document in parts, one for each option, licence and group: there may be thousands."""
    yield from _section("options", changed_options(options))
    yield from _section("licences", dict(sorted(licences.items())))
    if not groups and not zone:
        yield 'groups: ""\n'
        return
    yield "groups: |\n"
    blocks = group_blocks(groups, dimensions=dimensions, accounting=options.accounting, zone=zone)
    for number, block in enumerate(blocks):
        lines = "".join(f"  {line}\n" for line in block.removesuffix("\n").split("\n"))
        yield f"\n{lines}" if number else lines


def _section(name: str, values: Mapping[str, str | int]) -> Iterator[str]:
    if not values:
        yield f"{name}: {{}}\n"
        return
    yield f"{name}:\n"
    for key, value in values.items():
        yield f"  {_word(key)}: {_word(str(value))}\n"


def _word(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and not _TAKEN.fullmatch(text)
    return text if plain else json.dumps(text, ensure_ascii=False)
