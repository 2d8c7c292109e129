"""``cress users``: the roles of users; ``cress whoami``: your identity at the center."""

from __future__ import annotations

from typing import Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, print_json, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.tables import TableColumn, clean, show

EPILOG = """\
\b
Examples:
  cress users                                  users with a role that was set (the same: cress users list)
  cress users set ann --role operator          ann may cordon and drain nodes, and sees all jobs
  cress users set bob --administers web,etl    bob manages the jobs of these groups like bob's own
  cress users set eve --role none              eve may not sign in, and eve's tokens are revoked

\b
Roles: viewer (reads), user (submits and manages own jobs), operator (also changes nodes), admin (everything). Users
without an entry have the role user. `Users:` in Group.conf says who may submit to a group.
Columns: name, role, administers.
Exit codes: 0 done, 2 bad input, 3 not accepted, or no center reachable.
"""
WHOAMI = """\
\b
HOW is the credential: owner (the secret of the data directory), account (on this machine), or token NAME.
Exit codes: 0 done, 3 no center reachable.
"""

COLUMNS = (TableColumn("NAME", gives=True), TableColumn("ROLE"), TableColumn("ADMINISTERS", gives=True))

app = typer.Typer(cls=WithDefault, help="List users, or set their roles.", epilog=EPILOG, rich_markup_mode=None)


@app.command("list")
def users(columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Data = None) -> None:
    """List users with a role that was set."""
    with told("users"):
        from cress.client import calls

        with connect(data) as client:
            page = client.ask(calls.users())
        if as_json:
            print_json(page)
            return
        if not page.users:
            print("no role was set: all users have the role user")
            return
        rows = [[clean(user.name), user.role, clean(", ".join(user.administers)) or "-"] for user in page.users]
        show(COLUMNS, rows, selection_of(columns, wide=wide))


@app.command("set")
def set_user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")],
    role: Annotated[str, typer.Option(metavar="ROLE", help="Role: none, viewer, user, operator or admin.")] = "user",
    administers: Annotated[
        str, typer.Option(metavar="GROUP,…", help="Groups whose jobs the user manages. Default: none.")
    ] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Set the role of a user, and the groups that the user administers; both replace the earlier values."""
    with told("users set"):
        from cress.client import calls

        groups = [group.strip() for group in administers.split(",") if group.strip()]
        with connect(data) as client:
            view = client.ask(calls.set_user(name, role, groups))
        if as_json:
            print_json(view)
            return
        more = f", administers {', '.join(view.administers)}" if view.administers else ""
        print(f"{clean(view.name)} has the role {view.role}{clean(more)}")


def whoami(as_json: Json = False, data: Data = None) -> None:
    """Show your user name, role and credential at the center."""
    with told("whoami"):
        from cress.client import calls

        with connect(data) as client:
            view = client.ask(calls.whoami())
        if as_json:
            print_json(view)
            return
        more = f", administers {', '.join(view.administers)}" if view.administers else ""
        print(f"{clean(view.user)}, role {view.role}{clean(more)} ({clean(view.how)})")
