"""Measures of quotas: a dimension, or a dimension on nodes of one kind, written ``gpu(A100)`` (design note 0034).

The kind of a node is the model of its devices of the dimension (the attribute ``GPUModel``, ``FPGAModel`` …), else its
label ``NodeType``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from cress.model.attributes import plain
from cress.model.devices import called
from cress.model.errors import InputError
from cress.model.group import Group, Quota
from cress.model.node import Node
from cress.model.resources import BASE_DIMENSIONS, Dimensions, Measure
from cress.model.units import describe_named, format_amount, one_of

# The attribute with the kind of a node whose devices do not give it.
NODE_TYPE = "NodeType"
MAX_KIND = 64
# Maximum number of measures with a kind, over all groups: each is a column of every search.
MOST_KINDS = 64

_PART = re.compile(r"(?P<dimension>[^()]*)\((?P<kind>[^()]*)\)")
_FORBIDDEN = frozenset("()=,;<>#|")


@lru_cache(maxsize=4096)
def split(measure: str) -> tuple[str, str]:
    """Split a measure into dimension and kind; the kind is empty if nodes of all kinds count."""
    found = _PART.fullmatch(measure)
    return (found["dimension"], found["kind"]) if found else (measure, "")


def of_kind(dimension: str, kind: str) -> str:
    """Return the measure of a dimension on nodes of one kind."""
    return f"{dimension}({kind})"


def parse_measure(text: str, dimensions: Dimensions) -> str:
    """Return the measure that ``gpu(A100)`` names. Raises InputError."""
    found = _PART.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{text.strip()!r} is not a measure", hint="a dimension with a kind of node such as gpu(A100)")
    dimension, kind = found["dimension"].strip().lower(), found["kind"].strip()
    if dimension not in dimensions.index:
        raise InputError(f"unknown dimension {dimension!r}", hint=one_of(dimension, dimensions.names))
    if not kind or len(kind) > MAX_KIND or not kind.isprintable() or _FORBIDDEN & set(kind):
        hint = f"the {attribute_of(dimension)} of nodes, such as {dimension}(A100); at most {MAX_KIND} characters"
        raise InputError(f"{kind[:MAX_KIND]!r} is not a kind of node", hint=hint)
    return of_kind(dimension, kind)


def attribute_of(dimension: str) -> str:
    """Return the name of the attribute that gives the kind of a node in a dimension."""
    return NODE_TYPE if dimension in BASE_DIMENSIONS else f"{called(dimension)}Model"


def kind_of(node: Node, dimension: str) -> str:
    """Return the kind of a node in a dimension; empty if it has none."""
    values = {plain(name): value for name, value in node.attributes}
    for name in (attribute_of(dimension), NODE_TYPE):
        if (value := values.get(plain(name))) is not None:
            return str(value).lower() if isinstance(value, bool) else str(value)
    return ""


def measures_in(groups: Iterable[Group], dimensions: Dimensions) -> tuple[str, ...]:
    """Return the measures with a kind in the quotas, windows and bounds of these groups, by dimension and kind."""
    found = {name for group in groups for quota in _all_of(group) for name, _ in quota.amounts if split(name)[1]}
    return tuple(sorted(found, key=lambda name: place_of(name, dimensions)))


def place_of(measure: str, dimensions: Dimensions) -> tuple[bool, int, str]:
    """Return the sort key of a measure in quotas: dimensions first, then kinds."""
    dimension, kind = split(measure)
    return bool(kind), dimensions.index[dimension], kind


def _all_of(group: Group) -> Iterable[Quota]:
    yield group.quota
    yield from (window.quota for window in group.windows)
    yield from (bound for bound in (group.max_quota, group.lendable) if bound is not None)


def without_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the measures that count on all nodes."""
    return tuple(name for name in names if not split(name)[1])


def total_of(measure: str, nodes: Iterable[Node], dimensions: Dimensions) -> int:
    """Return the total of a measure over these nodes."""
    dimension, kind = split(measure)
    k = dimensions.index[dimension]
    return sum(node.capacity[k] for node in nodes if not kind or kind_of(node, dimension) == kind)


def kinds_of(dimension: str, nodes: Iterable[Node], dimensions: Dimensions) -> tuple[str, ...]:
    """Return the kinds, by name, of the nodes with any amount of a dimension."""
    k = dimensions.index[dimension]
    return tuple(sorted({kind_of(node, dimension) for node in nodes if node.capacity[k]} - {""}))


def describe_measure(amount: int, measure: str, dimensions: Dimensions) -> str:
    """Return an amount of a measure for sentences: ``4 cores``, ``memory 8G``, ``2 gpu``, ``8 gpu(A100)``."""
    dimension, kind = split(measure)
    unit = dimensions.measure(dimension)
    if kind:
        text = format_amount(amount, unit)
        return f"{text} {measure}" if unit is Measure.MILLI else f"{measure} {text}"
    return describe_named(amount, dimension, dimensions)
