"""``cress token``: tokens by which programs and other machines act for a user."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, duration_of, print_json, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.tables import Column, clean, show

if TYPE_CHECKING:
    from cress.client import NewToken

EPILOG = """\
\b
Examples:
  cress token create ci --expires 30d             a token that acts as you; its text is shown this once
  cress token create watch --role viewer          one that only looks
  cress token create robot --user etl             one of another user (admins)
  cress token                                     your tokens; admins see all (the same: cress token list)
  cress token rotate ci                           a fresh text in its place: the old one opens nothing from now on
  cress token revoke ci

\b
Only the text is printed to standard output, so `TOKEN=$(cress token create ci)` has it. Use it as CRESS_TOKEN.
Columns: name, user, role, created, expires, id; a narrow terminal leaves some out.
Exit codes: 0 done, 2 bad input, 3 not accepted, or no center could be asked.
"""

COLUMNS = (
    Column("NAME", gives=True),
    Column("USER", gives=True),
    Column("ROLE"),
    Column("CREATED", hides=2),
    Column("EXPIRES"),
    Column("ID", hides=1),
)

app = typer.Typer(cls=WithDefault, help="Create, list and revoke tokens.", epilog=EPILOG, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]
Of = Annotated[str, typer.Option("--user", metavar="USER", help="Whose token it is. Default: yours.")]
Expires = Annotated[str, typer.Option(metavar="DURATION", help="When it expires, such as 30d. Default: never.")]


@app.command("list")
def tokens(columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Data = None) -> None:
    """List your tokens; for admins, all tokens."""
    with told("token"):
        from cress.client import access_calls

        with connect(data) as client:
            page = client.ask(access_calls.tokens())
        if as_json:
            print_json(page)
            return
        if not page.tokens:
            print("no tokens (`cress token create NAME`)")
            return
        rows = [
            [
                clean(each.name),
                clean(each.user),
                each.role,
                _moment(each.created),
                "never" if each.expires is None else "expired" if each.expired else _moment(each.expires),
                each.id,
            ]
            for each in page.tokens
        ]
        show(COLUMNS, rows, selection_of(columns, wide=wide))


@app.command()
def create(
    name: Name,
    expires: Expires = "",
    role: Annotated[str, typer.Option(metavar="ROLE", help="viewer, user, operator or admin. Default: yours.")] = "",
    user: Of = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create a token, and print its text, which is shown this once."""
    with told("token create"):
        from cress.client import access_calls

        life = duration_of(expires, "--expires") / 1e6 if expires else None
        with connect(data) as client:
            made = client.ask(access_calls.create_token(name, user=user, role=role, expires=life))
        _print(made, as_json=as_json)


@app.command()
def rotate(name: Name, expires: Expires = "", user: Of = "", as_json: Json = False, data: Data = None) -> None:
    """Replace a token by a fresh one of the same name: the old one opens nothing from now on."""
    with told("token rotate"):
        from cress.client import access_calls

        life = duration_of(expires, "--expires") / 1e6 if expires else None
        with connect(data) as client:
            made = client.ask(access_calls.create_token(name, user=user, expires=life, rotate=True))
        _print(made, as_json=as_json)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the token, or its id.")],
    user: Of = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Revoke a token: it opens nothing from now on."""
    with told("token revoke"):
        from cress.client import access_calls

        with connect(data) as client:
            view = client.ask(access_calls.revoke_token(name, user))
        if as_json:
            print_json(view)
        else:
            print(f"token {clean(view.name)} of {clean(view.user)} is revoked")


def _print(made: NewToken, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    token = made.token
    until = "does not expire" if token.expires is None else f"expires {_moment(token.expires)}"
    print(
        f"token {clean(token.name)} of {clean(token.user)}, role {token.role}, {until}; shown this once:",
        file=sys.stderr,
    )
    print(made.secret)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
