"""The compiled loop that runs programs: a small stack machine on float64.

NaN is undefined, 1 true and 0 false. A program is a table of instructions (int64, one row each: operation, two
arguments). It reads:

* ``constants`` (float64);
* ``codes`` (int32, column × node) and ``tables`` (float64): a node's value of an attribute is a code, and the answer
  about that value (a comparison's truth, its number) is in a table at that code;
* ``nodes`` (int64, one row per node): free and total amounts.
"""

from __future__ import annotations

import numpy as np
from numba import njit

(
    CONSTANT, LOOKUP, AMOUNT, LESSER, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL,
    EQUAL, UNEQUAL, AND, OR, NOT, TERM, REMAINDER, LARGER, SAME, CHOOSE,
) = range(23)  # fmt: skip

# Scores are float32; larger values are cut off here.
MOST = 3.0e38


@njit(cache=True, nogil=True, error_model="numpy")
def run(program, constants, codes, tables, nodes, f, stack):
    """Run the program on node ``f`` and return the value left on the stack."""
    top = -1
    for i in range(len(program)):
        operation = program[i, 0]
        a = program[i, 1]
        if operation == LOOKUP:
            top += 1
            stack[top] = tables[program[i, 2] + codes[a, f]]
        elif operation == AND:
            top -= 1
            x = stack[top]
            y = stack[top + 1]
            if x == 0.0 or y == 0.0:
                stack[top] = 0.0
            else:
                # Both true gives 1; with an undefined operand the product is undefined.
                stack[top] = x * y
        elif operation == CONSTANT:
            top += 1
            stack[top] = constants[a]
        elif operation == AMOUNT:
            top += 1
            stack[top] = nodes[f, a] / constants[program[i, 2]]
        elif operation == OR:
            top -= 1
            x = stack[top]
            y = stack[top + 1]
            if x == 1.0 or y == 1.0:
                stack[top] = 1.0
            else:
                stack[top] = x + y
        elif operation == NOT:
            stack[top] = 1.0 - stack[top]
        elif operation == NEGATE:
            stack[top] = -stack[top]
        elif operation == TERM:
            # The sum is below on the stack; an undefined term adds nothing.
            top -= 1
            x = constants[a] * stack[top + 1]
            if np.isfinite(x):
                stack[top] += x
        else:
            top -= 1
            x = stack[top]
            y = stack[top + 1]
            if operation == ADD:
                stack[top] = x + y
            elif operation == SUBTRACT:
                stack[top] = x - y
            elif operation == MULTIPLY:
                stack[top] = x * y
            elif operation == DIVIDE:
                stack[top] = x / y if y != 0.0 else np.nan
            elif operation == SAME:
                # Never undefined: either equal, or both undefined.
                stack[top] = 1.0 if x == y or (np.isnan(x) and np.isnan(y)) else 0.0
            elif operation == CHOOSE:
                # The condition is below its branches on the stack.
                top -= 1
                condition = stack[top]
                stack[top] = x if condition == 1.0 else y if condition == 0.0 else np.nan
            elif np.isnan(x) or np.isnan(y):
                stack[top] = np.nan
            elif operation == LESS:
                stack[top] = 1.0 if x < y else 0.0
            elif operation == LESS_EQUAL:
                stack[top] = 1.0 if x <= y else 0.0
            elif operation == GREATER:
                stack[top] = 1.0 if x > y else 0.0
            elif operation == GREATER_EQUAL:
                stack[top] = 1.0 if x >= y else 0.0
            elif operation == EQUAL:
                stack[top] = 1.0 if x == y else 0.0
            elif operation == UNEQUAL:
                stack[top] = 1.0 if x != y else 0.0
            elif operation == LESSER:
                stack[top] = min(x, y)
            elif operation == LARGER:
                stack[top] = max(x, y)
            elif operation == REMAINDER:
                # The result has the sign of the dividend.
                stack[top] = np.fmod(x, y) if y != 0.0 else np.nan
    return stack[0]


@njit(cache=True, nogil=True, error_model="numpy")
def value_at(program, constants, codes, tables, nodes, f, depth):
    """Return the value on node ``f``."""
    return run(program, constants, codes, tables, nodes, f, np.empty(depth, np.float64))


@njit(cache=True, nogil=True, error_model="numpy")
def truths(program, constants, codes, tables, nodes, places, count, depth, out):
    """Set ``out[f]`` (int8) to 1, 0 or −1 (undefined) for the nodes in ``places``, or for the first ``count`` nodes."""
    stack = np.empty(depth, np.float64)
    some = len(places)
    for i in range(some or count):
        f = places[i] if some else i
        x = run(program, constants, codes, tables, nodes, f, stack)
        out[f] = -1 if np.isnan(x) else np.int8(x)


@njit(cache=True, nogil=True, error_model="numpy")
def values(program, constants, codes, tables, nodes, places, count, depth, out):
    """Set ``out[f]`` (float32) to the value for the nodes in ``places`` or the first ``count``.

    An undefined value becomes 0.
    """
    stack = np.empty(depth, np.float64)
    some = len(places)
    for i in range(some or count):
        f = places[i] if some else i
        x = run(program, constants, codes, tables, nodes, f, stack)
        out[f] = np.float32(0) if np.isnan(x) else np.float32(max(-MOST, min(MOST, x)))
