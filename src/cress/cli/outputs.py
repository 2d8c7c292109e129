"""Lists for other programs: ``-o json``, ``yaml``, ``csv`` or ``name``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from cress.cli.table_layout import Cell, TableColumn, chosen, name_of, text_of
from cress.model.errors import InputError

FORMATS = ("json", "yaml", "csv", "name")

Table: TypeAlias = tuple[Sequence[TableColumn], Sequence[Sequence[Cell]]]


def _format(text: str) -> str:
    if text and text not in FORMATS:
        raise ValueError(f"{text!r} is not one of {', '.join(FORMATS)}")
    return text


Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FORMAT", parser=_format, help="Print json, yaml, csv, or name: the names alone."
    ),
]


def written(view: Any, form: str, table: Callable[[], Table], names: Sequence[str], columns: str = "") -> None:
    """Print a view in this format: as the API has it, its table as CSV (``columns`` chooses), or its names."""
    if form == "name":
        print("".join(f"{name}\n" for name in names), end="")
    elif form == "csv":
        import csv

        head, rows = chosen(*table(), [word.strip() for word in columns.split(",") if word.strip()])
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([name_of(column.title) for column in head])
        writer.writerows([text_of(cell) for cell in row] for row in rows)
    elif form == "yaml":
        print(_yaml(view), end="")
    elif form == "json":
        from cress.cli.common import print_json

        print_json(view)
    else:
        raise InputError(f"{form!r} is not a format", hint=", ".join(FORMATS), field="--output")


def _yaml(view: Any) -> str:
    """Return a view as YAML; texts of one line are quoted as in JSON, which YAML contains."""
    import msgspec

    return "\n".join(_lines(msgspec.json.decode(msgspec.json.encode(view)), "")) + "\n"


def _lines(value: Any, indent: str) -> list[str]:
    import msgspec

    def plain(inner: Any) -> str:
        return msgspec.json.encode(inner).decode()

    if isinstance(value, dict) and value:
        found = []
        for key, inner in value.items():
            nested = isinstance(inner, dict | list) and bool(inner)
            head = f"{indent}{key if key.isidentifier() else plain(key)}:"
            if nested:
                found += [head, *_lines(inner, indent + "  ")]
            else:
                first, *rest = _lines(inner, indent + "  ")
                found += [f"{head} {first.lstrip()}", *rest]
        return found
    if isinstance(value, list) and value:
        found = []
        for inner in value:
            lines = _lines(inner, indent + "  ")
            found += [f"{indent}- {lines[0].lstrip()}", *lines[1:]]
        return found
    if indent and isinstance(value, str) and "\n" in value and all(line.isprintable() for line in value.split("\n")):
        return _block(value, indent)
    return [indent + plain(value)]


def _block(text: str, indent: str) -> list[str]:
    """Return a text of several lines as a block; the number says how far it is indented, the sign how it ends."""
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    sign = "-" if not ends else "" if ends == 1 and body else "+"
    lines = body.split("\n") + [""] * (ends - 1)
    return [f"{indent}|2{sign}", *(indent + line if line else "" for line in lines)]
