"""``cress install-service``: units of systemd for the programs."""

from __future__ import annotations

import re
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.errors import told
from cress.model.errors import InputError

EPILOG = """\
\b
Examples:
  cress install-service center -- --data /var/lib/cress
  cress install-service executor -- --config /etc/cress/executor.toml
  cress install-service portal --account cress
  cress install-service center --print          the unit on standard output

\b
Options behind -- are those of the program. The unit starts the program after the network, and again if it fails. An
executor leaves its tasks alone when it is stopped or restarted: its supervisor keeps them.
Exit codes: 0 done, 2 bad input, or the unit cannot be written.
"""

SYSTEM = Path("/etc/systemd/system")


class UnitProgram(StrEnum):
    """The programs that run all the time."""

    CENTER = "center"
    EXECUTOR = "executor"
    PORTAL = "portal"


ABOUT = {
    UnitProgram.CENTER: "Cress center",
    UnitProgram.EXECUTOR: "Cress executor",
    UnitProgram.PORTAL: "Cress portal",
}


def install_service(
    program: Annotated[UnitProgram, typer.Argument(metavar="PROGRAM", help="center, executor or portal.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="-- OPTIONS", help="Options of the program.", show_default=False)
    ] = None,
    account: Annotated[
        str, typer.Option(metavar="NAME", help="Account of the program. Default: root, or your own with --user.")
    ] = "",
    user: Annotated[bool, typer.Option("--user", help="A unit of your own, in ~/.config/systemd/user.")] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the unit. Default: cress-PROGRAM.")] = "",
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help=f"Directory of the unit. Default: {SYSTEM}.")
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit; write nothing.")] = False,
) -> None:
    """Write a unit of systemd for a center, an executor or a portal."""
    with told("install-service"):
        title = name or f"cress-{program.value}"
        if not re.fullmatch(r"[A-Za-z0-9_.@-]{1,128}", title):
            raise InputError(f"{title!r} is not a name", hint="letters, digits, _, . and -", field="--name")
        if user and account:
            raise InputError("cannot be combined with --user", hint="one of them", field="--account")
        text = unit(program, options or [], account, user=user)
        if only_print:
            print(text, end="")
            return
        place = folder or (Path("~/.config/systemd/user").expanduser() if user else SYSTEM)
        path = place / f"{title}.service"
        try:
            place.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            hint = "as root, or --user, or --dir DIR"
            raise InputError(f"cannot be written: {error.strerror}", hint=hint, field=str(path)) from None
        systemctl = "systemctl --user" if user else "systemctl"
        print(f"{path} written; start it: {systemctl} daemon-reload && {systemctl} enable --now {title}")


def unit(program: UnitProgram, options: list[str], account: str, *, user: bool) -> str:
    """Return the text of a unit."""
    command = [sys.executable, "-m", "cress", program.value, *options]
    lines = [
        "[Unit]",
        f"Description={ABOUT[program]}",
        "Documentation=man:cress(1)",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"ExecStart={' '.join(map(_word, command))}",
        "Restart=on-failure",
        "RestartSec=2",
    ]
    if account:
        lines.append(f"User={account}")
    if program is UnitProgram.EXECUTOR:
        # The supervisor and the tasks are in the same unit, and outlive its agent.
        lines += ["KillMode=process", "Delegate=yes"]
    lines += ["LimitNOFILE=1048576", "", "[Install]", f"WantedBy={'default.target' if user else 'multi-user.target'}"]
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    """Return a word as systemd reads it: its own quotes, and doubled percent signs and dollars."""
    plain = text.replace("%", "%%").replace("$", "$$")
    return plain if shlex.quote(plain) == plain or re.fullmatch(r"[\w%@.,:/=+$-]+", plain) else f'"{_escaped(plain)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
