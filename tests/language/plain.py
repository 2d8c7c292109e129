"""What an expression means, the plain way: a walk over the tree with one node's values in dictionaries.

Written apart from what it checks: no code of the language but its trees and the list of its amounts.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field

from cress.language.tree import (
    And,
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
    Or,
    Pattern,
    Resource,
    Span,
    Text,
    Truth,
)
from cress.model.node import Value

_STEPS = {"K": 1, "M": 2, "G": 3, "T": 4}
_BYTES = ("memory",)
_LOADS = ("cpuload", "memoryload", "networkload", "diskload", "freememory")
_TRUTHS = (Truth, Not, And, Or, Compare, In, Defined, Resource)


def _is_truth(expression: Expression) -> bool:
    if isinstance(expression, Call) and expression.function == "if":
        return any(_is_truth(each) for each in expression.arguments[1:])
    about_texts = ("regexp", "startswith", "endswith", "contains", "in")
    return isinstance(expression, _TRUTHS) or (isinstance(expression, Call) and expression.function in about_texts)


@dataclass
class World:
    """One node: attributes by key, raw amounts by dimension (``disk`` aside), which dimensions there are, what is
    measured.
    """

    attributes: dict[str, Value]
    idle: dict[str, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    loads: dict[str, float] = field(default_factory=dict)

    def amount(self, key: str) -> float | None:
        """An amount in the unit of people, None when ``key`` names none, or what nobody measures."""
        if key in _LOADS:
            return self.loads.get(key)
        where, rest = (self.idle, key[4:]) if key.startswith("idle") else (self.total, key)
        if rest == "disk":
            return float(min(where["disk_read"], where["disk_write"]))
        for name, raw in where.items():
            if name.replace("_", "") == rest:
                thousandths = name == "cpu" or name not in (
                    "memory", "network", "disk_read", "disk_write", "iops_read", "iops_write"
                )  # fmt: skip
                return raw / 1000 if thousandths else float(raw)
        return None


def truth(expression: Expression, world: World) -> bool | None:
    """True, false or undefined."""
    match expression:
        case Truth():
            return expression.value
        case Not():
            inner = truth(expression.operand, world)
            return None if inner is None else not inner
        case And():
            found = [truth(each, world) for each in expression.operands]
            return False if False in found else None if None in found else True
        case Or():
            found = [truth(each, world) for each in expression.operands]
            return True if True in found else None if None in found else False
        case Defined():
            return world.amount(expression.name.key) is not None or expression.name.key in world.attributes
        case Resource():
            known = [world.idle.get(name) for name, _ in expression.amounts]
            fits = [
                None if x is None else x >= amount for x, (_, amount) in zip(known, expression.amounts, strict=True)
            ]
            return False if False in fits else None if None in fits else True
        case Call():
            return _truth_of_call(expression, world)
        case Compare():
            measure = _measure(expression.left) or _measure(expression.right)
            return _compare(expression.operator, expression.left, expression.right, measure, world)
        case In():
            return _member(expression, world)
        case Name():
            value = world.attributes.get(expression.key) if world.amount(expression.key) is None else None
            return value if isinstance(value, bool) else None
    return None


def _truth_of_call(expression: Call, world: World) -> bool | None:
    match expression:
        case Call(function="if", arguments=(condition, one, other)):
            chosen = truth(condition, world)
            return None if chosen is None else truth(one if chosen else other, world)
        case Call(function="regexp", arguments=(subject, Pattern() as pattern)):
            seen = _as_text(_constant(subject, world))
            return None if seen is None else re.search(pattern.text, seen, re.IGNORECASE) is not None
        case Call(function="startswith" | "endswith" | "contains", arguments=(subject, part)):
            whole, piece = (_as_text(_constant(each, world)) for each in (subject, part))
            if whole is None or piece is None:
                return None
            if expression.function == "contains" and re.fullmatch(r"\{.*\}", whole):
                return _in_set(piece, whole)
            whole, piece = whole.casefold(), piece.casefold()
            at = {"startswith": 0, "endswith": max(0, len(whole) - len(piece))}.get(expression.function)
            return piece in whole if at is None else whole[at:][: len(piece)] == piece
        case Call(function="in", arguments=(one_of, of)):
            asked, members = (_as_text(_constant(each, world)) for each in (one_of, of))
            return None if asked is None or members is None else _in_set(asked, members)
    return None


def number(expression: Expression, world: World, measure: str = "") -> float | None:
    """A number, or undefined."""
    match expression:
        case Number():
            return _read(expression.text, measure)
        case Text():
            return None
        case Name():
            amount = world.amount(expression.key)
            if amount is not None:
                return amount
            value = world.attributes.get(expression.key)
            return float(value) if isinstance(value, bool) else _as_number(value)
        case Negative():
            inner = number(expression.operand, world, measure)
            return None if inner is None else -inner
        case Call(function="size", arguments=(asked,)):
            text = _as_text(_constant(asked, world))
            if text is None or not re.fullmatch(r"\{.*\}", text):
                return None if text is None else float(len(text))
            return float(len({each.casefold() for each in text[1:-1].split(",")} - {""}))
        case Call(function="min" | "max" as function, arguments=arguments):
            values = [number(each, world, measure) for each in arguments]
            known = [each for each in values if each is not None]
            return None if len(known) < len(values) else min(known) if function == "min" else max(known)
        case Call(function="if", arguments=(condition, one, other)) if not _is_truth(expression):
            chosen = truth(condition, world)
            return None if chosen is None else number(one if chosen else other, world, measure)
        case Arithmetic():
            total = number(expression.operands[0], world, measure)
            for operator, operand in zip(expression.operators, expression.operands[1:], strict=True):
                total = _calculated(operator, total, number(operand, world, measure))
            return total
    found = truth(expression, world)
    return None if found is None else float(found)


def score(terms: list[tuple[float, Expression]], world: World) -> float:
    """The sum of weighted terms; amounts are shares of the node, but for those of quotients."""
    total = 0.0
    for weight, expression in terms:
        value = _share(expression, world)
        if value is not None and math.isfinite(weight * value):
            total += weight * value
    return total


def _share(expression: Expression, world: World) -> float | None:
    match expression:
        case Name(key="freememory"):
            free = world.loads.get("freememory")
            return free / world.total["memory"] if free is not None and world.total["memory"] else None
        case Name(key=key) if key not in _LOADS and world.amount(key) is not None:
            idle, all_of_it = world.amount("idle" + key.removeprefix("idle")), world.amount(key.removeprefix("idle"))
            assert idle is not None
            return idle / all_of_it if all_of_it else None
        case Negative():
            inner = _share(expression.operand, world)
            return None if inner is None else -inner
        case Arithmetic() if not _divides_amounts(expression, world):
            total = _share(expression.operands[0], world)
            for operator, operand in zip(expression.operators, expression.operands[1:], strict=True):
                total = _calculated(operator, total, _share(operand, world))
            return total
    return number(expression, world, _measure(expression))


def _divides_amounts(product: Arithmetic, world: World) -> bool:
    """Whether a quotient has an amount below, or only idle cores and the like above."""
    below = [x for sign, x in zip(product.operators, product.operands[1:], strict=True) if sign in "/%"]
    if any(_sized(leaf) or _amount(leaf, world) for each in below for leaf in _leaves(each)):
        return True
    found = [each for each in _leaves(product) if _amount(each, world)]
    return bool(below and found) and all(
        each.key.startswith("idle") and each.key[4:] not in ("memory", "network", "disk", "diskread", "diskwrite")
        for each in found
        if isinstance(each, Name)
    )


def _leaves(expression: Expression) -> list[Expression]:
    match expression:
        case Arithmetic():
            return [leaf for each in expression.operands for leaf in _leaves(each)]
        case Negative():
            return _leaves(expression.operand)
    return [expression]


def _amount(leaf: Expression, world: World) -> bool:
    return isinstance(leaf, Name) and (
        leaf.key == "freememory" or (leaf.key not in _LOADS and world.amount(leaf.key) is not None)
    )


def _sized(leaf: Expression) -> bool:
    return isinstance(leaf, Number) and _read(leaf.text, "") is not None and leaf.text[-1].isalpha()


def _calculated(operator: str, total: float | None, other: float | None) -> float | None:
    if total is None or other is None or (operator in "/%" and other == 0):
        return None
    if operator == "%":
        return math.fmod(total, other) if math.isfinite(total) else None
    found = {"+": total + other, "-": total - other, "×": total * other}.get(operator, total)
    found = total / other if operator == "/" else found
    return None if math.isnan(found) else found


def _measure(expression: Expression) -> str:
    """The kind of the first amount that stands in arithmetic: bytes, bits, bytes/s, 1/s or cores."""
    match expression:
        case Name(key=key):
            key = "memory" if key == "freememory" else key.removeprefix("idle")
            return (
                key
                if key in ("cpu", "memory", "network", "disk", "diskread", "diskwrite", "iopsread", "iopswrite")
                else ""
            )
        case Negative():
            return _measure(expression.operand)
        case Call(function="min" | "max" | "if", arguments=arguments) if not _is_truth(expression):
            inside = (each for each in arguments if not _is_truth(each))
            return next((found for each in inside if (found := _measure(each))), "")
        case Arithmetic():
            return next((found for each in expression.operands if (found := _measure(each))), "")
    return ""


def _computed(expression: Expression, world: World) -> bool:
    if isinstance(expression, Name):
        return expression.key in _LOADS or world.amount(expression.key) is not None
    return not isinstance(expression, (Number, Text, Truth))


def _compare(operator: str, left: Expression, right: Expression, measure: str, world: World) -> bool | None:
    if operator in ("is", "is not"):
        equal = _compare("=", left, right, measure, world)
        both = all(_nothing(each, measure, world) for each in (left, right))
        return (equal is True or both) is (operator == "is")
    for chooses, swapped in ((left, False), (right, True)):
        if isinstance(chooses, Call) and chooses.function == "if":
            condition, one, other = chooses.arguments
            chosen = truth(condition, world)
            branch = one if chosen else other
            pair = (left, branch) if swapped else (branch, right)
            return None if chosen is None else _compare(operator, *pair, measure, world)
    if _computed(left, world) or _computed(right, world):
        truths = [_is_truth(each) and not isinstance(each, Truth) for each in (left, right)]
        if any(truths):
            for each in (left, right):
                plain = isinstance(each, Name) and not _computed(each, world)
                if not (_is_truth(each) or plain):
                    return None
            return _ordered(operator, truth(left, world), truth(right, world)) if operator in ("=", "!=") else None
        return _ordered(operator, *(_compared_number(each, measure, world) for each in (left, right)))
    return _values(operator, _constant(left, world), _constant(right, world))


def _nothing(side: Expression, measure: str, world: World) -> bool:
    """Whether a side of ``is`` is undefined."""
    if isinstance(side, Call) and side.function == "if":
        condition, one, other = side.arguments
        chosen = truth(condition, world)
        return chosen is None or _nothing(one if chosen else other, measure, world)
    if isinstance(side, Name) and not _computed(side, world):
        return side.key not in world.attributes
    if isinstance(side, (Number, Text, Truth)):
        return False
    return number(side, world, measure) is None


def _in_set(member: str, of: str) -> bool:
    # The empty set has no members, not one that is empty; a text that is no set is its only member.
    members = [each for each in of[1:-1].split(",") if each] if re.fullmatch(r"\{.*\}", of) else [of]
    return member.casefold() in [each.casefold() for each in members]


def _as_text(value: Value | Number | None) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    return value.text if isinstance(value, Number) else _shown(value)


def _compared_number(side: Expression, measure: str, world: World) -> float | None:
    if isinstance(side, Name) and not _computed(side, world):
        return _as_number(world.attributes.get(side.key))
    return None if isinstance(side, Truth) else number(side, world, measure)


def _constant(side: Expression, world: World) -> Value | Number | None:
    match side:
        case Number():
            return side
        case Text() | Truth():
            return side.value
        case Name():
            return world.attributes.get(side.key)
    raise AssertionError(side)


def _values(operator: str, a: Value | Number | None, b: Value | Number | None) -> bool | None:
    if a is None or b is None:
        return None
    for x, other in ((b, a), (a, b)):
        if isinstance(x, Number) and x.text.endswith(".*"):
            return _prefixed(operator, x.text[:-2], other)
    if isinstance(a, bool) or isinstance(b, bool):
        return (
            _ordered(operator, a, b)
            if isinstance(a, bool) and isinstance(b, bool) and operator in ("=", "!=")
            else None
        )
    if isinstance(a, str) and isinstance(b, str) and operator in ("=", "!="):
        return _ordered(operator, a.casefold(), b.casefold())
    unit = any(isinstance(x, Number) and _read(x.text, "") is not None and not x.text[-1].isdigit() for x in (a, b))
    texts = any(isinstance(x, str) or (isinstance(x, Number) and _read(x.text, "") is None) for x in (a, b))
    if texts and not unit:
        both = [x.text if isinstance(x, Number) else _shown(x) for x in (a, b)]
        if not (isinstance(a, str) and isinstance(b, str)) and not all(re.match(r"\s*[vV]?[0-9]", x) for x in both):
            return None
        return _ordered(operator, version(both[0], both[1]), 0)
    if unit and any(isinstance(x, Number) and _read(x.text, "") is None for x in (a, b)):
        both = [x.text if isinstance(x, Number) else _shown(x) for x in (a, b)]
        return _ordered(operator, version(both[0], both[1]), 0)
    numbers = [_read(x.text, "") if isinstance(x, Number) else _as_number(x) for x in (a, b)]
    return _ordered(operator, numbers[0], numbers[1])


def _prefixed(operator: str, beginning: str, other: Value | Number) -> bool | None:
    if isinstance(other, bool) or operator not in ("=", "!="):
        return None
    text = other.text if isinstance(other, Number) else _shown(other)
    if not re.match(r"\s*[vV]?[0-9]", text):
        return None
    wanted, has = _parts(beginning), _parts(text)
    same = len(has) >= len(wanted) and all(
        int(x) == int(y) if x.isdigit() and y.isdigit() else x == y for x, y in zip(wanted, has, strict=False)
    )
    return same is (operator == "=")


def _member(expression: In, world: World) -> bool | None:
    subject = expression.subject
    if isinstance(subject, Name) and subject.key in ("nodes", "datalocality"):
        own = [world.attributes.get(key) for key in ("name", "hostname", "address")]
        return any(
            _item(each, item) or _fits(each, item) for each in own for item in expression.items if isinstance(each, str)
        )
    found: bool | None = False
    for item in expression.items:
        equal: bool | None
        if _computed(subject, world):
            equal = None
            if isinstance(item, (Number, Truth)):
                equal = _compare("=", subject, item, _measure(subject), world)
        else:
            value = _constant(subject, world)
            equal = _item(value, item) if isinstance(item, Span) else _values("=", value, _constant(item, world))
            names = isinstance(subject, Name) and subject.key in ("name", "hostname")
            if names and isinstance(value, str) and _fits(value, item):
                return True
        if equal:
            return True
        found = None if equal is None else found
    return found


def _fits(value: str, item: Item) -> bool:
    """Whether a pattern of names fits: here by all names that it stands for, but for ``*`` and ``?``."""
    if not isinstance(item, Text) or not re.search(r"[*?\[]", item.value):
        return False
    made = [""]
    for piece in re.findall(r"\[[^\]]*\]|[^\[]+", item.value):
        inside = (
            _members(piece[1:-1]) if piece[0] == "[" else [re.escape(piece).replace(r"\*", ".*").replace(r"\?", ".")]
        )
        made = [before + each for before in made for each in inside]
    return any(re.fullmatch(each, value, re.IGNORECASE | re.DOTALL) for each in made)


def _members(brackets: str) -> list[str]:
    found: list[str] = []
    for each in brackets.split(","):
        first, dash, last = each.partition("-")
        if dash:
            width = len(first) if first[0] == "0" else 0
            found += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
        else:
            found.append(re.escape(each))
    return found


def _item(value: Value | Number | None, item: Item) -> bool | None:
    if not isinstance(value, str):
        return None
    if isinstance(item, Span):
        try:
            address = ipaddress.ip_address(value)
        except ValueError:
            return False
        return address.version == item.version and item.first <= int(address) <= item.last
    return isinstance(item, Text) and item.value.casefold() == value.casefold()


def _ordered(operator: str, a: object, b: object) -> bool | None:
    if a is None or b is None:
        return None
    less, more = bool(a < b), bool(b < a)  # type: ignore[operator]
    return {"=": a == b, "!=": a != b, "<": less, "<=": not more, ">": more, ">=": not less}[operator]


def _as_number(value: Value | None) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", value) else None
    return float(value)


def _shown(value: Value) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read(text: str, measure: str) -> float | None:
    """The number with K, M, G, T and %, durations in seconds; None for a version."""
    found = re.fullmatch(r"(-?[0-9]*\.?[0-9]+)(K|M|G|T|m|s|min|h|%|)", text)
    if not found:
        return None
    value, unit = float(found[1]), found[2]
    if unit == "":
        return value
    if unit == "%":
        return value / 100
    if unit in _STEPS:
        return value * float((1024 if measure in _BYTES else 1000) ** _STEPS[unit])
    return value * {"m": 0.001, "s": 1, "min": 60, "h": 3600}[unit]


def version(a: str, b: str) -> int:
    """−1, 0 or 1: how two versions are ordered."""
    one, other = _parts(a), _parts(b)
    for i in range(max(len(one), len(other))):
        x, y = (parts[i] if i < len(parts) else "" for parts in (one, other))
        if _class(x) != _class(y):
            return -1 if _class(x) < _class(y) else 1
        if x != y:
            if _class(x) == 2 and int(x) == int(y):
                continue
            return -1 if (int(x) < int(y) if _class(x) == 2 else x < y) else 1
    return 0


_EARLY = {"a": "<alpha", "b": "<beta", "c": "<rc", "m": "<milestone", "cr": "<rc", "devel": "<dev"} | {
    word: "<" + word for word in "alpha beta dev ea milestone pre preview rc snapshot".split()
}


def _parts(text: str) -> list[str]:
    """Numbers and words; those of pre-releases begin with ``<``."""
    text = text.casefold().strip()
    text = text[1:] if re.match("v[0-9]", text) else text
    parts: list[str] = []
    for found in re.finditer(r"[0-9]+|[^0-9._+~\-\s]+", text):
        part, after = found.group(), text[found.end() : found.end() + 1]
        numbered = after != "" and after in "0123456789"
        parts.append(_EARLY.get(part, part) if len(part) > 1 or numbered else part)
    return parts


def _class(part: str) -> int:
    """Before nothing, nothing, a number, a text."""
    if not part:
        return 1
    if part.isdigit():
        return 2
    return 0 if part[0] == "<" else 3
