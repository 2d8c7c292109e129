"""Common parts of the commands of Slurm: errors, the table of the site, the place of a submission."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cress.model.errors import InputError, InputErrors
from cress.slurm.command_line import Given
from cress.slurm.jobs import Surroundings
from cress.slurm.sites import Site, read_site

if TYPE_CHECKING:
    from cress.client import Client

FAILED, INTERRUPTED = 1, 130
# The folder of the commands, set by them.
FOLDER = "CRESS_SLURM_DIR"
SITE_FILE = "slurm.toml"
# The release of Slurm whose manuals were followed.
VERSION = "slurm 24.05.0-cress"


def run(name: str, command: Callable[[str, Sequence[str]], int], words: Sequence[str]) -> int:
    """Return the exit code of a command; 1 for any error, as Slurm's commands do."""
    if "--version" in words[:1] or words[:1] == ["-V"]:
        print(VERSION)
        return 0
    if "--help" in words[:1] or "--usage" in words[:1]:
        print(f"{name}: of Cress; what it understands is in docs/slurm.md")
        return 0
    try:
        return command(name, words)
    except InputError as error:
        for one in error.errors if isinstance(error, InputErrors) else [error]:
            say(name, f"error: {one}")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        say(name, f"error: {error.filename or ''}: {error.strerror or error}")
    except Exception as error:
        sentences = _of_client(error)
        if sentences is None:
            raise
        for sentence in sentences:
            say(name, f"error: {sentence}")
    return FAILED


def _of_client(error: Exception) -> list[str] | None:
    from cress.client import ClientError, NoCenter, Refused

    if isinstance(error, Refused) and error.faults:
        return [str(InputError(fault.what, hint=fault.hint, field=_option(fault.field))) for fault in error.faults]
    return [str(error)] if isinstance(error, (ClientError, NoCenter)) else None


def _option(field: str) -> str:
    return field.partition("].")[2] or field


def say(name: str, sentence: str) -> None:
    """Print a sentence to standard error, with the name of the command."""
    print(f"{name}: {sentence}", file=sys.stderr, flush=True)


def center() -> Client:
    """Return a client of the center that the environment names."""
    from cress import client

    return client.connect(None)


def site() -> Site:
    """Return the table of the site: of the user, else of the folder of the commands, else an empty one."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cress" / SITE_FILE
    for path in (home, Path(os.environ.get(FOLDER, "/nonexistent")) / SITE_FILE):
        try:
            is_there = path.is_file()
        except PermissionError:  # of a folder above it, such as the home of somebody else
            continue
        if is_there:
            from cress.cli.common import read_text
            from cress.model.toml_text import TomlText

            return read_site(TomlText(read_text(path, "a table of the site"), str(path)).values, str(path))
    return Site()


def surroundings(client: Client, given: Sequence[Given]) -> Surroundings:
    """Return the place of a submission; groups are asked for only if an option may name one."""
    named = {"account", "partition", "qos"} & {one.option.name for one in given}
    groups = [group.name for group in client.groups().groups] if named else []
    return Surroundings(
        str(Path.cwd()),
        time.time(),
        socket.gethostname(),
        dict(os.environ),
        os.environ.get(FOLDER, ""),
        groups,
        site(),
    )


def user_of(client: Client) -> str:
    """Return the name of the caller at the center."""
    from cress.client import calls

    return client.ask(calls.whoami()).user
