"""f(x): the condition under which a hard clause becomes soft.

It is made of comparisons of the waiting time and the cluster's load with constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from cress.language.names import CLUSTER_LOAD, WAITTIME
from cress.language.tree import And, Compare, Expression, Name, Not, Number, Or, Truth, leaves, parts
from cress.language.values import MIRRORED, OPERATORS
from cress.model.units import format_share, parse_duration, parse_share


@lru_cache(maxsize=1024)
def waiting_time(number: Number) -> int:
    """Return the microseconds in a constant beside ``Waittime``; a plain number is seconds. Raise InputError."""
    return parse_duration(number.text)


@lru_cache(maxsize=1024)
def load_share(number: Number) -> float:
    """Return the share in a constant beside ``ClusterLoad``. Raise InputError."""
    return float(parse_share(number.text))


@dataclass(frozen=True, slots=True)
class Relaxation:
    """``f(x) = …``, and the weight of the clause while it is soft."""

    condition: Expression
    weight: float = 1.0
    # The condition depends on the cluster's load.
    by_load: bool = field(init=False, compare=False, repr=False)
    # The waiting times, sorted, at which one of its comparisons changes its truth.
    _changes: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_load = any(isinstance(leaf, Name) and leaf.key == CLUSTER_LOAD for leaf in leaves(self.condition))
        object.__setattr__(self, "by_load", by_load)
        object.__setattr__(self, "_changes", tuple(sorted(set(_changes(self.condition)))))

    def holds(self, waited: int, load: float) -> bool:
        """Return whether the clause is soft after ``waited`` µs of waiting and at this load (0 … 1)."""
        return _holds(self.condition, waited, load)

    def next_change(self, waited: int) -> int | None:
        """Return the smallest later waiting time (µs) at which the result may differ from now; None: never."""
        later = [at for at in self._changes if at > waited]
        if self.by_load:
            return later[0] if later else None
        now = self.holds(waited, 0.0)
        return next((at for at in later if self.holds(at, 0.0) is not now), None)

    def __str__(self) -> str:
        weight = "" if self.weight == 1 else f", weight={format_share(self.weight)}"
        condition = str(self.condition) if isinstance(self.condition, Truth) else f"({self.condition})"
        return f"f(x{weight}) = {condition}"


def sides(compare: Compare) -> tuple[Name, str, Number] | None:
    """Return a comparison of a name with a constant as name, operator, constant; None for other comparisons."""
    if compare.operator not in OPERATORS:
        return None
    match compare:
        case Compare(operator, Name() as name, Number() as number):
            return name, operator, number
        case Compare(operator, Number() as number, Name() as name):
            return name, MIRRORED[operator], number
    return None


def _holds(condition: Expression, waited: int, load: float) -> bool:
    match condition:
        case Truth():
            return condition.value
        case Not():
            return not _holds(condition.operand, waited, load)
        case And():
            return all(_holds(operand, waited, load) for operand in condition.operands)
        case Or():
            return any(_holds(operand, waited, load) for operand in condition.operands)
        case Compare():
            found = sides(condition)
            if found is not None:
                name, operator, number = found
                if name.key == WAITTIME:
                    return OPERATORS[operator](waited, waiting_time(number))
                return OPERATORS[operator](load, load_share(number))
    raise TypeError(f"{condition} is not a condition of f(x)")


def _changes(condition: Expression) -> Iterator[int]:
    if isinstance(condition, Compare):
        found = sides(condition)
        if found is not None and found[0].key == WAITTIME:
            limit = waiting_time(found[2])
            if found[1] in (">", "<=", "=", "!="):
                yield limit + 1
            if found[1] in (">=", "<", "=", "!="):
                yield limit
    for part in parts(condition):
        yield from _changes(part)
