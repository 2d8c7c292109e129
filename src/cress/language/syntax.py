"""From text to trees: the grammar's rules made into expressions. What they mean is looked at afterwards (checks.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from cress.language.addresses import looks_like_addresses, parse_span
from cress.language.grammar import GRAMMAR
from cress.language.names import JOB_DEPENDENCY, SPELLING, key_of
from cress.language.tree import (
    And,
    Arithmetic,
    Compare,
    Defined,
    Expression,
    In,
    Item,
    Name,
    Negative,
    Not,
    Number,
    Resource,
    Span,
    Text,
    Truth,
    conjunction,
    disjunction,
)
from cress.language.trouble import trouble, unexpected
from cress.language.vectortext import parse_amounts
from cress.model.errors import InputError

if TYPE_CHECKING:
    from lark import Lark, Token

MOST_CHARACTERS = 4000
MOST_LEVELS = 20
MOST_DIGITS = 60

_OPERATORS = {"≤": "<=", "≥": ">=", "≠": "!=", "<>": "!="}
_LEVELS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]|!(?!\s*=)|¬|\bnot\b|[-−]|\w+|\S', re.IGNORECASE)
_NUMBER = re.compile(r"-?(?:[0-9]|\.[0-9])")


@dataclass(frozen=True, slots=True)
class Relaxes:
    """``f(x) = condition`` behind a clause; only while a text is read."""

    condition: Expression
    weight: float
    at: int


# What rules are made into while a text is read: trees in which an And may still hold f(x) and other Ands.
Raw: TypeAlias = Any


def parse_raw(text: str) -> Raw:
    """The tree of ``text`` as it was written. Raises InputError."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{len(text)} characters are too many", hint=f"at most {MOST_CHARACTERS}")
    _check_levels(text)
    try:
        return _parser().parse(text)
    except UnexpectedToken as error:
        end = error.token.type == "$END"
        at = len(text) if end else int(error.token.start_pos or 0)
        raise unexpected(text, at, set(error.accepts or error.expected), _word_before(text, at)) from None
    except UnexpectedCharacters as error:
        raise unexpected(text, error.pos_in_stream, set(error.allowed or ()), "") from None
    except UnexpectedEOF as error:
        raise unexpected(text, len(text), set(error.expected)) from None
    except VisitError as error:
        raise error.orig_exc from None
    except _Wrong as wrong:
        raise trouble(text, wrong.at, wrong.what, wrong.hint) from None


class _Wrong(Exception):
    """A mistake found by a rule, which knows the place and not the text."""

    def __init__(self, at: int, what: str, hint: str = "") -> None:
        self.at, self.what, self.hint = at, what, hint
        super().__init__(what)


def _word_before(text: str, at: int) -> str:
    """The name directly before a parenthesis, as a function would be written."""
    found = re.search(r"[^\W\d][\w-]*\s*$", text[max(0, at - 80) : at]) if text[at : at + 1] == "(" else None
    return found.group().strip() if found else ""


def _check_levels(text: str) -> None:
    """Refuse deep nesting before anything walks down the tree: parentheses, and ! and - before what they belong to."""
    outside: list[int] = []
    level = signs = 0
    value_before = False
    for found in _LEVELS.finditer(text):
        token = found.group()
        if token == ")":
            level = outside.pop() if outside else 0
            signs, value_before = 0, True
        elif token == "(":
            outside.append(level)
            level += signs + 1
            signs, value_before = 0, False
        elif token in ("!", "¬") or token.lower() == "not" or (token in "-−" and not value_before):
            signs += 1
        else:
            signs, value_before = 0, token[0].isalnum() or token[0] in "_\"'"
        if level + signs > MOST_LEVELS:
            raise trouble(text, found.start(), "too deeply nested", f"at most {MOST_LEVELS} levels")


