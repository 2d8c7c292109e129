"""Leaf groups: groups without groups below them, which take jobs."""

from __future__ import annotations

from cress.core.books import Books
from cress.model.errors import InputError
from cress.model.groups.tree import leaves_below

# The most groups that one hint names.
_MOST_TOLD = 8


def check_takes_jobs(core: Books, name: str, wanted: str = "") -> None:
    """Raise ``InputError`` for a group with groups below it, which takes no jobs; ``wanted`` begins the hint."""
    if name in core.groups.tree.inner:
        leaves = leaves_below(core.groups.configured, name)
        more = f" and {len(leaves) - _MOST_TOLD:,} more" * (len(leaves) > _MOST_TOLD)
        raise InputError(
            f"group {name!r} has groups below it and takes no jobs",
            hint=f"{wanted}one of these: {', '.join(leaves[:_MOST_TOLD])}{more}",
            field="group",
        )
