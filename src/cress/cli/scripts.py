"""Scripts with directives as jobs of ``cress submit``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.cli.common import read_text
from cress.cli.job_options import directive_values, with_values
from cress.cli.jobfile import JobInFile
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Client


def read_script_job(client: Client, file: str, arguments: Sequence[str]) -> JobInFile:
    """Return the job of a script, with its ``#CRESS`` directives. Raises InputError with file and line.

    Notes on directives that are passed over go to standard error.
    """
    from cress.cli.slurm.batch import check_order, directives
    from cress.cli.slurm.common import surroundings
    from cress.cli.slurm.install import installed
    from cress.slurm.jobs import batch_job, read_request
    from cress.slurm.script import MOST_BYTES, read_script

    script = read_script(read_text(file, "a script", most=MOST_BYTES), file)
    given = directives(script, file)
    values = [
        value
        for directive in script.directives
        if directive.kind == "CRESS"
        for value in directive_values(directive.words, file, directive.line)
    ]
    around = surroundings(client, given)._replace(commands=installed())
    request = read_request(given, around.now)
    translated = batch_job(request, around, script.text, arguments, script_name=script.name, default_export="NONE")
    if translated.layout.places > 1 and not around.commands:
        raise InputError(
            "a script on several nodes needs the commands of Slurm on each of them",
            hint="cress slurm install DIR, with a DIR that all nodes share, then DIR/sbatch SCRIPT",
            file=file,
        )
    check_order(client, translated)
    for note in (*script.notes, *translated.notes):
        sys.stderr.write(f"cress submit: {note}\n")
    lines = {value.key: directive.line for directive in script.directives if directive.kind == "CRESS"
             for value in directive_values(directive.words, file, directive.line)}  # fmt: skip
    lines |= _lines_of(given)
    return JobInFile(with_values(translated.job, values), file, 1, lines=lines, is_script=True)


def _lines_of(given: Sequence[object]) -> dict[str, int]:
    """Return the line of the directive that a key of the job comes from."""
    from cress.slurm.command_line import Given

    keys = {
        "time": "time_limit", "mem": "resource", "cpus-per-task": "resource", "mem-per-cpu": "resource",
        "gres": "resource", "gpus": "resource", "dependency": "after", "partition": "group", "account": "group",
        "job-name": "name", "nodelist": "nodes", "constraint": "requirement", "licenses": "licences",
        "deadline": "deadline", "array": "tasks", "ntasks": "tasks", "chdir": "directory",
    }  # fmt: skip
    return {keys[one.option.name]: one.line for one in given if isinstance(one, Given) and one.option.name in keys}
