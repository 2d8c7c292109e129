"""Jobs as texts for job files, to be changed and submitted again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from cress.client.submitted_script import script_of
from cress.portal.texts import count
from cress.protocol.job_views import JobView, StepView
from cress.protocol.views import Resources

# Fields of a job that are keys of a job file with the same value, in the order of such a file.
KEYS = (
    "image",
    "priority",
    "gang",
    "environment",
    "secrets",
    "directory",
    "requirement",
    "rank",
    "retries",
    "ports",
    "max_running",
    "max_per_node",
    "max_per_rack",
    "licences",
    "labels",
    "workload",
)
HEAD = "# Job {id} as the center shows it. Add what the center does not show, such as files, outputs or checks.\n"


# A job in a reason, of which at most so many digits are a number.
JOB_NUMBER = re.compile(r"\bjob ([0-9]{1,15})\b(?: \([^()]*\))?")
# Shells whose ``-c`` is followed by a program of several lines.
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


class ProgramText(NamedTuple):
    """The program of a job: its command on one line, and its script, empty if it is not a script of several lines."""

    line: str
    script: str = ""


def program_of(job: JobView) -> ProgramText:
    """Return the program of a job: a script of ``sbatch``, the lines of ``sh -c``, or else its command."""
    words = job.command
    if script := script_of(job):
        return ProgramText(f"a script of {count(len(script.splitlines()), 'line')}", script)
    if len(words) > 2 and words[0].rpartition("/")[2] in SHELLS and words[1] == "-c" and "\n" in words[2].strip():
        lines = count(len(words[2].strip().splitlines()), "line")
        return ProgramText(f"{shlex.join(words[:2])} and a script of {lines}", words[2].strip("\n"))
    return ProgramText(shlex.join(words))


def requests_of(job: JobView, members: Sequence[JobView]) -> list[tuple[str, Resources]]:
    """Return what each task of a job asks for: a row for each part of a gang, none for steps, which have their own."""
    if job.parts:
        # The resource of the job itself is a mean.
        return [(f"Each task of {part.name}", part.resource) for part in job.parts if part.resource]
    # A cron job without a command has an image, or its runs are dags.
    of_steps = job.type == "cron" and not job.command and all(member.type == "dag" for member in members)
    if job.type == "dag" or of_steps or not job.resource:
        return []
    return [("Each task", job.resource)]


def reason_of_step(step: StepView, names: Mapping[int, str]) -> str:
    """Return the reason of a step, with the names of other steps for their numbers."""
    return JOB_NUMBER.sub(
        lambda found: f"step {names[int(found[1])]}" if int(found[1]) in names else found[0], step.reason
    )


def job_file_of(job: JobView, change: Mapping[str, str]) -> str:
    """Return a job file for a batch job, with a change as in ``Remedy``: keys, or dimensions of its resource."""
    written: dict[str, Any] = {"name": job.name or f"job-{job.id}", "group": job.group}
    if job.command:
        # Without one, the image says what runs.
        written["command"] = list(job.command)
    if job.tasks.total > 1:
        written["tasks"] = job.tasks.total
    written["resource"] = {name: _plain(amount) for name, amount in job.resource.items()}
    if job.time_limit:
        written["time_limit"] = f"{job.time_limit:g}s"
    for key in KEYS:
        value = getattr(job, key)
        if value:
            written[key] = value
    for key, value in change.items():
        if key in job.resource:
            written["resource"][key] = _plain(value)
        elif value:
            written[key] = _plain(value)
        else:
            written.pop(key, None)
    text: str = yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return HEAD.format(id=job.id) + text


def _plain(text: str) -> str | int:
    """Return whole numbers as numbers, as people write them."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