@cache
def _parser() -> Lark:
    from lark import Lark, Transformer, v_args

    @v_args(inline=True)
    class Rules(Transformer):  # type: ignore[type-arg]
        """One method for each rule of the grammar."""

        def either(self, *operands: Raw) -> Raw:
            return disjunction(operands)

        def both(self, *operands: Raw) -> Raw:
            return conjunction(operands) if not any(map(_relaxed, operands)) else And(operands)

        def relaxation(self, token: Token, condition: Raw) -> Raw:
            weight = re.search(r"[0-9.]+", str(token).split("=", 1)[1]) if "=" in token else None
            at = int(token.start_pos or 0)
            if weight and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", weight.group()):
                raise _Wrong(at, f"{weight.group()} is no weight", "a number such as 2 or 0.5")
            return Relaxes(condition, float(weight.group()) if weight else 1.0, at)

        def negation(self, operand: Raw) -> Raw:
            return Not(operand)

        def equal(self, left: Raw, right: Raw) -> Raw:
            return Compare("=", left, right)

        def compare(self, left: Raw, operator: Token, right: Raw) -> Raw:
            plain = "".join(operator.split())
            return Compare(_OPERATORS.get(plain, plain), left, right)

        def member(self, subject: Raw, *items: Item) -> Raw:
            return In(subject, items)

        def entry(self, token: Token) -> Item:
            return _item(token)

        def resource(self, name: Token, vector: Token) -> Raw:
            at = int(vector.start_pos or 0)
            try:
                amounts = parse_amounts(str(vector))
            except InputError as error:
                raise _Wrong(at, f"{error.field}: {error.what}" if error.field else error.what, error.hint) from None
            return Resource(amounts, int(name.start_pos or 0))

        def dependency(self, name: Token, job: Token) -> Raw:
            at = int(job.start_pos or 0)
            value = _unquoted(job) if job.type == "TEXT" else str(job)
            return Compare(
                "=", Name(JOB_DEPENDENCY, SPELLING[JOB_DEPENDENCY], int(name.start_pos or 0)), Text(value, at)
            )

        def arithmetic(self, first: Raw, *rest: Raw) -> Raw:
            signs = tuple(
                "×" if each in "*×⋅·" else "/" if each in "/÷" else "+" if each == "+" else "-" for each in rest[::2]
            )
            return Arithmetic(signs, (first, *rest[1::2]))

        def negative(self, operand: Raw) -> Raw:
            return Negative(operand)

        def number(self, token: Token) -> Raw:
            return _number(str(token), int(token.start_pos or 0))

        def text(self, token: Token) -> Raw:
            return Text(_unquoted(token), int(token.start_pos or 0))

        def truth(self, token: Token) -> Raw:
            return Truth(token.lower() == "true", int(token.start_pos or 0))

        def name(self, token: Token) -> Name:
            return _name(token)

        def defined(self, function: Token, name: Token) -> Raw:
            return Defined(_name(name))

    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=Rules(), maybe_placeholders=False)


def _relaxed(raw: Raw) -> bool:
    return isinstance(raw, Relaxes) or (isinstance(raw, And) and any(map(_relaxed, raw.operands)))


def _name(token: Token) -> Name:
    key = key_of(str(token))
    return Name(key, SPELLING.get(key, str(token)), int(token.start_pos or 0))


def _number(text: str, at: int) -> Number:
    if len(text) > MOST_DIGITS:
        raise _Wrong(at, "the number is too long", f"at most {MOST_DIGITS} characters")
    return Number(text, at)


def _unquoted(token: Token) -> str:
    return re.sub(r"\\(.)", r"\1", str(token)[1:-1], flags=re.DOTALL)


def _item(token: Token) -> Item:
    """A constant in a list: addresses, numbers and truth values are known by their looks, other words are texts."""
    text, at = str(token), int(token.start_pos or 0)
    if token.type == "TEXT":
        return Text(_unquoted(token), at)
    if text.lower() in ("true", "false"):
        return Truth(text.lower() == "true", at)
    span = parse_span(text)
    if span is not None:
        return Span(*span, text, at)
    if looks_like_addresses(text):
        raise _Wrong(at, f"{text} is no address", "such as 192.168.1.2, 192.168.1.2-8, 10.0.0.0/8 or 2001:db8::/32")
    return _number(text, at) if _NUMBER.match(text) else Text(text, at)
