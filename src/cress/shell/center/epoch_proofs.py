"""Proofs of epochs: what a center signs over the cluster and its epoch, and what executors show back.

Only centers know the key, which lies in their store. So an executor can show the proof of an epoch that it has been
told by a center, and cannot make one of an epoch that never began (docs/design/0047-one-node-is-one-node.md).
"""

from __future__ import annotations

import hmac

from cress.protocol.proof import mac

# The store's note with the key, and its length in bytes.
EPOCH_KEY = "epoch_key"
KEY_BYTES = 32


def epoch_proof(key: bytes, cluster: str, epoch: int) -> bytes:
    """Return the proof that this cluster has begun this epoch; empty without a key."""
    return mac(key, "epoch", cluster.encode(), epoch.to_bytes(8, "big")) if key else b""


def is_proven(key: bytes, cluster: str, epoch: int, shown: bytes) -> bool:
    """Return whether ``shown`` proves that a center of this cluster has begun this epoch."""
    return bool(key) and hmac.compare_digest(epoch_proof(key, cluster, epoch), shown)
