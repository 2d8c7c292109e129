"""The proof that a store was replaced by an older copy: a signed position that it never came to, from an executor.

The center keeps it in its data directory, so that the next start refuses at once. It is forgotten when the newer store
is back, or when the operator accepts the loss (``cress store accept-loss``).
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from cress.protocol.regular_files import read_regular
from cress.shell.center.witness import Lineage, LogPosition
from cress.store.base import Damaged

FILE = "rolled-back.json"


class _Proof(msgspec.Struct):
    node: str
    witness: bytes


def loss_told(store: str, node: str, position: LogPosition, number: int) -> str:
    """Return what is known about the loss, without the ways out."""
    return (
        f"the store {store} is older than its cluster: the executor of node {node} has orders from record "
        f"{position.record} of epoch {position.epoch}, with jobs below {position.job} and attempts below "
        f"{position.attempt}, but the store ends with record {number}; its directory was probably replaced by an older "
        "copy, and ids would be given twice"
    )


def ways_out(place: str) -> str:
    """Return the two ways out; ``place`` is the option of the command that names the store, empty for the same one."""
    command = f"cress store accept-loss {place}".rstrip()
    return (
        "bring the newer directory back; or, if it is lost, accept that with "
        f"`{command}`: what is missing is gone, and ids go on above all that were given"
    )


def keep_proof(folder: Path, node: str, witness: bytes) -> None:
    """Store a proof in the data directory. Raises OSError."""
    fresh = folder / f".{FILE}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(_Proof(node, witness)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / FILE)


def loss_in(folder: Path, lineage: Lineage | None, number: int) -> tuple[str, LogPosition] | None:
    """Return the node and the position that prove a loss of the store that ends with record ``number``; else None.

    A proof that cannot be read proves nothing: the executor shows it again.
    """
    if lineage is None:
        return None
    try:
        proof = msgspec.json.decode(read_regular(folder / FILE), type=_Proof)
    except (OSError, msgspec.MsgspecError):
        return None
    position = lineage.lacks(proof.witness, number)
    return None if position is None else (proof.node, position)


def check_loss(folder: Path, store: str, place: str, lineage: Lineage | None, number: int) -> None:
    """Raise Damaged if a loss is proven; else forget an older proof."""
    found = loss_in(folder, lineage, number)
    if found is not None:
        raise Damaged(loss_told(store, *found, number), ways_out(place))
    forget_proof(folder)


def forget_proof(folder: Path) -> None:
    """Remove the proof, if there is one."""
    if (folder / FILE).is_file():
        (folder / FILE).unlink()
