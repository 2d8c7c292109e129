"""Keys about domains, the values of an attribute: ``spread``, ``away_from``, ``near``, ``within``, and labels of jobs.

Each becomes a clause of the requirement, such as ``spread(zone, 2) && f(x) = (Waittime > 5min)`` (docs/constraints.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from cress.model.attributes import MAX_NAME, MAX_TEXT, plain
from cress.model.errors import InputError
from cress.model.jobfile.clauses import ClauseText, Texts
from cress.model.jobfile.reader import Reader, below, mapping_of
from cress.model.jobfile.values import as_number, as_text, as_word, mistakes, raise_all, shown
from cress.model.units import format_duration, parse_count, parse_duration

SPREAD_KEYS = ("by", "most_skew", "targets", "soft", "weight")
JOBS_KEYS = ("jobs", "by", "soft", "weight")
WITHIN_KEYS = ("by", "soft", "weight")
MOST_CLAUSES = 16
MOST_SKEW = 1_000_000
MOST_TARGETS = 256
MOST_LABELS = 32

_RELAXED = re.compile(r"&&\s*(?=f\s*\(\s*x)|(?<=\s)and\s+(?=f\s*\(\s*x)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"`[^`]+`|[A-Za-z][\w.-]*")
_PERCENT = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*%\s*")
_DURATION = re.compile(r"[0-9.]+\s*[A-Za-zµμ]*(\s*[0-9.]+\s*[A-Za-zµμ]+)*")
# The quantities that conditions of f(x) compare.
_OF_MOMENT = re.compile(r"wait[_-]?time|cluster[_-]?load", re.IGNORECASE)
_WEIGHT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_LABEL_TEXT = re.compile(r"[A-Za-z0-9_.:/+-]+")

_SPREAD_HINT = "zone, or {by: zone, most_skew: 1, targets: {a: 50%}, soft: 5min}"
_JOBS_HINT = "a job or label (db, tier=db), or {jobs: db, by: zone, soft: 5min}"
_WITHIN_HINT = "switch, or {by: switch, soft: 10min}"


def _listed(one: Callable[[object], ClauseText], hint: str, value: object) -> Texts:
    """Parse one clause, or a list of them."""
    if not isinstance(value, (list, tuple)):
        return (one(value),)
    if not 1 <= len(value) <= MOST_CLAUSES:
        raise InputError(f"a list of {len(value):,} entries", hint=f"1 to {MOST_CLAUSES}: {hint}")
    made: list[ClauseText] = []
    errors: list[InputError] = []
    for i, entry in enumerate(value):
        try:
            made.append(ClauseText(f"[{i}]", one(entry).text))
        except InputError as error:
            errors += (below(one_mistake, f"[{i}]") for one_mistake in mistakes(error))
    raise_all(errors)
    return tuple(made)


def _split(value: object) -> tuple[str, str]:
    """Split a text into the part before an f(x), and the f(x)."""
    text = as_word(as_text(value)).strip()
    found = _RELAXED.search(text)
    return (text, "") if found is None else (text[: found.start()].strip(), " && " + text[found.end() :].strip())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _attribute(value: object) -> str:
    text = as_text(value).strip()
    if not _ATTRIBUTE.fullmatch(text):
        raise InputError(f"{shown(value)} is not an attribute of nodes", hint="such as zone, rack or switch")
    return text


def _relaxation(reader: Reader) -> str:
    """Read ``soft`` and ``weight`` into an f(x): ``soft: true``, a waiting time, or a condition."""
    weight = reader.read("weight", _weight, "")
    soft = reader.read("soft", _soft, "")
    if "weight" in reader.given and not soft and not reader.errors:
        reader.wrong("weight", "is that of a soft clause, and it never turns soft", "soft: true, or soft: 5min")
    return f" && f(x{', weight=' + weight if weight else ''}) = ({soft})" if soft else ""


def _weight(value: object) -> str:
    text = as_number(value).strip()
    if not _WEIGHT.fullmatch(text) or not float(text):
        raise InputError(f"{shown(value)} is not a weight", hint="a number such as 2 or 0.5")
    return text


def _soft(value: object) -> str:
    if isinstance(value, bool):
        return "True" if value else ""
    text = as_number(value).strip()
    if text.lower() in ("true", "yes", "on", "false", "no", "off"):
        return "True" if text.lower() in ("true", "yes", "on") else ""
    if _DURATION.fullmatch(text):
        return f"Waittime > {format_duration(parse_duration(text))}"
    if "(" in text and text.lower().startswith("f"):
        raise InputError(
            f"{shown(value)} has f(x) in it", hint="only the condition in its parentheses: Waittime > 5min"
        )
    if not _OF_MOMENT.search(text):
        hint = "true, a time such as 5min, or a condition such as ClusterLoad < 80%"
        raise InputError(f"{shown(value)} is neither a time nor a condition", hint=hint)
    return text


def _spread(value: object) -> ClauseText:
    if not isinstance(value, Mapping):
        by, tail = _split(value)
        return ClauseText("", f"spread({_attribute(by)}){tail}")
    reader = Reader(mapping_of(value, _SPREAD_HINT), SPREAD_KEYS)
    by = reader.read("by", _attribute, "")
    skew = reader.read("most_skew", lambda given: parse_count(as_number(given), least=1, most=MOST_SKEW), 1)
    targets = reader.read("targets", _targets, "")
    tail = _relaxation(reader)
    _needs(reader, "by", _SPREAD_HINT)
    arguments = [by, *([str(skew)] if skew != 1 else []), *([_quoted(targets)] if targets else [])]
    return ClauseText("", f"spread({', '.join(arguments)}){tail}")


def _targets(value: object) -> str:
    """Parse the target shares of values: ``{a: 50%, b: 30%}``."""
    hint = "a share for each value: {a: 50%, b: 30%}; the others share the rest"
    shares = mapping_of(value, hint)
    if not 1 <= len(shares) <= MOST_TARGETS:
        raise InputError(f"has {len(shares)} shares", hint=f"1 to {MOST_TARGETS}")
    parts: list[str] = []
    errors: list[InputError] = []
    for name, share in shares.items():
        text = str(name).strip()
        found = _PERCENT.fullmatch(share) if isinstance(share, str) else None
        if not text or any(character in text for character in "=,") or len(text) > MAX_TEXT:
            errors.append(InputError(f"{shown(name)} is not a value of an attribute", hint=hint))
        elif found is None or float(found[1]) > 100:
            errors.append(InputError(f"{shown(share)} is not a share", hint="a percentage, 0% to 100%", field=text))
        else:
            parts.append(f"{text}={found[1]}%")
    raise_all(errors)
    return ", ".join(parts)


def _of_jobs(function: str, value: object) -> ClauseText:
    if not isinstance(value, Mapping):
        jobs, tail = _split(value)
        return ClauseText("", f"{function}({_quoted(_jobs(jobs))}){tail}")
    reader = Reader(mapping_of(value, _JOBS_HINT), JOBS_KEYS, aliases={"job": "jobs"})
    jobs = reader.read("jobs", lambda given: _jobs(as_word(as_text(given)).strip()), "")
    by = reader.read("by", _attribute, "")
    tail = _relaxation(reader)
    _needs(reader, "jobs", _JOBS_HINT)
    return ClauseText("", f"{function}({_quoted(jobs)}{', ' + by if by else ''}){tail}")


def _jobs(text: str) -> str:
    if not text:
        raise InputError("selects no jobs", hint=_JOBS_HINT)
    return text


def _within(value: object) -> ClauseText:
    if not isinstance(value, Mapping):
        by, tail = _split(value)
        return ClauseText("", f"within({_attribute(by)}){tail}")
    reader = Reader(mapping_of(value, _WITHIN_HINT), WITHIN_KEYS)
    by = reader.read("by", _attribute, "")
    tail = _relaxation(reader)
    _needs(reader, "by", _WITHIN_HINT)
    return ClauseText("", f"within({by}){tail}")


def _needs(reader: Reader, key: str, hint: str) -> None:
    if key not in reader.given:
        reader.errors.append(InputError("is missing", hint=hint, field=key))
    raise_all(reader.errors)


spread = partial(_listed, _spread, _SPREAD_HINT)
away_from = partial(_listed, partial(_of_jobs, "away_from"), _JOBS_HINT)
near = partial(_listed, partial(_of_jobs, "near"), _JOBS_HINT)
within = partial(_listed, _within, _WITHIN_HINT)


def labels(value: object) -> tuple[tuple[str, str], ...]:
    """Parse the labels of a job: ``{tier: db}``, or ``tier=db, env=test``."""
    hint = "such as {tier: db, env: test}"
    if isinstance(value, str):
        pairs: list[tuple[object, object]] = [entry.partition("=")[::2] for entry in value.split(",")]
    elif isinstance(value, (list, tuple)):
        pairs = [as_text(entry).partition("=")[::2] for entry in value]
    else:
        pairs = list(mapping_of(value, hint).items())
    if len(pairs) > MOST_LABELS:
        raise InputError(f"{len(pairs)} labels are too many", hint=f"at most {MOST_LABELS}")
    found: dict[str, tuple[str, str]] = {}
    errors: list[InputError] = []
    for name, given in pairs:
        key = str(name).strip()
        try:
            text = _label_text(given)
            check_label(key, text)
        except InputError as error:
            errors.append(error.at(field=key[:MAX_NAME]))
            continue
        if plain(key) in found:
            errors.append(InputError(f"label {key} is given twice", hint="each name once"))
        found[plain(key)] = key, text
    raise_all(errors)
    return tuple(sorted(found.values()))


def _label_text(value: object) -> str:
    """Return the text of a label as users write it: true and numbers are texts here."""
    if isinstance(value, (Mapping, list, tuple)):
        raise InputError(f"{shown(value)} is not the text of a label", hint="one text: a label has one value")
    return str(value).lower() if isinstance(value, bool) else as_number(value).strip()


def check_label(name: str, text: str) -> None:
    """Raise InputError unless a job may have this label."""
    if not _LABEL.fullmatch(name) or len(name) > MAX_NAME:
        hint = f"letters, digits, `_`, `-` and `.`, beginning with a letter, at most {MAX_NAME}"
        raise InputError(f"{name[:MAX_NAME]!r} is not a name of a label", hint=hint)
    if not _LABEL_TEXT.fullmatch(text) or len(text) > MAX_TEXT:
        hint = f"letters, digits, `_`, `.`, `:`, `/`, `+` and `-`, at most {MAX_TEXT}"
        raise InputError(f"{text[:MAX_NAME]!r} is not the text of a label", hint=hint)
