"""``cress validate``: check job files without a center."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Json, count, print_json
from cress.cli.errors import told
from cress.model.errors import InputError, InputErrors
from cress.model.foreign_words import resource_for
from cress.model.vectors import GPU

if TYPE_CHECKING:
    from cress.cli.jobfile import JobInFile
    from cress.model.resources import Dimensions

EPILOG = """\
\b
Examples:
  cress validate *.yaml
  cress validate --json jobs.yaml | jq '.faults[].line'

\b
Keys, values, requirements, ranks and cron expressions are checked, without a center. `cress submit --dry-run` asks the
center, and also checks the group and whether a node is large enough.
Exit codes: 0 no mistakes, 1 mistakes found, 2 a file cannot be read.
"""

WRONG = 1


def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Job files in YAML or JSON; - is standard input.")],
    as_json: Json = False,
) -> None:
    """Check job files without a center."""
    with told("validate"):
        entries, errors = _read(files)
        found, unchecked = _mistakes(entries) if entries else ([], "")
        errors += found
        if as_json:
            faults = [
                {"what": error.what, "hint": error.hint, "field": error.field, "file": error.file, "line": error.line}
                for error in errors
            ]
            print_json({"valid": not errors, "jobs": len(entries), "faults": faults})
        else:
            for error in errors:
                typer.echo(f"cress validate: {error}", err=True)
            if not errors:
                print(f"{count(len(entries), 'job')}: nothing is wrong{unchecked}")
        if errors:
            raise typer.Exit(WRONG)


def _read(files: Sequence[str]) -> tuple[list[JobInFile], list[InputError]]:
    from cress.cli.jobfile import read_file

    entries: list[JobInFile] = []
    errors: list[InputError] = []
    for file in files:
        try:
            entries += read_file(file)
        except InputError as error:
            errors += error.errors if isinstance(error, InputErrors) else [error]
    return entries, errors


def _mistakes(entries: Sequence[JobInFile]) -> tuple[list[InputError], str]:
    """Return the errors of jobs, and a text on what could not be checked."""
    from cress.cli.inputs import base_of
    from cress.cli.placed import files_of, in_file
    from cress.client.inputs import Inputs
    from cress.model.jobfile.submit import parse_jobs

    with Inputs() as inputs:
        given = [inputs.of_job(entry.mapping, base_of(entry), f"jobs[{place}].") for place, entry in enumerate(entries)]
        errors = list(inputs.mistakes)
    unchecked = ""
    try:
        try:
            from cress.center.requests.validation import read_jobs
        except ModuleNotFoundError as error:
            if not error.name or error.name.partition(".")[0] == "cress":
                raise
            unchecked = f"; requirements, ranks and moments were not checked ({error.name} is not installed)"
            parse_jobs(given, dimensions=_dimensions(entries), user="")
        else:
            read_jobs(given, dimensions=_dimensions(entries), user="", of_cluster=False)
    except InputError as error:
        errors += error.errors if isinstance(error, InputErrors) else [error]
    files = files_of(entries)
    found = [in_file(error, entries) for error in errors]
    return sorted(found, key=lambda error: (files.get(error.file, 0), error.line)), "" if found else unchecked


def _dimensions(entries: Iterable[JobInFile]) -> Dimensions:
    """Return the dimensions of every cluster, and those requested by name, since each cluster may declare its own."""
    from cress.model.resources import BASE_DIMENSIONS, DISK, MAX_DIMENSIONS, Dimensions

    known = (*BASE_DIMENSIONS, DISK)
    found: dict[str, None] = {}
    for entry in entries:
        steps = [
            listed for key, listed in entry.mapping.items() if key.lower() == "steps" and isinstance(listed, Mapping)
        ]
        jobs = [entry.mapping, *(step for listed in steps for step in listed.values() if isinstance(step, Mapping))]
        for name in (name for job in jobs for name in _asked(job)):
            if resource_for(name) == GPU:
                found[GPU] = None
            elif name.isascii() and name.isidentifier() and name not in known and not _mistyped(name, known):
                found[name] = None
    return Dimensions(tuple(found)[: MAX_DIMENSIONS - len(BASE_DIMENSIONS)])


def _mistyped(name: str, known: Sequence[str]) -> bool:
    """Return whether the name is one of these with a typing error, or its word in another system; ``gpu`` is not."""
    from difflib import get_close_matches

    return resource_for(name) not in ("", name) or bool(get_close_matches(name, known, n=1, cutoff=0.75))


def _asked(job: Mapping[str, object]) -> list[str]:
    value = next((resource for key, resource in job.items() if key.lower() == "resource"), None)
    if isinstance(value, Mapping):
        return [str(name).lower() for name in value]
    return [name.lower() for name in re.findall(r"([A-Za-z_]\w*)\s*[:=]", value)] if isinstance(value, str) else []
