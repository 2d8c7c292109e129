"""``cress store``: check, back up and restore the store of a center."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.common import count
from cress.cli.errors import told
from cress.cli.tables import facts

EPILOG = """\
\b
Examples:
  cress store check                      read everything, step through the log, report what it holds
  cress store backup /backup/monday.db   copy it while the center runs
  cress store restore /backup/monday.db  restore it while no center runs; the replaced store is kept beside it
  cress store accept-loss                go on with a store that is older than what executors know (docs/store.md)
  cress store secret --new               make a new secret; centers and executors then need it (docs/store.md)
  cress store migrate /srv/cress zookeeper://zk1,zk2,zk3/cress   move it to a store that several centers share

\b
Exit codes: 0 done (check: no damage), 1 the store is damaged or cannot be read, 2 bad input (such as a running center).
"""
DAMAGED = 1

Directory = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="CRESS_DATA",
        help="Data directory of the center. Default: ~/.local/share/cress.",
    ),
]

Address = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="CRESS_STORE",
        help="URL of a store that several centers share. Default: the store in the data directory.",
    ),
]

app = typer.Typer(
    no_args_is_help=True, help="Check, back up or restore the store of a center.", epilog=EPILOG, rich_markup_mode=None
)


@app.command()
def check(data: Directory = None, store: Address = "") -> None:
    """Read and check the store and all other files of the data directory; the center may run."""
    with _told("check"), _file(data, store) as path:
        from cress.center.keeping import store_maintenance as upkeep
        from cress.client.config import data_directory

        found = upkeep.check(path, data_directory(data) if store else None)
        facts(
            [
                ("store", f"{upkeep.without_password(store) or path}, {found.size:,} bytes"),
                ("state", f"snapshot of {found.snapshot:,} bytes and {count(found.records, 'record')} since"),
                (
                    "alive",
                    f"{count(found.jobs, 'job')}, {count(found.attempts, 'attempt')}, {count(found.nodes, 'node')}",
                ),
                ("finished", f"{count(found.finished_jobs, 'job')}, {count(found.finished_attempts, 'attempt')}"),
            ]
        )
        if found.completed:
            changes = count(found.completed, "change")
            print(f"{path}-wal lacks the last {changes}; the next start completes it from {path}.commits")
        for problem in found.problems:
            typer.echo(f"cress store check: {problem}", err=True)
        if found.problems:
            typer.echo("cress store check: restore a backup with `cress store restore FILE`", err=True)
        others = [*found.files, *_of_executors(data_directory(data)), *filter(None, (found.secret, found.loss))]
        for problem in others:
            typer.echo(f"cress store check: {problem}", err=True)
        if found.others:
            print(f"not files of a center, and not checked: {', '.join(found.others)}")
        if found.problems or others:
            raise typer.Exit(DAMAGED)
        print("all is well")


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File for the backup; it must not exist yet.")],
    data: Directory = None,
    store: Address = "",
) -> None:
    """Copy the store into a file; the center may run."""
    with _told("backup"), _file(data, store) as path:
        from cress.center.keeping import store_maintenance as upkeep

        size = upkeep.backup(path, file)
        print(f"{file}: {size:,} bytes")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with the backup.")],
    data: Directory = None,
    store: Address = "",
) -> None:
    """Replace the store by a backup; no center may run on it."""
    with _told("restore"):
        from cress.center.keeping import store_maintenance as upkeep
        from cress.client.config import data_directory

        place = data_directory(data)
        done = upkeep.restore_shared(store, file, place) if store else upkeep.restore(place, file)
        alive = f"{count(done.jobs, 'job')} and {count(done.attempts, 'attempt')} alive in it"
        print(f"{upkeep.without_password(store) or place / upkeep.STORE} is {file} now, with {alive}")
        if done.kept is not None:
            print(f"the earlier store is in {done.kept}")
        if done.jumped:
            print("numbers of new jobs and attempts begin much higher: the numbers used since the backup are not known")
        for wrong in () if store else upkeep.obstacles(place):
            print(f"a center cannot start on it yet: {wrong}")


@app.command("accept-loss")
def accept_loss(data: Directory = None, store: Address = "") -> None:
    """Go on although the store is an older copy, or the audit log lacks entries; no center may run here."""
    with _told("accept-loss"):
        from cress.center.keeping import store_maintenance as upkeep
        from cress.client.config import data_directory

        place = data_directory(data)
        accepted = upkeep.accept_loss(place, store)
        if (done := accepted.store) is not None:
            alive = f"{count(done.jobs, 'job')} and {count(done.attempts, 'attempt')} alive in it"
            print(f"{upkeep.without_password(store) or place / upkeep.STORE} goes on as it is, with {alive}")
            print("numbers of new jobs and attempts begin much higher than all that were given")
            if done.kept is not None:
                print(f"the store as it was is in {done.kept}")
        for problem in accepted.audit:
            print(f"accepted: {problem}")


@app.command()
def secret(
    new: Annotated[
        bool, typer.Option("--new", help="Make a new secret; it replaces the one in the file `token`.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the secret in the file `token`, which executors already have.")
    ] = False,
    data: Directory = None,
    store: Address = "",
) -> None:
    """Change the secret of the cluster; no center may run here."""
    with _told("secret"):
        from cress.center.keeping import store_maintenance as upkeep
        from cress.client.config import data_directory
        from cress.model.errors import InputError

        if new == accept:
            raise InputError(
                "--new or --accept is missing", hint="--new makes a secret, --accept accepts the one in the file"
            )
        place = upkeep.change_secret(data_directory(data), store, new=new)
        if accept:
            print(f"the token in {place} is the secret of the cluster now")
            return
        print(f"{place} has a new secret, and executors with the old one are refused from now on")
        print("give it to all centers that share the store and to all executors without TLS, and start them again")


@app.command()
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Data directory, or URL of a shared store.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Data directory, or URL of a shared store; it must be empty.")
    ],
) -> None:
    """Move the store to another kind of store; stop the center before and start it afterwards, tasks go on."""
    with _told("migrate"):
        from cress.center.keeping.store_maintenance import obstacles, without_password
        from cress.center.keeping.store_migration import is_address, migrate

        kept = migrate(source, target)
        print(f"{without_password(target) or target} has all that was in {without_password(source) or source}")
        if kept is not None:
            print(f"the earlier store is in {kept}; the center goes on with `--store {without_password(target)}`")
        for wrong in () if is_address(target) else obstacles(Path(target)):
            print(f"a center cannot start on it yet: {wrong}")


def _of_executors(data: Path) -> list[str]:
    """Return the damage in the directories of executors that lie in the data directory."""
    from cress.executor.folder_check import check_folder

    folders = sorted((data / "executors").iterdir()) if (data / "executors").is_dir() else []
    return [problem for folder in folders if folder.is_dir() for problem in check_folder(folder)]


@contextmanager
def _file(data: Path | None, store: str) -> Iterator[Path]:
    """Yield the store as a file."""
    from cress.center.keeping.store_maintenance import STORE
    from cress.center.keeping.store_migration import as_file
    from cress.client.config import data_directory

    if not store:
        yield data_directory(data) / STORE
        return
    with as_file(store) as path:
        yield path


@contextmanager
def _told(verb: str) -> Iterator[None]:
    with told(f"store {verb}", "center"):
        from cress.center.keeping.store_maintenance import StoreError

        try:
            yield
        except StoreError as error:
            typer.echo(f"cress store {verb}: {error}", err=True)
            raise typer.Exit(DAMAGED) from None
