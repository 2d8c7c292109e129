"""The verbs of the command, each built when it is asked for: building all of them takes a third of a start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any

import typer
from typer.main import get_command_from_info, get_command_name, get_group_from_info


class Verbs(MutableMapping[str, Any]):
    """The verbs by name, as a group of commands has them."""

    def __init__(self, makers: dict[str, Callable[[], Any]]) -> None:
        self._makers = makers
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._makers[name] = lambda: command
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def taken_from(app: typer.Typer) -> Verbs:
    """Return the verbs that were registered with an application, which has none afterwards."""
    makers: dict[str, Callable[[], Any]] = {}
    told: dict[str, Any] = {"pretty_exceptions_short": False, "rich_markup_mode": None}
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or get_command_name(command.callback.__name__)
        makers[name] = partial(get_command_from_info, command, **told)
    for group in app.registered_groups:
        assert isinstance(group.name, str)
        makers[group.name] = partial(get_group_from_info, group, suggest_commands=app.suggest_commands, **told)
    app.registered_commands, app.registered_groups = [], []
    return Verbs(makers)
