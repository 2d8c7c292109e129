"""Rules for the hosts and schemes of addresses that jobs name."""

from __future__ import annotations

import ipaddress

import pytest

from cress.model.allowed_sources import ANY, parse_address, parse_host_rule, parse_scheme, protection
from cress.model.errors import InputError

PROTECTED = {
    "127.0.0.1": "a loopback address",
    "127.255.0.3": "a loopback address",
    "::1": "a loopback address",
    "::ffff:127.0.0.1": "a loopback address",
    "::127.0.0.1": "a loopback address",
    "2002:7f00:1::": "a loopback address",
    "64:ff9b::7f00:1": "a loopback address",
    "64:ff9b:1::7f00:1": "a loopback address",
    "169.254.169.254": "a link-local address",
    "::ffff:169.254.169.254": "a link-local address",
    "fe80::1": "a link-local address",
    "febf::1": "a link-local address",
    "fe80::1%eth0": "a link-local address",
    "64:ff9b::a9fe:a9fe": "a link-local address",
    "0.0.0.0": "an address of this node",
    "0.1.2.3": "an address of this node",
    "::": "an address of this node",
    "224.0.0.1": "a multicast address",
    "ff02::1": "a multicast address",
    "100.100.100.200": "a metadata service",
    "fd00:ec2::254": "a metadata service",
    "fd20:ce::254": "a metadata service",
    "10.0.0.7": "",
    "192.168.1.1": "",
    "1.1.1.1": "",
    "fd00::7": "",
    "2606:4700::1111": "",
    "64:ff9b::a00:7": "",
    "::ffff:0:127.0.0.1": "a loopback address",
    "64:ff9b:1:7f00:0:100::": "a loopback address",
    "64:ff9b:1:a9fe:a9:fe00::7": "a link-local address",
    "64:ff9b:1:ab7f:0:1::": "a loopback address",
    "64:ff9b:1:1:7f:0:100:0": "a loopback address",
    "64:ff9b:1::a00:7": "",
    "64:ff9b:1:a00:0:700::": "",
    "64:ff9b:1:1::a00:7": "",
}


@pytest.mark.parametrize("text", PROTECTED)
def test_protected_addresses_in_every_form(text: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert protection(address) == PROTECTED[text]


@pytest.mark.parametrize(
    "text", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "", "127.0.0.1.", "[::1]"]
)
def test_other_forms_are_not_addresses(text: str) -> None:
    assert parse_address(text) is None


def test_rules_for_names_networks_and_ports() -> None:
    rule = parse_host_rule("*.Example.org:443")
    assert rule.allows("files.example.org", 443)
    assert not rule.allows("files.example.org", 80)
    assert not rule.allows("example.org", 443)
    assert not rule.allows("evil-example.org", 443)
    assert parse_host_rule(ANY).allows("whatever", 1)
    network = parse_host_rule("10.0.0.0/8")
    assert network.holds(ipaddress.ip_address("10.1.2.3"), 9)
    assert not network.holds(ipaddress.ip_address("11.1.2.3"), 9)
    assert not network.allows("10.1.2.3", 9)
    assert parse_host_rule("[::1]:9000").holds(ipaddress.ip_address("::1"), 9000)
    assert not parse_host_rule("127.0.0.1:9000").holds(ipaddress.ip_address("127.0.0.1"), 9001)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("localhost", "localhost does not say which address is meant (127.0.0.1 or [::1], with :PORT)"),
        ("10.0.0.1/8", "10.0.0.1/8 is not a network (10.0.0.0/8)"),
        ("a b", "'a b' is not a host"),
        ("2130706433", "'2130706433' is not a host"),
        ("127.1", "'127.1' is not a host"),
        ("host:0", "'0' is not a port"),
        ("host:", "'' is not a port"),
        ("host:99999", "99999 is not a port"),
        ("http://host:1/", "'http://host:1/' is not a host"),
    ],
)
def test_what_is_not_a_rule(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        parse_host_rule(text)
    assert str(error.value).startswith(sentence)


def test_schemes() -> None:
    assert parse_scheme("HTTPS://") == "https"
    with pytest.raises(InputError):
        parse_scheme("no scheme")
