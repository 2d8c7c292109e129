"""``accepts`` of a node: a condition over jobs, which may also use the node's own attributes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import lru_cache

from cress.language.jobfacts import TEXT_FACTS, check_facts, keys_in_expression
from cress.language.names import JOB, LABELS, LOADS, UNDEFINED, amount_of
from cress.language.parser import parse_expression
from cress.language.sense import Sense
from cress.language.tree import Compare, Expression, Name, leaves, parts
from cress.language.trouble import trouble
from cress.model.errors import InputError
from cress.model.resources import Dimensions

MOST_TEXT = 1_000
_EXAMPLE = "such as Job.Group in (lab, web) or Job.User in Owners"


@lru_cache(maxsize=1024)
def parse_accepts(text: str, *, stored: bool = False) -> Expression:
    """Return the condition. Raise InputError, which points at the character.

    A ``stored`` text was accepted before, perhaps by an older release: its meaning is not checked again.
    """
    if len(text) > MOST_TEXT:
        raise InputError(f"{len(text)} characters are too many", hint=f"at most {MOST_TEXT:,}")
    expression = parse_expression(text)
    if not stored:
        Sense(text).condition(expression)
    for leaf in leaves(expression):
        if isinstance(leaf, Name) and (leaf.key in LOADS or amount_of(leaf.key)[0]):
            what = f"{leaf} changes all the time, but a condition of a node must not change"
            raise trouble(text, leaf.at, what, f"Job.CPU, Job.Memory, or attributes of the node; {_EXAMPLE}")
    if not keys_in_expression(expression):
        raise InputError(f"{text} does not depend on the job", hint=_EXAMPLE)
    return expression


def check_accepts(text: str, dimensions: Dimensions, attributes: Container[str]) -> None:
    """Raise InputError, which points at the character, if no job of such a cluster has an attribute of the condition.

    ``attributes`` are the keys of the node's attributes: an unquoted word beside an attribute of jobs that is not one
    of them is probably meant as a text.
    """
    expression = parse_accepts(text)
    check_facts(text, expression, dimensions)
    for one, other in _compared(expression):
        if not isinstance(one, Name) or not isinstance(other, Name) or other.key in attributes:
            continue
        known = other.key.startswith(JOB) or other.key == UNDEFINED or amount_of(other.key, dimensions)[1]
        if not known and (one.key in TEXT_FACTS or one.key.startswith(LABELS)):
            what = f"the node has no attribute {other}"
            raise trouble(text, other.at, what, f'a text must be in quotes: "{other}"')


def _compared(expression: Expression) -> Iterator[tuple[Expression, Expression]]:
    """Yield the two sides of each comparison, in both orders."""
    if isinstance(expression, Compare):
        yield expression.left, expression.right
        yield expression.right, expression.left
    for part in parts(expression):
        yield from _compared(part)
