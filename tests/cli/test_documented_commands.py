"""Each command and option that the documentation names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cress.cli.main import app

_ROOT = Path(__file__).parents[2]
_PAGES = [*sorted((_ROOT / "docs").glob("*.md")), _ROOT / "README.md"]
# A command at the beginning of a line or of code within it.
_COMMAND = re.compile(r"(?:`|^(?:\$ )?)cress ((?:[a-z]+ )?[a-z]+(?:-[a-z]+)*)\b([^`|#\n]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def _wrong(text: str) -> Iterator[str]:
    """Yield the commands and options of a text that do not exist."""
    root: Any = typer.main.get_command(app)
    for found in _COMMAND.finditer(text):
        command, words = root, found[1].split()
        for word in words:
            below = command.commands.get(word) if hasattr(command, "commands") else None
            if below is None:
                break
            command = below
        if command is root:
            yield f"cress {words[0]}"
            continue
        known = {"--help", *(name for each in command.params for name in (*each.opts, *each.secondary_opts))}
        known.update(getattr(command, "key_options", ()))
        if hasattr(command, "commands"):  # its default verb takes options too
            known.update(name for each in command.commands.values() for one in each.params for name in one.opts)
        yield from (
            f"cress {found[1]} {option}" for option in _OPTION.findall(found[2].split(" -- ")[0]) if option not in known
        )


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_commands_of_the_documentation_exist(page: Path) -> None:
    assert list(_wrong(page.read_text(encoding="utf-8"))) == []


def test_what_does_not_exist_is_found() -> None:
    text = "`cress rewind` and `cress run --gpu 1 -- x --y`\ncress nodes --where x --wher y\n"
    assert list(_wrong(text)) == ["cress rewind", "cress run --gpu", "cress nodes --wher"]
