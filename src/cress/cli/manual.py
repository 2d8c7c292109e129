"""``cress man``: manual pages, from the same source as the help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import cress
from cress.cli.common import count
from cress.cli.errors import told
from cress.model.errors import InputError

EPILOG = """\
\b
Examples:
  cress man ~/.local/share/man/man1 && man cress-submit

\b
One page for each verb, cress-VERB.1, and cress.1 with the list of all.
Exit codes: 0 done, 2 the directory cannot be written.
"""

SECTION = "1"


def man(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the pages, such as …/man1.")],
) -> None:
    """Write the manual pages of all verbs."""
    with told("man"):
        root = ctx.find_root()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = 0
            for name, text in pages(root.command, root):
                (folder / f"{name}.{SECTION}").write_text(text, encoding="utf-8")
                number += 1
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", field=str(error.filename or folder)) from None
        print(f"{count(number, 'page')} in {folder}")


def pages(command: Any, context: Any, name: str = "cress") -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the page of a command, and of each verb below it."""
    yield name, _page(command, context, name)
    for verb in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, verb)
        if below is not None and not below.hidden:
            inner = type(context)(below, info_name=verb, parent=context)
            yield from pages(below, inner, f"{name}-{verb}")


def _page(command: Any, context: Any, name: str) -> str:
    about = (command.help or "").replace("\b", "").strip()
    first = about.partition("\n")[0].rstrip(".")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{name.upper()}" "{SECTION}" "" "Cress {cress.__version__}" "Cress"',
        ".SH NAME",
        _text(f"{name} - {first[:1].lower()}{first[1:]}"),
        ".SH SYNOPSIS",
        f".B {name.replace('-', ' ')}",
        _text(usage),
        ".SH DESCRIPTION",
        *(f".P\n{_text(' '.join(part.split()))}" for part in re.split(r"\n\s*\n", about)),
    ]
    records = [record for record in (param.get_help_record(context) for param in command.params) if record is not None]
    if records:
        parts.append(".SH OPTIONS")
        parts += (f".TP\n.B {_text(flags)}\n{_text(' '.join(told.split()))}" for flags, told in records)
    if hasattr(command, "list_commands"):
        parts.append(".SH COMMANDS")
        for verb in command.list_commands(context):
            below = command.get_command(context, verb)
            if below is not None and not below.hidden:
                parts.append(f".TP\n.BR {name}-{verb} ({SECTION})\n{_text(below.get_short_help_str(200))}")
    if command.epilog:
        parts.append(".SH NOTES")
        for block in re.split(r"\n?\x08\n|\n\n", command.epilog):
            if block.strip():
                parts.append(".P\n.nf\n" + "\n".join(_text(line) for line in block.strip("\n").split("\n")) + "\n.fi")
    return "\n".join(parts) + "\n"


def _text(text: str) -> str:
    """Return a text in which roff finds no commands."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)
