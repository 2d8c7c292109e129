"""``cress what-if``: what a change of nodes, groups, options or jobs would do to the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cress.cli.common import Data, Json, connect, pairs, print_json, read_text
from cress.cli.consequences import tell
from cress.cli.errors import told
from cress.cli.inputs import with_inputs
from cress.cli.placed import placed
from cress.cli.plan import Seconds
from cress.cli.submit import in_directory_of
from cress.model.errors import InputError, NotAccepted

if TYPE_CHECKING:
    from cress.client import ConsequencesView, Refused

EPILOG = """\
\b
Examples:
  cress what-if --remove-node n7
  cress what-if --add-nodes '10x<16, 64G>'          ten nodes with 16 cores and 64 GiB
  cress what-if --add-nodes 10xn7                   ten nodes like n7
  cress what-if --groups new.conf
  cress what-if --option preemption=off --option fragmentation=0
  cress what-if --job train.yaml --add-nodes 2xn7   several changes together
  cress what-if --groups new.conf --out report      report.html and tables, as of a simulation

\b
A copy of the cluster runs forward in virtual time, with the change and without it, until the jobs that wait now have
ended. Runs end by their estimates, or at their time limits; nothing new is submitted, and nothing is changed
(docs/plan.md).
Exit codes: 0 done, 2 bad input, 3 not accepted (such as a job that can never run), or no center reachable.
"""


def what_if(
    remove_node: Annotated[
        list[str] | None, typer.Option("--remove-node", metavar="NAME", help="Node to remove at once. Repeatable.")
    ] = None,
    add_nodes: Annotated[
        list[str] | None,
        typer.Option("--add-nodes", metavar="[N×]SPEC", help="Nodes to add: '10x<16, 64G>', or 10xNAME. Repeatable."),
    ] = None,
    groups: Annotated[
        str, typer.Option("--groups", metavar="FILE", help="Apply the groups of this file; - is standard input.")
    ] = "",
    move: Annotated[
        list[str] | None,
        typer.Option("--move", metavar="OLD=NEW", help="Move the jobs of a removed group to another. Repeatable."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option to set. Repeatable."),
    ] = None,
    job: Annotated[
        list[str] | None, typer.Option("--job", metavar="FILE", help="File with jobs to submit. Repeatable.")
    ] = None,
    seconds: Seconds = 20.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write a report, as that of `cress simulate`, to DIR.")
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show what a change would do to the cluster's work.

    Nothing is changed.
    """
    with told("what-if"):
        from cress.cli.jobfile import read_jobs
        from cress.client import Refused, calls

        entries = read_jobs(job) if job else []
        change: dict[str, Any] = {
            "remove_nodes": remove_node or [],
            "add_nodes": add_nodes or [],
            "options": pairs(option, "--option", "KEY=VALUE"),
            "jobs": [in_directory_of(entry) for entry in entries],
        }
        if groups:
            change["groups"] = read_text(groups, "groups as text")
            change["file"] = "standard input" if groups == "-" else groups
            change["moves"] = pairs(move, "--move", "OLD=NEW")
        elif move:
            raise InputError("applies only to --groups", hint="with a file of groups", field="--move")
        if not any(change.values()):
            hint = "--remove-node, --add-nodes, --groups, --option or --job"
            raise InputError("no change is given", hint=hint)
        if out is not None:
            change["details"] = True
        with connect(data) as client:
            present = (client.config().options, client.groups().text) if out is not None else None
            change["jobs"] = with_inputs(client, entries, change["jobs"], send=False)
            try:
                found = client.ask(calls.what_if(change, seconds))
            except Refused as error:
                raise _at_its_option(error) or (placed(error, entries) if entries else error) from None
        if out is not None and present is not None:
            _write(out, found, present, change)
        if as_json:
            print_json(found)
            return
        for note in found.notes:
            typer.echo(f"note: {note}", err=True)
        tell(found)
        if out is not None:
            print(f"\nReport: {out / 'report.html'}")


def _write(
    out: Path, found: ConsequencesView, present: tuple[Mapping[str, str], str], change: Mapping[str, Any]
) -> None:
    """Write the report of both courses; ``present`` are the options and groups without the change."""
    from cress.model.groups.conf import parse_groups
    from cress.model.option_text import parse_option
    from cress.model.options import Options
    from cress.model.resources import Dimensions
    from cress.simulator.courses import write_courses

    if len(found.details) < 2:
        raise NotAccepted("the center is older and has no details for a report", hint="without --out", field="--out")
    courses = []
    values, text = present
    changed = {**values, **change["options"]}, change.get("groups", text)
    for label, details, (values, text) in zip(("before", "after"), found.details, (present, changed), strict=True):
        options = Options(**dict(parse_option(name, value) for name, value in values.items()))
        groups = parse_groups(text, dimensions=Dimensions(details.dimensions), accounting=options.accounting).groups
        courses.append((label, details, groups, options))
    if not all(details.jobs for details in found.details):
        raise NotAccepted("no job waits or runs, so there is nothing to report", field="--out")
    write_courses(out, courses)


# The options of the command by the fields of the call.
_OPTIONS = {"remove_nodes": "--remove-node", "add_nodes": "--add-nodes", "options": "--option", "moves": "--move"}


def _at_its_option(refused: Refused) -> Exception | None:
    """Return an error of the center with the option that it is about; ``None`` if it is about no option."""
    for fault in refused.faults:
        head, _, key = fault.field.replace("[", ".").partition(".")
        if head in _OPTIONS:
            field = f"{_OPTIONS[head]} {key}" if head == "options" and key else _OPTIONS[head]
            return (InputError if refused.bad_input else NotAccepted)(fault.what, hint=fault.hint, field=field)
    return None
