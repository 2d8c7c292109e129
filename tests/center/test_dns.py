"""The DNS responder: which names there are, what they are answered with, and a real one that `dig` asks."""

from __future__ import annotations

import random
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from cress.center.dns.answers import Answers
from cress.center.dns.labels import check_domain, label_of
from cress.center.dns.server import ADDRESS_RATE, NEW_RATE, RATE, Bounded, parse_address
from cress.center.dns.zone import Zone, labels_by_group
from cress.lifecycle.name_service import Place
from cress.lifecycle.name_table import PlaceChange
from cress.model.errors import InputError
from cress.model.node import Allocated
from tests.budget import slowness_now
from tests.center.program import PATIENCE, Center, eventually
from tests.ports import free_port

needs_dig = pytest.mark.skipif(
    shutil.which("dig") is None,
    reason="dig is not installed (Debian: bind9-dnsutils): the responder is not asked by it",
)


def place(attempt: int, *, task: int = 0, name: str = "web", group: str = "research", **more: Any) -> Place:
    values: dict[str, Any] = {
        "job": 7,
        "node": f"n{attempt}",
        "rack": "r1",
        "address": f"10.0.0.{attempt}",
        "ports": (("http", 8000 + attempt),),
        "since": 1,
        **more,
    }
    return Place(name=name, group=group, task=task, attempt=attempt, **values)


def site(*places: Place, services: tuple[tuple[str, str], ...] = (), domain: str = "cress") -> Answers:
    zone = Zone(lambda: labels_by_group(services))
    zone.load(places)
    return Answers(zone, domain, ["192.0.2.53"], lambda: 41)


TWO = (place(1), place(2, task=1))


def ask(answers: Answers, name: str, kind: str = "A", *, stream: bool = True, **more: Any) -> dns.message.Message:
    query = dns.message.make_query(name, kind, **more)
    wire = answers.answer(query.to_wire(), stream=stream)
    assert wire is not None
    answer = dns.message.from_wire(wire)
    assert query.is_response(answer)
    return answer


def told(answers: Answers, name: str, kind: str = "A") -> list[str]:
    """The records of an answer as text, sorted."""
    answer = ask(answers, name, kind)
    assert answer.rcode() == dns.rcode.NOERROR
    return sorted(record.to_text() for rrset in answer.answer for record in rrset)


def code(answers: Answers, name: str, kind: str = "A", **more: Any) -> str:
    """The code of an answer without records; ``NODATA`` where the name exists."""
    answer = ask(answers, name, kind, **more)
    assert not answer.answer
    if answer.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        (soa,) = answer.authority
        assert (soa.rdtype, soa.ttl, soa[0].minimum, soa[0].serial) == (dns.rdatatype.SOA, 1, 1, 41)
    return "NODATA" if answer.rcode() == dns.rcode.NOERROR else dns.rcode.to_text(answer.rcode())


# --- names and records -------------------------------------------------------------------------------------------


def test_a_job_has_the_addresses_of_its_tasks_and_each_task_its_own() -> None:
    answers = site(*TWO, place(3, task=0, address="2001:db8::3"), place(4, name="db", group="shop"))
    assert told(answers, "web.research.cress") == ["10.0.0.1", "10.0.0.2"]
    assert told(answers, "web.research.cress", "AAAA") == ["2001:db8::3"]
    assert told(answers, "1.web.research.cress") == ["10.0.0.2"]
    assert told(answers, "a1.web.research.cress") == ["10.0.0.1"]
    assert told(answers, "db.shop.cress") == ["10.0.0.4"]
    assert told(answers, "WEB.Research.CRESS") == ["10.0.0.1", "10.0.0.2"]


def test_answers_are_authoritative_and_not_to_be_kept() -> None:
    answer = ask(site(*TWO), "web.research.cress")
    assert answer.flags & dns.flags.AA
    assert not answer.flags & (dns.flags.RA | dns.flags.TC)
    assert [rrset.ttl for rrset in answer.answer] == [0]


