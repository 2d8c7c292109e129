"""Parameters of job files: ``{{lr}}`` in a file, with values from ``-p lr=0.1`` or from a CSV file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cress.model.errors import InputError
from cress.model.units import closest

if TYPE_CHECKING:
    from cress.cli.jobfile import JobInFile

# Most jobs that one submit may make of a file.
MOST_JOBS = 10_000
OPTION, CSV_OPTION = "-p", "--csv"
# The beginning of the variables that tasks get.
VARIABLE = "PARAM_"

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PLACE = re.compile(r"\{\{\s*(" + _NAME + r")\s*\}\}")


def combinations(given: Sequence[str], table: str) -> list[dict[str, str]]:
    """Return the values of the parameters for each job: every combination, for each row of the table.

    ``given`` are texts ``NAME=VALUE``; a name may come several times. ``table`` is a CSV file with a line of names, or
    empty. Without either there is one combination, of nothing. Raises InputError.
    """
    values: dict[str, list[str]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(_NAME, name):
            raise InputError(f"{text!r} is not NAME=VALUE", hint="such as -p lr=0.1", field=OPTION)
        values.setdefault(name, []).append(value)
    rows = _rows(table) if table else [{}]
    both = sorted(values.keys() & rows[0].keys())
    if both:
        raise InputError(f"{both[0]} is a column of {table} too", hint="only one of them", field=OPTION)
    count = len(rows)
    for several in values.values():
        count *= len(several)
    if count > MOST_JOBS:
        raise InputError(
            f"{count:,} combinations of parameters are too many", hint=f"at most {MOST_JOBS:,}", field=OPTION
        )
    return [{**row, **dict(zip(values, chosen, strict=True))} for row in rows for chosen in product(*values.values())]


def _rows(table: str) -> list[dict[str, str]]:
    try:
        with Path(table).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            bad = next((name for name in names if not re.fullmatch(_NAME, name)), None)
            if not names or bad is not None:
                what = f"{bad!r} is not the name of a parameter" if names else "is empty"
                raise InputError(what, hint="a first line of names, such as lr,seed", file=table, line=1)
            if len(set(names)) < len(names):
                raise InputError("a column is given twice", hint="each name once", file=table, line=1)
            rows = []
            for row in reader:
                if not row:
                    continue
                if len(row) != len(names):
                    hint = f"one for each of {', '.join(names)}"
                    raise InputError(f"{len(row)} values", hint=hint, file=table, line=reader.line_num)
                rows.append(dict(zip(names, row, strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=table) from None
    if not rows:
        raise InputError("has no row", hint="a line of values below the names", file=table)
    return rows


def filled(entries: Iterable[JobInFile], values: Sequence[Mapping[str, str]]) -> list[JobInFile]:
    """Return the jobs of files once for each combination, with the values in place of ``{{NAME}}``.

    Tasks find the values in ``PARAM_NAME``. Raises InputError for a name without a value.
    """
    whole = [
        replace(entry, mapping=_with(entry, chosen)) if chosen else entry for entry in entries for chosen in values
    ]
    for entry in whole:
        # Elsewhere braces may be meant for a program.
        open_place = _PLACE.search(str(entry.mapping.get("name", "")))
        if open_place is not None:
            raise InputError(
                f"parameter {open_place[1]} has no value", hint=f"-p {open_place[1]}=VALUE, or --csv FILE",
                file=entry.file, line=entry.line_of("name"), field="name",
            )  # fmt: skip
    return whole


def _with(entry: JobInFile, values: Mapping[str, str]) -> dict[str, object]:
    def fill(value: Any, path: str) -> Any:
        if isinstance(value, str):
            return _PLACE.sub(lambda found: value_of(found[1], path), value)
        if isinstance(value, dict):
            return {
                fill(key, path) if isinstance(key, str) else key: fill(inner, f"{path}.{key}" if path else str(key))
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [fill(inner, f"{path}[{place}]") for place, inner in enumerate(value)]
        return value

    def value_of(name: str, path: str) -> str:
        if name not in values:
            line = entry.line_of(path)
            what = f"parameter {name} has no value"
            near = closest(name, values)
            hint = f"did you mean {near}?" if near else f"-p {name}=VALUE; given: {', '.join(values)}"
            raise InputError(what, hint=hint, file=entry.file, line=line, field=path)
        return values[name]

    mapping: dict[str, object] = fill(entry.mapping, "")
    key = next((key for key in mapping if key.lower() in ("environment", "env")), "environment")
    own = mapping.get(key)
    variables = {f"{VARIABLE}{name.upper()}": value for name, value in values.items()}
    return {**mapping, key: {**variables, **own} if isinstance(own, Mapping) else variables}
