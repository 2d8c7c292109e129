"""Versions, addresses, numbers with units, and comparing what is of different kinds."""

from __future__ import annotations

import ipaddress
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.language.addresses import parse_address, parse_span
from cress.language.tree import Number, Text, Truth
from cress.language.values import compared, number_value
from cress.language.versions import version_key
from cress.model.node import Value
from cress.model.resources import Measure
from tests.language import plain

ASCENDING = """
    2.6 2.6.9 2.6.31 2.6.32-rc1 2.6.32-rc2 2.6.32-rc10 2.6.32 2.6.32-71.el6 2.6.32-71.el10 2.6.32-431 3 4.1 4.5beta 4.5 4.5.1
    4.10 5.0-alpha 5.0-beta 5.0-dev 5.0-pre2 5.0rc1 5.0 5.0-0 5.0-1-amd64 5.0-1-generic 5.0a 5.0-preempt 5.1a1 5.1-M2 5.1 5.1-rt 5.10.0-7
    5.10.0-8 5.10.0-8-generic 5.14.21 5.14.21-1 5.14.21-amd64 5.14.21-devices 5.14.21-preempt v6 7_1 7.2 11.0.2+9 11.0.10 17-ea
    """.split()  # noqa: E501


def test_versions_in_their_order() -> None:
    for lower, higher in combinations(ASCENDING, 2):
        assert version_key(lower) < version_key(higher), (lower, higher)
        assert plain.version(lower, higher) == -1, (lower, higher)
    for same, other in (
        ("2.6", "2-6"),
        ("1.08", "1.8"),
        ("V2", "2"),
        ("5.0RC1", "5.0-rc-1"),
        ("2.0a1", "2.0.alpha1"),
        ("2.0.M3", "2.0-milestone3"),
        ("9" * 60, "9" * 60),
    ):
        assert version_key(same) == version_key(other)
        assert plain.version(same, other) == 0


@given(
    st.text(alphabet="0123456789.-_+~rcabdevm ", max_size=12), st.text(alphabet="0123456789.-_+~rcabdevm ", max_size=12)
)
def test_versions_are_ordered_as_the_plain_way_has_it(a: str, b: str) -> None:
    one, other = version_key(a), version_key(b)
    assert (one > other) - (one < other) == plain.version(a, b)


MIXED: list[tuple[Value | Number, str, Value | Number, bool | None]] = [
    (Number("4.10"), ">", "4.5", True),
    (Number("4.10"), ">", 4.5, False),
    ("4.10", ">", "4.5", True),
    ("4.10", ">", 4.5, True),
    (4.10, ">", 4.5, False),
    (12, "=", "12", True),
    (12.0, "=", "12", True),
    ("12", "=", Number("12"), True),
    ("12.0", "=", Number("12"), False),
    ("r1", "=", Number("1"), None),
    ("r1", "<", Number("1"), None),
    ("R1", "=", "r1", True),
    ("R1", "!=", "r1", False),
    ("r10", ">", "r9", True),
    (True, "=", True, True),
    (True, "!=", False, True),
    (True, ">", False, None),
    (True, "=", 1, None),
    (True, "=", "True", None),
    (Number("1"), "=", True, None),
    ("8G", ">=", Number("8G"), None),
    ("9000000000", ">=", Number("8G"), True),
    (8_000_000_000, ">=", Number("8G"), True),
    (0.8, "=", Number("80%"), True),
    (Number("2.6.32"), "<", 3, True),
    (Number("2.6.32"), "<", Number("3"), True),
    (Number("4.10"), "<", Number("4.5"), True),
    (300, "=", Number("5min"), True),
    (float("inf"), ">", 1, None),
    (10**400, ">", 1, None),
]


@pytest.mark.parametrize(("left", "operator", "right", "answer"), MIXED)
def test_comparing(left: Value | Number, operator: str, right: Value | Number, answer: bool | None) -> None:
    assert compared(operator, left, right) is answer
    mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
    assert compared(mirrored, right, left) is answer


