"""Records and messages of the DNS as bytes (RFC 1035, 2782, 6891); a name is its labels without the empty last one."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

Name: TypeAlias = tuple[bytes, ...]

A, NS, SOA, HINFO, TXT, AAAA, SRV, OPT, IXFR, AXFR, ANY = 1, 2, 6, 13, 16, 28, 33, 41, 251, 252, 255
INTERNET = 1
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 0, 1, 2, 3, 4, 5, 16
# Flags of a header: an answer, by the authority itself, truncated, and those repeated from the question.
IS_ANSWER, AUTHORITATIVE, TRUNCATED, REPEATED = 0x8000, 0x0400, 0x0200, 0x7900
# Bytes of an answer that no network fragments; of a header; a reference to the name of the question.
MOST_UDP, HEADER = 1232, 12
QUESTION = b"\xc0\x0c"
_MOST_TEXT = 255

_head = struct.Struct(">HHHHHH").pack
_fixed = struct.Struct(">HHIH").pack
_srv = struct.Struct(">HHH").pack
_soa = struct.Struct(">IIIII").pack


class DnsRecord(NamedTuple):
    """The type and the data of a record."""

    kind: int
    data: bytes

    def of(self, owner: bytes, ttl: int) -> bytes:
        """Return the record of an owner, a name as bytes."""
        return owner + _fixed(self.kind, INTERNET, ttl, len(self.data)) + self.data


def wire_name(name: Name) -> bytes:
    """Return a name as bytes."""
    return b"".join(bytes((len(label),)) + label for label in name) + b"\0"


@lru_cache(10_000)
def ip_of(text: str) -> DnsRecord | None:
    """Return the record of an address, A or AAAA; None if the text is not an address."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    return DnsRecord(A if ip.version == 4 else AAAA, ip.packed)


def host_of(text: str) -> Name | None:
    """Return the name of a host as labels; None if the text cannot be one."""
    try:
        labels = tuple(label.encode("ascii") for label in text.removesuffix(".").split("."))
    except UnicodeError:
        return None
    good = all(0 < len(label) < 64 for label in labels) and sum(map(len, labels)) + len(labels) < 255
    return labels if good and not any(byte <= 32 or byte == 127 for label in labels for byte in label) else None


def srv(port: int, target: Name) -> DnsRecord:
    """Return a service at a port of a target: priority 0, and the same weight as all others."""
    return DnsRecord(SRV, _srv(0, 1, port) + wire_name(target))


def txt(texts: Iterable[str]) -> DnsRecord:
    """Return texts, each of at most 255 bytes."""
    data = (text.encode()[:_MOST_TEXT] for text in texts)
    return DnsRecord(TXT, b"".join(bytes((len(text),)) + text for text in data))


def soa(origin: Name, serial: int, negative_ttl: int) -> DnsRecord:
    """Return the SOA record of a zone, whose server is the domain itself."""
    names = wire_name(origin) + wire_name((b"hostmaster", *origin))
    return DnsRecord(SOA, names + _soa(serial & 0xFFFF_FFFF, 60, 5, 60, negative_ttl))


def hinfo(text: str) -> DnsRecord:
    """Return a short answer to a question for all records."""
    return DnsRecord(HINFO, bytes((len(text),)) + text.encode() + b"\0")


class Message(NamedTuple):
    """An answer: its code, and its records by section as bytes.

    ``question`` is repeated from the request; ``edns`` are the flags of the requester or None.
    """

    id: int
    flags: int
    question: bytes
    edns: int | None
    code: int = NOERROR
    answer: Sequence[bytes] = ()
    authority: Sequence[bytes] = ()
    additional: Sequence[bytes] = ()

    def rendered(self, size: int, *, cut: bool) -> bytes:
        """Return the message in at most ``size`` bytes, with the answers that fit.

        If they do not all fit, ``cut`` leaves all of them out and sets the truncation flag.
        """
        opt = b""
        if self.edns is not None:
            opt = b"\0" + _fixed(OPT, MOST_UDP, (self.code >> 4) << 24 | self.edns, 0)
        room = size - HEADER - len(self.question) - len(opt) - sum(map(len, self.authority))
        answer, room = _fitting(self.answer, room)
        flags = IS_ANSWER | self.flags | self.code & 15
        if len(answer) < len(self.answer) and cut:
            answer, room = [], 0
            flags |= TRUNCATED
        additional, _ = _fitting(self.additional, room)
        counts = (bool(self.question), len(answer), len(self.authority), len(additional) + bool(opt))
        return b"".join((_head(self.id, flags, *counts), self.question, *answer, *self.authority, *additional, opt))


def _fitting(records: Sequence[bytes], room: int) -> tuple[list[bytes], int]:
    """Return the first records that fit into ``room`` bytes, and the remaining room."""
    found: list[bytes] = []
    for record in records:
        if len(record) > room:
            break
        room -= len(record)
        found.append(record)
    return found, room
