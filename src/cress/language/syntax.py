"""From text to trees. Their meaning is checked afterwards (checks.py, parser.py)."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from cress.language.raw import Raw, Wrong
from cress.language.trouble import trouble, unexpected
from cress.model.errors import InputError

if TYPE_CHECKING:
    from lark import Lark

MOST_CHARACTERS = 4000
# Most characters including the lists of ``in (…)``, which may name all nodes of a large cluster.
MOST_WITH_LISTS = 65_536
MOST_LEVELS = 20

_LEVELS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]|!(?!\s*=)|¬|\bnot\b|[-−]|\w+|\S', re.IGNORECASE)
# The list of ``in (…)``, by a possessive repetition, which never backtracks.
_LIST = re.compile(r'(?<=\bin)\s*\((?:[^()"\']|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')*+\)', re.IGNORECASE)


def parse_raw(text: str) -> Raw:
    """Return the tree of ``text`` as written. Raise InputError."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

    _check_length(text)
    _check_levels(text)
    try:
        return _parser().parse(text)
    except UnexpectedToken as error:
        end = error.token.type == "$END"
        at = len(text) if end else int(error.token.start_pos or 0)
        raise unexpected(text, at, set(error.accepts or error.expected)) from None
    except UnexpectedCharacters as error:
        place: Any = error.pos_in_stream
        raise unexpected(text, place, set(error.allowed or ())) from None
    except UnexpectedEOF as error:
        raise unexpected(text, len(text), set(error.expected)) from None
    except VisitError as error:
        raise error.orig_exc from None
    except Wrong as wrong:
        raise trouble(text, wrong.at, wrong.what, wrong.hint) from None


def _check_length(text: str) -> None:
    """Refuse a text that is too long, before anything reads it."""
    if len(text) > MOST_WITH_LISTS:
        raise InputError(f"{len(text)} characters are too many", hint=f"at most {MOST_WITH_LISTS} with all lists")
    if len(text) > MOST_CHARACTERS:
        rest = len(_LIST.sub("", text))
        if rest > MOST_CHARACTERS:
            without = ", without lists in (…)" if rest < len(text) else ""
            raise InputError(f"{rest} characters are too many", hint=f"at most {MOST_CHARACTERS}{without}")


def _check_levels(text: str) -> None:
    """Refuse deep nesting, of parentheses, ``!`` and ``-``, before the tree is walked."""
    outside: list[int] = []
    level = signs = 0
    value_before = False
    for found in _LEVELS.finditer(text):
        word = found.group()
        if word == ")":
            level = outside.pop() if outside else 0
            signs, value_before = 0, True
        elif word == "(":
            outside.append(level)
            level += signs + 1
            signs, value_before = 0, False
        elif word in ("!", "¬") or word.lower() == "not" or (word in "-−" and not value_before):
            signs += 1
        else:
            signs, value_before = 0, word[0].isalnum() or word[0] in "_\"'"
        if level + signs > MOST_LEVELS:
            raise trouble(text, found.start(), "too deeply nested", f"at most {MOST_LEVELS} levels")


def prepare() -> None:
    """Build the parser, which takes a tenth of a second, ahead of urgent calls."""
    _parser()


@cache
def _parser() -> Lark:
    from cress.language.expression_builder import lark_parser

    return lark_parser()
