"""The script of a job of ``sbatch`` and its files of input and output, read from the command of the job."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def path_of(job: JobView, stream: str, element: str, number: int, node: str) -> str:
    """Return the file of ``input``, ``output`` or ``error`` of a job as Slurm shows it, its patterns filled in.

    ``element`` is its number in an array, if it is one, ``number`` its own id, ``node`` its first node.
    """
    settings = settings_of(job)
    if not settings:
        return ""
    text = settings.get(stream, "") or (settings.get("output", "") if stream == "error" else "")
    if not text:
        return "/dev/null" if stream == "input" else ""
    values = {
        "%": "%",
        "A": str(job.id),
        "a": element or "4294967294",
        "J": str(number),
        "j": str(number),
        "N": node.partition(".")[0],
        "n": "0",
        "t": "0",
        "s": "batch",
        "u": job.user,
        "x": job.environment.get("SLURM_JOB_NAME") or job.name,
    }
    path = re.sub(r"%(\d*)([%AaJjNntsux])", lambda found: values[found[2]].zfill(int(found[1] or 0)), text)
    return path if path.startswith("/") else f"{job.directory}/{path}"
