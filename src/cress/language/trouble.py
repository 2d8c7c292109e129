"""Mistakes in a text of the language, reported with their place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cress.language.functions import ALL
from cress.language.grammar import WORDS
from cress.language.names import GRAMMAR_WORDS
from cress.model.errors import InputError
from cress.model.units import closest

_SHOWN = 24
_LONGEST = 240
# Signs that users write where && may stand, and the hint for each.
_HINTS = {
    "&": "&& joins conditions",
    "|": "|| is or",
    "~": "! is not, != is unequal, ~> 11 is a version that begins with 11",
    ":": "a comparison is written with =",
    **dict.fromkeys("<>=!≤≥≠", "one comparison at a time: a < b && b < c"),
}
# The name of a function that is called, and a unit that is separate from the number before it.
_FUNCTION = re.compile(r"([^\W\d][\w-]*)\s*\Z")
_NUMBER_BEFORE = re.compile(r"(?<![\w.])([0-9.]+[^\s\W]*%?)\s*\Z")
_UNIT = re.compile(r"%+|(?<=%)[0-9.]+|(?:[KMGTP]i?(?:B|bits?)?(?:/s)?|cores?|cpus?|m?s|min|h|d)(?!\w)", re.IGNORECASE)
# A % after a number, without anything after it to divide by.
_PERCENT = re.compile(r"(?<![\w.])([0-9.]+)(%?)\s*%\s*\Z")
_VECTOR = re.compile(r"\bresource\s{0,9}(?::|[<>]=?|)\s{0,9}<[^<>=]*", re.IGNORECASE)
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')


class Misplaced(InputError):
    """Error: a mistake at character ``place`` (from 0) of a text; ``said`` is the mistake without the place."""

    def __init__(self, what: str, hint: str, place: int, said: str) -> None:
        self.place, self.said = place, said
        super().__init__(what, hint=hint)


def trouble(text: str, at: int, what: str, hint: str = "") -> Misplaced:
    """Return the error ``what`` at character ``at`` (from 0), with the beginning of the text there."""
    rest = " ".join(text[at : at + 4 * _SHOWN].split())
    shown = rest[:_SHOWN] + "…" if len(rest) > _SHOWN else rest
    place = f"at character {at + 1}, `{shown}`" if shown else "at the end"
    return Misplaced(f"{place}: {_cut(what)}", _cut(hint), at, what)


def _cut(sentence: str) -> str:
    """Shorten a sentence, which may quote a long text."""
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1] + "…"


def unexpected(text: str, at: int, expected: Iterable[str]) -> InputError:
    """Return the error that something else is expected at character ``at``."""
    opened = sum({"(": 1, ")": -1}.get(character, 0) for character in _QUOTED.sub("", text[:at]))
    # The lexer has one state for all of them, but only some are possible here.
    expected = set(expected) - ({"_CLOSE", "_COMMA"} if opened <= 0 else {"$END"})
    words = list(dict.fromkeys(WORDS.get(terminal, terminal) for terminal in sorted(expected, key=_order)))
    if "a value" in words:
        # A value may also begin with a parenthesis or a !, which goes without saying.
        words = [expected_word for expected_word in words if expected_word not in ("(", "!")]
    if expected == {"_OPEN", "NAME", "QUOTED"}:
        words = ["(", "the name of a set"]
    rest = text[at:]
    needed = f"{_listed(words)} is expected"
    if not rest.strip() and not (_PERCENT.search(text) and "a value" in words):
        return trouble(text, len(text), needed, "a ( is not closed" if ")" in words else "")
    first = rest[:1]
    if first and first in "\"'" and rest.count(first) == 1:
        return trouble(text, at, "the quote is not closed", f"{first} ends a text")
    function = _FUNCTION.search(text, max(0, at - _LONGEST), at) if first == "(" else None
    if function and function[1].lower() not in GRAMMAR_WORDS:
        word = function[1]
        if word.lower() == "f":
            return trouble(text, function.start(), "this is not f(x)", "clause && f(x) = (Waittime > 15s)")
        near = closest(word.lower(), ALL)
        known = f"did you mean {near}?" if near else f"the functions are {', '.join(ALL)}; or f(x) = …"
        return trouble(text, function.start(), f"{word!r} is not a function", known)
    percent = _PERCENT.search(text, max(0, at - _LONGEST), at)
    if percent and "a value" in words:
        written = percent.group().strip()
        hint = f"{percent[1]}%; between two numbers % is the remainder"
        what = "is not a number" if percent[2] else "has a blank before its unit"
        return trouble(text, percent.start(), f"{written} {what}", hint)
    unit = _unit_behind(text, at)
    if unit:
        return unit
    if first == ")" and "a value" in words:
        return trouble(text, at, "something is missing", needed)
    if first == ")" and ")" not in words:
        return trouble(text, at, "this ) closes nothing", "a ( is missing before it, or this one is too many")
    vector = _VECTOR.search(text)
    if vector and vector.start() <= at < vector.end():
        return trouble(text, at, needed, "Resource = <1,2G>")
    if first == ">" and text[:at].endswith("="):
        return trouble(text, at - 1, "=> is not a comparison", ">=")
    return trouble(text, at, needed, _HINTS.get(first, "") if "&&" in words or first == ":" else "")


def _unit_behind(text: str, at: int) -> InputError | None:
    """Return the error about a unit at character ``at`` that a blank separates from its number, or that is repeated."""
    number = _NUMBER_BEFORE.search(text, max(0, at - _LONGEST), at)
    unit = _UNIT.match(text, at)
    if not number or not unit:
        return None
    written = text[number.start() : unit.end()]
    if number[1].endswith("%") and unit.group()[0].isdigit():
        hint = f"{number[1]} is a percentage; {number[1][:-1]} % {unit.group()} is the remainder"
        return trouble(text, number.start(), f"{written} is not a number", hint)
    if number[1].endswith("%"):
        return trouble(text, number.start(), f"{written} is not a number", number[1])
    return trouble(text, number.start(), f"{written} has a blank before its unit", f"{number[1]}{unit.group()}")


def _order(terminal: str) -> tuple[int, str]:
    order = list(WORDS)
    return (order.index(terminal), terminal) if terminal in WORDS else (len(order), terminal)


def _listed(words: list[str]) -> str:
    shown = [word if word.startswith(("a ", "an ", "the ")) else f"`{word}`" for word in words]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1]
