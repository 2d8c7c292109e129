"""Admission of joining nodes: refused names and keys, and their certificates."""

from __future__ import annotations

import hashlib
import time
from threading import Lock

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cress.center.tls.authority import Authority, check_node
from cress.center.tls.certificates import facts_of
from cress.model.errors import InputError, NotAccepted
from cress.protocol.join_tokens import fingerprint

CURVES = (ec.SECP256R1, ec.SECP384R1)


class SigningRequest:
    """A certificate signing request of ``node`` by the owner of its ``key``; ``digest`` is that of the public key."""

    def __init__(self, node: str, pem: str) -> None:
        """Read and check the request. Raises InputError."""
        check_node(node)
        try:
            request = x509.load_pem_x509_csr(pem.encode())
            valid, key = request.is_signature_valid, request.public_key()
        except (ValueError, UnsupportedAlgorithm):
            raise InputError("it is not a certificate signing request", hint="PEM", field="request") from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, CURVES):
            raise InputError("its key is of another kind", hint="a key on the curve P-256 or P-384", field="request")
        if not valid:
            raise InputError("its signature is wrong", hint="signed with the key that it is for", field="request")
        self.node, self.key = node, key
        self.digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


class Admission:
    """Makes the certificates of joining nodes with the center's ``authority``. Its methods block."""

    def __init__(self, authority: Authority, executor_port: int) -> None:
        self.executor_port = executor_port
        self.ca = authority.certificate.public_bytes(Encoding.PEM).decode()
        self.pin = fingerprint(self.ca)
        self._authority = authority
        self._lock = Lock()

    def check(self, request: SigningRequest, *, is_member: bool) -> None:
        """Raise NotAccepted if a node with that name has another key, or its certificates were revoked.

        ``is_member`` says that the cluster has a node with that name.
        """
        node = request.node
        newest, revoked = self._authority.newest(node), self._authority.revoked_until(node)
        facts = None if newest is None else facts_of(newest)
        if revoked and (facts is None or facts.made_at <= revoked):
            raise NotAccepted(
                f"the certificates of node {node} were revoked, and it cannot join by a token",
                hint=f"make a bundle for it on the center's machine: `cress tls issue {node}`",
                field="node",
            )
        if newest is not None and newest.public_key() == request.key:
            return
        if is_member or (facts is not None and time.time() < facts.until):
            raise NotAccepted(
                f"there is a node {node} with another key",
                hint=(
                    f"another name; for the same node, on the center's machine: `cress tls revoke {node}`, "
                    f"then `cress tls issue {node}`"
                ),
                field="node",
            )

    def issue(self, request: SigningRequest, *, is_member: bool) -> str:
        """Check a request again, and return its certificate as PEM. Raises InputError."""
        # Two requests for one name may have passed their first check at the same time.
        with self._lock:
            self.check(request, is_member=is_member)
            return self._authority.issue_for(request.node, request.key).decode()
