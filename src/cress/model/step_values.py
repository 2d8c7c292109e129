"""Values that a task hands on: lines ``KEY=VALUE`` in its file ``$CRESS_OUTPUT`` (design note 0078)."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from cress.model.bounds import Name, Text
from cress.model.errors import InputError

# The file in the folder of an attempt, and the most bytes and values in it; the most bytes of all values of a dag.
FILE = b"values"
# The variable with the path of that file, and the beginning of those in which later steps find the values.
OUTPUT = "CRESS_OUTPUT"
MOST_BYTES, MOST_VALUES, MOST_OF_DAG = 8_192, 64, 65_536

# Keys and texts, in the order of the file.
Values: TypeAlias = tuple[tuple[str, str], ...]
ReportedValues: TypeAlias = Annotated[tuple[tuple[Name, Text], ...], Meta(max_length=MOST_VALUES)]

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MARK = "values "
_HINT = "lines such as rows=120, in UTF-8"


def parse_values(data: bytes) -> Values:
    """Return the values of a file; of lines with the same key the last one counts. Raises InputError with the line."""
    if len(data) > MOST_BYTES:
        raise InputError(f"is longer than {MOST_BYTES:,} bytes", hint="large results belong in files, see `outputs`")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError("is not UTF-8", hint=_HINT) from None
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise InputError(f"{line[:60]!r} is not KEY=VALUE", hint=_HINT, line=number)
        if key.lower() == "state":
            raise InputError(f"{key} is the state of the step itself", hint="another key", line=number)
        if "\0" in value:
            raise InputError(f"the value of {key} has a zero byte", hint=_HINT, line=number)
        if spelled.setdefault(key.upper(), key) != key:
            what = f"{spelled[key.upper()]} and {key} differ only in case"
            raise InputError(what, hint="later steps find both in the same variable; one spelling", line=number)
        found[key] = value
    if len(found) > MOST_VALUES:
        raise InputError(f"has {len(found)} values", hint=f"at most {MOST_VALUES}")
    return tuple(found.items())


def size_of(values: Values) -> int:
    """Return the number of bytes of values."""
    return sum(len(key) + len(value.encode()) for key, value in values)


def as_reason(values: Values) -> str:
    """Return values as the reason in the record of a successful job, which has no other; empty if there are none."""
    return _MARK + msgspec.json.encode(dict(values)).decode() if values else ""


def in_reason(reason: str) -> Values:
    """Return the values in the reason of a record."""
    if not reason.startswith(_MARK + "{"):
        return ()
    try:
        return tuple(msgspec.json.decode(reason.removeprefix(_MARK), type=dict[str, str]).items())
    except msgspec.MsgspecError:
        return ()


def variable(step: str, key: str) -> str:
    """Return the environment variable in which later steps find a value: ``CRESS_OUTPUT_LOAD_ROWS``."""
    return f"{OUTPUT}_{re.sub('[^A-Z0-9]', '_', step.upper())}_{key.upper()}"
