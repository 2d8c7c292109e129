"""Random expressions that make sense, and random nodes."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from cress.language.addresses import parse_span
from cress.language.names import SPELLING, key_of
from cress.language.tree import (
    Arithmetic,
    Call,
    Compare,
    Defined,
    Expression,
    In,
    Item,
    Name,
    Negative,
    Not,
    Number,
    Pattern,
    Span,
    Text,
    Truth,
    conjunction,
    disjunction,
)
from cress.model.node import Load, Node, Value
from cress.model.resources import Dimensions

DIMENSIONS = Dimensions(("gpu",))
ATTRIBUTES = ("os_kernel", "GCC", "java", "ssd", "zone", "slots")
NODE_WORDS = ("Name", "Hostname", "Address", "Rack")
AMOUNT_WORDS = (
    "CPU",
    "IdleCPU",
    "Memory",
    "IdleMemory",
    "IdleNetwork",
    "Disk",
    "IdleDisk",
    "IOPSRead",
    "IdleIOPSWrite",
    "CPULoad",
    "DiskLoad",
    "FreeMemory",
)
CUSTOM_WORDS = ("GPU", "idle_gpu")
TEXTS = (
    "4.5",
    "4.10",
    "4.5-rc1",
    "4.5a1",
    "2.6.32",
    "2.6.32.1",
    "v12",
    "12",
    "0.5",
    "r1",
    "R1",
    "web-1",
    'ä"\\ (x',
    "",
    "192.168.1.5",
    "2001:db8::7",
    "8G",
    "-3",
    "{avx2,ssd}",
    "{r1}",
    "{}",
    "ssd",
    "web-08",
    "n01",
)
VALUES: tuple[Value, ...] = (True, False, 0, 1, 4.5, 12, -3, 4.0, 8_000_000_000, 80, 0.8, *TEXTS)
NUMBERS = ("4.5", "4.10", "0", "1", "12", "0.5", "8G", "500M", "80%", "2K", "1T")
VERSIONS = ("2.6.32", "4.5-rc1", "4.5rc1", "12.0.1", "4.5a1", "2.6.32-71.el6")
PREFIXES = ("4.*", "2.6.*", "12.*")
OUTSIDE = ("15s", "5min", "500m")
SPANS = ("192.168.1.2-8", "192.168.1.0/24", "10.0.0.0/8", "192.168.1.5", "2001:db8::/32", "2001:db8::7")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


def _name(word: str) -> Name:
    return Name(key_of(word), SPELLING.get(key_of(word), word))


def _span(text: str) -> Span:
    found = parse_span(text)
    assert found is not None
    return Span(*found, text)


attributes = st.sampled_from(ATTRIBUTES + NODE_WORDS + CUSTOM_WORDS + ("nobody has this",)).map(
    lambda word: _name(word.replace(" ", "_"))
)
amounts = st.sampled_from(AMOUNT_WORDS).map(_name)
numbers = st.sampled_from(NUMBERS).map(Number)
constants: st.SearchStrategy[Expression] = st.one_of(
    numbers, st.sampled_from(VERSIONS + OUTSIDE).map(Number), st.sampled_from(TEXTS).map(Text)
)
_sized = st.sampled_from([each for each in NUMBERS if each not in ("8G", "500M", "2K", "1T")]).map(Number)


def _arithmetic(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def made(operands: list[Expression], signs: str, choices: list[int]) -> Expression:
        return Arithmetic(tuple(signs[each] for each in choices[: len(operands) - 1]), tuple(operands))

    several = st.lists(inner, min_size=2, max_size=4)
    choices = st.lists(st.integers(0, 1), min_size=3, max_size=3)
    return st.builds(made, several, st.sampled_from(("+-", "×/", "×%")), choices) | inner.map(Negative)


# Plain numbers: cores are not counted in G.
arithmetic: st.SearchStrategy[Expression] = _arithmetic(
    st.recursive(st.one_of(_sized, attributes, amounts), _arithmetic, max_leaves=4)
)
computed: st.SearchStrategy[Expression] = arithmetic | amounts
_items: st.SearchStrategy[Item] = st.one_of(
    st.sampled_from(TEXTS).map(Text),
    st.sampled_from(NUMBERS + VERSIONS + PREFIXES).map(Number),
    st.booleans().map(Truth),
    st.sampled_from(SPANS).map(_span),
)


name_items: st.SearchStrategy[Item] = st.sampled_from(
    ("n*", "N?", "n[1-8]", "n[01-08]", "*1", "web-[1,7-9]", "?[0-2]", "12", "r1", "*-*", "[n,r]1")
).map(Text)
undefined = st.just(_name("undefined"))
PATTERNS = ("^4", "r[0-9]$", r"(a|1)+\.", r"\d{1,3}", "ä", "", r"^\W", "[^0-9]-")


def _called(function: str, *arguments: Expression) -> Expression:
    return Call(function, arguments)


def _built_in(subject: Expression, items: list[Item]) -> Expression:
    return In(subject, tuple(items))


_flat: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Compare, st.sampled_from(OPERATORS), attributes, constants),
    st.builds(Compare, st.sampled_from(OPERATORS), constants, attributes),
    st.builds(Compare, st.sampled_from(("=", "!=")), attributes, st.booleans().map(Truth)),
    st.builds(Compare, st.sampled_from(("=", "!=")), attributes, st.sampled_from(PREFIXES).map(Number)),
    st.builds(Compare, st.sampled_from(OPERATORS), attributes, attributes),
    st.builds(Compare, st.sampled_from(OPERATORS), computed, _sized),
    st.builds(Compare, st.sampled_from(OPERATORS), computed, attributes | computed),
    st.builds(
        Compare,
        st.sampled_from(OPERATORS),
        st.sampled_from(("Memory", "IdleMemory", "IdleNetwork", "FreeMemory", "CPULoad")).map(_name),
        numbers,
    ),
    st.builds(_built_in, attributes, st.lists(_items, min_size=1, max_size=4)),
    st.builds(_built_in, computed, st.lists(_sized | st.booleans().map(Truth), min_size=1, max_size=3)),
    st.builds(Compare, st.sampled_from(("is", "is not")), attributes, constants | attributes | undefined),
    st.builds(Compare, st.sampled_from(("is", "is not")), computed, _sized | attributes | undefined),
    st.builds(_called, st.sampled_from(("startswith", "endswith", "contains")), attributes, constants | attributes),
    st.builds(lambda one, of: Call("in", (one, of)), constants | attributes, attributes),
    st.builds(
        _built_in, st.sampled_from(("Name", "Hostname")).map(_name), st.lists(name_items, min_size=1, max_size=3)
    ),
    st.builds(lambda name, text: Call("regexp", (name, Pattern(text))), attributes, st.sampled_from(PATTERNS)),
    st.builds(Compare, st.sampled_from(OPERATORS), attributes.map(lambda each: Call("size", (each,))), _sized),
    st.builds(Defined, attributes | st.sampled_from(("CPULoad", "FreeMemory")).map(_name)),
    attributes,
    st.booleans().map(Truth),
)


def _joined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return st.one_of(
        several.map(conjunction),
        st.builds(lambda three: Call("if", tuple(three)), st.lists(inner, min_size=3, max_size=3)),
        st.builds(
            lambda operator, condition, one, other, side: Compare(operator, Call("if", (condition, one, other)), side),
            st.sampled_from((*OPERATORS, "is", "is not")),
            inner,
            attributes | _sized,
            attributes | _sized,
            _sized | attributes,
        ),
        st.builds(
            lambda operator, function, one, other, side: Compare(operator, Call(function, (one, other)), side),
            st.sampled_from((*OPERATORS, "is")),
            st.sampled_from(("min", "max")),
            arithmetic,
            arithmetic,
            _sized,
        ),
        several.map(disjunction),
        inner.map(Not),
        st.builds(
            Compare, st.sampled_from(("=", "!=")), inner.filter(_is_truth), st.booleans().map(Truth) | attributes
        ),
        st.builds(
            Compare,
            st.sampled_from(OPERATORS),
            st.builds(Arithmetic, st.just(("+",)), st.tuples(inner, _sized)),
            _sized,
        ),
    )


def _is_truth(expression: Expression) -> bool:
    return not isinstance(expression, Name)


conditions: st.SearchStrategy[Expression] = st.recursive(_flat, _joined, max_leaves=6)
rank_terms: st.SearchStrategy[Expression] = computed | attributes | conditions

_values = st.sampled_from(VALUES)
_raw_amounts = {
    "cpu": st.sampled_from((0, 500, 8000, 12_000)),
    "memory": st.sampled_from((0, 8 << 30, 1 << 30, 500 << 20)),
    "network": st.sampled_from((0, 500_000_000, 10**9)),
    "disk_read": st.sampled_from((0, 500_000_000)),
    "disk_write": st.sampled_from((0, 8_000_000_000)),
    "iops_read": st.sampled_from((0, 12, 2000)),
    "iops_write": st.sampled_from((0, 500)),
    "gpu": st.sampled_from((0, 500, 12_000)),
}


@st.composite
def nodes(draw: st.DrawFn, name: str = "n1") -> tuple[Node, tuple[int, ...]]:
    """A node and what of it is free."""
    chosen = draw(st.lists(st.sampled_from((*ATTRIBUTES, "Hostname", "rack")), unique=True))
    capacity = tuple(draw(_raw_amounts[each]) for each in DIMENSIONS.names)
    shares = draw(st.lists(st.integers(0, 4), min_size=len(capacity), max_size=len(capacity)))
    node = Node(
        name=name,
        capacity=capacity,
        rack=draw(st.sampled_from(("", "r1", "r2"))),
        address=draw(st.sampled_from(("", "192.168.1.5", "192.168.1.9", "2001:db8::7"))),
        attributes=tuple((each, draw(_values)) for each in chosen),
    )
    return node, tuple(amount * share // 4 for amount, share in zip(capacity, shares, strict=True))


# What is measured of a node, if anything is.
_shares = st.sampled_from((0, 500, 800, 1000))
loads: st.SearchStrategy[Load | None] = st.none() | st.builds(
    Load, _shares, _shares, _shares, _shares, st.sampled_from((0, 1 << 30, 8 << 30, 500_000_000))
)


# What a text of the language is made of, in any order.
TOKENS = (
    *("&& || ! ( ) , = == != < <= > >= ≤ + - * × / in and or not True False defined( f(x) f(x)= <1,2G> 8G 4.5 "
        "\" ' .. % #").split(),
    *("GCC OSKernel Memory IdleCPU Rack Waittime ClusterLoad 15s 80% r1 \"r1\" Nodes Port ExclusiveDisk "
        "Resource").split(),
    *("JobDependency 192.168.1.2-8 10.0.0.0/8 ::1 NetworkAdjacent 2.6.32 0 -").split(),
    " ", "\n", "\\", "ä", "\x00", "中",
)  # fmt: skip
soups = st.lists(st.sampled_from(TOKENS), max_size=60).map(" ".join) | st.lists(
    st.sampled_from(TOKENS), max_size=60
).map("".join)
scribbles = st.text(max_size=200) | st.text(alphabet=string.printable, max_size=200)
