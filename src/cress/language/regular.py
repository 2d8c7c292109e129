"""Regular expressions in linear time: a set of positions moves along the text, without backtracking.

Patterns known as catastrophic, such as ``(a+)+$``, take no longer than others: the pattern is an automaton of positions
(Glushkov 1961), whose state is an integer of bits. Therefore lookarounds and back references are not supported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

# Most positions of a pattern with its repetitions written out; each character costs a table lookup for eight of them.
MOST_POSITIONS = 128
# Most nested groups, and most parts of a pattern, counting repetitions, while it is read.
MOST_LEVELS = 20
MOST_PARTS = 1024
# Most characters for which an automaton caches their positions.
MOST_SYMBOLS = 1024

_BEGIN, _END = "\x02begin", "\x03end"
_SPACES, _DIGITS = " \t\n\r\f\v", "0123456789"
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_UNSUPPORTED = "no look-around, no reference to what was found before, no \\b"


class BadPattern(ValueError):
    """Error: a mistake at character ``place`` (from 0) of a pattern."""

    def __init__(self, place: int, what: str, hint: str = "") -> None:
        self.place, self.what, self.hint = place, what, hint
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class _Chars:
    """The characters that a position takes: some, or all but some.

    ``words``, ``digits``, … are named by the letter of their class.
    """

    some: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    classes: str = ""
    negated: bool = False

    def take(self, symbol: str) -> bool:
        if len(symbol) > 1:
            return symbol in self.some
        if _BEGIN in self.some or _END in self.some:
            return False
        forms = (form for form in (symbol, symbol.lower(), symbol.upper()) if len(form) == 1)
        found = any(map(self._has, forms))
        return found is not self.negated

    def _has(self, char: str) -> bool:
        return (
            char in self.some
            or any(first <= char <= last for first, last in self.ranges)
            or any(_in_class(char, members) for members in self.classes)
        )


def _in_class(char: str, letter: str) -> bool:
    inside = {
        "d": char in _DIGITS,
        "s": char in _SPACES,
        "w": char == "_" or char.isalnum(),
    }[letter.lower()]
    return inside is not letter.isupper()


@dataclass(slots=True)
class _Piece:
    """A part of the automaton.

    ``empty``: it also matches the empty text; ``first`` and ``last`` are the positions (bits) at which it begins and
    ends.
    """

    empty: bool
    first: int
    last: int


class Regular:
    """A compiled pattern. ``found_in(text)`` searches it anywhere in the text, ignoring case."""

    __slots__ = ("_after", "_anchored", "_before", "_empty", "_first", "_last", "_masks", "_takes", "_unions")

    def __init__(self, pattern: str) -> None:
        reader = _PatternReader(pattern)
        whole = reader.read()
        self._empty, self._first, self._last = whole.empty, whole.first, whole.last
        self._takes = reader.takes
        self._unions = [_unions(reader.follow[i : i + 8]) for i in range(0, len(reader.follow), 8)]
        # Each ^ and each $ takes a symbol of its own.
        self._before, self._after = (
            [symbol] * sum(symbol in taken.some for taken in self._takes) for symbol in (_BEGIN, _END)
        )
        # The pattern begins with ^, so a search can end early.
        self._anchored = all(_BEGIN in self._takes[i].some for i in _bits(self._first))
        # For each character, the positions that take it.
        self._masks: dict[str, int] = {}

    def found_in(self, text: str) -> bool:
        """Return whether the pattern occurs anywhere in ``text``."""
        if self._empty:
            return True
        state, masks, unions, first, last = 0, self._masks, self._unions, self._first, self._last
        anchored = self._anchored
        for symbol in (*self._before, *text, *self._after):
            # A match may begin anywhere, so the first positions are always open.
            open_, i = first, 0
            while state:
                open_ |= unions[i][state & 255]
                state >>= 8
                i += 1
            mask = masks.get(symbol)
            state = open_ & (self._mask(symbol) if mask is None else mask)
            if state & last:
                return True
            if not state and anchored and symbol is not _BEGIN:
                return False
        return False

    def _mask(self, symbol: str) -> int:
        found = 0
        for i, chars in enumerate(self._takes):
            found |= chars.take(symbol) << i
        if len(self._masks) < MOST_SYMBOLS:
            self._masks[symbol] = found
        return found


def _unions(masks: list[int]) -> list[int]:
    """Return, for each set of up to eight positions, the union of their masks."""
    masks = masks + [0] * (8 - len(masks))
    unions = [0]
    for mask in masks:
        unions += [union | mask for union in unions]
    return unions


@lru_cache(maxsize=128)
def compiled(pattern: str) -> Regular:
    """Return a compiled pattern. Raise BadPattern."""
    return Regular(pattern)


class _PatternReader:
    """Reads a pattern from left to right: alternatives of sequences of repeated atoms."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self._parts = self._level = 0
        self.takes: list[_Chars] = []
        # For each position, those that may follow it.
        self.follow: list[int] = []

    def read(self) -> _Piece:
        piece = self._alternatives()
        if self.at < len(self.pattern):
            raise BadPattern(self.at, "this ) closes nothing", "\\) is a literal parenthesis")
        return piece

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _alternatives(self) -> _Piece:
        piece = self._sequence()
        while self._peek() == "|":
            self.at += 1
            other = self._sequence()
            piece = _Piece(piece.empty or other.empty, piece.first | other.first, piece.last | other.last)
        return piece

    def _sequence(self) -> _Piece:
        piece = _Piece(True, 0, 0)
        while self._peek() not in ("", "|", ")"):
            piece = self._joined(piece, self._repeated())
        return piece

    def _joined(self, one: _Piece, other: _Piece) -> _Piece:
        for i in _bits(one.last):
            self.follow[i] |= other.first
        first = one.first | other.first if one.empty else one.first
        last = one.last | other.last if other.empty else other.last
        return _Piece(one.empty and other.empty, first, last)

    def _repeated(self) -> _Piece:
        start = self.at
        anchor = self._peek() in ("^", "$")
        piece = self._atom()
        end = self.at
        while self._peek() and self._peek() in "*+?{":
            place = self.at
            least, most = self._bounds()
            if self._peek() == "?":
                # A lazy repetition: it does not change whether the pattern is found.
                self.at += 1
            if anchor or end != place:
                raise BadPattern(
                    place, "nothing to repeat", "a repetition must follow a character or a group, only once"
                )
            piece = self._times(start, piece, least, most)
        return piece

    def _bounds(self) -> tuple[int, int | None]:
        """Return the least and the most number of repetitions; the most is None for any number."""
        sign, place = self._peek(), self.at
        self.at += 1
        if sign != "{":
            return (1 if sign == "+" else 0), (1 if sign == "?" else None)
        end = self.pattern.find("}", self.at)
        inside = self.pattern[self.at : end] if end >= 0 else ""
        low, comma, high = inside.partition(",")
        if not all(number.isascii() and number.isdigit() and len(number) < 5 for number in (low, high or "0")):
            raise BadPattern(place, "this { is not a repetition", "{3}, {1,3} or {2,}; \\{ is a literal brace")
        self.at = end + 1
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and (most < least or not most):
            raise BadPattern(place, f"{{{inside}}} repeats nothing", "the least number first, such as {1,3}")
        return least, most

    def _times(self, start: int, piece: _Piece, least: int, most: int | None) -> _Piece:
        """Return ``piece`` repeated; each copy but the first is read again, with positions of its own."""
        copies = [piece]
        after = self.at
        for _ in range((max(least, 1) if most is None else most) - 1):
            self.at = start
            copies.append(self._atom())
        self.at = after
        if most is None:
            for i in _bits(copies[-1].last):
                self.follow[i] |= copies[-1].first
        whole = _Piece(True, 0, 0)
        for number, copy in enumerate(copies, 1):
            whole = self._joined(whole, _Piece(copy.empty or number > least, copy.first, copy.last))
        return whole

    def _atom(self) -> _Piece:
        place, char = self.at, self._peek()
        self.at += 1
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise self._too_long(place)
        if char == "(":
            return self._group(place)
        if char == "[":
            return self._position(self._bracket(place))
        if char in "*+?{":
            raise BadPattern(place, "nothing to repeat", "a repetition must follow a character or a group, only once")
        if char == ".":
            return self._position(_Chars(negated=True))
        if char == "^":
            return self._position(_Chars(frozenset((_BEGIN,))))
        if char == "$":
            return self._position(_Chars(frozenset((_END,))))
        if char == "\\":
            return self._position(self._escape(place))
        return self._position(_Chars(frozenset((char,))))

    def _group(self, place: int) -> _Piece:
        if self._peek() == "?":
            if not self.pattern.startswith("?:", self.at):
                raise BadPattern(place, f"{self.pattern[place : place + 4]} is not supported", _UNSUPPORTED)
            self.at += 2
        self._level += 1
        if self._level > MOST_LEVELS:
            raise BadPattern(place, "too deeply nested", f"at most {MOST_LEVELS} levels")
        piece = self._alternatives()
        self._level -= 1
        if self._peek() != ")":
            raise BadPattern(place, "this ( is not closed", "\\( is a literal parenthesis")
        self.at += 1
        return piece

    def _escape(self, place: int) -> _Chars:
        char = self._peek()
        self.at += 1
        if char and char in "dswDSW":
            return _Chars(classes=char)
        if char in _ESCAPED:
            return _Chars(frozenset((_ESCAPED[char],)))
        if not char or char.isalnum():
            raise BadPattern(place, f"\\{char} is not supported", f"\\d, \\s, \\w and \\ before a sign; {_UNSUPPORTED}")
        return _Chars(frozenset((char,)))

    def _bracket(self, place: int) -> _Chars:
        negated = self._peek() == "^"
        self.at += negated
        some: set[str] = set()
        ranges: list[tuple[str, str]] = []
        classes = ""
        begin = self.at
        while self._peek() != "]" or self.at == begin:
            if not self._peek():
                raise BadPattern(place, "this [ is not closed", "\\[ is a literal bracket")
            low, at = self._member(), self.at
            if low.classes:
                classes += low.classes
            elif self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._member()
                first, last = next(iter(low.some)), next(iter(high.some), "")
                if first > last:
                    raise BadPattern(at - 1, "this range ends before it begins", "[a-z], [0-9]; \\- is a minus")
                ranges.append((first, last))
            else:
                some |= low.some
        self.at += 1
        return _Chars(frozenset(some), tuple(ranges), classes, negated)

    def _member(self) -> _Chars:
        place, char = self.at, self._peek()
        self.at += 1
        return self._escape(place) if char == "\\" else _Chars(frozenset((char,)))

    def _position(self, chars: _Chars) -> _Piece:
        if len(self.takes) >= MOST_POSITIONS:
            raise self._too_long(self.at - 1)
        self.takes.append(chars)
        self.follow.append(0)
        bit = 1 << (len(self.takes) - 1)
        return _Piece(False, bit, bit)

    @staticmethod
    def _too_long(place: int) -> BadPattern:
        hint = f"at most {MOST_POSITIONS} characters, repeated ones counted"
        return BadPattern(place, "the pattern is too long", hint)


def _bits(mask: int) -> Iterator[int]:
    """Yield the positions of the bits of a mask."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit
