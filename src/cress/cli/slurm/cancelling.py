"""``scancel``: cancel jobs, or send them a signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.cli.slurm.common import FAILED, center, say, user_of
from cress.cli.slurm.queue import VALUE, option, states_named
from cress.cli.slurm.rows import elements_of, named, rows_of
from cress.model.errors import InputError
from cress.slurm.arrays import JobName, job_words, parse_job
from cress.slurm.command_line import parse, values_of
from cress.slurm.jobs import job_name

if TYPE_CHECKING:
    from cress.client import Client, JobView

OPTIONS = (
    option("account", "A", VALUE),
    option("batch", "b"),
    option("clusters", "M", VALUE),
    option("ctld"),
    option("full", "f"),
    option("hurry", "H"),
    option("interactive", "i"),
    option("jobname", "n", VALUE),
    option("name", "", VALUE),
    option("me"),
    option("nodelist", "w", VALUE),
    option("partition", "p", VALUE),
    option("qos", "q", VALUE),
    option("quiet", "Q"),
    option("reservation", "R", VALUE),
    option("signal", "s", VALUE),
    option("state", "t", VALUE),
    option("user", "u", VALUE),
    option("verbose", "v"),
)
FILTERS = ("account", "jobname", "name", "me", "partition", "qos", "state", "user")
MOST = 1000


def scancel(name: str, words: Sequence[str]) -> int:
    """Cancel jobs by id or by filter."""
    given, rest = parse(words, OPTIONS, mixed=True)
    values = values_of(given)
    wanted = [parse_job(word) for text in rest for word in job_words(text)]
    if not wanted and not any(option in values for option in FILTERS):
        raise InputError("No job identification provided", hint="scancel 12, scancel --user=NAME, scancel --name=NAME")
    code = 0
    with center() as client:
        from cress.client import NotFound

        found: list[tuple[JobView, JobName]] = []
        for one in wanted:
            try:
                job = client.job(one.id)
            except NotFound:
                say(name, f"error: Kill job error on job id {one.id}: Invalid job id specified")
                code = FAILED
                continue
            if _meant(client, job, values):
                found.append((job, one))
        if not wanted:
            for state in ("waiting", "running"):
                page = client.jobs(limit=MOST, state=state)
                found += [(job, JobName(job.id)) for job in page.jobs if _meant(client, job, values)]
        signal = values.get("signal", "").upper().removeprefix("SIG")
        for job, one in found:
            code = max(code, _end(name, client, job, one, signal, quiet="quiet" in values))
    return code


def _meant(client: Client, job: JobView, values: dict[str, str]) -> bool:
    users = {user_of(client)} if "me" in values else {*filter(None, values.get("user", "").split(","))}
    names = values.get("name") or values.get("jobname")
    group = values.get("partition") or values.get("account")
    of = {job.group, job.environment.get("SLURM_JOB_PARTITION"), job.environment.get("SLURM_JOB_ACCOUNT")}
    return (
        (not users or job.user in users)
        and (not names or job.name in {job_name(one) for one in names.split(",")})
        and (not group or group in of)
        and ("state" not in values or job.state in states_named(values["state"]))
    )


def _end(name: str, client: Client, job: JobView, one: JobName, signal: str, *, quiet: bool) -> int:
    """Cancel a job, or signal it or some of its tasks; return the exit code."""
    from cress.client import Refused

    whole = one.elements is None and one.task is None
    elements = elements_of(job)
    if not whole and (elements is None or (job.tasks.total == 1)):
        whole = True
    if job.ended is not None:
        if not quiet and signal:
            say(name, f"error: Kill job error on job id {job.id}: Job/step already completing or completed")
        return FAILED if signal else 0
    if whole and not signal:
        client.cancel(job.id)
        return 0
    tasks = [row.tasks[0] for row in named(rows_of(client, job, single=True), one) if row.tasks] if not whole else []
    code = 0
    for task in tasks:
        if task.state in ("running", "starting"):
            client.signal(job.id, signal or "TERM", task.index)
        elif task.state == "waiting" and not signal:
            say(name, f"error: element {job.id}_{elements[task.index] if elements else task.index} waits, and one "
                f"element alone cannot be cancelled before it runs (scancel {job.id} cancels the array)")  # fmt: skip
            code = FAILED
    if whole:
        try:
            client.signal(job.id, signal)
        except Refused:
            # It waits: only a signal that ends a job means something to it.
            if signal in ("KILL", "9", "TERM", "15"):
                client.cancel(job.id)
            else:
                say(name, f"error: Kill job error on job id {job.id}: Job is pending execution")
                code = FAILED
    return code
