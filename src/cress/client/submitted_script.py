"""The script of a job of ``sbatch`` and its files of input and output, read from the command of the job."""

from __future__ import annotations

import re
import shlex

from cress.model.whole_numbers import whole_number
from cress.protocol.job_views import JobView

# The places in the command of a job (cress.slurm.jobs.head): its head, a word that marks it, the settings, pieces of
# the script.
_HEAD, _MARK, _SETTINGS, _PIECES = 2, 3, 4, 5
# What the head of every release has.
_IN_HEAD = "export SLURM_JOB_ID="
# Most digits of the number of pieces, and the widest number in the name of a file.
_DIGITS, _WIDEST = 6, 10


def settings_of(job: JobView) -> dict[str, str]:
    """Return the settings of the head of a job, empty for one of another kind."""
    words = job.command
    if len(words) <= _SETTINGS or list(words[:_HEAD]) != ["/bin/sh", "-c"] or words[_MARK] != "slurm":
        return {}
    try:
        settings = shlex.split(words[_SETTINGS]) if _IN_HEAD in words[_HEAD] else []
    except ValueError:  # the command of a job is its user's own text, whatever it looks like
        return {}
    return dict(word.partition("=")[::2] for word in settings)


def script_of(job: JobView) -> str:
    """Return the script of a job, empty without one."""
    count = whole_number(settings_of(job).get("pieces", "0"), _DIGITS) or 0
    return "".join(job.command[_PIECES : _PIECES + count])


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
    path = re.sub(r"%([0-9]*)([%AaJjNntsux])", lambda found: values[found[2]].zfill(_width(found[1])), text)
    return path if path.startswith("/") else f"{job.directory}/{path}"


def _width(digits: str) -> int:
    return min(int(digits[:3] or 0), _WIDEST)
