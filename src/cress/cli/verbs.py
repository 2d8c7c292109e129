"""The verbs of the command, each imported and built when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command_from_info, get_group_from_info

from cress.cli.plain_help import describe_plainly
from cress.cli.plain_values import read_plainly
from cress.cli.verb_table import Verb


class Verbs(MutableMapping[str, Any]):
    """The verbs by name, in the order of the table, as a group of commands has them."""

    def __init__(self, table: Iterable[Verb]) -> None:
        self._rows: dict[str, Verb | None] = {verb.name: verb for verb in table}
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            row = self._rows[name]
            assert row is not None
            self._built[name] = built(row)
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._rows[name] = None
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._rows[name]
        self._built.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def built(verb: Verb) -> Any:
    """Import a verb, and return its command or its group of commands."""
    told: dict[str, Any] = {"pretty_exceptions_short": False, "rich_markup_mode": None}
    app = typer.Typer()
    function = found(verb.place)
    if isinstance(function, typer.Typer):
        app.add_typer(function, name=verb.name)
        command: Any = get_group_from_info(app.registered_groups[0], suggest_commands=True, **told)
    else:
        app.command(
            verb.name,
            epilog=getattr(import_module(function.__module__), verb.epilog),
            cls=found(verb.command) if verb.command else None,
            context_settings={**verb.settings},
        )(function)
        command = get_command_from_info(app.registered_commands[0], **told)
    _read_plainly(command)
    return command


def _read_plainly(command: Any) -> None:
    read_plainly(command)
    describe_plainly(command)
    for below in getattr(command, "commands", {}).values():
        _read_plainly(below)


def found(place: str) -> Any:
    """Return the object at a place such as ``hold:release``, in a file of ``cress.cli``."""
    file, _, name = place.partition(":")
    return getattr(import_module(f"cress.cli.{file}"), name)
