"""YAML files of the center: their text, and all their mistakes at once."""

from __future__ import annotations

from pathlib import Path

from cress.formats.yaml_text import YamlNode
from cress.model.errors import InputError, InputErrors, MoreErrors
from cress.protocol.regular_files import read_regular

MOST_BYTES = 16 * 2**20
# Mistakes that are kept; the others are only counted, since even to forget very many takes long.
MOST_MISTAKES = 1_000


def read_text(path: Path, what: str) -> str:
    """Return the text of a file; ``what`` names the file in the InputError that this raises."""
    try:
        data = read_regular(path, MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    if len(data) > MOST_BYTES:
        raise InputError(f"is too large for {what}", hint="at most 16 MB", file=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not a text", hint="YAML in UTF-8", file=str(path)) from None


class Mistakes:
    """The mistakes found in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._errors: list[InputError] = []
        self._more = 0

    def add(self, node: YamlNode, field: str, error: InputError) -> None:
        """Add a mistake in a node; ``field`` names it."""
        if len(self._errors) >= MOST_MISTAKES:
            self._more += 1
            return
        line = node.line
        self._errors.append(InputError(error.what, hint=error.hint, file=self._file, line=line, field=field))

    def add_all(self, error: InputError) -> None:
        """Add mistakes that have their lines already."""
        self._errors += error.errors if isinstance(error, InputErrors) else [error]

    def __bool__(self) -> bool:
        return bool(self._errors)

    def check(self) -> None:
        """Raise InputError, or InputErrors with all mistakes in the order of their lines, if there are any."""
        if self._errors:
            errors = sorted(self._errors, key=lambda error: error.line)
            if self._more:
                errors.append(MoreErrors(self._more, file=self._file))
            raise errors[0] if len(errors) == 1 else InputErrors(errors)
