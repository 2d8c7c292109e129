"""``accepts`` of a node: a condition over the jobs that it takes, with the node's own attributes beside those of the job."""

from __future__ import annotations

from functools import lru_cache

from cress.language.jobfacts import keys_in_expression
from cress.language.names import LOADS, amount_of
from cress.language.parser import parse_expression
from cress.language.sense import Sense
from cress.language.tree import Expression, Name, leaves
from cress.language.trouble import trouble
from cress.model.errors import InputError

MOST_TEXT = 1_000
_EXAMPLE = "such as Job.Group in (lab, web) or Job.User in Owners"


@lru_cache(maxsize=1024)
def parse_accepts(text: str) -> Expression:
    """Return the condition. Raises InputError, which points at the character."""
    if len(text) > MOST_TEXT:
        raise InputError(f"{len(text)} characters are too many", hint=f"at most {MOST_TEXT:,}")
    expression = parse_expression(text)
    Sense(text).condition(expression)
    for leaf in leaves(expression):
        if isinstance(leaf, Name) and (leaf.key in LOADS or amount_of(leaf.key)[0]):
            what = f"{leaf} changes all the time, and a node takes a job or does not"
            raise trouble(text, leaf.at, what, f"Job.CPU, Job.Memory, or attributes of the node; {_EXAMPLE}")
    if not keys_in_expression(expression):
        raise InputError(f"{text} says nothing about a job", hint=_EXAMPLE)
    return expression
