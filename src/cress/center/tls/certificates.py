"""Certificates as Cress reads them: names, validity, the moment of renewal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from cress.center.tls.node_names import NODE_SCHEME
from cress.model.errors import InputError
from cress.protocol.regular_files import read_regular

# A certificate is valid from this many seconds before it is made, since clocks of machines differ, but at most from a
# tenth of its life.
SKEW = 300.0
# Most bytes read of a file with certificates.
MOST_BYTES = 2**20


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one certificate; ``since`` and ``until`` are seconds since the epoch.

    ``names`` are the hosts of a center, or the nodes of an executor, for which it is valid.
    """

    names: tuple[str, ...]
    issuer: str
    serial: str
    since: float
    until: float

    @property
    def renewed_at(self) -> float:
        """The moment of renewal, after two thirds of the life."""
        return self.since + (self.until - self.since) * 2 / 3

    @property
    def made_at(self) -> float:
        """The second in which Cress made it, a little after ``since``."""
        whole = self.until - self.since
        return float(math.ceil(self.since + min(SKEW, whole / 11)))

    def check(self, now: float, file: Path) -> None:
        """Raise InputError outside the validity."""
        if now >= self.until:
            raise InputError(f"the certificate expired at {moment(self.until)}", hint="a new one", file=str(file))
        if now < self.since:
            hint = "check the clock of this machine"
            raise InputError(f"the certificate is valid from {moment(self.since)} on", hint=hint, file=str(file))


def facts_of(certificate: x509.Certificate) -> Certificate:
    """Return the facts of a certificate."""
    return Certificate(
        names=_names(certificate),
        issuer=_common_name(certificate.issuer),
        serial=f"{certificate.serial_number:x}",
        since=certificate.not_valid_before_utc.timestamp(),
        until=certificate.not_valid_after_utc.timestamp(),
    )


def read_certificate(path: Path) -> x509.Certificate:
    """Return the first certificate of a PEM file. Raises InputError."""
    try:
        return x509.load_pem_x509_certificates(read_regular(path, MOST_BYTES))[0]
    except OSError as error:
        raise InputError(f"the certificate cannot be read: {error.strerror}", file=str(path)) from None
    except ValueError:
        raise InputError("there is no certificate in it", hint="a PEM file", file=str(path)) from None


def moment(seconds: float) -> str:
    """Return a moment for people, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (_common_name(certificate.subject),)
    addresses = alternative.get_values_for_type(x509.UniformResourceIdentifier)
    nodes = [unquote(address[len(NODE_SCHEME) :]) for address in addresses if address.startswith(NODE_SCHEME)]
    hosts = alternative.get_values_for_type(x509.DNSName)
    return (*nodes, *hosts, *(str(address) for address in alternative.get_values_for_type(x509.IPAddress)))


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""
