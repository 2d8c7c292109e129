"""Writes src/cress/core/kernels/balance.py: the balance scans, unrolled for a few numbers of dimensions.

A loop over the dimensions inside the loop over the nodes keeps the compiler from using vector instructions, and
numba cannot cache code that was made by exec, so the unrolled source is a file. Run after a change here:

    python tools/unroll_balance.py > src/cress/core/kernels/balance.py
"""

from __future__ import annotations

WIDTHS = (4, 6, 8, 16)

HEAD = '''"""The balance measure of all nodes at once, and the best node by it. WRITTEN BY tools/unroll_balance.py: change that.

``columns`` (float32, 2 × width + 1 rows, one column a node): used/capacity per dimension, then 1/capacity per
dimension, both 0 where a node lacks it, then 1 / the number of dimensions that the node has, then y² × the sum of
the node's weights as the node is, under the weights ``then`` (a node's weights add up to the same before and after,
so these sums tell whether y falls). Rows beyond the
dimensions of the cluster are zero and change nothing: x + 0 is exact. A score is y², which orders as y does. The key
of a node is (bits of its score) << 32 | node: floats that are not negative order as their bits, ties go to the first
node.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.choice import BALANCE, BEST_FIT, FIRST, best_by_mean, current_weights, differ, first_free
from cress.core.kernels.holding import REQUEST, hold

ZERO = np.float32(0)
NO_NODE = 2**62
BLOCK = 2048
ROTATE_BLOCK = 512
WIDTHS = (4, 6, 8, 16)
'''


def each(pattern: str, width: int, joint: str = ", ") -> str:
    return joint.join(pattern.replace("#", str(b)) for b in range(width))


def spread(width: int, value: str) -> list[str]:
    """The lines that work out Σ w (d − m)² of d#, with mean and weights of what the node has."""
    return [
        f"            m = ({each('d#', width, ' + ')}) * parts[i]",
        f"            {each('t# = d# - m', width, '; ')}",
        f"            {value} = {each('u# * t# * t#', width, ' + ')}",
    ]


def common(width: int) -> list[str]:
    return [
        "        lacks = lack[lo : lo + c]",
        "        blocks = blocked[lo : lo + c]",
        f"        parts = columns[{2 * width}, lo : lo + c]",
        f"        {each('s# = columns[#, lo : lo + c]', width, '; ')}",
        "        " + "; ".join(f"v{b} = columns[{width + b}, lo : lo + c]" for b in range(width)),
    ]


def scan(width: int) -> str:
    lines = [
        "",
        "",
        '@njit(cache=True, nogil=True, error_model="numpy")',
        f"def scan_{width}(lack, blocked, columns, node_count, add, weights):",
        '    """Key of the feasible node with the smallest y after placing ``add``, or NO_NODE."""',
        "    best = np.int64(NO_NODE)",
        "    y = np.empty(BLOCK, np.float32)",
        "    bits = y.view(np.int32)",
        f"    {each('a# = add[#]', width, '; ')}",
        f"    {each('w# = weights[#]', width, '; ')}",
        "    for lo in range(0, node_count, BLOCK):",
        "        c = min(BLOCK, node_count - lo)",
        *common(width),
        "        for i in range(c):",
        f"            {each('d# = s#[i] + a# * v#[i]', width, '; ')}",
        f"            {each('u# = w# if v#[i] > ZERO else ZERO', width, '; ')}",
        f"            down = {each('u#', width, ' + ')}",
        *spread(width, "up"),
        "            y[i] = up / down if down > ZERO else ZERO",
        "        for i in range(c):",
        "            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)",
        "            key = np.int64(NO_NODE) if (lacks[i] | blocks[i]) != 0 else key",
        "            best = min(best, key)",
        "    return best",
    ]
    return "\n".join(lines)


