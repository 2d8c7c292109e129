"""Checks of the folder ``tls`` of a data directory: certificates, keys, and what the store knows about them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from cress.center.keeping.file_names import CA, CENTER_CERTIFICATE
from cress.center.keeping.tls_mark import CA_KEY, NODES, REVOKED, TlsMark, read_revoked
from cress.model.errors import InputError
from cress.protocol.regular_files import read_regular

BACK = "bring it back from a backup"


def check_tls(folder: Path, mark: TlsMark) -> list[str]:
    """Return messages about damaged and lost files; ``mark`` is that of the store."""
    if not (folder.exists() or mark.authority):
        return []
    return list(_checked(folder, mark))


def _checked(folder: Path, mark: TlsMark) -> Iterator[str]:
    authority: x509.Certificate | None = None
    try:
        authority = _issued(folder / CA, None)
        _check_key(folder / CA_KEY, authority)
        _issued(folder / CENTER_CERTIFICATE, authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / CENTER_CERTIFICATE, password="")
    except InputError as error:
        yield str(error)
    except (ssl.SSLError, OSError) as error:
        yield f"{folder / CENTER_CERTIFICATE}: its key cannot be used ({error}); {BACK}, or `cress tls init`"
    nodes = folder / NODES
    if nodes.exists() and not nodes.is_dir():
        yield f"{nodes} is not a directory; {BACK}"
        return
    for name in sorted({*mark.nodes, *(path.name for path in nodes.glob("*.pem"))}):
        try:
            _issued(nodes / name, authority)
        except InputError as error:
            yield str(error)
    yield from _revocations(folder / REVOKED, mark)


def _issued(path: Path, authority: x509.Certificate | None) -> x509.Certificate:
    """Return a certificate that the authority has signed, or itself if there is none. Raises InputError."""
    if not path.exists():
        raise InputError("the certificate is missing", hint=BACK, file=str(path))
    try:
        found = x509.load_pem_x509_certificates(read_regular(path))[0]
    except OSError as error:
        raise InputError(f"the certificate cannot be read: {error.strerror}", hint=BACK, file=str(path)) from None
    except ValueError:
        raise InputError("there is no certificate in it", hint=BACK, file=str(path)) from None
    try:
        found.verify_directly_issued_by(authority or found)
    except (ValueError, TypeError, InvalidSignature):
        what = "the certificate is damaged: its signature is not that of the authority"
        raise InputError(what, hint=BACK, file=str(path)) from None
    return found


def _check_key(path: Path, authority: x509.Certificate) -> None:
    """Raise InputError for a key that is not that of the authority. Operators may keep it elsewhere."""
    if not path.exists():
        return
    try:
        key = serialization.load_pem_private_key(read_regular(path), None)
    except OSError as error:
        raise InputError(f"the key cannot be read: {error.strerror}", hint=BACK, file=str(path)) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError("there is no key in it", hint=BACK, file=str(path)) from None
    if key.public_key() != authority.public_key():
        raise InputError("the key is not that of ca.pem", hint=BACK, file=str(path))


def _revocations(path: Path, mark: TlsMark) -> Iterator[str]:
    try:
        there = read_revoked(path)
    except InputError as error:
        yield str(error)
        return
    lost = sorted(node for node, until in mark.revoked.items() if there.get(node, 0.0) < until)
    if lost:
        yield (
            f"{path} has lost the revocation of the certificates of {', '.join(lost[:10])}; the center still refuses "
            f"them; {BACK}, or `cress tls revoke` each again"
        )
