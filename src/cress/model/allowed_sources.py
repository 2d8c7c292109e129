"""Schemes and hosts that an operator allows in the addresses of files, outputs and log copies (docs/files.md)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from cress.model.errors import InputError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# Default schemes: paths of the node, and protocols whose Python packages use Python's sockets, so that each address can
# be checked.
SCHEMES = tuple(
    (
        "file http https ftp sftp ssh smb s3 s3a gs gcs az abfs abfss oss webdav webhdfs zip tar simplecache filecache"
    ).split()
)
# The rule that allows every host, except protected addresses.
ANY = "any"
HINT = "any, a name, *.DOMAIN, an address or a network, each also with :PORT"

_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
# Metadata services of clouds outside the link-local range: they hand out credentials of the machine.
_METADATA = tuple(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
# The prefixes of all gateways to IPv4 (RFC 6052) and of translated addresses (RFC 2765); the one from which operators
# choose those of their own gateways (RFC 8215).
_NAT64 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
_OWN_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")


class HostRule(msgspec.Struct, frozen=True):
    """A rule for hosts: a ``network`` of addresses, or a ``name`` (``any``, or ``*.`` for all subdomains); ``port`` 0:
    all ports.
    """

    name: str = ""
    network: Network | None = None
    port: int = 0

    def allows(self, name: str, port: int) -> bool:
        """Return whether the rule covers this name and port."""
        if self.network is not None or self.port not in (0, port):
            return False
        return self.name in (ANY, name) or (self.name.startswith("*.") and name.endswith(self.name[1:]))

    def holds(self, address: Address, port: int) -> bool:
        """Return whether the rule covers this address by its network, and this port."""
        return self.network is not None and self.port in (0, port) and address in self.network


class AllowedSources(msgspec.Struct, frozen=True):
    """The ``schemes`` and ``hosts`` (rules as text) that jobs may name; ``center``: the hosts of centers elsewhere,
    separated by commas.
    """

    schemes: tuple[str, ...] = SCHEMES
    hosts: tuple[str, ...] = (ANY,)
    center: str = ""


def parse_host_rule(text: str) -> HostRule:
    """Parse a rule for hosts. Raises InputError."""
    host, port = _split(text.strip().lower())
    if not 0 <= port < 65_536:
        raise InputError(f"{port} is not a port", hint="1 to 65535")
    try:
        return HostRule(network=ipaddress.ip_network(host), port=port)
    except ValueError as error:
        if "host bits" in str(error):
            raise InputError(f"{host} is not a network", hint=str(ipaddress.ip_network(host, strict=False))) from None
    if not _NAME.fullmatch(host) or host.rpartition(".")[2].isdigit():
        raise InputError(f"{text!r} is not a host", hint=HINT)
    if host == "localhost" or host.endswith(".localhost"):
        raise InputError(f"{host} does not say which address is meant", hint="127.0.0.1 or [::1], with :PORT")
    return HostRule(name=host, port=port)


def parse_scheme(text: str) -> str:
    """Parse a scheme; return it in lower case. Raises InputError."""
    name = text.strip().lower().removesuffix("://")
    if not _SCHEME.fullmatch(name):
        raise InputError(
            f"{text!r} is not the scheme of an address", hint="such as https, s3 or file (paths of the node)"
        )
    return name


def parse_address(text: str) -> Address | None:
    """Parse an address in the usual form; return ``None`` for any other text."""
    try:
        return plain(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None


def plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address wraps, else the address itself."""
    return getattr(address, "ipv4_mapped", None) or address


def protection(address: Address) -> str:
    """Return the reason, as a noun, why connections to this address need a rule that names it; empty if
    none is needed.
    """
    for place in (address, *embedded(address)):
        if place.is_loopback:
            return "a loopback address"
        if place.is_link_local:
            return "a link-local address"
        if place.is_unspecified or place in _THIS_NETWORK:
            return "an address of this node"
        if place.is_multicast:
            return "a multicast address"
        if place in _METADATA:
            return "a metadata service"
    return ""


def embedded(address: Address) -> list[Address]:
    """Return the IPv4 addresses to which gateways may forward traffic for an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    # IPv4-compatible addresses (RFC 4291 §2.5.5.1) and those of NAT64 (RFC 6052) end with the IPv4 address.
    if any(address in network for network in _NAT64) or (int(address) >> 32 == 0 and int(address) > 1):
        found.append(last)
    if address in _OWN_NAT64:
        found += _behind_own_gateways(address)
    return [place for place in found if place is not None]


def _behind_own_gateways(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses behind prefixes of 48, 56, 64 and 96 bits (RFC 6052 §2.2).

    The octet behind 64 bits is left out, and what follows the IPv4 address is not looked at, as by the gateways. So an
    address has four readings. The wrong ones are mostly in ``0.0.0.0/8``, to which no gateway leads.
    """
    joined = int(address) >> 64 << 56 | int(address) & (1 << 56) - 1
    for behind in (40, 32, 24, 0):
        found = ipaddress.IPv4Address(joined >> behind & 0xFFFFFFFF)
        if found not in _THIS_NETWORK:
            yield found


def _split(text: str) -> tuple[str, int]:
    """Return the host and port (0: none) of a rule."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest and not rest.startswith(":"):
            return text, 0
        digits = rest[1:]
    elif text.count(":") == 1:
        host, _, digits = text.partition(":")
    else:
        return text, 0
    if not _is_port(digits) and (digits or text.endswith(":")):
        raise InputError(f"{digits!r} is not a port", hint="1 to 65535")
    return host, int(digits or 0)


def _is_port(digits: str) -> bool:
    """Return whether a text consists of the digits of a port."""
    return digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(digits) > 0
