"""Static checks of expressions, made before they are evaluated on any node."""

from __future__ import annotations

from cress.language.functions import FUNCTIONS, SET
from cress.language.names import (
    DATA_LOCALITY,
    JOB_ATTRIBUTES,
    LABELS,
    MOMENT,
    NODES,
    PLACEMENT,
    PLACING,
    QUOTE,
    has_difference,
    is_quantity,
    measure_of,
    spelling_of,
)
from cress.language.raw import Raw, Relaxes
from cress.language.regular import BadPattern, compiled
from cress.language.shares import is_quotient_of_amounts
from cress.language.tree import (
    EXTREMES,
    IF,
    IN_SET,
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
    choices,
    is_truth,
    parts,
    place_of,
)
from cress.language.trouble import trouble
from cress.language.values import number_value
from cress.language.versions import is_prefix
from cress.model.errors import InputError
from cress.model.resources import Measure

# The correct form of each placement attribute.
EXAMPLES = {
    "Nodes": "Nodes in (192.168.1.2-8, web-1)",
    "DataLocality": 'DataLocality in (192.168.1.2-8), or = "hdfs://namenode:8020/logs"',
    "Resource": "Resource = <1,2G>",
    "Port": "Port = 80",
    "ExclusiveDisk": "ExclusiveDisk = True",
    "NetworkAdjacent": "NetworkAdjacent = True",
    "JobDependency": "JobDependency = A",
    "IssueAsWhole": "IssueAsWhole = True && f(x) = (Waittime > 5min); without f(x) it is `gang` of the job itself",
    "spread": 'spread(Zone), spread(Zone, 2), or spread(Zone, "a=50%, b=30%")',
    "away_from": 'away_from("db"), or away_from("tier=db", Rack)',
    "near": 'near("db", Zone)',
    "within": "within(Switch)",
}
# Comparisons without an order.
EQUALITIES = ("=", "!=", "is", "is not")
# Most pairs of choices of ``if`` that one comparison may have.
MOST_CHOICES = 256
# Placement attributes that may be meant as others.
_INSTEAD = {
    NODES: "Name in (…) or Address in (…) may stand anywhere",
    DATA_LOCALITY: "Name in (…) or Address in (…) may stand anywhere",
}


def measure_in(expression: Raw) -> Measure | None:
    """Return the measure in which a comparison or calculation reads its numbers: that of its first amount."""
    if isinstance(expression, Name):
        return measure_of(expression.key)
    if isinstance(expression, Number):
        return measure_of(expression.of)
    if is_truth(expression) and not isinstance(expression, (Compare, In)):
        return None
    for part in parts(expression):
        found = None if is_truth(part) else measure_in(part)
        if found is not None:
            return found
    return None


