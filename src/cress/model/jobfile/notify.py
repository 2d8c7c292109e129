"""Addresses in a job file that are told what became of the job."""

from __future__ import annotations

from collections.abc import Mapping

from cress.model.errors import InputError
from cress.model.jobfile.reader import Reader, below
from cress.model.jobfile.values import as_text, mistakes, raise_all, shown
from cress.model.notify import OF_JOBS, Notify, Occasion, checked_address, checked_all, checked_words, parse_notify

NOTIFY_KEYS = ("to", "on")
_HINT = "an address, {to: ADDRESS, on: [failed, late]}, or a list of these"


def notify(value: object) -> tuple[Notify, ...]:
    """Parse an address with what it is told, or a list of them."""
    entries = list(value) if isinstance(value, (list, tuple)) else [value]
    found: list[Notify] = []
    errors: list[InputError] = []
    for place, entry in enumerate(entries):
        try:
            found.append(_one(entry))
        except InputError as error:
            inside = f"[{place}]" if isinstance(value, (list, tuple)) else ""
            errors += [below(mistake, inside) if inside else mistake for mistake in mistakes(error)]
    raise_all(errors)
    return checked_all(found)


def _one(value: object) -> Notify:
    if isinstance(value, str):
        return parse_notify(value, OF_JOBS)
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is not an address", hint=_HINT)
    reader = Reader(value, NOTIFY_KEYS)
    if "to" not in value:
        reader.errors.append(InputError("to is missing", hint="to: https://…", field="to"))
    made = Notify(
        reader.read("to", lambda text: checked_address(as_text(text)), ""),
        reader.read("on", _words, OF_JOBS),
    )
    raise_all(reader.errors)
    return made


def _words(value: object) -> tuple[Occasion, ...]:
    if isinstance(value, str):
        return checked_words(value.replace(",", " ").split())
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{shown(value)} is not a list", hint="on: [failed, late]")
    return checked_words([as_text(word) for word in value])
