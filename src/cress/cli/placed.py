"""Places of mistakes: the file and line, or the option, of a job that a center refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cress.model.errors import InputError, InputErrors, MoreErrors, NotAccepted

if TYPE_CHECKING:
    from cress.cli.jobfile import JobInFile
    from cress.client import Refused

PLACE = re.compile(r"jobs\[(\d+)\]\.?")


def placed(refused: Refused, entries: Sequence[JobInFile], options: Mapping[str, str] | None = None) -> Exception:
    """Return an error of the center with file and line; ``options`` are those of keys that the command line gave."""
    kind = InputError if refused.bad_input else NotAccepted
    errors = [
        in_file(kind(fault.what, hint=fault.hint, field=fault.field), entries, options) for fault in refused.faults
    ]
    if not errors:
        return refused
    errors.sort(key=lambda error: (files_of(entries).get(error.file, 0), error.line))
    return errors[0] if len(errors) == 1 else InputErrors(errors)


def files_of(entries: Sequence[JobInFile]) -> dict[str, int]:
    """Return the files in the order in which they were given."""
    return {file: place for place, file in enumerate(dict.fromkeys(entry.file for entry in entries))}


def in_file(error: InputError, entries: Sequence[JobInFile], options: Mapping[str, str] | None = None) -> InputError:
    """Return a mistake in a submit, or several, with its file and line, or with its option."""
    if isinstance(error, InputErrors):
        return InputErrors([in_file(one, entries, options) for one in error.errors])
    if isinstance(error, MoreErrors):
        return error  # it counts mistakes of many places
    found = PLACE.match(error.field)
    key = re.split(r"[.\[]", PLACE.sub("", error.field, count=1))[0]
    if options and key in options:
        return type(error)(error.what, hint=error.hint, field=options[key])
    position = int(found[1]) if found else 0
    # For a single job the center may leave out its number.
    if position >= len(entries) or not (found or len(entries) == 1):
        return error
    entry, path = entries[position], PLACE.sub("", error.field, count=1)
    return type(error)(error.what, hint=error.hint, field=path, file=entry.file, line=entry.line_of(path))