def test_ports_are_found_by_their_names() -> None:
    ports = (("http", 8080), ("Admin", 20_000))
    answers = site(place(1, ports=ports), place(2, task=1, ports=ports[:1]))
    http = ["0 1 8080 0.web.research.cress.", "0 1 8080 1.web.research.cress."]
    admin = "0 1 20000 0.web.research.cress."
    assert told(answers, "_http._tcp.web.research.cress", "SRV") == http
    assert told(answers, "_http._udp.web.research.cress", "SRV") == http
    assert told(answers, "_admin._tcp.web.research.cress", "SRV") == [admin]
    assert told(answers, "_admin._tcp.0.web.research.cress", "SRV") == [admin]
    assert told(answers, "web.research.cress", "SRV") == sorted([*http, admin])
    assert code(answers, "_admin._tcp.1.web.research.cress", "SRV") == "NXDOMAIN"
    assert code(answers, "_tcp.web.research.cress", "SRV") == "NODATA"
    assert code(answers, "_http._tcp.web.research.cress", "A") == "NODATA"
    added = {rrset.to_text() for rrset in ask(answers, "_http._tcp.web.research.cress", "SRV").additional}
    assert added == {"0.web.research.cress. 0 IN A 10.0.0.1", "1.web.research.cress. 0 IN A 10.0.0.2"}


def test_targets_say_which_of_two_jobs_of_a_name_is_meant() -> None:
    answers = site(place(1), place(2, job=8), place(3, job=8, task=1))
    assert told(answers, "_http._tcp.web.research.cress", "SRV") == [
        "0 1 8001 a1.web.research.cress.",
        "0 1 8002 a2.web.research.cress.",
        "0 1 8003 1.web.research.cress.",
    ]
    assert told(answers, "0.web.research.cress") == ["10.0.0.1", "10.0.0.2"]
    assert told(answers, "a2.web.research.cress") == ["10.0.0.2"]


def test_a_node_that_is_reached_by_a_name_has_no_address_but_is_a_target() -> None:
    answers = site(place(1, address="node1.example.org"), place(2, task=1, address="no host!.."))
    assert code(answers, "web.research.cress") == "NODATA"
    assert told(answers, "web.research.cress", "SRV") == [
        "0 1 8001 node1.example.org.",
        "0 1 8002 1.web.research.cress.",
    ]


def test_texts_say_the_rest() -> None:
    gpus = (Allocated("gpu", "0", 1000), Allocated("gpu", "1", 1000))
    answers = site(place(1, disk="/data/d1", devices=gpus, address="host" * 100))
    (record,) = ask(answers, "0.web.research.cress", "TXT").answer[0]
    texts = [text.decode() for text in record.strings]
    assert texts[:4] == ["task=0", "attempt=1", "node=n1", "rack=r1"]
    assert texts[5:] == ["port.http=8001", "disk=/data/d1", "devices=gpu:0,gpu:1"]
    assert len(texts[4]) == 255


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nobody.research.cress", "NXDOMAIN"),
        ("web.nowhere.cress", "NXDOMAIN"),
        ("nowhere.cress", "NXDOMAIN"),
        ("2.web.research.cress", "NXDOMAIN"),
        ("01.web.research.cress", "NXDOMAIN"),
        ("a9.web.research.cress", "NXDOMAIN"),
        ("x.y.0.web.research.cress", "NXDOMAIN"),
        ("_http._sctp.web.research.cress", "NXDOMAIN"),
        ("_._tcp.web.research.cress", "NXDOMAIN"),
        ("_x._http._tcp.web.research.cress", "NXDOMAIN"),
        (f"{9**60}.web.research.cress", "NXDOMAIN"),
        ("research.cress", "NODATA"),
        ("idle.shop.cress", "NODATA"),
        ("shop.cress", "NODATA"),
        ("web.shop.cress", "NXDOMAIN"),
    ],
)
def test_a_name_that_is_not_there_and_one_without_records_differ(name: str, expected: str) -> None:
    answers = site(*TWO, services=(("shop", "idle"),))
    kind = "MX" if name == "0.web.research.cress" else "A"
    assert code(answers, name, kind) == expected


