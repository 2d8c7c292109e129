"""Secrets in a job file: ``{DB_PASSWORD: db}`` for a variable, ``{key.pem: {secret: db, as: file}}`` for a file.

A list of names, ``[db, mail]``, means a file with the same name for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cress.model.errors import MAX_ERRORS, InputError
from cress.model.jobfile.reader import Reader, below, mapping_of
from cress.model.jobfile.values import as_text, first_twice, mistakes, raise_all, shown, variable
from cress.model.run import SecretUse
from cress.model.secrets import checked_secret_name

MAX_SECRETS = 64
USE_KEYS = ("secret", "as")
VARIABLE, FILE = WAYS = ("environment", "file")
FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"

_FILE_NAME = re.compile(FILE_NAME)
_HINT = "VARIABLE: SECRET for each, or FILE: {secret: SECRET, as: file}"


def secrets(value: object) -> tuple[SecretUse, ...]:
    """Parse the secrets that the tasks use."""
    if not isinstance(value, (Mapping, list, tuple)):
        raise InputError(f"{shown(value)} is not a mapping", hint=_HINT)
    if len(value) > MAX_SECRETS:
        raise InputError(f"{len(value):,} secrets are too many", hint=f"at most {MAX_SECRETS}")
    if isinstance(value, Mapping):
        entries = [(shown(name).strip("'\""), name, entry) for name, entry in value.items()]
    else:
        entries = [(f"[{place}]", entry, {"as": FILE}) for place, entry in enumerate(value)]
    found: list[SecretUse] = []
    errors: list[InputError] = []
    for place, name, entry in entries:
        if len(errors) > MAX_ERRORS:
            break
        try:
            found.append(_use(name, entry))
        except InputError as error:
            errors += [below(mistake, place) for mistake in mistakes(error)]
    raise_all(errors)
    twice = first_twice([use.name for use in found])
    if twice is not None:
        raise InputError(f"{twice} is named twice", hint="each name once")
    return tuple(found)


def _use(name: object, entry: object) -> SecretUse:
    if not isinstance(entry, Mapping):
        return SecretUse(name=variable(name), secret=checked_secret_name(as_text(entry), ""))
    reader = Reader(mapping_of(entry, _HINT), USE_KEYS)
    way = reader.read("as", _way, VARIABLE)
    same = name if isinstance(name, str) else ""
    made = SecretUse(
        name="",
        secret=reader.read("secret", lambda value: checked_secret_name(as_text(value), ""), same),
        file=way == FILE,
    )
    raise_all(reader.errors)
    made = SecretUse(name=_file_name(name) if made.file else variable(name), secret=made.secret, file=made.file)
    checked_secret_name(made.secret, "")
    return made


def _way(value: object) -> str:
    text = value.strip().lower() if isinstance(value, str) else ""
    if text not in WAYS:
        raise InputError(
            f"{shown(value)} is neither environment nor file", hint="environment: a variable; file: a file"
        )
    return text


def _file_name(name: object) -> str:
    if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
        hint = "letters, digits, and _ . - behind the first, at most 128 characters"
        raise InputError(f"{shown(name)} is not a name of a file", hint=hint)
    return name
