"""Joining: a new node makes a key, and gets its certificate from the center with a join token.

The pin in the token is the fingerprint of the center's authority. The authority's certificate is fetched over an
untrusted connection, compared with the pin, and then trusted for the connection that sends the token.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cress.client import calls
from cress.client.answers import ask_once
from cress.client.config import check_url
from cress.client.errors import Unproven, Unreachable
from cress.model.errors import InputError
from cress.protocol.access_views import JoinedView
from cress.protocol.bundle_files import BUNDLE_CA, BUNDLE_CERTIFICATE, BUNDLE_KEY
from cress.protocol.join_tokens import fingerprint, parsed_join_token
from cress.protocol.private_files import make_private_folder, write_private
from cress.protocol.regular_files import read_regular

# Most characters of a common name in X.509.
_MOST_COMMON_NAME = 64


class Joined(NamedTuple):
    """A bundle, and the center's address for its executor; empty if the bundle already existed."""

    bundle: Path
    executor_url: str
    until: float


def join(url: str, token: str, node: str, bundle: Path) -> Joined:
    """Write the bundle of ``node``, with a new key. Raises InputError and ClientError.

    A valid bundle is kept without a request. One without a certificate, or with an expired one, keeps its key.
    """
    there = _certificate_in(bundle)
    if there is not None and time.time() < there.not_valid_after_utc.timestamp():
        return Joined(bundle, "", there.not_valid_after_utc.timestamp())
    parts = parsed_join_token(token)
    if parts is None:
        hint = "the text that `cress token create NAME --join` has printed, beginning with cressjoin_"
        raise InputError("it is not a join token", hint=hint, field="--token-file")
    url = check_url(url, "URL")
    if urlsplit(url).scheme != "https":
        raise InputError(f"{url} is not an address for TLS", hint="https://HOST:PORT of the center", field="URL")
    ca = _pinned_authority(url, parts.pin)
    make_private_folder(bundle)
    key = _key_in(bundle)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node[:_MOST_COMMON_NAME] or "node")]))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.create_default_context(cadata=ca)
    joined = ask_once(url, calls.join(node, request.decode()), context, token)
    certificate = _checked(joined, key, url)
    write_private(bundle / BUNDLE_CA, ca.encode())
    write_private(bundle / BUNDLE_CERTIFICATE, joined.certificate.encode())
    return Joined(bundle, joined.executor_url, certificate.not_valid_after_utc.timestamp())


def _pinned_authority(url: str, pin: str) -> str:
    """Return the certificate (PEM) of the authority with this fingerprint. Raises Unproven."""
    # Nothing is sent over this connection, and only a certificate with the fingerprint is accepted.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    pem = ask_once(url, calls.authority(), context).certificate
    try:
        # Only that certificate, in the form that has the fingerprint.
        pem = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(pem))
        found = fingerprint(pem)
    except ValueError:
        found = ""
    if found != pin:
        raise Unproven(
            f"the server at {url} is not the center of this join token: its authority has another "
            "fingerprint; the token was not "
            "sent. Check the address, or find out which program listens there"
        )
    return pem


def _certificate_in(bundle: Path) -> x509.Certificate | None:
    path = bundle / BUNDLE_CERTIFICATE
    if not path.exists():
        return None
    try:
        return x509.load_pem_x509_certificate(read_regular(path))
    except OSError as error:
        raise InputError(f"the certificate cannot be read: {error.strerror}", file=str(path)) from None
    except ValueError:
        raise InputError("there is no certificate in it", hint="another folder, or remove it", file=str(path)) from None


def _key_in(bundle: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key of a bundle, made if there is none, so that a repeated request has the same key."""
    path = bundle / BUNDLE_KEY
    if path.exists():
        try:
            key = serialization.load_pem_private_key(read_regular(path), None)
        except OSError as error:
            raise InputError(f"the key cannot be read: {error.strerror}", file=str(path)) from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InputError("there is no key for this in it", hint="another folder, or remove it", file=str(path))
        return key
    made = ec.generate_private_key(ec.SECP256R1())
    private = serialization.PrivateFormat.PKCS8
    text = made.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
    write_private(path, text)
    return made


def _checked(joined: JoinedView, key: ec.EllipticCurvePrivateKey, url: str) -> x509.Certificate:
    try:
        certificate = x509.load_pem_x509_certificate(joined.certificate.encode())
    except ValueError:
        certificate = None
    if certificate is None or certificate.public_key() != key.public_key():
        raise Unreachable(f"the center at {url} has not sent a certificate for the key of this node")
    return certificate
