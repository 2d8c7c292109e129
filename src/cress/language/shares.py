"""Amounts in ranks: shares of the node's capacity, so that terms are comparable; amounts only in quotients."""

from __future__ import annotations

from collections.abc import Iterator

from cress.language.names import FREE_MEMORY, SIZED, amount_of, measure_of
from cress.language.tree import Arithmetic, Expression, Name, Number, Pattern, is_truth, parts
from cress.language.values import unit_of
from cress.model.resources import Dimensions


def is_quotient_of_amounts(product: Arithmetic, dimensions: Dimensions | None = None) -> bool:
    """Return whether the amounts in a product of a rank are amounts, not shares.

    They are if the product divides by an amount (``IdleMemory / 16G``, ``(CPU - IdleCPU) / CPU``, also with ``%``), or
    if it divides an idle amount without a unit by numbers (``IdleCPU / 8``, which is the share of a node of 8 cores in
    source E). Without ``dimensions`` only the amounts of every cluster are known.
    """
    below = [operand for sign, operand in zip(product.operators, product.operands[1:], strict=True) if sign in "/%"]
    if not below:
        return False
    if any(_is_size(leaf) or _is_amount(leaf, dimensions) for summand in below for leaf in operands_of(summand)):
        return True
    amounts = [leaf for leaf in operands_of(product) if _is_amount(leaf, dimensions)]
    return bool(amounts) and all(_is_idle_count(amount, dimensions) for amount in amounts)


def operands_of(expression: Expression) -> Iterator[Expression]:
    """Yield the names and constants of a calculation, without those in conditions."""
    if is_truth(expression) or isinstance(expression, Pattern):
        return
    inside = parts(expression)
    if not inside:
        yield expression
    for part in inside:
        yield from operands_of(part)


def _is_amount(leaf: Expression, dimensions: Dimensions | None) -> bool:
    return isinstance(leaf, Name) and (leaf.key == FREE_MEMORY or bool(amount_of(leaf.key, dimensions)[1]))


def _is_idle_count(leaf: Expression, dimensions: Dimensions | None) -> bool:
    return isinstance(leaf, Name) and amount_of(leaf.key, dimensions)[0] and measure_of(leaf.key) not in SIZED


def _is_size(leaf: Expression) -> bool:
    return isinstance(leaf, Number) and unit_of(leaf.text) not in ("", "%")
