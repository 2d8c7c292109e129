"""Packing of functions and arguments for tasks, with errors that name the part that cannot be pickled."""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle

from cress.client.errors import CannotSend
from cress.client.frames import INDEX, PAYLOAD, PROTOCOL, Writer
from cress.client.spool import Spool

# Parts that are tried one by one when a chunk cannot be pickled as a whole.
SHOWN = 60


def send(spool: Spool, kind: str, function: Callable[..., Any] | None, chunks: Sequence[Sequence[Any]]) -> None:
    """Write the payload of a call. Raises ``CannotSend``, ``OSError``."""
    with spool.write(PAYLOAD) as payload, spool.write(INDEX) as index:
        writer = Writer(payload, index)
        head = json.dumps(_head(kind)).encode()
        writer.add(lambda file: _write(file, head))
        writer.add(lambda file: dump_function(function, file))
        position = 0
        for chunk in chunks:
            writer.add(functools.partial(_dump_chunk, chunk, position))
            position += len(chunk)


def _head(kind: str) -> dict[str, Any]:
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 – "" is the current directory
    return {"kind": kind, "python": sys.version_info[:2], "path": path, "directory": os.fspath(Path.cwd())}


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def dump_function(function: Callable[..., Any] | None, file: BinaryIO) -> None:
    """Pickle a function."""
    try:
        cloudpickle.dump(function, file, protocol=PROTOCOL)
    except Exception as error:
        raise CannotSend(f"{_named(function)} cannot be sent: {_blame_function(function)}{_said(error)}") from error


def _dump_chunk(chunk: Sequence[Any], position: int, file: BinaryIO) -> None:
    try:
        _dump(chunk, file)
    except Exception as error:
        for number, item in enumerate(chunk):
            if not _can(item):
                given = item[0] if isinstance(item, tuple) and len(item) == 1 else item
                raise CannotSend(
                    f"item {position + number}, {_shown(given)}, cannot be sent: {_said(error)}"
                ) from error
        raise CannotSend(f"the items cannot be sent: {_said(error)}") from error


def _dump(value: Any, file: BinaryIO) -> None:
    """Pickle a value with plain pickle if possible, else by value (plain pickle stores only names of ``__main__``)."""
    begin = file.tell()
    try:
        _Plain(file).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
        file.seek(begin)
        file.truncate()
        cloudpickle.dump(value, file, protocol=PROTOCOL)


class _Plain(pickle.Pickler):
    """Refuses objects that another process would not find."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, PROTOCOL)
        self.by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}

    def reducer_override(self, value: Any) -> Any:
        """Refuse classes and functions that are pickled by value; pickle calls this for all but basic types."""
        if (isinstance(value, type) or inspect.isfunction(value)) and value.__module__ in self.by_value:
            raise pickle.PicklingError("by value")
        return NotImplemented


def dump_call(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return one call as two pickles. Raises ``CannotSend``."""
    place = io.BytesIO()
    dump_function(function, place)
    try:
        arguments = io.BytesIO()
        _dump((given, named), arguments)
    except Exception as error:
        for name, value in [*enumerate(given, 1), *named.items()]:
            if not _can(value):
                what = f"argument {name} of {_named(function)}, {_shown(value)}, cannot be sent: {_said(error)}"
                raise CannotSend(what) from error
        raise CannotSend(f"the arguments of {_named(function)} cannot be sent: {_said(error)}") from error
    return place.getvalue(), arguments.getvalue()


def _can(value: Any) -> bool:
    try:
        cloudpickle.dumps(value, protocol=PROTOCOL)
    except Exception:  # noqa: BLE001 – whatever it is
        return False
    return True


def _blame_function(function: Any) -> str:
    """Return the variable of a function that cannot be pickled, if one is found."""
    if isinstance(function, functools.partial):
        for number, value in enumerate(function.args, 1):
            if not _can(value):
                return f"argument {number} of the partial, {_shown(value)}: "
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner) and not _can(owner):
        return f"its object, {_shown(owner)}: "
    try:
        used = inspect.getclosurevars(function)
    except TypeError:
        return ""
    for where, names in (("of the function around it", used.nonlocals), ("of its module", used.globals)):
        for name, value in names.items():
            if not _can(value):
                return f"its variable {name} {where}, {_shown(value)}: "
    return ""


def _named(function: Any) -> str:
    return f"function {getattr(function, '__qualname__', None) or _shown(function)}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 – whatever its repr does
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _said(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
