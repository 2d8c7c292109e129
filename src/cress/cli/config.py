"""``cress config``: files of configuration, and the configuration of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from cress.cli.common import Data, Json, connect, moment, pairs, print_json, read_text
from cress.cli.errors import told
from cress.cli.preview import Yes, ask, is_asked, show_consequences

if TYPE_CHECKING:
    from cress.client import Client, ConfiguredView


class Make(Protocol):
    """A change of the configuration; a dry run only checks it."""

    def __call__(self, *, dry_run: bool) -> ConfiguredView:
        """Return the documents before and after the change."""


EPILOG = """\
\b
Examples:
  cress config get                            the configuration of the cluster, as a document
  cress config get grace
  cress config set grace 30s                  an option; licences.matlab is a licence
  cress config edit                           the document in $EDITOR
  cress config history
  cress config diff 3                         what has changed since revision 3
  cress config revert 3
  cress config check                          the files that are read by default
  cress config check /etc/cress/center.toml --json

\b
Exit codes: 0 done, 2 bad input (nothing was changed), 3 not accepted, or no center reachable.
Keys, and the document of the cluster: docs/configuration.md.
"""

app = typer.Typer(
    help="Show or change the configuration, or check files.",
    epilog=EPILOG,
    rich_markup_mode=None,
    no_args_is_help=True,
)

Moves = Annotated[
    list[str] | None,
    typer.Option("--move", metavar="OLD=NEW", help="Move the jobs of a removed group to another. Repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")]


@app.command()
def get(
    key: Annotated[
        str, typer.Argument(metavar="[KEY]", help="Option, licences.NAME, or groups. Default: the whole document.")
    ] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Print the configuration of the cluster, or one value."""
    with told("config get"):
        from cress.cli.cluster_config import value_of

        with connect(data) as client:
            view = client.config()
        if as_json and not key:
            print_json(view)
        elif as_json:
            print_json(value_of(view, key))
        else:
            print(value_of(view, key) if key else f"# Revision {view.revision}\n{view.text}", end="\n" if key else "")


@app.command("set")
def change(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Option, or licences.NAME.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="New value; `default` resets an option or removes a licence.")
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Set an option or the number of a licence.

    On a terminal it first shows what this would do to running and waiting work, and asks.
    """
    with told("config set"):
        from cress.cli.cluster_config import LICENCES, count_of, option_of

        what, given = f"config set {key} {value}"[:200], None if value == "default" else value
        section, _, name = key.partition(".")
        options: dict[str, str | None] = {}
        counts: dict[str, int | None] = {}
        if section == LICENCES and name:
            counts[name] = None if given is None else count_of(key, given)
        else:
            options[option_of(key)] = given
        with connect(data) as client:

            def make(*, dry_run: bool) -> ConfiguredView:
                return client.change_config(options=options, licences=counts, what=what, dry_run=dry_run)

            asked = is_asked(yes=yes, as_json=as_json)
            _make(client, make, {"options": options, "licences": counts}, asked=asked, dry_run=dry_run, as_json=as_json)


@app.command()
def edit(
    file: Annotated[
        str, typer.Option(metavar="FILE", help="Apply this document, without an editor; - is standard input.")
    ] = "",
    revision: Annotated[
        int, typer.Option(min=0, metavar="N", help="Revision that must be the current one. Default: that at the start.")
    ] = 0,
    move: Moves = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Edit options, licences and groups in $EDITOR, and apply all changes or none.

    On a terminal it first shows what this would do to running and waiting work, and asks.
    """
    with told("config edit"):
        from cress.cli.cluster_config import forget, in_editor

        moves = pairs(move, "--move", "OLD=NEW")
        with connect(data) as client:
            view = client.config()
            base = revision or view.revision
            path, name = None, "standard input" if file == "-" else file
            if file:
                text = read_text(file, "a configuration")
            else:
                path, text = in_editor(f"# Revision {base}. Sections that are removed stay as they are.\n{view.text}")
                name = str(path)

            def make(*, dry_run: bool) -> ConfiguredView:
                return client.change_config(
                    text, revision=base, what="config edit", file=name, moves=moves, dry_run=dry_run
                )

            change = {"config": text, "file": name, "moves": moves}
            asked = is_asked(yes=yes, as_json=as_json)
            try:
                _make(client, make, change, asked=asked, dry_run=dry_run, as_json=as_json)
            except BaseException:
                if path is not None:
                    _say(
                        f"nothing was changed; the edited text is in {path} (compare it with `cress config "
                        f"get`, then `cress config edit --file {path}`)"
                    )
                raise
        if path is not None:
            forget(path)


