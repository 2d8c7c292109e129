"""Mistakes in the words of a command, as one line in the style of all other errors.

The library of the command line has several styles of its own, and those of the library behind it.
"""

from __future__ import annotations

import re
from typing import Any

from cress.model.errors import InputError
from cress.model.foreign_words import option_for, verb_for
from cress.model.units import closest

# Messages about a value → what is wrong with it, and what would be right.
_VALUES = (
    (r"Input should be a valid integer.*", "is not a whole number", ""),
    (r"Input should be a valid number.*", "is not a number", ""),
    (r"Input should be a valid boolean.*", "is neither true nor false", ""),
    (r"Input should be greater than or equal to (.+)", "is too small", "at least {}"),
    (r"Input should be less than or equal to (.+)", "is too large", "at most {}"),
    (r"Input should be greater than (.+)", "is too small", "more than {}"),
    (r"Input should be less than (.+)", "is too large", "less than {}"),
)
# Verbs that list things: the verb for one of them.
SINGULAR = {"cress jobs": "cress job", "cress status": "cress job", "cress top": "cress job"}
_NO_VERB = re.compile(r"No such command '(.*?)'\.(?: Did you mean '(.*?)'.*)?", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra argument\S* \((.*)\)", re.DOTALL)
_NO_VALUE = re.compile(r"Option '(.*)' requires (?:an argument|\d+ arguments)\.")
_NOT_ONE_OF = re.compile(r"('.*') is not one of (.*)", re.DOTALL)


def usage_error(error: Exception) -> str | None:
    """Return the sentence for an error of the library of the command line; ``None`` for any other error."""
    if not hasattr(error, "format_message"):
        return None
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.format_message())
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "cress"
    found = _explained(error, context, path)
    return f"{path}: {found}"


def _explained(error: Any, context: Any, path: str) -> InputError:
    message = str(getattr(error, "message", ""))
    see = f"see: {path} -h"
    option = getattr(error, "option_name", "")
    if option and hasattr(error, "possibilities"):
        meant = _meant(option, context) if context is not None else ""
        return InputError(f"there is no option {option}", hint=f"did you mean {meant}?" if meant else see)
    if found := _NO_VALUE.fullmatch(message):
        return InputError("needs a value", hint=see, field=found[1])
    if hasattr(error, "param_type"):
        return InputError("is missing", hint=see, field=_name(error))
    if found := _NO_VERB.fullmatch(message):
        # The library also names verbs that merely share letters.
        near = found[2] if verb_for(found[1]) else closest(found[1], [found[2]] if found[2] else [])
        return InputError(f"there is no verb {found[1]!r}", hint=f"did you mean {near}?" if near else see)
    if found := _EXTRA.fullmatch(message):
        single = SINGULAR.get(path)
        return InputError(f"unexpected words: {found[1]}", hint=f"did you mean {single} {found[1]}?" if single else see)
    if getattr(error, "param", None) is not None or getattr(error, "param_hint", None):
        return of_value(message).at(field=_name(error))
    return InputError(message.rstrip("."))


def of_value(message: str) -> InputError:
    """Return the error about a value of an option or argument."""
    plain = message.removeprefix("Value error, ").rstrip(".")
    for pattern, what, hint in _VALUES:
        if found := re.fullmatch(pattern, plain, re.DOTALL):
            return InputError(what, hint=hint.format(*found.groups()))
    if found := _NOT_ONE_OF.fullmatch(plain):
        words = [word.strip("' ") for word in found[2].split(",")]
        near = closest(found[1].strip("'"), words)
        listed = ", ".join(word for word in words if word)
        return InputError(f"{found[1]} is not one of {listed}", hint=f"did you mean {near}?" if near else "")
    return InputError(plain)


def _name(error: Any) -> str:
    """Return the name of the option or argument: the long one, without quotes."""
    hint = getattr(error, "param_hint", None)
    if hint:
        return str(hint if isinstance(hint, str) else hint[-1]).strip("'")
    param = error.param
    if param is None:
        return ""
    long = [name for name in param.opts if name.startswith("--")]
    if long:
        return str(long[0])
    return str(param.get_error_hint()).strip("'").removesuffix("...").strip("{}")


def _meant(unknown: str, context: Any) -> str:
    """Return the option that an unknown one probably stands for; empty if none is near."""
    options = [name for param in context.command.params for name in param.opts if name.startswith("--")]
    near = closest(unknown.lstrip("-"), (name.lstrip("-") for name in options))
    return option_for(unknown, context.info_name or "", options) or (f"--{near}" if near else "")
