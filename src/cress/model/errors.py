"""Errors of bad input: the mistake, its place, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Only the first mistakes of an input, up to this number, are reported.
MAX_ERRORS = 100


class InputError(ValueError):
    """Bad input from a person: a file, a flag, a request.

    ``what`` is the mistake, ``hint`` the remedy; ``file``, ``line`` (from 1) and ``field`` are its place. ``str()``
    gives the sentence for the user.
    """

    def __init__(
        self,
        what: str,
        *,
        hint: str = "",
        file: str = "",
        line: int = 0,
        field: str = "",
    ) -> None:
        self.what = what
        self.hint = hint
        self.file = file
        self.line = line
        self.field = field
        super().__init__(what)

    def at(self, *, file: str = "", line: int = 0, field: str = "") -> InputError:
        """Return a copy of the error with the missing parts of the place filled in."""
        return InputError(
            self.what,
            hint=self.hint,
            file=self.file or file,
            line=self.line or line,
            field=self.field or field,
        )

    def __str__(self) -> str:
        place = ":".join(part for part in (self.file, str(self.line or "")) if part)
        head = ": ".join(part for part in (place, self.field, self.what) if part)
        return f"{head} ({self.hint})" if self.hint else head


class NotAccepted(InputError):
    """Well-formed input that is refused: the user lacks the right, or the cluster can never fulfil it."""

    def at(self, *, file: str = "", line: int = 0, field: str = "") -> NotAccepted:
        """Return a copy of the error with the missing parts of the place filled in."""
        placed = super().at(file=file, line=line, field=field)
        return NotAccepted(placed.what, hint=placed.hint, file=placed.file, line=placed.line, field=placed.field)


class MoreErrors(InputError):
    """The number ``count`` of further mistakes of an input, which are not listed; ``rest``: the remainder
    was not read.
    """

    def __init__(self, count: int, *, rest: str = "", file: str = "") -> None:
        self.count = count
        self.rest = rest
        more = f"and {count:,} more {'error' if count == 1 else 'errors'}"
        super().__init__(f"{more}; {rest} was not read" if rest else more, file=file)

    def at(self, *, file: str = "", line: int = 0, field: str = "") -> MoreErrors:
        """Return a copy of the error with the file filled in if it was missing."""
        return MoreErrors(self.count, rest=self.rest, file=self.file or file)


class InputErrors(InputError):
    """Several mistakes of one input, reported together; nothing was changed.

    ``errors`` are the first ``MAX_ERRORS`` mistakes, and one that counts the rest.
    """

    def __init__(self, errors: list[InputError]) -> None:
        self.errors = capped(errors)
        super().__init__(f"{len(errors)} errors")

    def at(self, *, file: str = "", line: int = 0, field: str = "") -> InputErrors:
        """Return a copy of the errors, each with the missing parts of the place filled in."""
        return InputErrors([error.at(file=file, line=line, field=field) for error in self.errors])

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def capped(errors: Iterable[InputError]) -> list[InputError]:
    """Return the first ``MAX_ERRORS`` mistakes, and one that counts the rest."""
    told: list[InputError] = []
    more = 0
    rest = file = ""
    for error in errors:
        if isinstance(error, MoreErrors):
            more += error.count
            rest = rest or error.rest
        elif len(told) < MAX_ERRORS:
            told.append(error)
            file = error.file
        else:
            more += 1
    return [*told, MoreErrors(more, rest=rest, file=file)] if more or rest else told


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about accepted input."""

    what: str
    hint: str = ""
    file: str = ""
    line: int = 0
    field: str = ""

    def __str__(self) -> str:
        return str(InputError(self.what, hint=self.hint, file=self.file, line=self.line, field=self.field))