class Checker:
    """Checks the expressions of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def condition(self, raw: Raw) -> Expression:
        """Return ``raw`` as a condition over one node."""
        if isinstance(raw, Relaxes):
            raise trouble(
                self.text,
                raw.at,
                "f(x) must follow the whole clause that it relaxes",
                "clause && f(x) = (Waittime > 15s), not inside ||, ! or an f(x)",
            )
        match raw:
            case And() | Or():
                for operand in raw.operands:
                    self.condition(operand)
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
            case Call():
                self._truth_of_call(raw)
            case Name():
                self._name(raw)
                if is_quantity(raw.key):
                    raise self.wrong(raw, f"{raw} is an amount, not a condition", f"{raw} >= …")
            case _:
                raise self.wrong(raw, f"{raw} is not a condition", "compare it with something")
        expression: Expression = raw
        return expression

    def term(self, raw: Raw) -> None:
        """Check ``raw`` as a term of a rank: its numbers are beside shares, or beside the amounts of a quotient."""
        if isinstance(raw, Relaxes) or is_truth(raw):
            self.condition(raw)
        elif isinstance(raw, Negative) or (isinstance(raw, Arithmetic) and not is_quotient_of_amounts(raw)):
            for part in parts(raw):
                self.term(part)
        elif isinstance(raw, Call) and (raw.function == IF or raw.function in EXTREMES):
            self._arity(raw)
            for i, argument in enumerate(raw.arguments):
                if raw.function == IF and not i:
                    self.condition(argument)
                else:
                    self.term(argument)
        else:
            self.number(raw, measure_in(raw))

    def number(self, raw: Raw, measure: Measure | None) -> None:
        """Check ``raw`` as a number, or as a truth value that counts as one."""
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
                for operand in raw.operands:
                    self.number(operand, measure)
            case Call():
                self._call(raw)
                numbers = raw.arguments if raw.function in EXTREMES else ()
                if raw.function == IF:
                    self.condition(raw.arguments[0])
                    numbers = raw.arguments[1:]
                for number in numbers:
                    self.number(number, measure)
            case _:
                raise self.wrong(raw, f"{raw} is a text, not a number to calculate with")

    def wrong(self, raw: Raw, what: str, hint: str = "") -> InputError:
        """Return the error at the beginning of ``raw``."""
        return trouble(self.text, place_of(raw), what, hint)

    def _truth_of_call(self, call: Call) -> None:
        if call.function == IF:
            self._arity(call)
            for argument in call.arguments:
                self.condition(argument)
        elif is_truth(call) or call.function in PLACING.values():
            self._call(call)
        else:
            self.number(call, measure_in(call))
            raise self.wrong(call, f"{call} is a number, not a condition", f"{call} >= …")

    def _arity(self, call: Call) -> None:
        if call.function in PLACING.values():
            raise self._placement(call.function, call.at, "")
        function = SET if call.function == IN_SET else FUNCTIONS[call.function]
        if not function.least <= len(call.arguments) <= function.most:
            few, many = function.least, function.most
            number = f"{few}" if few == many else f"{few} to {many}"
            what = f"{call.function} takes {number} argument{'s' * (many > 1)}, not {len(call.arguments)}"
            raise self.wrong(call, what, function.example)

    def _call(self, call: Call) -> None:
        """Check the arguments of a function of texts: attributes, constants, and a pattern."""
        self._arity(call)
        if call.function == IF or call.function in EXTREMES:
            return
        example = (SET if call.function == IN_SET else FUNCTIONS[call.function]).example
        subject, *others = call.arguments
        constant = isinstance(subject, (Text, Number))
        if constant and (call.function == "regexp" or not any(isinstance(argument, Name) for argument in others)):
            raise self.wrong(subject, f"{subject} is not an attribute", f"the attribute comes first: {example}")
        for i, argument in enumerate(call.arguments):
            if call.function == "regexp" and i:
                if not isinstance(argument, Pattern):
                    raise self.wrong(argument, f"{argument} is not a regular expression in quotes", example)
                self._pattern(argument)
            elif isinstance(argument, Name):
                self._name(argument)
                if is_quantity(argument.key):
                    raise self.wrong(argument, f"{argument} is an amount, and {call.function} looks at a text", example)
            elif not isinstance(argument, (Text, Number)):
                raise self.wrong(argument, f"{argument} is neither an attribute nor a text", example)

    def _pattern(self, pattern: Pattern) -> None:
        try:
            compiled(pattern.text)
        except BadPattern as error:
            what = f"the regular expression {pattern} is wrong: {error.what}"
            raise trouble(self.text, pattern.at + 1 + error.place, what, error.hint) from None

    def _branches(self, side: Raw) -> None:
        """Check the conditions of ``if`` where it chooses between the sides of a comparison."""
        if isinstance(side, Call) and side.function == IF:
            self._arity(side)
            self.condition(side.arguments[0])
            for argument in side.arguments[1:]:
                self._branches(argument)

    def _compare(self, compare: Compare) -> None:
        measure = measure_in(compare)
        for side in (compare.left, compare.right):
            self._branches(side)
        left, right = tuple(choices(compare.left)), tuple(choices(compare.right))
        if len(left) * len(right) > MOST_CHOICES:
            raise self.wrong(compare, f"too many choices of {IF} are compared", f"at most {MOST_CHOICES} pairs")
        for one in left:
            for other in right:
                self._sides(compare, one, other, measure)

    def _sides(self, compare: Compare, left: Raw, right: Raw, measure: Measure | None) -> None:
        sides = (left, right)
        for side, other in (sides, sides[::-1]):
            if isinstance(side, Number):
                if self._value(side, measure) is None and not _keeps_versions(other):
                    raise self.wrong(side, f"{side} is a version and {other} is a number")
                if is_prefix(side.text) and compare.operator not in EQUALITIES:
                    what = f"{side} stands for all versions that begin with {side.text[:-2]}"
                    raise self.wrong(side, what, f"= or !=, or a version such as {side.text[:-2]}")
            elif isinstance(side, Text):
                number = isinstance(other, (Arithmetic, Negative)) or (isinstance(other, Call) and not is_truth(other))
                if number or (isinstance(other, Name) and is_quantity(other.key)):
                    raise self.wrong(side, f"{side} is a text and {other} is a number")
            else:
                self.number(side, measure)
                if is_truth(side) and compare.operator not in EQUALITIES:
                    raise self.wrong(side, f"a truth value is neither more nor less than another: {compare}", "= or !=")

    def _member(self, member: In) -> None:
        measure = measure_in(member)
        self._branches(member.subject)
        for subject in choices(member.subject):
            self._items(subject, member.items, measure)

    def _items(self, subject: Raw, items: tuple[Item, ...], measure: Measure | None) -> None:
        keeps = _keeps_versions(subject)
        if not isinstance(subject, (Number, Text)):
            self.number(subject, measure)
        for item in items:
            if isinstance(item, Number):
                if self._value(item, measure) is None and not keeps:
                    raise self.wrong(item, f"{item} is not a number, and {subject} is one")
            elif not keeps and isinstance(item, (Text, Span)):
                raise self.wrong(item, f"{item} is not a number, and {subject} is one")

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
                f"{name} is allowed only in f(x)",
                f"clause && f(x) = ({name} > {'15s' if name.key == 'waittime' else '80%'})",
            )
        if name.key in JOB_ATTRIBUTES:
            raise self.wrong(
                name, f"{name} does not depend on the node", f"it is `{JOB_ATTRIBUTES[name.key]}` of the job itself"
            )
        if name.key.startswith(LABELS) and name.key != LABELS:
            return
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


def _keeps_versions(other: Expression) -> bool:
    """Return whether a number is compared as text with this operand.

    It is if the operand is an attribute or another constant, not an amount.
    """
    return isinstance(other, (Number, Text)) or (isinstance(other, Name) and not is_quantity(other.key))
