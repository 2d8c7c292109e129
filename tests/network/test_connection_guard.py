"""The guard of connections for users: names, and the addresses that they lead to."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from cress.model.allowed_sources import ANY, AllowedSources
from cress.network import connection_guard
from cress.network.connection_guard import ConnectionGuard, RefusedError

# Documentation addresses: nobody has them.
NAMES = {"files.example.org": "203.0.113.7", "other.example.org": "203.0.113.8", "inside.example.org": "127.0.0.9"}


def guard(monkeypatch: pytest.MonkeyPatch, *hosts: str, center: str = "") -> ConnectionGuard:
    """A guard with these rules, which resolves ``NAMES`` only."""

    def resolved(host: Any, port: Any = None, *_: Any, **__: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        address = NAMES.get(name.lower().rstrip("."), name or "0.0.0.0")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return ConnectionGuard(AllowedSources(hosts=hosts, center=center), "(--rule)")


@pytest.mark.parametrize("asked", ["files.example.org", "Files.Example.ORG.", b"files.example.org"])
def test_an_address_is_allowed_by_a_name_that_was_resolved_to_it(
    asked: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = guard(monkeypatch, "files.example.org")
    with pytest.raises(RefusedError, match=r"203\.0\.113\.7:443 is not among the hosts that jobs may use \(--rule\)"):
        it.check("203.0.113.7", 443)
    assert it._resolved(asked, 443)[0][4] == ("203.0.113.7", 443)
    it.check("203.0.113.7", 443)
    it._resolved("other.example.org", 443)
    with pytest.raises(RefusedError, match=r"other\.example\.org:443 is not among the hosts"):
        it.check("203.0.113.8", 443)


def test_a_name_that_leads_inside_is_named_and_refused_whatever_hosts_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = guard(monkeypatch, ANY)
    it._resolved("inside.example.org")
    with pytest.raises(RefusedError, match=r"^inside\.example\.org leads to .*, which jobs may not use \(--rule\)$"):
        it.check("127.0.0.9", 80)


def test_no_name_and_an_address_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    it = guard(monkeypatch, "files.example.org")
    assert it._resolved(None, 80)[0][4] == ("0.0.0.0", 80)
    it._resolved("203.0.113.8", 80)
    assert "None" not in {name for names in it._names.values() for name in names}
    with pytest.raises(RefusedError, match=r"^203\.0\.113\.8:80 is not among"):
        it.check("203.0.113.8", 80)


def test_the_centers_host_is_refused_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    it = guard(monkeypatch, ANY, center="nowhere.invalid,files.example.org")
    # The second one leads there through a gateway.
    for address in ("203.0.113.7", "64:ff9b::cb00:7107"):
        with pytest.raises(RefusedError, match=r"is the address of the center, which jobs may not use"):
            it.check(address, 443)
    it.check("203.0.113.8", 443)


def test_names_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One domain has as many names and addresses as its owner likes, and the process lives as long as its center."""
    monkeypatch.setattr(connection_guard, "MOST_NAMES", 20)
    it = guard(monkeypatch, "n7.example.org", "m199.example.org")
    for number in range(200):
        monkeypatch.setitem(NAMES, f"n{number}.example.org", f"198.51.100.{number}")
        it._resolved(f"n{number}.example.org")
        monkeypatch.setitem(NAMES, f"m{number}.example.org", "203.0.113.9")
        it._resolved(f"m{number}.example.org")
    assert len(it._names) <= 20
    assert sum(map(len, it._names.values())) <= 20 * 100
    it.check("203.0.113.9", 443)
    with pytest.raises(RefusedError, match="is not among the hosts"):
        it.check("198.51.100.7", 443)
