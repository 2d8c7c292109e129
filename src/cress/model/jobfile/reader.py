"""Reader of a mapping, value by value, that collects all mistakes instead of stopping at the first.

Case, ``_`` and ``-`` in keys are ignored: ``time_limit``, ``TimeLimit`` and ``time-limit`` are the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from cress.model.errors import MAX_ERRORS, InputError, MoreErrors, NotAccepted
from cress.model.foreign_words import key_for
from cress.model.jobfile.clauses import ClauseText, Texts
from cress.model.jobfile.values import MAX_NAME_LENGTH, mistakes, shown
from cress.model.units import one_of

# Maximum number of keys that a hint lists.
MOST_LISTED = 12
# Unknown keys of one mapping for which a similar key is searched.
MOST_GUESSED = 10

_NO_TEXTS: Texts = ()
_T = TypeVar("_T")


def plain(key: str) -> str:
    """Return the normalized form of a key: lower case, without ``_`` and ``-``."""
    return key.lower().replace("_", "").replace("-", "")


@lru_cache(maxsize=64)
def _by_plain(keys: tuple[str, ...], aliases: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the key for each normalized spelling; cached, since only tables of the project are passed."""
    return {plain(key): key for key in keys} | {plain(alias): key for alias, key in aliases}


def below(error: InputError, field: str) -> InputError:
    """Return the error with ``field`` put before its own: ``resource`` and ``memory`` make ``resource.memory``."""
    if isinstance(error, MoreErrors):
        return error
    inner = f"{'' if error.field.startswith('[') else '.'}{error.field}" if error.field else ""
    kind = NotAccepted if isinstance(error, NotAccepted) else InputError
    return kind(error.what, hint=error.hint, file=error.file, line=error.line, field=field + inner)


def mapping_of(value: object, hint: str) -> Mapping[str, object]:
    """Return the value, which must be a mapping. Raises InputError with the hint."""
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is not a mapping", hint=hint)
    return value


class Reader:
    """Takes the values of a mapping one by one; ``errors`` are all mistakes so far, ``given`` the keys as written.

    ``known`` are the allowed keys, ``aliases`` other words for them. ``misplaced`` returns the error of a key of
    ``known`` that does not belong here, or ``None``. ``defaults`` are values by key for keys that are missing; their
    mistakes are reported elsewhere.
    """

    def __init__(
        self,
        mapping: Mapping[Any, object],
        known: Iterable[str],
        *,
        aliases: Mapping[str, str] | None = None,
        misplaced: Callable[[str], InputError | None] | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        self.errors: list[InputError] = []
        self.given: dict[str, str] = {}
        self.misplaced: set[str] = set()
        self.values: dict[str, object] = {}
        self.defaults = defaults or {}
        keys = list(known)
        wrong = misplaced or _nothing
        by_plain = _by_plain(tuple(keys), tuple((aliases or {}).items()))
        unknown = 0
        placed: list[str] = []
        for written, value in mapping.items():
            key = by_plain.get(plain(written)) if isinstance(written, str) else None
            if key is None:
                unknown += 1
                if unknown <= MAX_ERRORS:
                    placed = placed or [candidate for candidate in keys if wrong(candidate) is None]
                    self.errors.append(_unknown(written, placed, guess=unknown <= MOST_GUESSED))
            elif (error := wrong(key)) is not None:
                self.misplaced.add(key)
                self.errors.append(error.at(field=written))
            elif key in self.given:
                self.errors.append(
                    InputError("is given twice", hint=f"it is the same as {self.given[key]}", field=written)
                )
            else:
                self.given[key] = written
                self.values[key] = value
        if unknown > MAX_ERRORS:
            self.errors.append(MoreErrors(unknown - MAX_ERRORS))

    def has(self, key: str) -> bool:
        """Return whether a key has a value, given or by default."""
        return key in self.given or key in self.defaults

    def read(self, key: str, parse: Callable[[object], _T], default: _T) -> _T:
        """Parse the value of ``key`` with ``parse``; return ``default`` if it is missing or wrong."""
        if key not in self.given:
            try:
                return parse(_present(self.defaults[key])) if key in self.defaults else default
            except InputError:
                return default
        try:
            return parse(_present(self.values[key]))
        except InputError as error:
            self.errors += [below(mistake, self.given[key]) for mistake in mistakes(error)]
            return default

    def texts(self, key: str, parse: Callable[[object], Texts]) -> tuple[ClauseText, ...]:
        """Return the texts of the constraint language that ``parse`` makes from the value of ``key``, each with its
        field.
        """
        made = self.read(key, parse, _NO_TEXTS)
        return tuple(msgspec.structs.replace(error, field=self.given.get(key, key) + error.field) for error in made)

    def wrong(self, key: str, what: str, hint: str, *, inner: str = "") -> None:
        """Note an error in the value of a key that follows from other values."""
        self.errors.append(InputError(what, hint=hint, field=self.given.get(key, key) + inner))


def _nothing(key: str) -> None:
    """Return None: nothing is misplaced."""


def _present(value: object) -> object:
    if value is None:
        raise InputError("nothing is given", hint="leave the key out, or give it a value")
    return value


def _unknown(written: object, known: list[str], *, guess: bool) -> InputError:
    listed = "one of " + ", ".join(known) if len(known) <= MOST_LISTED else "`cress schema` lists all keys"
    if not isinstance(written, str):
        return InputError(f"{shown(written)} is not a key", hint=listed)
    elsewhere = key_for(written)
    near = one_of(written[:MAX_NAME_LENGTH], known) if guess else ""
    # Some keys belong to other types of jobs: the next mistake reports it.
    if guess and elsewhere and (elsewhere in known or "resource" in known):
        near = f"did you mean {elsewhere}?"
    hint = near if near.startswith("did you mean") else listed
    return InputError(f"unknown key {shown(written)}", hint=hint, field=shown(written)[1:-1])
