"""Orders for the launcher to make a container and start a program in it, as ``launcher_container.h`` lists them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from cress.executor.runtimes import seccomp, user_namespace
from cress.executor.runtimes.cgroups import GroupStep, StepKind
from cress.executor.runtimes.engines.base import Box
from cress.executor.runtimes.enter import Ids, kept_capabilities

_STEPS = {StepKind.MAKE: b"G", StepKind.WRITE: b"W", StepKind.IF_PRESENT: b"v", StepKind.IF_POSSIBLE: b"w"}


def is_plain(root: str) -> bool:
    """Return whether a container with this root folder can be made by the launcher: that of the node, not a job's."""
    return not root.rstrip("/")


def making(
    box: Box,
    command: Sequence[str],
    emptied: str,
    steps: Iterable[GroupStep],
    procs_files: Sequence[str],
    own_file: str,
) -> list[bytes]:
    """Return the orders that make a container by an engine's ``command``, which sees the folder ``emptied`` empty.

    Its control groups are made by ``steps``, and entered by ``procs_files``. ``own_file`` is that of the launcher's own
    group, which keeps the kernel ready for moves (empty: unknown).
    """
    orders = [b"P%d" % os.getpid(), b"B" + os.fsencode(box.folder), b"O" + os.fsencode(box.root)]
    for step in steps:
        value = os.fsencode(step.path)
        orders.append(_STEPS[step.kind] + (value if step.kind is StepKind.MAKE else value + b"=" + step.text.encode()))
    orders += [b"M" + os.fsencode(file) for file in procs_files]
    if own_file:
        orders.append(b"R" + os.fsencode(own_file))
    if emptied:
        orders.append(b"T" + os.fsencode(emptied))
    return orders + [b"E" + os.fsencode(word) for word in command]


def confining(account: Ids | None, *, exposed: bool) -> list[bytes]:
    """Return the orders that take rights from a program of this account; ``exposed``: the memory killer may take it."""
    uid = os.getuid() if account is None else account[0]
    mask = sum(1 << number for number in kept_capabilities(uid))
    orders = [b"K%d" % mask, b"S" + seccomp.program(os.uname().machine).hex().encode()]
    if account is not None and uid:
        orders += [b"x", b"U" + user_namespace.identity("uid_map"), b"V" + user_namespace.identity("gid_map")]
    if exposed:
        orders.append(b"o0")
    return orders
