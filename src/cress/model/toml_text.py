"""TOML texts with the lines of their keys."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from cress.model.errors import InputError

# A key with more parts than these, at the start of a line or of an inline table: the parser would take seconds for it.
# Brackets are skipped only from the start of a line, as otherwise a row of them would be read again from each of them.
_LONG_KEY = re.compile(r"""(?m)(?:^[ \t\[]*|[\[{,][ \t]*)(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class TomlText:
    """The values of a TOML text, and the places of its keys. Raises InputError for invalid TOML."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._lines = text.splitlines()
        if (found := _LONG_KEY.search(text)) is not None:
            line = text.count("\n", 0, found.end()) + 1
            raise InputError("has a key of more than 100 parts", hint="keys such as port", file=file, line=line)
        try:
            self.values: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            place = _PLACE.search(str(error))
            line = int(place[1] or len(self._lines) or 1) if place else 0
            what = f"is not valid TOML: {_PLACE.sub('', str(error))}"
            raise InputError(
                what, hint='lines such as port = 7411 or host = "10.0.0.1"', file=file, line=line
            ) from None
        except ValueError as error:
            # A number of thousands of digits, or a date that the calendar does not have.
            raise InputError(f"has a value that cannot be: {error}", hint="a smaller one", file=file) from None
        except RecursionError:
            raise InputError("has too many levels", hint="values, and tables of values", file=file) from None

    def line_of(self, *keys: str) -> int:
        """Return the line on which the value with this path of keys begins; 0 if unknown."""
        # The value begins on the first line up to which the text contains it, or can no longer be parsed.
        name = re.compile(rf"""(?<![\w-])["']?{re.escape(keys[-1])}["']?(?![\w-])""")
        for number, line in enumerate(self._lines, 1):
            if not name.search(line.partition("#")[0]):
                continue
            before = self._read(number - 1)
            if before is None or _has(before, keys):
                continue
            after = self._read(number)
            if after is None or _has(after, keys):
                return number
        return 0

    def wrong(self, error: InputError, *keys: str) -> InputError:
        """Return the error with the place of the value."""
        return error.at(file=self.file, line=self.line_of(*keys), field=".".join(keys))

    def _read(self, lines: int) -> dict[str, Any] | None:
        try:
            return tomllib.loads("\n".join(self._lines[:lines]))
        except ValueError:
            return None


def kind_of(value: Any) -> str:
    """Return the type of a value in words."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date"


def _has(values: Any, keys: tuple[str, ...]) -> bool:
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True
