"""The file with the licences of the cluster: ``licences: {matlab: 5}`` (docs/licences.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cress.center.files.yaml_file import Mistakes, read_text
from cress.formats.yaml_text import document, is_empty, is_kind
from cress.model.errors import InputError
from cress.model.events import LicencesSet
from cress.model.jobfile.licences import Licences, amount, named
from cress.model.units import closest

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer

HINT = "licences: with how many there are of each, such as licences: {matlab: 5} (docs/licences.md)"
KEY = "licences"
SPELLINGS = (KEY, "licenses")


def read_licences(path: Path) -> Licences:
    """Return the number of each licence in a file.

    Raises InputError, or InputErrors with all mistakes, with file, line and field.
    """
    return parse_licences(read_text(path, "a list of licences"), str(path))


def parse_licences(text: str, file: str) -> Licences:
    """Return the number of each licence from the text of a file."""
    mistakes = Mistakes(file)
    wrong = mistakes.add
    found: dict[str, int] = {}
    whole = document(text, file, HINT)
    if whole is None:
        raise InputError("it contains no licences", hint=HINT, file=file)
    if not is_kind(whole, "map"):
        wrong(whole, "", InputError("is not a mapping", hint=HINT))
        mistakes.check()
    given = False
    for key, value in whole.value:
        name = str(key.value)
        if name.lower() not in SPELLINGS:
            hint = f"did you mean {KEY}?" if closest(name, SPELLINGS) else HINT
            wrong(key, name, InputError("is not known", hint=hint))
        elif given:
            wrong(key, name, InputError("is given twice", hint=HINT))
        else:
            given = True
            found = counts_of(value, name, wrong)
    if not given and not mistakes:
        wrong(whole, KEY, InputError("is missing", hint=HINT))
    mistakes.check()
    return tuple(sorted(found.items()))


def counts_of(node: Any, field: str, wrong: Callable[[Any, str, InputError], None]) -> dict[str, int]:
    """Return the number of each licence in a mapping; ``wrong`` receives the mistakes, with their nodes and fields."""
    found: dict[str, int] = {}
    if is_kind(node, "map"):
        for written, number in node.value:
            try:
                _add(found, written.value, number.value)
            except InputError as error:
                wrong(written, f"{field}.{written.value}", error)
    elif not is_empty(node):
        wrong(node, field, InputError("is not a mapping", hint="how many there are of each: {matlab: 5}"))
    return found


def set_licences(committer: Committer, licences: Licences | None) -> None:
    """Set the number of each licence; None keeps the present numbers."""
    if licences is not None and dict(licences) != committer.machine.core.relations.licences.counts:
        committer.post(LicencesSet(counts=licences))


def _add(found: dict[str, int], written: object, number: object) -> None:
    name = named(written)
    if name in found:
        raise InputError("is given twice", hint="each licence once")
    if not isinstance(number, str):
        raise InputError("is not a number", hint="how many there are, 0 or more")
    found[name] = amount(number, least=0)
