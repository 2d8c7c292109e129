"""The functions of the language: their arguments, and their results for values of attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cress.language.regular import compiled
from cress.language.tree import IN_SET, Number
from cress.language.values import Operand, text_of
from cress.model.attributes import members_of

MOST_ARGUMENTS = 20


@dataclass(frozen=True, slots=True)
class Function:
    """The least and the most number of arguments of a function, and an example of its use."""

    least: int
    most: int
    example: str


FUNCTIONS = {
    "regexp": Function(2, 2, 'regexp(Name, "^gpu-[0-9]+$")'),
    "startswith": Function(2, 2, 'startswith(Name, "gpu-")'),
    "endswith": Function(2, 2, 'endswith(Hostname, ".example.org")'),
    "contains": Function(2, 2, 'contains(Features, "avx2")'),
    "size": Function(1, 1, "size(Features) >= 2"),
    "min": Function(2, MOST_ARGUMENTS, "min(CPU, Slots) >= 4"),
    "max": Function(2, MOST_ARGUMENTS, "max(CPULoad, DiskLoad) < 80%"),
    "if": Function(3, 3, "if(SSD, Slots, 2) >= 2"),
}
# ``member in Set`` is one as well, apart from its form.
SET = Function(2, 2, '"avx2" in Features')
# In addition there is ``defined(x)``, which takes a name.
ALL = ("defined", *FUNCTIONS)


def text_in(value: Operand) -> str | None:
    """Return the text that a function sees for a value; None if the value has no text."""
    if value is None or isinstance(value, bool):
        return None
    return value.text if isinstance(value, Number) else text_of(value)


def _on_texts(found: Callable[[str, str], bool]) -> Callable[[Operand, Operand], bool | None]:
    def answer(value: Operand, other: Operand) -> bool | None:
        one, two = text_in(value), text_in(other)
        return None if one is None or two is None else found(one.casefold(), two.casefold())

    return answer


def _contains(value: Operand, part: Operand) -> bool | None:
    if isinstance(value, str) and members_of(value) is not None:
        return _in_set(part, value)
    return _on_texts(lambda one, two: two in one)(value, part)


def _in_set(member: Operand, value: Operand) -> bool | None:
    """Return the answer to ``member in value``; a value other than a set is treated as its only member."""
    one, two = text_in(member), text_in(value)
    if one is None or two is None:
        return None
    members = members_of(two)
    return one.casefold() in members if members is not None else one.casefold() == two.casefold()


def matches(pattern: str) -> Callable[[Operand], bool | None]:
    """Return the function for ``regexp(value, pattern)``."""

    def answer(value: Operand) -> bool | None:
        text = text_in(value)
        # Patterns in use stay compiled; tables of answers outlive them.
        return None if text is None else compiled(pattern).found_in(text)

    return answer


def size(value: Operand) -> float | None:
    """Return the number of members of a set, or of characters of a text."""
    text = text_in(value)
    members = None if text is None else members_of(text)
    return None if text is None else float(len(text if members is None else members))


# Functions of two texts or attributes.
OF_TWO: dict[str, Callable[[Operand, Operand], bool | None]] = {
    "startswith": _on_texts(str.startswith),
    "endswith": _on_texts(str.endswith),
    "contains": _contains,
    IN_SET: _in_set,
}
