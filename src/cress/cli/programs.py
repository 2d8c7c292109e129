"""The commands of the programs, whose options can also be set in configuration files."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cress.cli.verb_table import TABLE
from cress.cli.verbs import built

if TYPE_CHECKING:
    from cress.cli.configured import ConfiguredCommand

PROGRAMS = ("center", "executor")


def command_of(program: str) -> ConfiguredCommand:
    """Return the command of a program."""
    return cast("ConfiguredCommand", built(next(verb for verb in TABLE if verb.name == program)))
