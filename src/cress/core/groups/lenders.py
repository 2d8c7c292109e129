"""Who yields to whom (source G, steps i to k) in a tree of groups: where two paths part, as between groups of a flat list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from cress.core.groups.amounts import Amounts
from cress.core.jobs import GroupState


@dataclass(frozen=True, slots=True)
class Yielding:
    """A group that yields, and the groups that it is in below the one that both it and the taker are in, the innermost first.

    ``taker`` is the taker's group on that level, ``level`` how many groups both are in.
    """

    group: GroupState
    chain: tuple[Amounts, ...]
    taker: Amounts
    level: int

    @property
    def order(self) -> tuple[int, list[Fraction], list[str]]:
        """The place in which it yields: what outsiders borrowed comes back first, of them that furthest above its quota."""
        downwards = [*reversed(self.chain)]
        return self.level, [-node.excess() for node in downwards], [node.name for node in downwards]


def yielding_to(
    groups: Iterable[GroupState], group: GroupState, takers: list[Amounts], yields: Callable[[Amounts], bool]
) -> Iterator[Yielding]:
    """Yield the groups that may lose tasks to a unit of ``group``: beside one of ``takers``, and ``yields`` all the way down."""
    if not takers:
        return
    own = {id(node): i for i, node in enumerate(group.path())}
    level_of = {id(node): len(own) - 1 - i for i, node in enumerate(group.path())}
    beside = {id(node.parent) if node.parent is not None else 0: node for node in takers}
    for other in groups:
        if other is group:
            continue
        chain: list[Amounts] = []
        for node in other.path():
            if id(node) in own:
                break
            chain.append(node)
        above = chain[-1].parent if chain else None
        taker = beside.get(id(above) if above is not None else 0)
        if not chain or taker is None or not all(yields(node) for node in chain):
            continue
        yield Yielding(other, tuple(chain), taker, level_of[id(taker)])
