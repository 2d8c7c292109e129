"""What a job of ``sbatch`` was submitted with, read from its command: the script, and its files of input and output."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cress.cli.slurm.rows import JobRow
    from cress.client import JobView

# The places in the command of a job (cress.slurm.jobs.head): a word that marks it, the settings, pieces of the script.
_MARK, _SETTINGS, _PIECES = 3, 4, 5


def settings_of(job: JobView) -> dict[str, str]:
    """Return the settings of the head of a job, empty for one of another kind."""
    if len(job.command) <= _SETTINGS or job.command[_MARK] != "slurm":
        return {}
    return dict(word.partition("=")[::2] for word in shlex.split(job.command[_SETTINGS]))


def script_of(job: JobView) -> str:
    """Return the script of a job, empty without one."""
    count = settings_of(job).get("pieces", "0")
    return "".join(job.command[_PIECES : _PIECES + int(count)]) if count.isdigit() else ""


def path_of(row: JobRow, stream: str) -> str:
    """Return the file of ``input``, ``output`` or ``error`` of a job as Slurm shows it, its patterns filled in."""
    settings = settings_of(row.job)
    if not settings:
        return ""
    text = settings.get(stream, "") or (settings.get("output", "") if stream == "error" else "")
    if not text:
        return "/dev/null" if stream == "input" else ""
    path = re.sub(r"%(\d*)([%AaJjNntsux])", lambda found: _filled(row, found[1], found[2]), text)
    return path if path.startswith("/") else f"{row.job.directory}/{path}"


def _filled(row: JobRow, width: str, letter: str) -> str:
    values = {
        "%": "%",
        "A": str(row.job.id),
        "a": row.element or "4294967294",
        "J": str(row.raw_id),
        "j": str(row.raw_id),
        "N": row.nodes[0].partition(".")[0] if row.nodes else "",
        "n": "0",
        "t": "0",
        "s": "batch",
        "u": row.job.user,
        "x": row.variable("SLURM_JOB_NAME") or row.job.name,
    }
    value = values[letter]
    return value.zfill(int(width)) if width and value.isdigit() else value