def test_other_kinds_of_records_there_are_none() -> None:
    answers = site(*TWO)
    for kind in ("AAAA", "MX", "CNAME", "NS", "SOA", "PTR", "TYPE65280"):
        assert code(answers, "web.research.cress", kind) == "NODATA"
    assert told(answers, "web.research.cress", "ANY") == ['"RFC8482" ""']


def test_the_domain_itself_has_a_server() -> None:
    answers = site(*TWO, domain="apps.example.org")
    assert told(answers, "apps.example.org", "NS") == ["apps.example.org."]
    assert told(answers, "apps.example.org") == ["192.0.2.53"]
    assert told(answers, "apps.example.org", "SOA") == ["apps.example.org. hostmaster.apps.example.org. 41 60 5 60 1"]
    assert told(answers, "web.research.apps.example.org") == ["10.0.0.1", "10.0.0.2"]
    assert code(answers, "apps.example.org", "TXT") == "NODATA"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("web", "web"),
        ("Web_2-x", "web_2-x"),
        ("a.b", "a-b-2e7336cf"),
        ("a-b", "a-b"),
        ("-", "x-3973e022"),
        ("Forschung & Lehre", "forschung-lehre-72f6e7ac"),
        ("研究", "x-cc1c7ed8"),
        ("n" * 63, "n" * 63),
        ("n" * 64, "n" * 54 + "-" + "0a2c9bc5"),
    ],
)
def test_every_name_has_a_label(name: str, label: str) -> None:
    found = label_of(name)
    assert re.sub(r"-[0-9a-f]{8}$", "", found) == re.sub(r"-[0-9a-f]{8}$", "", label)
    assert (found == name.lower()) == (label == name.lower())
    assert len(found) <= 63


def test_names_that_are_not_labels_do_not_meet() -> None:
    names = ["a.b", "a-b", "a b", "a..b", "a.b.", "A.B", "x" * 64, "x" * 65, "研究", "研", "-", "--", ""]
    assert len({label_of(name) for name in names}) == len(names)
    answers = site(place(1, name="etl.v2"), place(2, name="etl-v2"))
    assert told(answers, "etl-v2.research.cress") == ["10.0.0.2"]
    assert told(answers, f"{label_of('etl.v2')}.research.cress") == ["10.0.0.1"]


def test_the_zone_follows_changes() -> None:
    zone = Zone()
    answers = Answers(zone, "cress", [], lambda: 41)
    one, two = place(1), place(2, task=1)
    zone.load([one])
    zone.change([PlaceChange(2, None, two), PlaceChange(2, one, place(1, address="10.0.0.9"))])
    assert told(answers, "web.research.cress") == ["10.0.0.2", "10.0.0.9"]
    zone.change([PlaceChange(3, place(1, address="10.0.0.9"), None), PlaceChange(3, two, None)])
    assert code(answers, "web.research.cress") == "NXDOMAIN"
    assert code(answers, "research.cress") == "NXDOMAIN"
    zone.change([PlaceChange(4, None, place(5, name=""))])
    zone.change([PlaceChange(5, place(5, name=""), None)])


# --- the protocol ------------------------------------------------------------------------------------------------


def test_questions_that_are_not_for_it_are_refused() -> None:
    answers = site(*TWO)
    for name in ("example.org", "cress.example.org", "xcress", ".", "1.0.0.10.in-addr.arpa"):
        assert code(answers, name) == "REFUSED"
    for kind in ("AXFR", "IXFR"):
        assert code(answers, "cress", kind) == "REFUSED"
    assert code(answers, "version.bind", "TXT", rdclass="CH") == "REFUSED"
    update = dns.message.make_query("cress", "SOA")
    update.set_opcode(dns.opcode.UPDATE)
    refusal = answers.answer(update.to_wire(), stream=True) or b""
    assert (refusal[:2], refusal[3] & 15) == (update.to_wire()[:2], dns.rcode.NOTIMP)


