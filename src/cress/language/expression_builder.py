"""Expressions made from the rules of the grammar. Their meaning is checked afterwards (checks.py, parser.py)."""

from __future__ import annotations

import re

from lark import Lark, Token, Transformer, v_args

from cress.language.addresses import looks_like_addresses, parse_span
from cress.language.grammar import GRAMMAR
from cress.language.names import JOB_DEPENDENCY, PLACING, QUOTE, SPELLING, key_of, spelling_of
from cress.language.raw import Raw, Relaxes, Wrong
from cress.language.tree import (
    IN_SET,
    And,
    Arithmetic,
    Call,
    Compare,
    Defined,
    In,
    Item,
    Name,
    Negative,
    Not,
    Number,
    Pattern,
    Resource,
    Span,
    Text,
    Truth,
    conjunction,
    disjunction,
    place_of,
)
from cress.language.vectortext import parse_amounts
from cress.model.errors import InputError

MOST_DIGITS = 60

_OPERATORS = {"≤": "<=", "≥": ">=", "≠": "!=", "<>": "!="}
_NUMBER = re.compile(r"-?(?:[0-9]|\.[0-9])")
_BEGINNING = re.compile(r"[0-9]+(?:\.[0-9]+)*(?:\.\*)?")


@v_args(inline=True)
class GrammarRules(Transformer):  # type: ignore[type-arg]
    """One method for each rule of the grammar."""

    def either(self, *operands: Raw) -> Raw:
        return disjunction(operands)

    def both(self, *operands: Raw) -> Raw:
        return conjunction(operands) if not any(map(_relaxed, operands)) else And(operands)

    def relaxation(self, token: Token, condition: Raw) -> Raw:
        weight = re.search(r"[0-9.]+", str(token).split("=", 1)[1]) if "=" in token else None
        at = int(token.start_pos or 0)
        if weight and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", weight.group()):
            raise Wrong(at, f"{weight.group()} is not a weight", "a number such as 2 or 0.5")
        return Relaxes(condition, float(weight.group()) if weight else 1.0, at)

    def negation(self, operand: Raw) -> Raw:
        return Not(operand)

    def equal(self, left: Raw, right: Raw) -> Raw:
        return Compare("=", left, right)

    def compare(self, left: Raw, operator: Token, right: Raw) -> Raw:
        plain = "".join(operator.split())
        if plain == "~>":
            if not isinstance(right, Number) or not _BEGINNING.fullmatch(right.text):
                what = f"{right} is not the beginning of a version"
                raise Wrong(int(operator.start_pos or 0), what, "Java ~> 11 is Java = 11.*")
            return Compare("=", left, Number(right.text.removesuffix(".*") + ".*", right.at))
        return Compare(_OPERATORS.get(plain, plain), left, right)

    def identical(self, left: Raw, operator: Token, right: Raw) -> Raw:
        plain = "".join(operator.lower().split())
        return Compare("is" if plain in ("is", "=?=") else "is not", left, right)

    def member(self, subject: Raw, *items: Item) -> Raw:
        return In(subject, items)

    def inside(self, subject: Raw, name: Token) -> Raw:
        return Call(IN_SET, (subject, _name(name)), place_of(subject))

    def entry(self, token: Token) -> Item:
        return _item(token)

    def resource(self, name: Token, vector: Token) -> Raw:
        at = int(vector.start_pos or 0)
        try:
            amounts = parse_amounts(str(vector))
        except InputError as error:
            raise Wrong(at, f"{error.field}: {error.what}" if error.field else error.what, error.hint) from None
        return Resource(amounts, int(name.start_pos or 0))

    def dependency(self, name: Token, job: Token) -> Raw:
        at = int(job.start_pos or 0)
        value = _unquoted(job) if job.type == "TEXT" else str(job)
        return Compare("=", Name(JOB_DEPENDENCY, SPELLING[JOB_DEPENDENCY], int(name.start_pos or 0)), Text(value, at))

    def arithmetic(self, first: Raw, *rest: Raw) -> Raw:
        signs = tuple(
            "×" if raw in "*×⋅·" else "/" if raw in "/÷" else str(raw) if raw in "+%" else "-" for raw in rest[::2]
        )
        return Arithmetic(signs, (first, *rest[1::2]))

    def negative(self, operand: Raw) -> Raw:
        return Negative(operand)

    def number(self, token: Token) -> Raw:
        return _number(str(token), int(token.start_pos or 0))

    def text(self, token: Token) -> Raw:
        return Text(_unquoted(token), int(token.start_pos or 0), str(token))

    def truth(self, token: Token) -> Raw:
        return Truth(token.lower() == "true", int(token.start_pos or 0))

    def name(self, token: Token) -> Name:
        return _name(token)

    def defined(self, function: Token, name: Token) -> Raw:
        return Defined(_name(name))

    def call(self, function: Token, *arguments: Raw) -> Raw:
        name = function.lower()
        name = PLACING.get(key_of(name), name)
        if name == "regexp" and len(arguments) == 2 and isinstance(arguments[1], Text):
            arguments = (arguments[0], _pattern(arguments[1]))
        return Call(name, arguments, int(function.start_pos or 0))


def lark_parser() -> Lark:
    """Return a new parser, which takes a while to build."""
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=GrammarRules(), maybe_placeholders=False)


def _relaxed(raw: Raw) -> bool:
    return isinstance(raw, Relaxes) or (isinstance(raw, And) and any(map(_relaxed, raw.operands)))


def _name(token: Token) -> Name:
    text = str(token).strip(QUOTE)
    key = key_of(text)
    # A name without quotes stays as it is: a later step checks if it is meant as a difference.
    written = spelling_of(text) if token.type == "QUOTED" else text
    return Name(key, SPELLING.get(key, written), int(token.start_pos or 0))


def _number(text: str, at: int) -> Number:
    if len(text) > MOST_DIGITS:
        raise Wrong(at, "the number is too long", f"at most {MOST_DIGITS} characters")
    return Number(text, at)


def _unquoted(token: Token) -> str:
    return re.sub(r"\\(.)", r"\1", str(token)[1:-1], flags=re.DOTALL)


def _pattern(text: Text) -> Pattern:
    """Return a text as a regular expression: only the backslash before a quote belongs to the quotes."""
    inside = text.written[1:-1]
    return Pattern(re.sub(r'\\.|"', lambda found: '\\"' if found.group() == '"' else found.group(), inside), text.at)


def _item(token: Token) -> Item:
    """Return a constant of a list: addresses, numbers and truth values are known by form, other words are texts."""
    text, at = str(token), int(token.start_pos or 0)
    if token.type == "TEXT":
        return Text(_unquoted(token), at)
    if text.lower() in ("true", "false"):
        return Truth(text.lower() == "true", at)
    span = parse_span(text)
    if span is not None:
        return Span(*span, text, at)
    if looks_like_addresses(text):
        raise Wrong(at, f"{text} is not an address", "such as 192.168.1.2, 192.168.1.2-8, 10.0.0.0/8 or 2001:db8::/32")
    return _number(text, at) if _NUMBER.match(text) else Text(text, at)