def rotate(width: int) -> str:
    lines = [
        "",
        "",
        '@njit(cache=True, nogil=True, error_model="numpy")',
        f"def rotate_{width}(lack, blocked, columns, first, last, add, weights):",
        '    """Over the nodes [first, last): (key of the smallest y after, first node whose y falls, or -1).',
        "",
        "    Stops at the block in which a node improves; the key then covers what was looked at.",
        '    """',
        "    best = np.int64(NO_NODE)",
        "    y = np.empty(ROTATE_BLOCK, np.float32)",
        "    x = np.empty(ROTATE_BLOCK, np.float32)",
        "    bits = y.view(np.int32)",
        f"    {each('a# = add[#]', width, '; ')}",
        f"    {each('w# = weights[#]', width, '; ')}",
        "    for lo in range(first, last, ROTATE_BLOCK):",
        "        c = min(ROTATE_BLOCK, last - lo)",
        *common(width),
        f"        z = columns[{2 * width + 1}, lo : lo + c]",
        "        for i in range(c):",
        f"            {each('d# = s#[i] + a# * v#[i]', width, '; ')}",
        f"            {each('u# = w# if v#[i] > ZERO else ZERO', width, '; ')}",
        f"            down = {each('u#', width, ' + ')}",
        *spread(width, "x[i]"),
        "            y[i] = x[i] / down if down > ZERO else ZERO",
        "        found = np.int64(ROTATE_BLOCK)",
        "        for i in range(c):",
        "            out = (lacks[i] | blocks[i]) != 0",
        "            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)",
        "            key = np.int64(NO_NODE) if out else key",
        "            best = min(best, key)",
        "            place = np.int64(ROTATE_BLOCK) if out or x[i] >= z[i] else np.int64(i)",
        "            found = min(found, place)",
        "        if found < ROTATE_BLOCK:",
        "            return best, lo + found",
        "    return best, np.int64(-1)",
    ]
    return "\n".join(lines)


CHOOSE = '''

@njit(cache=True, nogil=True, error_model="numpy")
def choose_#(
    r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation, threshold,
    order, cursor,
):  # fmt: skip
    """The node for one copy of the shape of row ``r`` and the new cursor of the rotation; (-1, cursor) if none."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        return first_free(row, blocked, node_count), cursor
    add = np.zeros(#, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    if order != BALANCE:
        return best_by_mean(row, blocked, columns, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(#, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = scan_#(row, blocked, columns, node_count, add, weights)
    else:
        if differ(weights, then):
            then[:] = weights
            fill_before_#(columns, node_count, weights)
        best, better = rotate_#(row, blocked, columns, cursor, node_count, add, weights)
        if better < 0:
            rest, better = rotate_#(row, blocked, columns, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_#(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, fixed,
    fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Choose a node for one copy of the shape of row ``r`` and hold it there until ``end``: one call, not two."""
    f, cursor = choose_#(
        r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
        threshold, order, cursor,
    )  # fmt: skip
    if f >= 0:
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_many_#(
    r, slots, chosen, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
    fixed, fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """``place`` for each of ``slots``, the nodes into ``chosen``: one call for a gang. Returns the new cursor."""
    for i in range(slots.shape[0]):
        chosen[i], cursor = place_#(
            r, slots[i], end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
            fixed, fixed_parts, by_utilisation, threshold, order, cursor,
        )  # fmt: skip
    return cursor
'''

TAIL = """

PLACE = {%s}
PLACE_MANY = {%s}
"""


def fill(width: int) -> str:
    lines = [
        "",
        "",
        '@njit(cache=True, nogil=True, error_model="numpy")',
        f"def fill_before_{width}(columns, node_count, weights):",
        '    """Work out the column of y² before placing for all nodes, under other weights than then."""',
        f"    {each('w# = weights[#]', width, '; ')}",
        "    lo = 0",
        "    c = node_count",
        *(line[4:] for line in common(width)[2:]),
        f"    z = columns[{2 * width + 1}]",
        "    for i in range(node_count):",
        f"        {each('d# = s#[i]', width, '; ')}",
        f"        {each('u# = w# if v#[i] > ZERO else ZERO', width, '; ')}",
        *(line[4:] for line in spread(width, "z[i]")),
    ]
    return "\n".join(lines)


def source() -> str:
    widths = "".join(
        scan(width)
        + "\n"
        + rotate(width)
        + "\n"
        + fill(width)
        + "\n"
        + CHOOSE.replace("_#", f"_{width}").replace("zeros(#", f"zeros({width}")
        for width in WIDTHS
    )
    return (
        HEAD
        + widths
        + TAIL % tuple(", ".join(f"{width}: {name}_{width}" for width in WIDTHS) for name in ("place", "place_many"))
    )


if __name__ == "__main__":
    print(source(), end="")