def test_a_center_that_was_replaced_says_that_it_does_not_know() -> None:
    zone = Zone()
    zone.load(TWO)
    assert code(Answers(zone, "cress", [], lambda: 41, lambda: False), "web.research.cress") == "SERVFAIL"


MANY = tuple(place(n, task=n, address=f"10.{n >> 8}.{n & 255}.1") for n in range(1, 3000))


@pytest.mark.parametrize(("payload", "size"), [(None, 512), (100, 512), (900, 900), (4096, 1232)])
def test_answers_that_are_too_long_are_cut_and_come_whole_over_tcp(payload: int | None, size: int) -> None:
    answers = site(*MANY[:200])
    edns: dict[str, Any] = {} if payload is None else {"use_edns": 0, "payload": payload}
    query = dns.message.make_query("web.research.cress", "A", **edns)
    wire = answers.answer(query.to_wire(), stream=False) or b""
    assert 12 < len(wire) <= size
    cut = dns.message.from_wire(wire)
    assert cut.flags & dns.flags.TC
    assert cut.edns == (-1 if payload is None else 0)
    whole = ask(answers, "web.research.cress")
    assert len(whole.answer[0]) == 200
    few = ask(site(*MANY[:20]), "web.research.cress", stream=False)
    assert (len(few.answer[0]), few.flags & dns.flags.TC) == (20, 0)


@pytest.mark.parametrize("kind", ["A", "SRV", "TXT"])
def test_of_very_many_places_some_are_chosen(kind: str) -> None:
    answers = site(*MANY)
    first, second = (ask(answers, "web.research.cress", kind) for _ in range(2))
    assert 200 <= len(first.answer[0]) <= 1000
    assert not first.flags & dns.flags.TC
    assert set(first.answer[0]) != set(second.answer[0])


def test_a_newer_edns_is_answered_with_the_version_that_is_spoken() -> None:
    answer = ask(site(*TWO), "web.research.cress", use_edns=1)
    assert (answer.rcode(), answer.edns, answer.answer) == (dns.rcode.BADVERS, 0, [])


def test_unknown_edns_options_do_no_harm() -> None:
    cookie = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")
    assert len(ask(site(*TWO), "web.research.cress", use_edns=0, options=[cookie]).answer[0]) == 2


def test_answers_get_no_answer() -> None:
    answers = site(*TWO)
    query = dns.message.make_query("web.research.cress", "A")
    answer = answers.answer(query.to_wire(), stream=False) or b""
    assert answers.answer(answer, stream=False) is None
    for wire in (b"", b"\0", bytes(11)):
        assert answers.answer(wire, stream=False) is None


def test_garbage_is_answered_with_an_error_or_not_at_all() -> None:
    answers, chance = site(*TWO, *MANY[:5]), random.Random(1)
    good = [
        dns.message.make_query(name, kind, use_edns=edns).to_wire()
        for name in ("web.research.cress", "_http._tcp.web.research.cress", "example.org", ".")
        for kind in ("A", "SRV", "TXT", "AXFR", "OPT", "TSIG")
        for edns in (-1, 0)
    ]
    codes = set()
    for number in range(20_000):
        wire = bytearray(chance.choice(good))
        for _ in range(chance.randint(0, 4)):
            match chance.randrange(4):
                case 0:
                    wire[chance.randrange(len(wire))] = chance.randrange(256)
                case 1:
                    wire = wire[: chance.randint(1, len(wire))]
                case 2:
                    wire += chance.randbytes(chance.randint(1, 30))
                case 3:
                    wire[chance.randrange(len(wire))] = 0xC0  # a pointer
        if not number % 10:
            wire = bytearray(chance.randbytes(chance.randint(0, 80)))
        answer = answers.answer(bytes(wire), stream=bool(number % 2))
        if answer is not None:
            assert answer[:2] == wire[:2]
            assert answer[2] & 0x80
            codes.add(answer[3] & 15)
    assert {dns.rcode.NOERROR, dns.rcode.FORMERR, dns.rcode.NOTIMP, dns.rcode.REFUSED} <= codes
    assert answers.answer(b"\0\1" + bytes(2000), stream=True) == b"\0\1\x80\1" + bytes(8)


