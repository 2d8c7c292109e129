"""Clauses over the domains of an attribute, from their functions: ``spread``, ``away_from``, ``near``, ``within``."""

from __future__ import annotations

import re

from cress.language.checks import EXAMPLES, Checker
from cress.language.clauses import Clause, Kind, OverDomains
from cress.language.jobfacts import check_facts
from cress.language.names import AWAY_FROM, LOADS, NEAR, PLACEMENT, PLACING, SPREAD, WITHIN, amount_of, key_of
from cress.language.raw import Raw
from cress.language.relaxation import Relaxation
from cress.language.selectors import HINT, check_selector, parse_selector
from cress.language.tree import Call, Name, Number, Text, place_of
from cress.language.trouble import trouble
from cress.model.errors import InputError
from cress.model.resources import Dimensions

MOST_SKEW = 1_000_000
MOST_TARGETS = 256
# A percent, in thousandths.
PERCENT = 1_000
WHOLE = 100 * PERCENT

_KINDS = {"spread": Kind.SPREAD, "away_from": Kind.AWAY, "near": Kind.NEAR, "within": Kind.WITHIN}
_TARGET = re.compile(r"\s*([^=,]*[^=,\s])\s*=\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*%\s*")
# The default attribute of domains: each node is a domain.
_NODE = Name("name", "Name")


def is_domain_clause(raw: object) -> bool:
    """Return whether an expression is one of these functions."""
    return isinstance(raw, Call) and raw.function in _KINDS


def domain_clause(text: str, checker: Checker, call: Call, relaxation: Relaxation | None) -> Clause:
    """Return the clause of such a function. Raise InputError, which points at the character."""
    arguments = list(call.arguments)
    example = EXAMPLES[call.function]
    jobs: Text | None = None
    if call.function in (PLACING[AWAY_FROM], PLACING[NEAR]):
        jobs = _jobs(text, checker, call, arguments.pop(0), example)
    by = arguments.pop(0) if arguments else _NODE
    if not isinstance(by, Name):
        raise checker.wrong(by, f"{by} is not an attribute of nodes", example)
    if by.key in PLACEMENT or by.key in LOADS or by.key.startswith("job.") or amount_of(by.key)[1]:
        raise checker.wrong(by, f"{by} is not an attribute with a few values", example)
    if call.function == PLACING[SPREAD]:
        skew, targets = _spread(text, checker, arguments, example)
        return _made(call, by, None, OverDomains(by.key, str(by), "", skew, targets), relaxation)
    if arguments:
        raise checker.wrong(arguments[0], f"{call.function} takes no more than that", example)
    if call.function == PLACING[WITHIN] and by.key == "name":
        raise checker.wrong(call, "all tasks on one node are no domain", 'near("self"), or an attribute: within(Rack)')
    return _made(call, by, jobs, OverDomains(by.key, str(by), "" if jobs is None else jobs.value), relaxation)


def _jobs(text: str, checker: Checker, call: Call, first: Raw, example: str) -> Text:
    if isinstance(first, Name):
        # As in a list, a single word needs no quotes.
        return Text(first.written, first.at)
    if not isinstance(first, Text) or not first.value.strip():
        raise checker.wrong(first, f"{call.function} needs a text that selects jobs", example)
    try:
        parse_selector(first.value.strip())
    except InputError as error:
        raise trouble(text, first.at, error.what, error.hint or HINT) from None
    return Text(first.value.strip(), first.at)


def _spread(text: str, checker: Checker, arguments: list[Raw], example: str) -> tuple[int, tuple[tuple[str, int], ...]]:
    skew = 1
    if arguments and isinstance(arguments[0], Number):
        number = arguments.pop(0)
        assert isinstance(number, Number)
        skew = int(number.text) if number.text.isdecimal() and len(number.text) < 8 else 0
        if not 1 <= skew <= MOST_SKEW:
            raise checker.wrong(number, f"{number} is not a difference of tasks", f"1 to {MOST_SKEW:,}")
    if not arguments:
        return skew, ()
    shares, *more = arguments
    if more or not isinstance(shares, Text):
        raise checker.wrong(more[0] if more else shares, "spread needs an attribute, a number and shares", example)
    try:
        return skew, parse_targets(shares.value)
    except InputError as error:
        raise trouble(text, shares.at, error.what, error.hint) from None


def parse_targets(text: str) -> tuple[tuple[str, int], ...]:
    """Return values and their shares, in thousandths of a percent, from ``a=50%, b=30%``. Raise InputError."""
    hint = "such as a=50%, b=30%; the others share the rest"
    found: dict[str, tuple[str, int]] = {}
    parts = text.split(",")
    if len(parts) > MOST_TARGETS:
        raise InputError(f"{len(parts)} shares are too many", hint=f"at most {MOST_TARGETS}")
    for part in parts:
        match = _TARGET.fullmatch(part)
        if match is None:
            raise InputError(f"{part.strip()!r} is not a share", hint=hint)
        whole, _, rest = match[2].partition(".")
        if match[1].casefold() in found:
            raise InputError(f"{match[1]} has two shares", hint=hint)
        found[match[1].casefold()] = match[1], int(whole) * PERCENT + int(f"{rest:0<3}")
    total = sum(share for _, share in found.values())
    if not 0 < total <= WHOLE:
        raise InputError(f"the shares are {total / PERCENT:g} % together", hint="above 0, at most 100 %")
    return tuple(found.values())


def targets_text(targets: tuple[tuple[str, int], ...]) -> str:
    """Return the text of shares that ``parse_targets`` reads."""
    return ", ".join(f"{value}={share / PERCENT:g}%" for value, share in targets)


def check_jobs(text: str, clause: Clause, dimensions: Dimensions | None = None) -> None:
    """Raise InputError, which points at the character, if the selector of jobs in a clause is meaningless.

    With ``dimensions``, also raise it if no job of such a cluster has an attribute of the selector.
    """
    if not isinstance(clause.value, OverDomains) or not clause.value.jobs:
        return
    condition = parse_selector(clause.value.jobs).condition
    try:
        check_selector(clause.value.jobs)
        if condition is not None and dimensions is not None:
            check_facts(clause.value.jobs, condition, dimensions)
    except InputError as error:
        assert isinstance(clause.expression, Call)
        raise trouble(text, place_of(clause.expression.arguments[0]), error.what, error.hint) from None


def _made(call: Call, by: Name, jobs: Text | None, value: OverDomains, relaxation: Relaxation | None) -> Clause:
    """Return the clause, in its canonical form."""
    arguments: list[Raw] = [] if jobs is None else [jobs]
    if jobs is None or by.key != _NODE.key:
        arguments.append(Name(by.key, by.written))
    if value.most_skew != 1:
        arguments.append(Number(str(value.most_skew)))
    if value.targets:
        arguments.append(Text(targets_text(value.targets)))
    return Clause(_KINDS[call.function], Call(call.function, tuple(arguments)), value, relaxation)


def clause_text(kind: str, by: str, jobs: str = "", most_skew: int = 1, targets: str = "") -> str:
    """Return the text of such a clause."""
    arguments = [str(Text(jobs))] if jobs else []
    if by:
        arguments.append(str(Name(key_of(by), by)))
    if most_skew != 1:
        arguments.append(str(most_skew))
    if targets:
        arguments.append(str(Text(targets)))
    return f"{kind}({', '.join(arguments)})"
