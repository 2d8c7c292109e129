"""The configuration of the cluster as a YAML document with options, licences and groups (docs/configuration.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from cress.center.files.licence_file import counts_of
from cress.center.files.yaml_file import Mistakes
from cress.formats.yaml_text import YamlNode, document, is_empty, is_kind
from cress.model.errors import InputError, InputErrors, Note
from cress.model.groups.conf import MAX_CHARACTERS, ParsedGroups, parse_groups
from cress.model.jobfile.licences import MAX_KINDS, Licences, amount, named
from cress.model.option_text import find_option, parse_option
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.units import closest

SECTIONS = ("options", "licences", "groups")
HINT = "a mapping with options, licences and groups (docs/configuration.md)"

_Wrong = Callable[[Any, str, InputError], None]


@dataclasses.dataclass(frozen=True)
class Document:
    """The sections of a document; None for a missing one."""

    options: Options | None = None
    licences: Licences | None = None
    groups: ParsedGroups | None = None


def parse_document(text: str, file: str, *, dimensions: Dimensions, accounting: str) -> Document:
    """Return the sections of a document. Raises InputError, or InputErrors with all mistakes, each with its line.

    ``accounting`` is the accounting of quotas unless the document sets it.
    """
    if len(text) > 2 * MAX_CHARACTERS:
        raise InputError(f"has more than {2 * MAX_CHARACTERS >> 20} MB", hint=HINT, file=file)
    mistakes = Mistakes(file)
    wrong = mistakes.add
    whole = document(text, file, HINT)
    if whole is None:
        raise InputError("is empty", hint=HINT, file=file)
    if not is_kind(whole, "map"):
        wrong(whole, "", InputError("is not a mapping", hint=HINT))
        mistakes.check()
    found: dict[str, Any] = {}
    for key, value in whole.value:
        name = str(key.value)
        if name not in SECTIONS:
            near = closest(name, SECTIONS)
            wrong(key, name, InputError("is not known", hint=f"did you mean {near}?" if near else HINT))
        elif name in found:
            wrong(key, name, InputError("is given twice", hint="each section once"))
        else:
            found[name] = value
    options = _options(found["options"], wrong) if "options" in found else None
    licences = None
    if "licences" in found:
        # Each line of a document has one at most, and checking each of very many takes long.
        entries = found["licences"].value if is_kind(found["licences"], "map") else ()
        if len(entries) > MAX_KINDS:
            wrong(
                found["licences"], "licences", InputError(f"has {len(entries)} licences", hint=f"at most {MAX_KINDS}")
            )
        else:
            licences = tuple(sorted(counts_of(found["licences"], "licences", wrong).items()))
    groups = None
    if "groups" in found:
        try:
            counted = options.accounting if options else accounting
            groups = _groups(found["groups"], file, dimensions, counted)
        except InputError as error:
            mistakes.add_all(error)
    mistakes.check()
    return Document(options, licences, groups)


def _options(node: YamlNode, wrong: _Wrong) -> Options | None:
    if is_empty(node):
        return Options()
    if not is_kind(node, "map"):
        wrong(node, "options", InputError("is not a mapping", hint="options: {grace: 30s}"))
        return None
    values: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for key, value in node.value:
        field = f"options.{key.value}"
        if not isinstance(value.value, str):
            wrong(key, field, InputError("is not a text", hint="a value such as 30s"))
            continue
        try:
            name, read = parse_option(str(key.value), value.value)
        except InputError as error:
            wrong(key, field, error)
            continue
        if name in values:
            wrong(key, field, InputError("is given twice", hint="each option once"))
        values[name], places[name] = read, key
    try:
        return Options(**values)
    except InputError as error:
        wrong(places.get(error.field, node), f"options.{error.field}" if error.field else "options", error)
    return None


def _groups(node: YamlNode, file: str, dimensions: Dimensions, accounting: str) -> ParsedGroups:
    if is_empty(node) or node.value == "":
        return ParsedGroups((), file=file)
    first = node.line
    if not isinstance(node.value, str):
        hint = "groups: | and below it, indented, the blocks of Group.conf (docs/groups.md)"
        raise InputError("is not a text", hint=hint, file=file, line=first, field="groups")
    # Only a literal block has the same lines as the document.
    literal = node.literal

    def line(number: int) -> int:
        return first + number if literal else first

    try:
        parsed = parse_groups(node.value, dimensions=dimensions, file=file, accounting=accounting)
    except InputErrors as error:
        raise InputErrors(
            [
                InputError(
                    mistake.what, hint=mistake.hint, file=mistake.file, line=line(mistake.line), field=mistake.field
                )
                for mistake in error.errors
            ]
        ) from None
    return dataclasses.replace(
        parsed,
        notes=tuple(_moved(parsed.notes, line)),
        lines={name: line(number) for name, number in parsed.lines.items()},
    )


def _moved(notes: Iterable[Note], line: Callable[[int], int]) -> Iterable[Note]:
    return (dataclasses.replace(note, line=line(note.line)) for note in notes)


def with_values(options: Options, values: dict[str, str | None]) -> Options:
    """Return options with other values; None stands for the default. Raises InputErrors with all mistakes."""
    changed: dict[str, Any] = {}
    errors: list[InputError] = []
    for key, text in values.items():
        name = find_option(key)
        try:
            if text is None and name is not None:
                changed[name] = getattr(Options(), name)
            else:
                name, changed[name] = parse_option(key, text or "")
        except InputError as error:
            errors.append(InputError(error.what, hint=error.hint, field=f"options.{key}"))
    if errors:
        raise InputErrors(errors)
    return dataclasses.replace(options, **changed)


def with_counts(counts: dict[str, int], values: dict[str, int | None]) -> Licences:
    """Return numbers of licences with other values; None removes a licence. Raises InputError."""
    found = dict(counts)
    for name, number in values.items():
        try:
            if number is None:
                found.pop(named(name), None)
            else:
                found[named(name)] = amount(str(number), least=0)
        except InputError as error:
            raise error.at(field=f"licences.{name}") from None
    _check_kinds(len(found))
    return tuple(sorted(found.items()))


def _check_kinds(count: int) -> None:
    """Raise InputError if a cluster cannot have so many kinds of licences."""
    if count > MAX_KINDS:
        raise InputError(f"{count} licences are too many", hint=f"at most {MAX_KINDS}", field="licences")
