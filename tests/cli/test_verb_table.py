"""The table of verbs, and values that are read without the library of the command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer._click.exceptions import BadParameter, UsageError
from typer.main import get_command

from cress.cli.main import app
from cress.cli.plain_values import read_plainly
from cress.cli.verb_table import TABLE


@pytest.mark.parametrize("verb", TABLE, ids=lambda verb: verb.name)
def test_the_list_of_verbs_says_the_first_sentence_of_their_help(verb: Any) -> None:
    root: Any = get_command(app)
    command = root.commands[verb.name]
    assert command.get_short_help_str(1000) == verb.about
    assert command.epilog
    assert command.name == verb.name


def test_the_library_shortens_sentences_as_the_list_does() -> None:
    root: Any = get_command(app)
    context = typer.Context(root, info_name="cress", terminal_width=60, max_content_width=60)
    formatter: Any = context.make_formatter()
    root.format_commands(context, formatter)
    room = 60 - 6 - max(len(verb.name) for verb in TABLE)
    for line, verb in zip(formatter.getvalue().splitlines()[1:], TABLE, strict=True):
        assert line.split(maxsplit=1) == [verb.name, root.commands[verb.name].get_short_help_str(room)]


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def _even(text: str) -> int:
    if int(text) % 2:
        raise typer.BadParameter(f"{text} is odd")
    return int(text)


KINDS: dict[str, tuple[Any, Any]] = {
    "text": (str, ""),
    "count": (Annotated[int, typer.Option(min=1, max=9)], 3),
    "number": (Annotated[float, typer.Option(min=0.5)], 1.5),
    "perhaps": (int | None, None),
    "path": (Path, Path("a")),
    "place": (Annotated[Path | None, typer.Option(exists=True)], None),
    "switch": (bool, False),
    "colour": (Colour, Colour.RED),
    "several": (list[str] | None, None),
    "counts": (list[int] | None, None),
    "parsed": (Annotated[int, typer.Option(parser=_even)], "2"),
}
WORDS = {
    "nothing": [],
    "plain": "--text a --count 7 --number 2 --perhaps 5 --path b/c --switch --colour blue --parsed 4".split(),
    "lists": "--several a --several b --counts 1 --counts 2".split(),
    "unusual": ["--count", " 7 ", "--number", "1e3", "--perhaps", "-5", "--counts", "+1", "--text", ""],
    "a place": ["--place", "/"],
    "no place": ["--place", "/nowhere"],
    "too small": ["--count", "0"],
    "too large": ["--count", "10"],
    "a number below its least": ["--number", "0"],
    "no count": ["--count", "seven"],
    "a digit of another script": ["--count", "²"],
    "no number in a list": ["--counts", "1", "--counts", "x"],
    "no colour": ["--colour", "green"],
    "an odd number": ["--parsed", "3"],
}


def _read(words: list[str], *, plainly: bool) -> Any:
    """What a command gets, or what it says."""
    names = ", ".join(f"{name}: {name}_type = {name}_default" for name in KINDS)
    types = {f"{name}_type": kind for name, (kind, _) in KINDS.items()}
    defaults = {f"{name}_default": default for name, (_, default) in KINDS.items()}
    got: dict[str, Any] = {}
    exec(f"def verb({names}): got.update(locals())", space := {"got": got, **types, **defaults})
    one = typer.Typer(add_completion=False)
    one.command()(space["verb"])
    command: Any = get_command(one)
    if plainly:
        read_plainly(command)
    try:
        command.main(list(words), standalone_mode=False)
    except (BadParameter, UsageError) as error:
        return type(error), error.format_message()
    return {name: (type(value), value) for name, value in got.items()}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_values_are_read_as_the_library_reads_them(words: list[str]) -> None:
    assert _read(words, plainly=True) == _read(words, plainly=False)
