"""``squeue``: jobs that wait or run."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from cress.cli.slurm.common import center, user_of
from cress.cli.slurm.rows import FIELDS, LIVE, STATES, JobRow, elements_of, field, moment, named, rows_of
from cress.cli.slurm.tables import TextColumn, columns_of_names, printed, widths
from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.slurm.arrays import job_words, parse_job
from cress.slurm.command_line import parse, values_of
from cress.slurm.jobs import job_name
from cress.slurm.option_table import Fate, Option, Takes

if TYPE_CHECKING:
    from cress.client import Client, JobView

USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
# Seconds for which ended jobs are shown with --states, as MinJobAge of Slurm.
JUST_ENDED = 300.0
MOST = 1000


def option(name: str, short: str = "", takes: Takes = Takes.NOTHING) -> Option:
    """Return an option of a command that only shows or changes jobs."""
    return Option(name, short, takes, Fate.UNDERSTOOD, "")


VALUE = Takes.VALUE
OPTIONS = (
    option("jobs", "j", VALUE),
    option("job", "", VALUE),
    option("user", "u", VALUE),
    option("me"),
    option("name", "n", VALUE),
    option("partition", "p", VALUE),
    option("account", "A", VALUE),
    option("qos", "q", VALUE),
    option("states", "t", VALUE),
    option("nodelist", "w", VALUE),
    option("format", "o", VALUE),
    option("Format", "O", VALUE),
    option("sort", "S", VALUE),
    option("noheader", "h"),
    option("long", "l"),
    option("array", "r"),
    option("array-unique"),
    option("steps", "s", Takes.MAYBE),
    option("start"),
    option("iterate", "i", VALUE),
    option("clusters", "M", VALUE),
    option("all", "a"),
    option("hide"),
    option("local"),
    option("federation"),
    option("verbose", "v"),
)
LETTERS: dict[str, Callable[[JobRow], str]] = {
    "A": lambda row: str(row.raw_id),
    "a": FIELDS["account"],
    "b": lambda row: f"gres/gpu:{row.job.resource['gpu']}" if "gpu" in row.job.resource else "N/A",
    "C": FIELDS["ncpus"],
    "c": FIELDS["ncpus"],
    "D": FIELDS["nnodes"],
    "E": lambda row: FIELDS["dependency"](row) or "(null)",
    "e": lambda row: moment(row.ended, "N/A"),
    "F": FIELDS["arrayjobid"],
    "f": lambda row: row.job.requirement or "(null)",
    "G": FIELDS["gid"],
    "g": FIELDS["group"],
    "i": FIELDS["jobid"],
    "j": FIELDS["jobname"],
    "K": FIELDS["arraytaskid"],
    "k": lambda row: row.variable("SLURM_JOB_COMMENT") or "(null)",
    "L": FIELDS["timeleft"],
    "l": FIELDS["timelimit"],
    "M": FIELDS["timeused"],
    "m": FIELDS["reqmem"],
    "N": lambda row: FIELDS["nodesorreason"](row) if row.state != "waiting" else "",
    "n": lambda row: ",".join(row.nodes),
    "o": FIELDS["command"],
    "P": FIELDS["partition"],
    "p": FIELDS["priority"],
    "Q": FIELDS["priority"],
    "q": FIELDS["qos"],
    "R": FIELDS["nodesorreason"],
    "r": FIELDS["reason"],
    "S": lambda row: moment(row.started, "N/A"),
    "T": FIELDS["state"],
    "t": FIELDS["statecompact"],
    "U": FIELDS["uid"],
    "u": FIELDS["user"],
    "V": FIELDS["submit"],
    "v": lambda _row: "(null)",
    "w": lambda _row: "(null)",
    "x": lambda _row: "(null)",
    "y": lambda row: str(-row.job.priority),
    "Z": FIELDS["workdir"],
    "B": lambda row: row.nodes[0] if row.nodes else "n/a",
    "h": lambda _row: "OK",
    "H": lambda _row: "*",
    "X": lambda _row: "0",
}
HEADS = {
    "A": "JOBID", "a": "ACCOUNT", "b": "TRES_PER_NODE", "C": "CPUS", "c": "MIN_CPUS", "D": "NODES", "E": "DEPENDENCY",
    "e": "END_TIME", "F": "ARRAY_JOB_ID", "f": "FEATURES", "G": "GROUP", "g": "GROUP", "i": "JOBID", "j": "NAME",
    "K": "ARRAY_TASK_ID", "k": "COMMENT", "L": "TIME_LEFT", "l": "TIME_LIMIT", "M": "TIME", "m": "MIN_MEMORY",
    "N": "NODELIST", "n": "REQ_NODES", "o": "COMMAND", "P": "PARTITION", "p": "PRIORITY", "Q": "PRIORITY", "q": "QOS",
    "R": "NODELIST(REASON)", "r": "REASON", "S": "START_TIME", "T": "STATE", "t": "ST", "U": "UID", "u": "USER",
    "V": "SUBMIT_TIME", "v": "RESERVATION", "w": "WCKEY", "x": "EXC_NODES", "y": "NICE", "Z": "WORK_DIR",
    "B": "EXEC_HOST", "h": "OVER_SUBSCRIBE", "H": "SOCKETS", "X": "CORE_SPEC",
}  # fmt: skip
# Letters that need the tasks of a job.
_OF_TASKS = frozenset("DNRnB")


def squeue(_name: str, words: Sequence[str]) -> int:
    """Print the jobs that wait or run."""
    given, rest = parse(words, OPTIONS, mixed=True)
    values = values_of(given)
    if rest:
        raise InputError(f"unknown argument {rest[0]!r}", hint="squeue --jobs=12")
    columns = _columns(values)
    every = float(whole_number(values.get("iterate", "")) or 0)
    with center() as client:
        while True:
            rows = list(_rows(client, values, tasks=_need_tasks(values)))
            printed(columns, _sorted(rows, values.get("sort", "")), head="noheader" not in values)
            if not every:
                return 0
            time.sleep(every)


def _columns(values: dict[str, str]) -> list[TextColumn]:
    if "Format" in values:
        return columns_of_names(values["Format"], field, width=20)
    usual = LONG if "long" in values else USUAL
    text = values.get("format") or os.environ.get("SQUEUE_FORMAT") or usual
    return widths(text, LETTERS, HEADS)


def _need_tasks(values: dict[str, str]) -> bool:
    """Return whether a column shows nodes or times of tasks, which cost a request for each running job."""
    text = values.get("format") or os.environ.get("SQUEUE_FORMAT") or USUAL
    letters = {letter for _, letter in re.findall(r"%(\.?\d*)([A-Za-z])", text)}
    return "Format" in values or bool(letters & _OF_TASKS)


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[,\s]+", text.strip()) if word}


def states_named(text: str) -> set[str]:
    """Return the states of Cress in ``PD,RUNNING``. Raises InputError."""
    found = set()
    for word in _words(text.upper()):
        if word == "ALL":
            return set(STATES)
        hits = {state for state, names in STATES.items() if word in names}
        if not hits and word not in ("S", "SUSPENDED", "CG", "COMPLETING", "CONFIGURING", "PR", "PREEMPTED", "BF",
                                     "BOOT_FAIL", "DL", "DEADLINE", "REQUEUED", "RQ", "RS", "RESIZING", "RV", "REVOKED",
                                     "ST", "STOPPED", "SE", "SPECIAL_EXIT", "SIGNALING", "SI"):  # fmt: skip
            known = ", ".join(long for _, long in STATES.values())
            raise InputError(f"Invalid state: {word}", hint=known, field="--states")
        found |= hits
    return found


def _rows(client: Client, values: dict[str, str], *, tasks: bool) -> Iterable[JobRow]:
    shown = values.get("job") or values.get("jobs") or ""
    states = states_named(values["states"]) if "states" in values else set(LIVE)
    single = "array" in values or "array-unique" in values
    users = {user_of(client)} if "me" in values else _words(values.get("user", ""))
    names = {job_name(word) for word in values["name"].split(",")} if "name" in values else set()
    groups = _words(values.get("partition", "")) | _words(values.get("account", ""))
    for job, wanted in _jobs(client, shown, states, next(iter(names), "") if len(names) == 1 else ""):
        if (users and job.user not in users) or (names and job.name not in names):
            continue
        if groups and not groups & {
            job.group, job.environment.get("SLURM_JOB_PARTITION"), job.environment.get("SLURM_JOB_ACCOUNT")
        }:  # fmt: skip
            continue
        quick = job.state == "waiting" and not (single and elements_of(job))
        if not tasks and elements_of(job) is None:
            rows = [JobRow(job)]
        else:
            rows = [_waiting(job)] if quick else rows_of(client, job, single=single)
        for row in named(rows, parse_job(wanted)) if wanted else rows:
            if row.state in states:
                yield row


def _waiting(job: JobView) -> JobRow:
    elements = elements_of(job)
    if elements is None:
        return JobRow(job)
    text = job.environment.get("SLURM_CRESS_ARRAY") or f"{elements[0]}-{elements[-1]}"
    bound = f"%{job.max_running}" if job.max_running else ""
    return JobRow(job, (), f"[{text}{bound}]", "waiting")


def _jobs(client: Client, shown: str, states: set[str], name: str) -> Iterable[tuple[JobView, str]]:
    from cress.client import NotFound

    if shown:
        for word in job_words(shown):
            try:
                job = client.job(parse_job(word).id)
            except NotFound:
                if "," not in shown:
                    raise InputError("Invalid job id specified") from None
                continue
            if job.ended is None or time.time() - job.ended < JUST_ENDED:
                yield job, word
        return
    for state in ("running", "waiting"):
        before = None
        while True:
            page = client.jobs(limit=MOST, state=state, before=before, name=name)
            yield from ((job, "") for job in page.jobs if job.type in ("batch", "cron"))
            before = page.next
            if before is None:
                break
    if states - set(LIVE):
        page = client.jobs(limit=MOST, name=name)
        for job in page.jobs:
            if job.ended is not None and time.time() - job.ended < JUST_ENDED:
                yield job, ""


def _sorted(rows: list[JobRow], keys: str) -> list[JobRow]:
    rows.sort(key=lambda row: (row.state != "waiting", row.job.id))
    for key in reversed([word for word in keys.split(",") if word]):
        letter = key.lstrip("+-")
        if letter not in LETTERS:
            raise InputError(f"unknown sort key {key!r}", hint="a letter of --format, such as -M", field="--sort")
        rows.sort(key=LETTERS[letter], reverse=key.startswith("-"))
    return rows
