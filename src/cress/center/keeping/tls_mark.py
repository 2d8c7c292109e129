"""The mark of the folder ``tls``: the nodes that have certificates and those that were revoked.

The store keeps it. Without it, a lost ``revoked.json`` would make revoked certificates valid again.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from cress.center.keeping.file_names import CA
from cress.model.errors import InputError
from cress.protocol.private_files import write_private
from cress.protocol.regular_files import read_regular

CA_KEY, NODES, REVOKED = "ca.key", "nodes", "revoked.json"
# The entry with the checksum of the others: older releases take it for a node, and no node has this name.
CHECK = ""
WAY_BACK = "a copy of it, or `cress tls revoke` for each node again after moving it away"


class TlsMark(msgspec.Struct, frozen=True, array_like=True):
    """The certificates that were seen in the folder.

    ``revoked`` has, by node, the second up to which its certificates are revoked. ``nodes`` are the names of the files
    in ``nodes/``. ``authority``: there was an authority.
    """

    revoked: dict[str, float] = {}
    nodes: tuple[str, ...] = ()
    authority: bool = False

    def with_more(self, seen: TlsMark) -> TlsMark:
        """Return a mark of both: nothing in it is ever taken back."""
        revoked = {
            node: max(self.revoked.get(node, 0.0), seen.revoked.get(node, 0.0))
            for node in sorted({*self.revoked, *seen.revoked})
        }
        return TlsMark(revoked, tuple(sorted({*self.nodes, *seen.nodes})), self.authority or seen.authority)


def seen_now(folder: Path) -> TlsMark:
    """Return the mark of the folder as it is; what cannot be read is left out."""
    try:
        revoked = read_revoked(folder / REVOKED)
    except InputError:
        revoked = {}
    nodes = tuple(sorted(path.name for path in (folder / NODES).glob("*.pem")))
    return TlsMark(revoked, nodes, (folder / CA).exists())


def read_revoked(path: Path) -> dict[str, float]:
    """Return, by node, the second up to which its certificates are revoked. Raises InputError."""
    try:
        revoked = msgspec.json.decode(read_regular(path), type=dict[str, float])
    except FileNotFoundError:
        return {}
    except OSError as error:
        what = f"the revoked certificates cannot be read: {error.strerror}"
        raise InputError(what, hint=WAY_BACK, file=str(path)) from None
    except msgspec.MsgspecError:
        raise InputError("it does not hold the revoked certificates", hint=WAY_BACK, file=str(path)) from None
    check = revoked.pop(CHECK, None)
    if check is not None and check != _check(revoked):
        raise InputError("the revoked certificates are not as they were written", hint=WAY_BACK, file=str(path))
    return revoked


def write_revoked(path: Path, revoked: dict[str, float]) -> None:
    """Write what ``read_revoked`` reads. Raises InputError."""
    write_private(path, msgspec.json.encode({**revoked, CHECK: _check(revoked)}))


def _check(revoked: dict[str, float]) -> float:
    return float(zlib.crc32(msgspec.json.encode(sorted(revoked.items()))))