def test_questions_are_answered_within_rates() -> None:
    now = [100.0]
    bounded = Bounded(site(*TWO), lambda: now[0])
    same = dns.message.make_query("web.research.cress", "A").to_wire()
    assert sum(bounded(same, "10.1.1.1", stream=False) is not None for _ in range(ADDRESS_RATE + 500)) == ADDRESS_RATE
    assert bounded(same, "10.1.1.2", stream=False) is not None
    now[0] += 60
    asked = RATE + 1000
    many = sum(bounded(same, f"10.{n >> 8}.{n & 255}.1", stream=False) is not None for n in range(asked))
    assert many == RATE
    now[0] += 60
    different = (dns.message.make_query(f"x{n}.research.cress", "A").to_wire() for n in range(NEW_RATE + 500))
    answered = sum(
        bounded(wire, f"10.{n >> 8}.{n & 255}.1", stream=False) is not None for n, wire in enumerate(different)
    )
    assert answered == NEW_RATE


def test_a_known_answer_is_for_the_same_question_only_and_until_something_changes() -> None:
    zone, now = Zone(), [100.0]
    bounded = Bounded(Answers(zone, "cress", [], lambda: 41), lambda: now[0])
    zone.load(TWO)

    def asked(name: str, *, stream: bool = False) -> tuple[int, int]:
        query = dns.message.make_query(name, "A")
        answer = dns.message.from_wire(bounded(query.to_wire(), "10.1.1.1", stream=stream) or b"")
        assert query.is_response(answer)
        return answer.rcode(), sum(map(len, answer.answer))

    assert asked("web.research.cress") == asked("web.research.cress") == (0, 2)
    assert asked("0.web.research.cress") == (0, 1)
    zone.load(TWO[:1])
    assert asked("web.research.cress") == (0, 2)
    bounded.forget()
    assert asked("web.research.cress") == (0, 1)
    zone.load(())
    now[0] += 0.11
    assert asked("web.research.cress") == (dns.rcode.NXDOMAIN, 0)


# --- options -----------------------------------------------------------------------------------------------------


def test_addresses_and_domains_are_checked() -> None:
    assert parse_address("10.0.0.1") == ("10.0.0.1", 53)
    assert parse_address("127.0.0.1:5300") == ("127.0.0.1", 5300)
    assert parse_address("[::1]:5300") == ("::1", 5300)
    assert parse_address("::1") == ("::1", 53)
    for text in ("", "localhost:53", "10.0.0.1:dns", "10.0.0.1:70000", "10.0.0.1:", "[::1", "10.0.0:53"):
        with pytest.raises(InputError, match="is not an address at which DNS questions can come in"):
            parse_address(text)
    assert check_domain("Cluster.Example.ORG.") == "cluster.example.org"
    for text in ("", ".", "a..b", "a b", "x" * 64, "-a", ".".join(["abcdefghij"] * 20)):
        with pytest.raises(InputError, match="is not a domain"):
            check_domain(text)


# --- a real center -----------------------------------------------------------------------------------------------


