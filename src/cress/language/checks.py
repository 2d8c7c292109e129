"""Static checks of expressions, made before they are evaluated on any node."""

from __future__ import annotations

from cress.language.names import (
    DATA_LOCALITY,
    JOB_ATTRIBUTES,
    MOMENT,
    NODES,
    PLACEMENT,
    QUOTE,
    has_difference,
    is_quantity,
    measure_of,
    spelling_of,
)
from cress.language.raw import Raw, Relaxes
from cress.language.shares import is_quotient_of_amounts
from cress.language.tree import (
    And,
    Arithmetic,
    Compare,
    Defined,
    Expression,
    In,
    Name,
    Negative,
    Not,
    Number,
    Or,
    Resource,
    Span,
    Text,
    Truth,
    is_truth,
    parts,
)
from cress.language.trouble import trouble
from cress.language.values import number_value
from cress.language.versions import is_prefix
from cress.model.errors import InputError
from cress.model.resources import Measure

# How each placement attribute is written.
EXAMPLES = {
    "Nodes": "Nodes in (192.168.1.2-8, web-1)",
    "DataLocality": 'DataLocality in (192.168.1.2-8), or = "hdfs://namenode:8020/logs"',
    "Resource": "Resource = <1,2G>",
    "Port": "Port = 80",
    "ExclusiveDisk": "ExclusiveDisk = True",
    "NetworkAdjacent": "NetworkAdjacent = True",
    "JobDependency": "JobDependency = A",
    "IssueAsWhole": "IssueAsWhole = True && f(x) = (Waittime > 5min); without f(x) it is `gang` of the job itself",
}
# Where something else may be meant.
_INSTEAD = {
    NODES: "Name in (…) or Address in (…) may stand anywhere",
    DATA_LOCALITY: "Name in (…) or Address in (…) may stand anywhere",
}


def measure_in(expression: Raw) -> Measure | None:
    """The measure in which the numbers of a comparison or of arithmetic are read: that of the first amount in it."""
    if isinstance(expression, Name):
        return measure_of(expression.key)
    if is_truth(expression) and not isinstance(expression, (Compare, In)):
        return None
    for part in parts(expression):
        found = None if is_truth(part) else measure_in(part)
        if found is not None:
            return found
    return None


