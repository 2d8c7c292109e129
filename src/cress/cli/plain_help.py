"""Options and arguments in the help as other commands of Unix show them: ``JOB``, ``[JOB]...``, ``--tasks N``.

The library writes ``{JOB}`` for a required argument, and types of Python: ``JOB <list[str]>``, ``--tasks <int range>``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_origin

# The words for values of options that have no word of their own.
WORDS = {str: "TEXT", int: "N", float: "NUMBER", Path: "FILE"}


def describe_plainly(command: Any) -> None:
    """Let a command show its options and arguments by plain words; those of commands below it are not changed.

    A release of the library that works otherwise ignores what is set here.
    """
    for param in command.params:
        if getattr(param, "param_type_name", "") == "argument":
            if param.metavar:
                param.display_type_rich = _no_type
                setattr(param, "_usage_display_name", _UsageName(param))  # noqa: B010 – a private name
        elif not param.metavar and not param.is_flag:
            kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
            kind = get_args(kind)[0] if get_origin(kind) is list else kind
            param.metavar = WORDS.get(kind) if isinstance(kind, type) else None


def _no_type(ctx: Any) -> None:  # noqa: ARG001 – called with it
    return None


class _UsageName:
    """The name of an argument in the usage line."""

    def __init__(self, param: Any) -> None:
        self._param = param

    def __call__(self) -> str:
        name = re.sub(r"^\[(.*)\](\.\.\.)?$", r"\1", str(self._param.metavar)).removesuffix("...")
        name = name if self._param.required else f"[{name}]"
        return name if self._param.nargs == 1 or "…" in name else f"{name}..."
