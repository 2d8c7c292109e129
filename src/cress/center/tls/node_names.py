"""Names of nodes in certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

# Addresses with this scheme, since host names do not allow every node name.
NODE_SCHEME = "cress-node:"


def nodes_of(peer: Mapping[str, Any]) -> frozenset[str]:
    """Return the nodes for which a client's certificate, as decoded by ``ssl``, is valid.

    They are given by addresses ``cress-node:NAME``. A certificate of another authority without such an address is valid
    for its host names, or for its common name if it has none.
    """
    names = [(str(kind), str(value)) for kind, value in peer.get("subjectAltName", ())]
    own = {
        unquote(value[len(NODE_SCHEME) :]) for kind, value in names if kind == "URI" and value.startswith(NODE_SCHEME)
    }
    hosts = {value for kind, value in names if kind == "DNS"}
    common = {str(value) for entry in peer.get("subject", ()) for key, value in entry if key == "commonName"}
    return frozenset(name for name in own or hosts or common if name and "*" not in name)


def node_address(node: str) -> str:
    """Return the name of a node in the form used in a certificate."""
    return NODE_SCHEME + quote(node, safe="")
