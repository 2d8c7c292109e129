"""The file with the licences of the cluster: ``licences: {matlab: 5}`` (docs/licences.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cress.center.yaml_file import document, is_empty, is_kind, read_text
from cress.lifecycle.inputs import SetLicences
from cress.model.errors import InputError, InputErrors
from cress.model.jobfile.licences import Licences, amount, named
from cress.model.units import closest

if TYPE_CHECKING:
    from cress.center.committer import Committer

HINT = "licences: with how many there are of each, such as licences: {matlab: 5} (docs/licences.md)"
KEY = "licences"
SPELLINGS = (KEY, "licenses")


def read_licences(path: Path) -> Licences:
    """Return the number of each licence. Raises InputError, or InputErrors with all mistakes, with file, line and field."""
    return parse_licences(read_text(path, "a list of licences"), str(path))


def parse_licences(text: str, file: str) -> Licences:
    """Return the number of each licence from the text of a file."""
    errors: list[InputError] = []
    found: dict[str, int] = {}

    def wrong(node: Any, field: str, error: InputError) -> None:
        line = int(node.start_mark.line) + 1
        errors.append(InputError(error.what, hint=error.hint, file=file, line=line, field=field))

    whole = document(text, file, HINT)
    if whole is None:
        raise InputError("there are no licences in it", hint=HINT, file=file)
    if not is_kind(whole, "map"):
        wrong(whole, "", InputError("is not a mapping", hint=HINT))
        raise errors[0]
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
            if is_kind(value, "map"):
                for written, number in value.value:
                    try:
                        _add(found, written.value, number.value)
                    except InputError as error:
                        wrong(written, f"{name}.{written.value}", error)
            elif not is_empty(value):
                wrong(value, name, InputError("is not a mapping", hint="how many there are of each: {matlab: 5}"))
    if not given and not errors:
        wrong(whole, KEY, InputError("is missing", hint=HINT))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return tuple(sorted(found.items()))


def set_licences(committer: Committer, licences: Licences | None) -> None:
    """Set the number of each licence; None keeps the present numbers."""
    if licences is not None and dict(licences) != committer.machine.core.relations.licences.counts:
        committer.post(SetLicences(counts=licences))


def _add(found: dict[str, int], written: object, number: object) -> None:
    name = named(written)
    if name in found:
        raise InputError("is given twice", hint="each licence once")
    if not isinstance(number, str):
        raise InputError("is not a number", hint="how many there are, 0 or more")
    found[name] = amount(number, least=0)
