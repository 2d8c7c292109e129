"""Values that the rules of the grammar pass to the rest of the parser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from cress.language.tree import Expression


@dataclass(frozen=True, slots=True)
class Relaxes:
    """``f(x) = condition`` after a clause; exists only while a text is read."""

    condition: Expression
    weight: float
    at: int


# The results of rules while a text is read: trees in which an And may still hold f(x) and other Ands.
Raw: TypeAlias = Any


class Wrong(Exception):
    """A mistake found by a rule, which knows the place but not the text."""

    def __init__(self, at: int, what: str, hint: str = "") -> None:
        self.at, self.what, self.hint = at, what, hint
        super().__init__(what)
