"""Answers to DNS questions about the zone (RFC 1035, 2308, 2782, 6891, 8482)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import dns.message
import dns.opcode

from cress.center.dns import records
from cress.center.dns.labels import labels_of
from cress.center.dns.records import DnsRecord, Message, Name, ip_of, wire_name
from cress.center.dns.zone import FoundPlaces, Zone
from cress.lifecycle.name_service import Place

# Seconds for which an answer may be cached: none, so that an ended task vanishes at once; one without records, 1 s.
TTL, NEGATIVE_TTL = 0, 1
# Bytes of a UDP answer without EDNS, of an answer over a stream, and of a question; longer questions are not read.
PLAIN_UDP, MOST_STREAM, MOST_QUESTION = 512, 65_535, 1_024
# Records of one answer, a random choice if there are more. Bytes of the shortest record. Targets whose addresses come
# with the answer.
MOST_RECORDS, LEAST_RECORD, MOST_ADDITIONAL = 1_000, 12, 50

_ADDRESSES = (records.A, records.AAAA)
_TRANSFERS = (records.AXFR, records.IXFR)


class Answers:
    """Answers questions about a zone.

    ``serial`` returns its revision, ``is_serving`` whether the center may answer at this moment.
    """

    def __init__(
        self,
        zone: Zone,
        domain: str,
        servers: Sequence[str],
        serial: Callable[[], int],
        is_serving: Callable[[], bool] = lambda: True,
    ) -> None:
        """``servers`` are the known addresses of the responder itself."""
        self._zone = zone
        self._origin: Name = tuple(label.encode() for label in domain.split("."))
        self._origin_wire = wire_name(self._origin)
        self._servers = servers
        self._serial = serial
        self._is_serving = is_serving

    def answer(self, wire: bytes, *, stream: bool) -> bytes | None:
        """Return the answer to a message by UDP or over a ``stream``; None if the message is not a question."""
        if len(wire) < records.HEADER or wire[2] & 0x80:
            # too short for an answer, or itself an answer: two responders must not send messages to each other for ever
            return None
        id, flags = int.from_bytes(wire[:2], "big"), int.from_bytes(wire[2:4], "big") & records.REPEATED
        if len(wire) > MOST_QUESTION:
            return _refusal(id, flags, records.FORMERR)
        try:
            query = dns.message.from_wire(wire)
        except Exception:  # noqa: BLE001 – whatever the parser makes of garbage, the sender gets the same answer
            return _refusal(id, flags, records.FORMERR)
        if query.opcode() != dns.opcode.QUERY:
            return _refusal(id, flags, records.NOTIMP)
        if len(query.question) != 1:
            return _refusal(id, flags, records.FORMERR)
        asked = query.question[0]
        question = (
            wire_name(asked.name.labels[:-1]) + asked.rdtype.to_bytes(2, "big") + asked.rdclass.to_bytes(2, "big")
        )
        message = Message(id, flags, question, None if query.edns < 0 else query.ednsflags & 0x8000)
        size = PLAIN_UDP if query.edns < 0 else min(records.MOST_UDP, max(PLAIN_UDP, query.payload))
        # One record more than can ever fit shows that they do not fit.
        size, most = (MOST_STREAM, MOST_RECORDS) if stream else (size, size // LEAST_RECORD + 1)
        if query.edns > 0:
            message = message._replace(code=records.BADVERS)
        else:
            message = self._answered(message, asked.name.labels[:-1], asked.rdtype, asked.rdclass, most)
        return message.rendered(size, cut=not stream)

    def _answered(self, message: Message, name: Name, kind: int, of: int, most: int) -> Message:
        """Return the message with a code, and with at most ``most`` records for a question."""
        lower = tuple(label.lower() for label in name)
        depth = len(lower) - len(self._origin)
        if of != records.INTERNET or kind in _TRANSFERS or depth < 0 or lower[depth:] != self._origin:
            return message._replace(code=records.REFUSED)
        if not self._is_serving():
            return message._replace(code=records.SERVFAIL)
        message = message._replace(flags=message.flags | records.AUTHORITATIVE)
        found = self._zone.find([label.decode("latin-1") for label in lower[:depth]])
        if found is not None and len(found.places) > most and kind not in _ADDRESSES:
            found = found._replace(places=random.sample(found.places, most))
        data = [] if found is None else self._records(found, kind, at_apex=not depth)
        if not data:
            begin = self._soa().of(self._origin_wire, NEGATIVE_TTL)
            code = records.NXDOMAIN if found is None else records.NOERROR
            return message._replace(code=code, authority=(begin,))
        if len(data) > most:
            data = random.sample(data, most)
        random.shuffle(data)
        additional = self._addresses_of(found.places) if found and kind == records.SRV else ()
        return message._replace(answer=[record.of(records.QUESTION, TTL) for record in data], additional=additional)

    def _records(self, found: FoundPlaces, kind: int, *, at_apex: bool) -> list[DnsRecord]:
        if at_apex:
            return self._of_apex(kind)
        if kind == records.ANY and found.places:
            # All records would amplify traffic for forged questions (RFC 8482).
            return [records.hinfo("RFC8482")]
        if kind == records.SRV:
            return [
                records.srv(number, self._target(place))
                for place in found.places
                for name, number in place.ports
                if found.port in ("", name.lower())
            ]
        if found.is_service:
            return []
        if kind in _ADDRESSES:
            return _addresses([place.address for place in found.places], kind)
        if kind == records.TXT:
            return [records.txt(_texts(place)) for place in found.places]
        return []

    def _of_apex(self, kind: int) -> list[DnsRecord]:
        if kind in _ADDRESSES:
            return _addresses(self._servers, kind)
        if kind == records.SOA:
            return [self._soa()]
        return [DnsRecord(records.NS, self._origin_wire)] if kind == records.NS else []

    def _soa(self) -> DnsRecord:
        return records.soa(self._origin, self._serial(), NEGATIVE_TTL)

    def _target(self, place: Place) -> Name:
        """Return the DNS name of a place: its task, or its attempt if several jobs share name and task."""
        if ip_of(place.address) is None and (host := records.host_of(place.address)) is not None:
            return host
        group, job = labels_of(place)
        label = str(place.task) if self._zone.is_alone(place) else f"a{place.attempt}"
        return (label.encode(), job.encode(), group.encode(), *self._origin)

    def _addresses_of(self, places: Sequence[Place]) -> list[bytes]:
        """Return the addresses of a few targets, which saves further questions; none if there are many."""
        if len(places) > MOST_ADDITIONAL:
            return []
        found = ((place, ip_of(place.address)) for place in places)
        return [ip.of(wire_name(self._target(place)), TTL) for place, ip in found if ip is not None]


def _refusal(id: int, flags: int, code: int) -> bytes:
    """Return a header with a code, for a message whose other parts are unusable."""
    return Message(id, flags, b"", None, code).rendered(records.HEADER, cut=False)


def _addresses(texts: Sequence[str], kind: int) -> list[DnsRecord]:
    """Return the distinct addresses among texts, of one kind."""
    return list(dict.fromkeys(ip for text in texts if (ip := ip_of(text)) is not None and ip.kind == kind))


def _texts(place: Place) -> list[str]:
    """Return the facts about a place, one text for each: ``rack=r1``."""
    words = {
        "task": str(place.task),
        "attempt": str(place.attempt),
        "node": place.node,
        "rack": place.rack,
        "address": place.address,
        **{f"port.{name}": str(number) for name, number in place.ports},
        "disk": place.disk,
        "devices": ",".join(f"{device.kind}:{device.id}" for device in place.devices),
    }
    return [f"{key}={value}" for key, value in words.items() if value]
