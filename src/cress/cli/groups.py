"""``cress groups``: list and change groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, count, pairs, print_json, read_text, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.preview import Yes, ask, is_asked, show_consequences
from cress.cli.tables import Cell, TableColumn, bar, clean, show, terminal
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Applied, GroupView

EPILOG = """\
\b
Examples:
  cress groups                                 all groups (the same: cress groups list)
  cress groups --columns name,quota,used
  cress groups show > Group.conf               write them into a file, to change and apply it
  cress groups apply Group.conf --dry-run
  cress groups apply Group.conf --yes          without the question on a terminal
  cress groups apply Group.conf --move old=new
  cress groups set web MaxRunningJobsPerUser=5 MaxJobs-     set and remove limits of one group
  cress groups set web Submit=closed           no new jobs; waiting and running jobs go on

\b
Administrators of a group may set its limits and Submit; admins may set all keywords. Running tasks go on.
Columns: name, quota, used, used/quota, running, waiting, policy, weight, users, limits; a narrow terminal leaves some
out. With a tree of groups: name, in, quota, used, used/quota, of_parent, of_cluster, borrowed, lends, max, running,
waiting, policy, limits.
Exit codes: 0 done, 2 bad input (nothing was changed), 3 not accepted, or no center reachable.
Format of the file: docs/groups.md.
"""

COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("QUOTA", right=True, gives=True),
    TableColumn("USED", right=True, gives=True),
    TableColumn("USED/QUOTA", right=True),
    TableColumn("RUNNING", right=True),
    TableColumn("WAITING", right=True),
    TableColumn("POLICY", hides=4),
    TableColumn("WEIGHT", right=True, hides=2),
    TableColumn("USERS", gives=True, hides=3),
    TableColumn("LIMITS", gives=True, hides=1),
)

# Columns of groups in a tree.
TREE_COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("IN", gives=True, hides=1),
    TableColumn("QUOTA", right=True, gives=True),
    TableColumn("USED", right=True, gives=True),
    TableColumn("USED/QUOTA", right=True),
    TableColumn("OF_PARENT", right=True, hides=3),
    TableColumn("OF_CLUSTER", right=True, hides=4),
    TableColumn("BORROWED", right=True, hides=2),
    TableColumn("LENDS", right=True, hides=2),
    TableColumn("MAX", right=True, hides=3),
    TableColumn("RUNNING", right=True),
    TableColumn("WAITING", right=True),
    TableColumn("POLICY", hides=5),
    TableColumn("LIMITS", gives=True, hides=1),
)

app = typer.Typer(cls=WithDefault, help="List groups, or change them.", epilog=EPILOG, rich_markup_mode=None)


@app.command("list")
def groups(columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Data = None) -> None:
    """List groups with their quotas and usage."""
    with told("groups"):
        with connect(data) as client:
            page = client.groups()
        if as_json:
            print_json(page)
            return
        selection = selection_of(columns, wide=wide)
        if any(group.parent for group in page.groups):
            show(TREE_COLUMNS, tree_rows(page.groups, drawn=terminal()), selection)
        elif terminal():
            titles = [*COLUMNS[:4], TableColumn("", hides=1), *COLUMNS[4:]]
            rows = [[*row(group)[:4], _bar(group), *row(group)[4:]] for group in page.groups]
            show(titles, rows, selection)
        else:
            show(COLUMNS, [row(group) for group in page.groups], selection)


@app.command("show")
def show_text(as_json: Json = False, data: Data = None) -> None:
    """Print all groups in the form of Group.conf."""
    with told("groups show"):
        with connect(data) as client:
            page = client.groups()
        if as_json:
            print_json(page)
        else:
            print(page.text, end="" if page.text.endswith("\n") else "\n")


@app.command()
def apply(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File with all groups; - is standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    move: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Move the jobs of a removed group to another. Repeatable."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Replace all groups by those of a file, and show the changes.

    On a terminal it also shows what this would do to running and waiting work, and asks.
    """
    with told("groups apply"):
        text = read_text(file, "groups as text")
        moves = pairs(move, "--move", "OLD=NEW")
        name = "standard input" if file == "-" else file
        with connect(data) as client:
            if is_asked(yes=yes, as_json=as_json):
                planned = client.apply_groups(text, file=name, moves=moves, dry_run=True)
                _tell(planned, dry_run=True)
                if not planned.changes:
                    return
                show_consequences(client, {"groups": text, "file": name, "moves": moves})
                if dry_run:
                    return
                ask("Apply these groups?")
                # The changes were shown above.
                print(count(client.apply_groups(text, file=name, moves=moves).changes, "change"), "made")
                return
            applied = client.apply_groups(text, file=name, moves=moves, dry_run=dry_run)
        if as_json:
            print_json(applied)
            return
        _tell(applied, dry_run=dry_run)


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group.")],
    changes: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE… [KEY-]", help="Keywords as in Group.conf; KEY- removes one."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Change keywords of one group; running tasks go on.

    On a terminal it also shows what this would do to running and waiting work, and asks.
    """
    with told("groups set"):
        values = parse_values(changes)
        with connect(data) as client:
            if is_asked(yes=yes, as_json=as_json):
                planned = client.set_group(name, values, dry_run=True)
                _tell(planned, dry_run=True)
                if not planned.changes:
                    return
                show_consequences(client, {"set_group": {name: values}})
                if dry_run:
                    return
                ask("Change this group?")
                print(count(client.set_group(name, values).changes, "change"), "made")
                return
            applied = client.set_group(name, values, dry_run=dry_run)
        if as_json:
            print_json(applied)
        else:
            _tell(applied, dry_run=dry_run)


def parse_values(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the changes in ``MaxJobs=100`` and ``MaxJobs-``; None removes the keyword.

    Raise InputError.
    """
    found: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        removed = not equals and key.endswith("-")
        key = key.removesuffix("-") if removed else key
        if not removed and not value:
            raise InputError("has no value", hint=f"{key}=VALUE, or {key}- to take it out", field=key)
        if key in found:
            raise InputError("is given twice", hint="each keyword once", field=key)
        found[key] = None if removed else value
    return found


