"""YAML files of the center as nodes that know their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cress.model.errors import InputError, InputErrors

MOST_BYTES = 16 * 2**20

_TAG = "tag:yaml.org,2002:"


def read_text(path: Path, what: str) -> str:
    """Return the text of a file. Raises InputError, which calls the file ``what``."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    if len(data) > MOST_BYTES:
        raise InputError(f"is too large for {what}", hint="at most 16 MB", file=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not a text", hint="YAML in UTF-8", file=str(path)) from None


def document(text: str, file: str, hint: str) -> Any:
    """Return the only document of a text, as nodes; None if it is empty. ``hint`` says what is expected."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        documents = list(YAML(typ="safe", pure=True).compose_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = f"is not valid YAML: {error.problem or error.context}"
        raise InputError(what, hint=hint, file=file, line=mark.line + 1 if mark else 0) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"is not valid YAML: {str(error).splitlines()[0]}", hint=hint, file=file) from None
    except RecursionError:
        raise InputError("has too many levels", hint=hint, file=file) from None
    documents = [each for each in documents if each is not None and not is_empty(each)]
    if len(documents) > 1:
        line = int(documents[1].start_mark.line) + 1
        raise InputError("has more than one document", hint=hint, file=file, line=line)
    return documents[0] if documents else None


class Mistakes:
    """The mistakes that are found in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._errors: list[InputError] = []

    def add(self, node: Any, field: str, error: InputError) -> None:
        """Add a mistake in a node; ``field`` names it."""
        line = int(node.start_mark.line) + 1
        self._errors.append(InputError(error.what, hint=error.hint, file=self._file, line=line, field=field))

    def add_all(self, error: InputError) -> None:
        """Add mistakes that know their lines."""
        self._errors += error.errors if isinstance(error, InputErrors) else [error]

    def __bool__(self) -> bool:
        return bool(self._errors)

    def check(self) -> None:
        """Raise InputError, or InputErrors with all mistakes in the order of their lines, if there are any."""
        if self._errors:
            errors = sorted(self._errors, key=lambda each: each.line)
            raise errors[0] if len(errors) == 1 else InputErrors(errors)


def is_kind(node: Any, kind: str) -> bool:
    """Return whether a node is a ``map`` or a ``seq``."""
    return str(node.tag) == _TAG + kind and isinstance(node.value, list)


def is_empty(node: Any) -> bool:
    """Return whether a node is empty."""
    return not isinstance(node.value, list) and str(node.tag) == _TAG + "null"