def dig(port: int, *words: str) -> str:
    done = subprocess.run(
        ["dig", "@127.0.0.1", "-p", str(port), "+tries=3", "+time=15", *words],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.stdout


def look(port: int, name: str, kind: str = "A") -> tuple[str, list[str]]:
    """The code and the records of an answer, by UDP."""
    answer = dns.query.udp(dns.message.make_query(name, kind), "127.0.0.1", timeout=PATIENCE, port=port)
    return dns.rcode.to_text(answer.rcode()), [record.to_text() for rrset in answer.answer for record in rrset]


def until(what: Callable[[], bool]) -> float:
    """Seconds until this is true."""
    begun = time.monotonic()
    while not what():
        assert time.monotonic() - begun < PATIENCE
    return time.monotonic() - begun


@needs_dig
def test_dig_finds_tasks_and_one_that_ended_is_gone_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    port = free_port()
    with (
        Center(tmp_path / "data", more=f"dns=('127.0.0.1', {port}), dns_domain='test.cress'", forked=True) as center,
        center.executor("n1", address="192.0.2.1", rack="r1") as one,
        center.executor("n2", address="2001:db8::2", rack="r2") as two,
    ):
        center.submit(name="web", tasks=2, ports={"http": 8080}, resource="<3, 1G>")
        (first,), (second,) = one.launches(), two.launches()
        assert "status: NXDOMAIN" in dig(port, "web.default.test.cress")
        one.started(first.attempt)
        two.started(second.attempt)
        eventually(lambda: len(center.get("/v1/names/web")["places"]) == 2)
        assert dig(port, "+short", "web.default.test.cress") == "192.0.2.1\n"
        assert dig(port, "+short", "web.default.test.cress", "AAAA") == "2001:db8::2\n"
        services = dig(port, "+short", "_http._tcp.web.default.test.cress", "SRV").split("\n")
        assert sorted(services) == ["", "0 1 8080 0.web.default.test.cress.", "0 1 8080 1.web.default.test.cress."]
        assert '"rack=r1"' in dig(port, "+short", "+tcp", "0.web.default.test.cress", "TXT")
        assert "Transfer failed" in dig(port, "test.cress", "AXFR")
        assert "status: REFUSED" in dig(port, "www.example.org")
        (page,) = {place["dns"] for place in center.get("/v1/names/web")["places"] if place["node"] == "n1"}
        assert dig(port, "+short", page) == "192.0.2.1\n"
        one.ended(first.attempt)  # answered when it is stored: the center knows
        took = [until(lambda: look(port, "web.default.test.cress")[1] == [])]
        assert "status: NOERROR" in dig(port, "web.default.test.cress")
        for _ in range(5):
            center.submit(name="web", resource="<3, 1G>")
            (again,) = one.launches()
            one.started(again.attempt)
            until(lambda: look(port, "web.default.test.cress")[1] == ["192.0.2.1"])
            one.ended(again.attempt)
            took.append(until(lambda: look(port, "web.default.test.cress")[1] == []))
        assert min(took) < 0.1 * slowness_now().wall, took


@needs_dig
def test_a_long_answer_comes_over_tcp_and_garbage_does_not_stop_the_responder(tmp_path: Path) -> None:
    port = free_port()
    with (
        Center(tmp_path / "data", more=f"dns=('127.0.0.1', {port})", forked=True) as center,
        center.executor("n1", resource="<64, 64G>", address="192.0.2.1") as executor,
    ):
        center.submit(name="web", tasks=60, ports={"http": "dynamic"}, resource="<1, 1G>")
        executor.started(*(launch.attempt for launch in executor.launches()))
        eventually(lambda: len(center.get("/v1/names/web")["places"]) == 60)
        name = "_http._tcp.web.default.cress"
        assert "flags: qr aa tc" in dig(port, "+ignore", name, "SRV")
        assert len(dig(port, "+short", name, "SRV").splitlines()) == 60
        chance = random.Random(2)
        with socket.socket(type=socket.SOCK_DGRAM) as udp:
            for _ in range(500):
                udp.sendto(chance.randbytes(chance.randint(0, 600)), ("127.0.0.1", port))
        for data in (b"", b"\0", b"\0\5abc", struct.pack("!H", 65535) + bytes(100), b"\0\0"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as tcp:
                tcp.sendall(data)
        assert len(dig(port, "+tcp", "+short", name, "SRV").splitlines()) == 60
        assert dig(port, "+short", "web.default.cress") == "192.0.2.1\n"


def test_a_center_says_at_once_that_it_cannot_listen_for_questions(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AssertionError, match=rf"cannot listen at 127.0.0.1:{port}.*\(--dns\)|--dns.*cannot listen"):
            Center(tmp_path / "data", more=f"dns=('127.0.0.1', {port})", forked=True)