class Checker:
    """Looks at the expressions of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def condition(self, raw: Raw) -> Expression:
        """``raw`` as a truth value over one node."""
        if isinstance(raw, Relaxes):
            raise trouble(
                self.text,
                raw.at,
                "f(x) stands behind the whole clause that it relaxes",
                "clause && f(x) = (Waittime > 15s), not inside ||, ! or an f(x)",
            )
        match raw:
            case And():
                for each in raw.operands:
                    self.condition(each)
            case Or():
                for each in raw.operands:
                    self.condition(each)
            case Not():
                self.condition(raw.operand)
            case Compare():
                self._compare(raw)
            case In():
                self._member(raw)
            case Defined():
                self._name(raw.name)
            case Resource():
                raise self._placement("Resource", raw.at, "")
            case Truth():
                pass
            case Name():
                self._name(raw)
                if is_quantity(raw.key):
                    raise self.wrong(raw, f"{raw} is an amount, not a condition", f"{raw} >= …")
            case _:
                raise self.wrong(raw, f"{raw} is not a condition", "compare it with something")
        expression: Expression = raw
        return expression

    def term(self, raw: Raw) -> None:
        """``raw`` as a term of a rank: numbers in it are read beside shares, or beside the amounts of a quotient."""
        if isinstance(raw, Relaxes) or is_truth(raw):
            self.condition(raw)
        elif isinstance(raw, Negative) or (isinstance(raw, Arithmetic) and not is_quotient_of_amounts(raw)):
            for each in parts(raw):
                self.term(each)
        else:
            self.number(raw, measure_in(raw))

    def number(self, raw: Raw, measure: Measure | None) -> None:
        """``raw`` as a number, or a truth value that counts as one."""
        if isinstance(raw, Relaxes) or is_truth(raw):
            self.condition(raw)
            return
        match raw:
            case Number():
                if self._value(raw, measure) is None:
                    raise self.wrong(raw, f"{raw} is a version, not a number to calculate with")
            case Name():
                self._name(raw)
            case Negative():
                self.number(raw.operand, measure)
            case Arithmetic():
                for each in raw.operands:
                    self.number(each, measure)
            case _:
                raise self.wrong(raw, f"{raw} is a text, not a number to calculate with")

    def wrong(self, raw: Raw, what: str, hint: str = "") -> InputError:
        """The error at the beginning of ``raw``."""
        return trouble(self.text, place_of(raw), what, hint)

    def _compare(self, compare: Compare) -> None:
        sides = (compare.left, compare.right)
        measure = measure_in(compare)
        for side, other in (sides, sides[::-1]):
            if isinstance(side, Number):
                if self._value(side, measure) is None and not _keeps_versions(other):
                    raise self.wrong(side, f"{side} is a version and {other} is a number")
                if is_prefix(side.text) and compare.operator not in ("=", "!="):
                    what = f"{side} stands for all versions that begin with {side.text[:-2]}"
                    raise self.wrong(side, what, f"= or !=, or a version such as {side.text[:-2]}")
            elif isinstance(side, Text):
                if isinstance(other, (Arithmetic, Negative)) or (isinstance(other, Name) and is_quantity(other.key)):
                    raise self.wrong(side, f"{side} is a text and {other} is a number")
            else:
                self.number(side, measure)
                if is_truth(side) and compare.operator not in ("=", "!="):
                    raise self.wrong(side, f"a truth value is neither more nor less than another: {compare}", "= or !=")

    def _member(self, member: In) -> None:
        measure = measure_in(member)
        keeps = _keeps_versions(member.subject)
        if not isinstance(member.subject, (Number, Text)):
            self.number(member.subject, measure)
        for item in member.items:
            if isinstance(item, Number):
                if self._value(item, measure) is None and not keeps:
                    raise self.wrong(item, f"{item} is not a number, and {member.subject} is one")
            elif not keeps and isinstance(item, (Text, Span)):
                raise self.wrong(item, f"{item} is not a number, and {member.subject} is one")

    def _value(self, number: Number, measure: Measure | None) -> float | None:
        try:
            return number_value(number.text, measure)
        except InputError as error:
            raise trouble(self.text, number.at, error.what, error.hint) from None

    def _name(self, name: Name) -> None:
        if name.key in PLACEMENT:
            raise self._placement(PLACEMENT[name.key], name.at, _INSTEAD.get(name.key, ""))
        if name.key in MOMENT:
            raise self.wrong(
                name,
                f"{name} stands only in f(x)",
                f"clause && f(x) = ({name} > {'15s' if name.key == 'waittime' else '80%'})",
            )
        if name.key in JOB_ATTRIBUTES:
            raise self.wrong(
                name, f"{name} says nothing about a node", f"it is `{JOB_ATTRIBUTES[name.key]}` of the job itself"
            )
        if not name.written.startswith(QUOTE) and has_difference(name.written):
            hint = f"a minus has a space on each side; a label of this name is {spelling_of(name.written)}"
            raise self.wrong(name, f"{name} is read as one name", hint)

    def _placement(self, word: str, at: int, hint: str) -> InputError:
        return trouble(
            self.text,
            at,
            f"{word} must be a separate clause: it cannot be part of another condition",
            hint or f"{EXAMPLES[word]} joined to the rest by &&",
        )


def place_of(raw: Raw) -> int:
    """Return the position at which an expression begins: that of its leftmost leaf."""
    while True:
        at = getattr(raw, "at", None)
        if at is not None:
            return int(at)
        inside = parts(raw)
        if not inside:
            return 0
        raw = inside[0]


def _keeps_versions(other: Expression) -> bool:
    """Return whether a number is compared as text with this operand: an attribute or another constant, not an amount."""
    return isinstance(other, (Number, Text)) or (isinstance(other, Name) and not is_quantity(other.key))
