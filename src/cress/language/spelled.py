"""A rank as it is computed on one node: shares as quotients (source E, (iv) and (vi))."""

from __future__ import annotations

from collections.abc import Sequence

from cress.language.clauses import Rank, RankTerm
from cress.language.names import AMOUNTS, amount_of, key_of
from cress.language.tree import Name
from cress.model.resources import DISK, Dimensions
from cress.model.units import format_amount, format_share


def rank_on(rank: Rank, capacity: Sequence[int], dimensions: Dimensions) -> str:
    """Return the rank on a node with this ``capacity``: ``CPU`` becomes ``1 × (IdleCPU/8)`` with 8 cores."""
    text = ""
    for term in rank.terms:
        spelled = _term(term, capacity, dimensions, alone=len(rank.terms) == 1)
        text += f" + {spelled}" if text else spelled
    return text


def _term(term: RankTerm, capacity: Sequence[int], dimensions: Dimensions, *, alone: bool) -> str:
    _, key = amount_of(term.what.key, dimensions) if isinstance(term.what, Name) else (False, "")
    if not key:
        return str(term)
    names = ("disk_read", "disk_write") if key == DISK else (_dimension(key, dimensions),)
    total, name = min((capacity[dimensions.index[name]], name) for name in names)
    written = AMOUNTS.get(key, key.upper() if len(key) < 4 else key.capitalize())
    share = f"(Idle{written}/{format_amount(total, dimensions.measure(name))})"
    return share if term.weight == 1 and not alone else f"{format_share(term.weight)} × {share}"


def _dimension(key: str, dimensions: Dimensions) -> str:
    return next(name for name in dimensions.names if key_of(name) == key)