NUMBERS: list[tuple[str, Measure | None, float | None]] = [
    ("8G", None, 8e9),
    ("8G", Measure.BYTES, 8.0 * 2**30),
    ("8G", Measure.BITS_PER_SECOND, 8e9),
    ("8GB", None, 8e9),
    ("8GiB", None, 8.0 * 2**30),
    ("1.5", Measure.BYTES, 1.5),
    ("500m", Measure.MILLI, 0.5),
    ("500m", None, 0.5),
    ("2cores", Measure.MILLI, 2.0),
    ("80%", Measure.BYTES, 0.8),
    (".5", None, 0.5),
    ("15s", None, 15.0),
    ("1h30m", None, 5400.0),
    ("2.6.32", None, None),
    ("4.5rc1", None, None),
    ("4.5-rc1", Measure.BYTES, None),
    ("-5", None, -5.0),
    ("2.0a1", None, None),
    ("2b3", Measure.BYTES, None),
    ("5.0M1", None, None),
    ("17-ea", None, None),
    ("11.*", None, None),
]


@pytest.mark.parametrize(("text", "measure", "value"), NUMBERS)
def test_numbers_with_units(text: str, measure: Measure | None, value: float | None) -> None:
    assert number_value(text, measure) == value


SPANS = {
    "192.168.1.2": ("192.168.1.2", "192.168.1.2"),
    "192.168.1.2-8": ("192.168.1.2", "192.168.1.8"),
    "192.168.1.250-192.168.2.3": ("192.168.1.250", "192.168.2.3"),
    "10.1.2.3/8": ("10.0.0.0", "10.255.255.255"),
    "0.0.0.0/0": ("0.0.0.0", "255.255.255.255"),
    "10.1.2.3/32": ("10.1.2.3", "10.1.2.3"),
    "2001:db8::/32": ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    "[::1]": ("::1", "::1"),
    "::1-::f": ("::1", "::f"),
}


@pytest.mark.parametrize(("text", "ends"), SPANS.items())
def test_ranges_of_addresses(text: str, ends: tuple[str, str]) -> None:
    first, last = map(ipaddress.ip_address, ends)
    assert parse_span(text) == (first.version, int(first), int(last))


@pytest.mark.parametrize(
    "text",
    (
        "1.2.3 1.2.3.256 1.2.3.4-3 1.2.3.4-256 1.2.3.4/33 1.2.3.4/ 1.2.3.4- ::1-1.2.3.4 ::/129 web-1 a.b.c.d "
        "1:2:3 ::1::"
    ).split(),
)
def test_what_is_no_range_of_addresses(text: str) -> None:
    assert parse_span(text) is None


PREFIXES = [
    ("11.0.2", "11.*", True),
    ("11", "11.*", True),
    (11, "11.*", True),
    ("11-ea", "11.*", True),
    ("11.0.2+9", "11.0.*", True),
    ("110.2", "11.*", False),
    ("1.8.0_292", "1.8.*", True),
    ("17.0.1", "11.*", False),
    (4.1, "4.*", True),
    ("r1", "1.*", None),
    (True, "1.*", None),
    (Number("11.0.2"), "11.*", True),
]


@pytest.mark.parametrize(("version", "prefix", "answer"), PREFIXES)
def test_a_prefix_stands_for_all_versions_that_begin_so(
    version: Value | Number, prefix: str, answer: bool | None
) -> None:
    opposite = None if answer is None else not answer
    assert compared("=", version, Number(prefix)) is compared("=", Number(prefix), version) is answer
    assert compared("!=", version, Number(prefix)) is opposite
    assert compared(">=", version, Number(prefix)) is None


def test_letters_of_releases_come_after_them_and_pre_releases_before() -> None:
    assert version_key("1.0.2") < version_key("1.0.2k") < version_key("1.0.3-beta1") < version_key("1.0.3")
    assert version_key("2.0.0a1") < version_key("2.0.0b1") < version_key("2.0.0rc1") < version_key("2.0.0")


_ADDRESSES = st.ip_addresses().map(str) | st.ip_addresses(v=6).map(lambda each: each.exploded)


@given(_ADDRESSES | st.text(alphabet="0123456789abcdef:.", max_size=40))
def test_addresses_are_read_as_the_standard_library_does(text: str) -> None:
    try:
        address = ipaddress.ip_address(text)
        expected = (address.version, int(address))
    except ValueError:
        expected = None
    found = parse_address(text)
    # Leading zeros are ambiguous to the library, and plain here.
    if not any(part.startswith("0") and len(part) > 1 for part in text.replace(":", ".").split(".")) or expected:
        assert found == expected


def test_constants_of_the_tree_are_what_they_say() -> None:
    assert str(Text('a "b" \\')) == r'"a \"b\" \\"'
    assert str(Truth(False)) == "False"