@app.command()
def diff(
    old: Annotated[int, typer.Argument(metavar="[N]", min=0, help="Old revision. Default: the last but one.")] = 0,
    new: Annotated[int, typer.Argument(metavar="[M]", min=0, help="New revision. Default: the current one.")] = 0,
    data: Data = None,
) -> None:
    """Show the changes between two revisions; the exit code is 0 in any case."""
    with told("config diff"):
        from cress.cli.cluster_config import difference, revision_text

        with connect(data) as client:
            if not old:
                kept = client.config_history()
                if len(kept) < 2:
                    print("nothing has changed yet")
                    return
                old = kept[1].revision
            (before, first), (after, second) = revision_text(client, old), revision_text(client, new)
        _print_difference(difference(before, after, (first, second)))


@app.command()
def history(as_json: Json = False, data: Data = None) -> None:
    """List the revisions with their times, authors and changes."""
    with told("config history"):
        from cress.cli.tables import TableColumn, clean, show

        with connect(data) as client:
            revisions = client.config_history()
        if as_json:
            print_json(revisions)
            return
        columns = (
            TableColumn("REVISION", right=True),
            TableColumn("TIME"),
            TableColumn("USER"),
            TableColumn("WHAT", gives=True),
        )
        rows = [
            (str(revision.revision), moment(revision.at), revision.by or "-", clean(revision.what))
            for revision in revisions
        ]
        show(columns, rows)


@app.command()
def revert(
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Revision to restore.")],
    move: Moves = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Restore revision N of the configuration, as a new revision.

    On a terminal it first shows what this would do to running and waiting work, and asks.
    """
    with told("config revert"):
        moves = pairs(move, "--move", "OLD=NEW")
        with connect(data) as client:
            present, text = client.config().revision, client.config_revision(number).text
            what, name = f"config revert {number}", f"revision {number}"

            def make(*, dry_run: bool) -> ConfiguredView:
                return client.change_config(text, revision=present, what=what, file=name, moves=moves, dry_run=dry_run)

            change = {"config": text, "file": name, "moves": moves}
            asked = is_asked(yes=yes, as_json=as_json)
            _make(client, make, change, asked=asked, dry_run=dry_run, as_json=as_json)


def _make(client: Client, make: Make, change: dict[str, Any], *, asked: bool, dry_run: bool, as_json: bool) -> None:
    """Make a change and tell it; a person at a terminal first sees its consequences and is asked."""
    if not asked:
        _tell(make(dry_run=dry_run), dry_run=dry_run, as_json=as_json)
        return
    planned = make(dry_run=True)
    _tell(planned, dry_run=True, as_json=False)
    if planned.before == planned.text:
        return
    show_consequences(client, change)
    if dry_run:
        return
    ask("Make this change?")
    # The difference was shown above.
    print(f"revision {make(dry_run=False).revision}")


def _tell(done: ConfiguredView, *, dry_run: bool, as_json: bool) -> None:
    from cress.cli.cluster_config import difference

    if as_json:
        print_json(done)
        return
    for note in done.notes:
        _say(f"note: {note}")
    lines = difference(done.before, done.text)
    _print_difference(lines)
    if not lines:
        return
    print("would be changed" if dry_run else f"revision {done.revision}")


def _print_difference(lines: list[str]) -> None:
    from cress.cli.tables import clean

    for line in lines or ["nothing changed"]:
        print(clean(line))


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


@app.command()
def check(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Files to check. Default: those read by default.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(metavar="KIND", help="Kind of the files: center, executor or client. Default: by name and keys."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Check configuration files, and show the resulting values with their origins."""
    with told("config check"):
        from cress.cli.config_check import files_of, values_of
        from cress.cli.tables import TableColumn, clean, show

        checked = [(file, which, values_of(file, which)) for file, which in files_of(files or [], kind)]
        if as_json:
            print_json(
                [
                    {
                        "file": str(file),
                        "kind": which,
                        "values": [
                            {
                                "key": value.key,
                                "value": value.text,
                                "from": value.origin.kind,
                                "place": value.origin.place,
                            }
                            for value in values
                        ],
                    }
                    for file, which, values in checked
                ]
            )
            return
        columns = (TableColumn("KEY"), TableColumn("VALUE", gives=True), TableColumn("FROM"))
        for file, which, values in checked:
            print(f"{file} ({which}): no mistakes")
            show(columns, [(value.key, clean(value.text), str(value.origin)) for value in values])
