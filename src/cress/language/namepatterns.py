"""Patterns of node names in lists: ``n*``, ``gpu-?``, ``rack1-[01-40]``, ``n[1-8,12]``.

A number in brackets that begins with 0, or belongs to a range with such an end, keeps its written width: ``[01-40]``
are 01, 02, … 40, and ``[1-40]`` are 1, 2, … 40.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from cress.model.errors import InputError

_SPECIAL = re.compile(r"[*?\[\]]")
_PIECE = re.compile(r"\*+|\?|\[([^\[\]]*)\]|[^*?\[\]]+")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_MEMBER = re.compile(r"[\w.-]+")
_HINT = "n*, gpu-?, rack1-[01-40] or n[1-8,12]"

# First and last number, and their width; 0: no leading zeros.
Numbers: TypeAlias = tuple[int, int, int]
# A text, ``*``, ``?``, or the contents of brackets: numbers and words.
Piece: TypeAlias = str | tuple[tuple[Numbers, ...], tuple[str, ...]]
_ANY, _ONE = "*", "?"


def is_pattern(text: str) -> bool:
    """Return whether an entry of a list is meant as a pattern of names."""
    return _SPECIAL.search(text) is not None


@lru_cache(maxsize=1024)
def parse_pattern(text: str) -> NamePattern:
    """Return a parsed pattern. Raise InputError."""
    return NamePattern(text)


class NamePattern:
    """A pattern of names. Matching follows the set of reachable positions, so no part is tried twice."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str) -> None:
        folded = text.casefold()
        found = list(_PIECE.finditer(folded))
        if "".join(match.group() for match in found) != folded:
            raise InputError(f"{text} has a bracket without the other one", hint=_HINT)
        self._pieces = [_piece(text, match) for match in found]

    def fits(self, name: str) -> bool:
        """Return whether the pattern matches a name; case does not matter."""
        folded = name.casefold()
        at = {0}
        for piece in self._pieces:
            if piece == _ANY:
                at = set(range(min(at), len(folded) + 1))
            elif piece == _ONE:
                at = {i + 1 for i in at if i < len(folded)}
            elif isinstance(piece, str):
                at = {i + len(piece) for i in at if folded.startswith(piece, i)}
            else:
                at = {end for i in at for end in _ends(piece, folded, i)}
            if not at:
                return False
        return len(folded) in at


def _piece(text: str, found: re.Match[str]) -> Piece:
    word = found.group()
    if word[0] == "*":
        return _ANY
    if word[0] != "[":
        return word
    numbers: list[Numbers] = []
    words: list[str] = []
    for member in (entry.strip() for entry in found[1].split(",")):
        span = _RANGE.fullmatch(member)
        if span:
            first, last = span.groups()
            padded = (len(first) > 1 and first[0] == "0") or (len(last) > 1 and last[0] == "0")
            if int(first) > int(last) or (padded and len(first) != len(last)):
                raise InputError(f"{text}: [{member}] is not a range", hint=f"the smaller number first: {_HINT}")
            numbers.append((int(first), int(last), len(first) if padded else 0))
        elif _MEMBER.fullmatch(member):
            words.append(member)
        else:
            raise InputError(f"{text}: [{found[1]}] is not a list of numbers and ranges", hint=_HINT)
    return tuple(numbers), tuple(words)


def _ends(piece: tuple[tuple[Numbers, ...], tuple[str, ...]], name: str, start: int) -> set[int]:
    """Return the positions after a member of the brackets that begins at ``start``."""
    numbers, words = piece
    ends = {start + len(word) for word in words if name.startswith(word, start)}
    end = start
    while numbers and end < len(name) and "0" <= name[end] <= "9":
        end += 1
        digits = name[start:end]
        zero = len(digits) > 1 and digits[0] == "0"
        for first, last, width in numbers:
            if first <= int(digits) <= last and (len(digits) == width if width else not zero):
                ends.add(end)
        if end - start > len("999999999"):
            break
    return ends
