"""Values of options and arguments that need no library to be read: texts, paths, counts, words of a list.

The library of the command line reads each value with a second library, whose import and preparation take as long as the
rest of a short command. Here the values that are plainly right are read, and all others are left to it. So messages
about wrong values are the same, and a release of the library that works otherwise is only slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

# Stands for a value that is left to the library. None is a value.
LEFT: Any = object()
# Where a parameter of the library keeps its reader of values.
_READER = "_runtime_param"
# Settings of parameters that change how values are read.
_SPECIAL = ("click_type", "exists", "writable", "resolve_path", "allow_dash", "path_type", "clamp")


class PlainReader:
    """Reads the plain values of one parameter."""

    def __init__(
        self, annotation: Any, least: float | None, most: float | None, parse: Callable[[str], Any] | None
    ) -> None:
        self._annotation, self._least, self._most, self._parse = annotation, least, most, parse

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in the type of the parameter, as the library calls it."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        read = self._several(value) if several else self.one(value)
        if read is not LEFT:
            return read
        setattr(param, _READER, None)
        try:
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        finally:
            setattr(param, _READER, self)

    def _several(self, values: Any) -> Any:
        if not isinstance(values, Sequence) or isinstance(values, str):
            return LEFT
        read = [self.one(value) for value in values]
        return LEFT if LEFT in read else read

    def one(self, value: Any) -> Any:
        """Return one value in the type of the parameter; ``LEFT`` if it is not plain."""
        kind = self._annotation
        if self._parse is not None:
            try:
                return self._parse(value)
            except ValueError:
                return LEFT
        if kind is str or kind is bool:
            return value if type(value) is kind else LEFT
        if kind is Path:
            return Path(value) if isinstance(value, (str, Path)) else LEFT
        if kind is int or kind is float:
            if type(value) is str and value.isascii() and value.isdigit():
                value = kind(value)
            within = type(value) is kind and not (
                (self._least is not None and value < self._least) or (self._most is not None and value > self._most)
            )
            return value if within else LEFT
        if isinstance(value, kind):
            return value
        return next((member for member in kind if member.value == value), LEFT)


def read_plainly(command: Any) -> None:
    """Let the parameters of a command read plain values without the library; those of commands below it are not."""
    whole = command.get_params

    # The library adds parameters when a command begins to read its words: help and completion.
    def get_params(ctx: Any) -> Any:
        params = whole(ctx)
        for param in params:
            reader = _reader_of(param)
            if reader is not None:
                setattr(param, _READER, reader)
        return params

    command.get_params = get_params


def _reader_of(param: Any) -> PlainReader | None:
    """Return the reader of a parameter; ``None`` if it has one, or if the library must read its values."""
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None or getattr(param, _READER, LEFT) is not None or not hasattr(param, "get_runtime_param"):
        return None
    info, kind = descriptor.parameter_info, descriptor.annotation
    if any(getattr(info, name, None) for name in _SPECIAL):
        return None
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    if kind in (str, bool, int, float, Path) or (isinstance(kind, type) and issubclass(kind, Enum)):
        return PlainReader(kind, info.min, info.max, info.parser)
    return None
