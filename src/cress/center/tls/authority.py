"""The cluster's own certificate authority, in the folder ``tls`` of the data directory.

``ca.pem`` and ``ca.key`` belong to the authority, ``center.pem`` is the center's certificate followed by its key,
``nodes/NAME.pem`` the newest certificate of a node, and ``revoked.json`` lists the revoked ones. A node's key is only
in its bundle.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cress.center.keeping.file_names import CA, CENTER_CERTIFICATE
from cress.center.keeping.tls_mark import CA_KEY, NODES, REVOKED, read_revoked, write_revoked
from cress.center.tls.certificates import SKEW, Certificate, facts_of, read_certificate
from cress.center.tls.node_names import node_address
from cress.model.errors import InputError
from cress.model.times import DAY, SECOND
from cress.protocol.bundle_files import BUNDLE_CA, BUNDLE_CERTIFICATE, BUNDLE_KEY
from cress.protocol.private_files import make_private_folder, write_private
from cress.protocol.regular_files import read_regular

# Microseconds for which the authority and, by default, a certificate are valid.
CA_LIFE, LIFE = 3650 * DAY, 365 * DAY
SHORTEST_LIFE = SECOND
# The longest common name that X.509 allows, and the longest name of a node.
MOST_COMMON_NAME, MOST_NODE_NAME = 64, 253

Key: TypeAlias = ec.EllipticCurvePrivateKey


class Authority:
    """The authority with its files in ``folder``. Raises InputError if they cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = read_certificate(folder / CA)
        self._key = _read_key(folder / CA_KEY)
        if self._key.public_key() != self.certificate.public_key():
            raise InputError("the key is not that of ca.pem", hint="both from one backup", file=str(folder / CA_KEY))

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Return whether there is an authority in ``folder``."""
        return (folder / CA).exists() or (folder / CA_KEY).exists()

    @classmethod
    def create(cls, folder: Path) -> Authority:
        """Make an authority in ``folder``, which has none, and the data directory around it.

        Raises InputError.
        """
        if not folder.parent.exists():
            make_private_folder(folder.parent)
        make_private_folder(folder)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _named("Cress certificate authority")
        built = (
            _begun(name, name, key.public_key(), CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        # The key is written first, since a certificate without it would look like an authority.
        write_private(folder / CA_KEY, _key_text(key))
        write_private(folder / CA, _text(built))
        return cls(folder)

    def issue_center(self, names: Sequence[str], life: int = LIFE) -> Certificate:
        """Make and store the center's certificate for its host names. Raises InputError."""
        hosts = [_host(name) for name in dict.fromkeys(names)]
        key = ec.generate_private_key(ec.SECP256R1())
        built = self._signed(_named("Cress center"), key.public_key(), hosts, life, ExtendedKeyUsageOID.SERVER_AUTH)
        # One file, so that certificate and key always match.
        write_private(self.folder / CENTER_CERTIFICATE, _text(built) + _key_text(key))
        return facts_of(built)

    def renew_center(self) -> Certificate:
        """Make the center's certificate again, with the same names and life."""
        facts = facts_of(read_certificate(self.folder / CENTER_CERTIFICATE))
        return self.issue_center(facts.names, _life(facts))

    def issue_node(self, node: str, bundle: Path, life: int = LIFE) -> Certificate:
        """Make a key and a certificate for a node, and write them into the folder ``bundle``. Raises InputError."""
        check_node(node)
        if (bundle / BUNDLE_KEY).exists():
            raise InputError("already has a bundle", hint="another folder, or remove this one", file=str(bundle))
        revoked = self.revoked_until(node)
        # Moments in certificates are whole seconds, and this one must be later than the revocation.
        time.sleep(min(1.0, max(0.0, revoked + 1 - time.time())))
        key = ec.generate_private_key(ec.SECP256R1())
        built = self._node(node, key.public_key(), life)
        make_private_folder(bundle)
        write_private(bundle / BUNDLE_CA, _text(self.certificate))
        write_private(bundle / BUNDLE_CERTIFICATE, _text(built))
        write_private(bundle / BUNDLE_KEY, _key_text(key))
        self._note(node, built)
        return facts_of(built)

    def renew_node(self, present: x509.Certificate) -> tuple[bytes, Certificate] | None:
        """Return a new certificate (PEM) for the node and the key of ``present``.

        Return None if this authority did not issue ``present``.
        """
        try:
            present.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return None
        facts, key = facts_of(present), present.public_key()
        if len(facts.names) != 1 or not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        built = self._node(facts.names[0], key, _life(facts))
        self._note(facts.names[0], built)
        return _text(built), facts_of(built)

    def newest(self, node: str) -> x509.Certificate | None:
        """Return the newest certificate of a node; None if there is none. Raises InputError."""
        path = self._path_of(node)
        found = read_certificate(path) if path.exists() else None
        return found if found is not None and facts_of(found).names == (node,) else None

    def issue_for(self, node: str, key: ec.EllipticCurvePublicKey) -> bytes:
        """Make a certificate for a node and a key that the node has made; return it as PEM. Raises InputError."""
        built = self._node(node, key, LIFE)
        self._note(node, built)
        return _text(built)

    def revoked_until(self, node: str) -> float:
        """Return the second up to which a node's certificates are revoked; 0 if they are not. Raises InputError."""
        return read_revoked(self.folder / REVOKED).get(node, 0.0)

    def revoke(self, node: str) -> None:
        """Revoke all present certificates of a node. Raises InputError."""
        check_node(node)
        revoked = {**read_revoked(self.folder / REVOKED), node: float(int(time.time()))}
        write_revoked(self.folder / REVOKED, revoked)

    def nodes(self) -> Iterator[tuple[str, Certificate]]:
        """Yield the newest certificate of each node, by name."""
        for path in sorted((self.folder / NODES).glob("*.pem")):
            yield unquote(path.stem), facts_of(read_certificate(path))

    def _node(self, node: str, key: ec.EllipticCurvePublicKey, life: int) -> x509.Certificate:
        name = _named(node[:MOST_COMMON_NAME])
        address = x509.UniformResourceIdentifier(node_address(node))
        return self._signed(name, key, [address], life, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _note(self, node: str, built: x509.Certificate) -> None:
        make_private_folder(self.folder / NODES)
        write_private(self._path_of(node), _text(built))

    def _path_of(self, node: str) -> Path:
        # Shortened, since file names have at most 255 bytes.
        return self.folder / NODES / f"{quote(node, safe='')[:200]}.pem"

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        alternatives: Sequence[x509.GeneralName],
        life: int,
        purpose: x509.ObjectIdentifier,
    ) -> x509.Certificate:
        """Return a certificate for one ``purpose``, so that an executor cannot pose as the center with its own."""
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _begun(name, self.certificate.subject, key, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def check_node(node: str) -> None:
    """Raise InputError if the name of a node is not valid."""
    if not node or len(node) > MOST_NODE_NAME or not node.isprintable() or "/" in node or "*" in node:
        raise InputError(f"{node[:MOST_NODE_NAME]!r} is not a name of a node", hint="its host name, for instance")


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: int) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(int(time.time()), UTC)
    lasts = timedelta(microseconds=life)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(timedelta(seconds=SKEW), lasts / 10))
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _life(facts: Certificate) -> int:
    """Return the life (µs) for which a certificate was made, without the skew."""
    return int((facts.until - facts.made_at) * 1e6)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        pass
    labels = name.split(".")
    if not name.isascii() or len(name) > MOST_NODE_NAME or not all(_is_label(label) for label in labels):
        raise InputError(
            f"{name!r} is not a name of a host", hint="such as center.example.com or 10.0.0.1", field="--name"
        )
    return x509.DNSName(name)


def _is_label(text: str) -> bool:
    return 0 < len(text) <= 63 and text.replace("-", "").replace("_", "").isalnum()


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_text(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read_key(path: Path) -> Key:
    try:
        mode = path.stat().st_mode
        if mode & 0o077:
            raise InputError("others may read the key", hint=f"chmod 600 {path}", file=str(path))
        key = serialization.load_pem_private_key(read_regular(path), None)
    except OSError as error:
        raise InputError(f"the key cannot be read: {error.strerror}", file=str(path)) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError("there is no key in it", hint="the key that `cress tls init` made", file=str(path)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError("the key is of another kind", hint="the key that `cress tls init` made", file=str(path))
    return key
