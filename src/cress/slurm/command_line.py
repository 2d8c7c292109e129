"""Options as Slurm's commands read them: ``-N2``, ``-N 2``, ``--nodes=2``, ``--nodes 2``, and unique beginnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cress.model.errors import InputError
from cress.model.units import closest
from cress.slurm.option_table import ALIASES, Fate, Option, Takes


class Given(NamedTuple):
    """An option as given, with its value: the text, or ``""`` without one. ``file`` and ``line`` are its place."""

    option: Option
    value: str
    file: str = ""
    line: int = 0

    @property
    def field(self) -> str:
        """The option as it is called in errors."""
        return f"--{self.option.name}"


def values_of(given: Iterable[Given]) -> dict[str, str]:
    """Return the values of options by name; the last of several counts."""
    return {one.option.name: one.value for one in given}


def parse(
    words: Sequence[str],
    table: Iterable[Option],
    *,
    file: str = "",
    line: int = 0,
    mixed: bool = False,
    hint: str = "docs/slurm.md lists the options",
) -> tuple[list[Given], list[str]]:
    """Return the options and the words after them, which end the options unless ``mixed``. Raises InputError."""
    by_name = {option.name: option for option in table}
    by_letter = {option.short: option for option in by_name.values() if option.short}
    given: list[Given] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return given, rest + left
        if not word.startswith("-") or word == "-":
            if mixed:
                rest.append(word)
                continue
            return given, [word, *left]
        try:
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                option = by_name[_name(name, by_name, hint)]
                given.append(Given(option, _value(option, value, bool(equals), left), file, line))
            else:
                given += _letters(word[1:], by_letter, left, file, line)
        except InputError as error:
            raise error.at(file=file, line=line) from None
    return given, rest


def _name(name: str, known: dict[str, Option], hint: str) -> str:
    plain = name.replace("_", "-")
    plain = ALIASES.get(plain, plain)
    if plain in known:
        return plain
    begun = [other for other in known if other.startswith(plain)] if plain else []
    if len(begun) == 1:
        return begun[0]
    if begun:
        shown = ", ".join(f"--{other}" for other in sorted(begun)[:5])
        raise InputError(f"--{name} is ambiguous", hint=f"one of {shown}")
    near = closest(plain, known)
    raise InputError(f"unknown option --{name}", hint=f"did you mean --{near}?" if near else hint)


def _value(option: Option, value: str, equals: bool, left: list[str]) -> str:
    if option.takes is Takes.NOTHING:
        if equals:
            raise InputError("takes no value", hint=f"--{option.name}", field=f"--{option.name}")
        return ""
    if equals or option.takes is Takes.MAYBE:
        return value
    if not left:
        raise InputError("needs a value", hint=f"--{option.name}=VALUE", field=f"--{option.name}")
    return left.pop(0)


def _letters(text: str, known: dict[str, Option], left: list[str], file: str, line: int) -> Iterable[Given]:
    given = []
    while text:
        letter, text = text[0], text[1:]
        option = known.get(letter)
        if option is None:
            raise InputError(f"unknown option -{letter}", hint="docs/slurm.md lists the options")
        if option.takes is Takes.NOTHING:
            given.append(Given(option, "", file, line))
            continue
        value = text if text or option.takes is Takes.MAYBE else _value(option, "", False, left)
        return [*given, Given(option, value, file, line)]
    return given


def without_components(words: Sequence[str]) -> None:
    """Raise InputError if words name the components of a heterogeneous job, which ``:`` separates."""
    if any(word in ("hetjob", "packjob", ":") for word in words):
        raise InputError(
            "heterogeneous jobs are not supported",
            hint="a job file with `parts:`, such as one driver and four workers (docs/jobs.md#gangs-with-parts)",
        )


def refused(given: Iterable[Given]) -> list[InputError]:
    """Return the errors of options that are refused."""
    return [
        InputError("is not supported", hint=found.option.about, file=found.file, line=found.line, field=found.field)
        for found in given
        if found.option.fate is Fate.REFUSED
    ]


def notes(given: Iterable[Given]) -> list[str]:
    """Return a note for each option that is passed over, with its place."""
    found: dict[str, str] = {}
    for one in given:
        if one.option.fate is Fate.PASSED_OVER:
            place = f"{one.file}:{one.line}: " if one.file else ""
            found.setdefault(one.option.name, f"{place}{one.field} is passed over: {one.option.about}")
    return list(found.values())
