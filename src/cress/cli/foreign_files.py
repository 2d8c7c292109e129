"""Files of other systems that somebody submits: each is called by its name, with the page that translates it."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NamedTuple

from cress.model.errors import InputError

# Most characters of a file that are looked at.
MOST = 10_000
PROGRAMS = {".py": "python3", ".r": "Rscript", ".jl": "julia", ".pl": "perl", ".m": "matlab -batch", ".sh": "sh"}
# A key of job files: what has one may mention other systems.
_OWN_KEY = re.compile(r"(?:^|[{,-])[ \t]*[\"']?(?:command|steps|parts)[\"']?[ \t]*:", re.MULTILINE | re.IGNORECASE)


class ForeignKind(NamedTuple):
    """A kind of files: ``mark`` is found in each, ``what`` names it, ``instead`` says what to write."""

    mark: re.Pattern[str]
    what: str
    instead: str


def _kind(mark: str, what: str, instead: str) -> ForeignKind:
    return ForeignKind(re.compile(mark, re.MULTILINE | re.IGNORECASE), what, instead)


# The first may have keys of job files.
KINDS = (
    _kind(
        r"^apiVersion:[ \t]*\S|\A\s*\{\s*\"apiVersion\"[ \t]*:",
        "a manifest of Kubernetes",
        "docs/coming-from.md#a-manifest-of-kubernetes shows a job file for it",
    ),
    _kind(
        r"^[ \t]*(?:executable|universe)[ \t]*=(?=[\s\S]*^[ \t]*queue\b)",
        "a submit file of HTCondor",
        "docs/coming-from.md#a-submit-file-of-htcondor shows a job file for it",
    ),
    _kind(
        r"^[ \t]*JOB[ \t]+\S+[ \t]+\S+\.(?:sub|submit|condor)\b",
        "a file of DAGMan",
        "`type: dag` with `steps` (docs/workflows.md#dags)",
    ),
    _kind(
        r"^[ \t]*job[ \t]+\"[^\"\n]+\"[ \t]*\{",
        "a job specification of Nomad",
        "docs/coming-from.md#nomad lists the keys of job files for it",
    ),
    _kind(
        r"^services:[ \t]*$(?=[\s\S]*^[ \t]+(?:image|build):)",
        "a file of Docker Compose",
        "one `type: service` for each (docs/services.md)",
    ),
    _kind(
        r"^#SBATCH\b",
        "a script of Slurm whose first line names no interpreter",
        "#!/bin/bash as its first line",
    ),
)  # fmt: skip


def check_own(text: str, name: str) -> None:
    """Raise InputError if a text is a file of another system, a script, or a program."""
    if text.startswith("#!"):
        hint = f"`cress submit --dry-run {name}` checks a script"
        raise InputError("is a script, not a job file", hint=hint, file=name, line=1)
    head = text[:MOST]
    is_own = _OWN_KEY.search(head) is not None
    for kind in KINDS[:1] if is_own else KINDS:
        found = kind.mark.search(head)
        if found is not None:
            line = head.count("\n", 0, found.end() - len(found[0].lstrip())) + 1
            raise InputError(f"is {kind.what}, not a job file", hint=kind.instead, file=name, line=line)
    if is_own:
        return
    program = PROGRAMS.get(PurePath(name).suffix.lower())
    if program is not None:
        what = "is a program without #! in its first line, not a job file"
        raise InputError(what, hint=f"cress submit -- {program} {name}", file=name)
