"""Whole numbers in texts that people, programs and files give.

``str.isdigit`` is not the question to ask: it is true of ``²``, which ``int`` refuses, and of numbers with thousands
of digits, which ``int`` refuses as well.
"""

from __future__ import annotations

# Digits of a number that fits into 64 bits, whatever they are.
MOST_DIGITS = 18


def whole_number(text: str, digits: int = MOST_DIGITS) -> int | None:
    """Return the number that a text is: only digits of ASCII, at most so many; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
