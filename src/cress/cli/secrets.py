"""``cress secret``: encrypted values for jobs, of a user or a group."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, moment, print_json, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.tables import TableColumn, clean, show
from cress.model.errors import InputError
from cress.model.secrets import MOST_VALUE, checked_secret_name

if TYPE_CHECKING:
    from cress.client import SecretView

EPILOG = """\
\b
Examples:
  cress secret set db < password.txt             your secret db; on a terminal, it asks for the value
  cress secret set tls.key --file key.pem        from a file, of any content
  cress secret set db --group etl < password     a secret of the group etl (by its administrators or admins)
  cress secret                                   secrets that you may use, without values (same: cress secret list)
  cress secret show db --json
  cress secret delete db
  cress secret rotate-key                        encrypt all secrets with a new key (admins)

\b
A job uses secrets as environment variables or as files (docs/secrets.md):
  secrets:
    DB_PASSWORD: db
    tls.key: {secret: tls.key, as: file}         at $CRESS_SECRETS/tls.key
Columns: name, owner, size, changed, by.
Exit codes: 0 done, 2 bad input, 3 not accepted, or no center reachable.
"""

COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("OWNER", gives=True),
    TableColumn("SIZE"),
    TableColumn("CHANGED", hides=1),
    TableColumn("BY", hides=2, gives=True),
)

app = typer.Typer(cls=WithDefault, help="Keep encrypted values for jobs.", epilog=EPILOG, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret.")]
Group = Annotated[str, typer.Option("--group", metavar="GROUP", help="Secrets of this group instead of yours.")]
User = Annotated[str, typer.Option("--user", metavar="USER", help="Secrets of this user (admins). Default: yours.")]


@app.command("list")
def secrets(
    group: Group = "",
    user: User = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List your secrets and those of your groups, without their values; for admins, all."""
    with told("secret"):
        from cress.client import calls

        with connect(data) as client:
            page = client.ask(calls.secrets(user, group))
        if as_json:
            print_json(page)
            return
        if not page.secrets:
            print("no secrets (`cress secret set NAME`)")
            return
        rows = [
            [clean(secret.name), clean(_owner(secret)), f"{secret.size}", moment(secret.changed), clean(secret.by)]
            for secret in page.secrets
        ]
        show(COLUMNS, rows, selection_of(columns, wide=wide))


@app.command("set", context_settings={"ignore_unknown_options": False})
def set_secret(
    name: Name,
    value: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="File with the value. Default: standard input.")
    ] = None,
    group: Group = "",
    user: User = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create a secret or change its value, read from standard input or a file."""
    with told("secret set"):
        from cress.client import calls

        if value:
            # The value is not repeated, since logs may keep this output.
            what = (
                "a value on the command line can be read by all users of this machine, and stays in the shell's history"
            )
            raise InputError(what, hint=f"`cress secret set {name[:40]} < FILE`, and regard this value as known")
        checked_secret_name(name, "NAME")
        content = _value(file)
        with connect(data) as client:
            view = client.ask(calls.set_secret(name, content, user, group))
        if view.key_file:
            print(
                f"the keys of the secrets are in the new file {clean(view.key_file)} on the center's machine: "
                "keep a copy "
                "apart from the backups of the data directory; without it no secret can be read",
                file=sys.stderr,
            )
        if as_json:
            print_json(view)
        else:
            print(f"secret {clean(view.name)} of {clean(_owner(view))} is set ({view.size} bytes)")


@app.command("show")
def show_secret(name: Name, group: Group = "", user: User = "", as_json: Json = False, data: Data = None) -> None:
    """Show a secret without its value; no command shows values."""
    with told("secret show"):
        from cress.client import calls

        with connect(data) as client:
            view = client.ask(calls.secret(name, user, group))
        if as_json:
            print_json(view)
            return
        print(f"secret {clean(view.name)} of {clean(_owner(view))}")
        print(f"size     {view.size} bytes")
        print(f"created  {moment(view.created)}")
        print(f"changed  {moment(view.changed)} by {clean(view.by)}")


@app.command("delete")
def delete_secret(name: Name, group: Group = "", user: User = "", as_json: Json = False, data: Data = None) -> None:
    """Delete a secret; tasks that need it fail to start from now on."""
    with told("secret delete"):
        from cress.client import calls

        with connect(data) as client:
            view = client.ask(calls.delete_secret(name, user, group))
        if as_json:
            print_json(view)
        else:
            print(f"secret {clean(view.name)} of {clean(_owner(view))} is deleted")


@app.command("rotate-key")
def rotate_key(
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Keep the old keys in the key file; earlier backups need them.")
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Encrypt all secrets with a new key, and drop the old keys (admins)."""
    with told("secret rotate-key"):
        from cress.client import calls

        with connect(data) as client:
            view = client.ask(calls.rotate_key(keep_old=keep_old))
        if as_json:
            print_json(view)
            return
        print(
            f"{view.secrets} secrets are encrypted with a new key, which is in {clean(view.key_file)}: make a new "
            "copy of that file"
        )


def _value(file: Path | None) -> bytes:
    """Return the value from a file, standard input, or a user at a terminal. Raise InputError."""
    where = str(file) if file else "standard input"
    if file is None and sys.stdin.isatty():
        value = getpass.getpass("Value (it is not shown): ").encode()
    elif file is None:
        value = sys.stdin.buffer.read(MOST_VALUE + 1)
    else:
        with file.open("rb") as opened:
            value = opened.read(MOST_VALUE + 1)
    if not value:
        raise InputError("there is no value", hint="at least one byte", file=where)
    if len(value) > MOST_VALUE:
        raise InputError("the value is too long", hint=f"at most {MOST_VALUE:,} bytes", file=where)
    return value


def _owner(view: SecretView) -> str:
    return f"group {view.group}" if view.group else view.user