def _tell(applied: Applied, *, dry_run: bool) -> None:
    """Print the notes and changes of an answer."""
    for note in applied.notes:
        typer.echo(f"note: {note}", err=True)
    if not applied.changes:
        print("nothing would change" if dry_run else "nothing changed")
        return
    for line in applied.diff.splitlines():
        _print_change(line)
    print(count(applied.changes, "change"), "would be made" if dry_run else "made")


def row(group: GroupView) -> list[Cell]:
    """Return the cells of one group."""
    ratio: Cell = (f"{group.ratio:.2f}", "yellow" if group.ratio > 1 else "")
    return [
        (group.name, "dim") if group.cooling else group.name,
        _quota(group),
        _used(group),
        ratio,
        str(group.running),
        str(group.waiting),
        group.policy + (" (cools off)" if group.cooling else ""),
        str(group.weight),
        " ".join(group.users),
        _limits(group),
    ]


def _used(group: GroupView) -> str:
    """Return the use of a group; beside a number, its use of the kinds of nodes that are guaranteed to others."""
    if group.used.startswith("<"):
        return group.used
    kinds = ", ".join(f"{name}={kind.used}" for name, kind in group.kinds.items())
    return f"{group.used} ({kinds})" if kinds else group.used


def tree_rows(groups: Sequence[GroupView], *, drawn: bool) -> list[list[Cell]]:
    """Return the rows of groups depth first; if ``drawn``, with lines that show the tree."""
    return [_tree_row(group, lead if drawn else "") for group, lead in in_tree(groups)]


def in_tree(groups: Sequence[GroupView]) -> Iterator[tuple[GroupView, str]]:
    """Yield the groups depth first, by name, each with the lines before its name that show the tree."""
    children: dict[str, list[GroupView]] = {}
    for group in sorted(groups, key=lambda group: group.name):
        children.setdefault(group.parent, []).append(group)
    # Each with the lines before its own name, and before those of the groups in it.
    open_ = [(group, "", "") for group in reversed(children.get("", []))]
    while open_:
        group, lead, below = open_.pop()
        yield group, lead
        inside = children.get(group.name, [])
        for i, child in reversed(list(enumerate(inside))):
            last = i == len(inside) - 1
            open_.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


def _tree_row(group: GroupView, lead: str) -> list[Cell]:
    name, quota, used, ratio, running, waiting, policy = row(group)[:7]
    return [
        (lead + group.name, name[1]) if isinstance(name, tuple) else lead + group.name,
        group.parent,
        quota,
        used,
        ratio,
        _percent(group.share_of_parent),
        _percent(group.share_of_cluster),
        group.borrowed,
        group.lends,
        group.max_quota,
        running,
        waiting,
        policy,
        _limits(group),
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _limits(group: GroupView) -> Cell:
    """Return the limits of a group, with the jobs that run or live under them; a closed group shows that first."""
    told = []
    if group.closed:
        since = datetime.fromtimestamp(group.closed_since).astimezone() if group.closed_since else None
        told.append(f"closed since {since:%Y-%m-%d %H:%M}" if since else "closed")
    counts = {"MaxRunningJobs": group.running_jobs, "MaxJobs": group.jobs}
    for key, text in group.limits.items():
        told.append(f"{key}={text}" + (f" ({counts[key]})" if key in counts else ""))
    return ", ".join(told), "yellow" if group.closed else ""


def _quota(group: GroupView) -> str:
    """Return the present quota, and its end if it has a timetable."""
    if group.until is None:
        return group.quota
    until = datetime.fromtimestamp(group.until).astimezone()
    day = "" if until.date() == datetime.now().astimezone().date() else f"{until:%a} "
    return f"{group.quota} until {day}{until:%H:%M}"


def _bar(group: GroupView) -> Cell:
    return bar(group.ratio), "yellow" if group.ratio > 1 else "green"


def _print_change(line: str) -> None:
    text = clean(line)
    style = {"+": "green", "-": "red", "~": "yellow"}.get(text.lstrip()[:1], "")
    if terminal() and style:
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False).print(Text(text, style=style), soft_wrap=True)
    else:
        print(text)
