"""``cress versions``, ``revert``, ``restart`` and ``promote``: the versions of services and databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cress.cli import completion
from cress.cli.common import Data, Json, connect, moment, print_json
from cress.cli.errors import told
from cress.cli.job_names import job_named
from cress.cli.tables import Cell, TableColumn, clean, show

if TYPE_CHECKING:
    from cress.client import JobView
    from cress.client.calls import PreparedCall

_CODES = """\
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as a batch job), or no center reachable.
"""
VERSIONS = f"""\
\b
Examples:
  cress versions web

\b
The list has the last 20 versions. CHANGED are the keys in which a version differs from the one before.
{_CODES}"""
REVERT = f"""\
\b
Examples:
  cress revert web 3

\b
The earlier version becomes the newest one, task by task as in every update. The number of tasks stays.
{_CODES}"""
RESTART = f"""\
\b
Examples:
  cress restart web

\b
All tasks are replaced one by one, as in an update (docs/services.md): a new version with the same keys.
{_CODES}"""
PROMOTE = f"""\
\b
Examples:
  cress promote web

\b
With the key `canary` an update replaces only that many tasks, and waits. `cress promote` lets the others follow;
`cress revert` goes back.
{_CODES}"""
COLUMNS = (
    TableColumn("VERSION", right=True),
    TableColumn("SINCE"),
    TableColumn("BY", gives=True),
    TableColumn("STATE"),
    TableColumn("CHANGED", gives=True),
)

Service = Annotated[
    str, typer.Argument(metavar="JOB", help="Service or database (id or name).", autocompletion=completion.jobs)
]


def versions(job: Service, as_json: Json = False, data: Data = None) -> None:
    """List the versions of a service or database."""
    with told("versions"):
        with connect(data) as client:
            from cress.client import calls

            page = client.ask(calls.versions(job_named(client, job)))
        if as_json:
            print_json(page)
        else:
            show(COLUMNS, [_row(version) for version in page.versions])


def _row(version: Any) -> list[Cell]:
    changed = ", ".join(f"{change.key}: {change.before} -> {change.after}" for change in version.changes)
    state = "present" if version.now else "last good" if version.good else ""
    return [str(version.version), moment(version.at), version.by or "(rollback)", state, clean(changed)]


def revert(
    job: Service,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Number of the version.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Bring back an earlier version of a service or database."""
    with told("revert"):
        from cress.client import calls

        view = _change(job, data, lambda id: calls.revert(id, version))
        _tell(view, f"is being updated to version {_version(view)}, which is version {version} again", as_json)


def restart(job: Service, as_json: Json = False, data: Data = None) -> None:
    """Replace all tasks of a service or database one by one."""
    with told("restart"):
        from cress.client import calls

        view = _change(job, data, calls.restart)
        _tell(view, f"is being restarted as version {_version(view)}", as_json)


def promote(job: Service, as_json: Json = False, data: Data = None) -> None:
    """Let an update that waits after its canaries go on."""
    with told("promote"):
        from cress.client import calls

        view = _change(job, data, calls.promote)
        _tell(view, f"goes on with its update to version {_version(view)}", as_json)


def _change(job: str, data: Data, call: Callable[[int], PreparedCall[JobView]]) -> JobView:
    with connect(data) as client:
        return client.ask(call(job_named(client, job)))


def _version(view: JobView) -> int:
    return view.service.version if view.service is not None else 0


def _tell(view: JobView, what: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print(f"job {view.id} ({clean(view.name)}) {what} (follow it: cress job {view.id})")
