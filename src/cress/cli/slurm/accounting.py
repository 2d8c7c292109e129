"""``sacct``: jobs that have ended, and those that run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cress.cli.slurm.common import center, say, user_of
from cress.cli.slurm.queue import VALUE, option, states_named
from cress.cli.slurm.rows import FIELDS, JobRow, field, named, rows_of
from cress.cli.slurm.tables import TextColumn
from cress.model.errors import InputError
from cress.slurm.arrays import job_words, parse_job
from cress.slurm.command_line import parse, values_of
from cress.slurm.jobs import job_name
from cress.slurm.moments import read_moment

if TYPE_CHECKING:
    from cress.client import Client, JobView

USUAL = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
LONG = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxRSS,AveRSS,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,ReqMem,"
    "AllocTRES"
)
BRIEF = "JobID,State,ExitCode"
WIDTHS = {"jobid": 12, "jobidraw": 12, "exitcode": 8, "state": 10, "nodelist": 15, "start": 19, "end": 19, "submit": 19}
WIDTH = 10
# Jobs submitted this long before the asked time may have ended in it, in seconds.
EARLIER = 7 * 86400.0
MOST = 1000

OPTIONS = (
    option("allusers", "a"),
    option("accounts", "A", VALUE),
    option("allocations", "X"),
    option("array"),
    option("brief", "b"),
    option("clusters", "M", VALUE),
    option("completion", "c"),
    option("delimiter", "", VALUE),
    option("duplicates", "D"),
    option("endtime", "E", VALUE),
    option("format", "o", VALUE),
    option("helpformat", "e"),
    option("jobs", "j", VALUE),
    option("long", "l"),
    option("name", "", VALUE),
    option("nodelist", "N", VALUE),
    option("noheader", "n"),
    option("noconvert"),
    option("parsable", "p"),
    option("parsable2", "P"),
    option("partition", "r", VALUE),
    option("qos", "q", VALUE),
    option("starttime", "S", VALUE),
    option("state", "s", VALUE),
    option("truncate", "T"),
    option("units", "", VALUE),
    option("user", "u", VALUE),
    option("uid", "", VALUE),
    option("verbose", "v"),
    option("allclusters", "L"),
)


def sacct(_name: str, words: Sequence[str]) -> int:
    """Print the accounting of jobs."""
    given, _ = parse(words, OPTIONS, mixed=True)
    values = values_of(given)
    if "helpformat" in values:
        print(" ".join(sorted(FIELDS)))
        return 0
    ids = [word for one in given if one.option.name == "jobs" for word in job_words(one.value)]
    usual = LONG if "long" in values else BRIEF if "brief" in values else USUAL
    columns = _columns(values.get("format") or usual)
    with center() as client:
        rows = list(_rows(client, values, ids))
    _print(columns, rows, values)
    return 0


STAT = "JobID,NTasks,AveCPU,AveRSS,MaxRSS,MaxVMSize"
_OF_STAT = {"jobs", "format", "helpformat", "noheader", "noconvert", "parsable", "parsable2", "verbose"}
STAT_OPTIONS = (
    *(one for one in OPTIONS if one.name in _OF_STAT),
    option("allsteps", "a"),
    option("pidformat", "i"),
)


def sstat(name: str, words: Sequence[str]) -> int:
    """Print the running steps of jobs. Their usage is measured when a task ends, so most cells are empty until then."""
    given, rest = parse(words, STAT_OPTIONS, mixed=True)
    values = values_of(given)
    if "helpformat" in values:
        print(" ".join(sorted(FIELDS)))
        return 0
    ids = [word.partition(".")[0] for text in (values.get("jobs", ""), *rest) for word in job_words(text)]
    if not ids:
        raise InputError("no job is named", hint="sstat --jobs=12")
    columns = _columns(values.get("format") or STAT)
    with center() as client:
        rows = [row for row in _rows(client, {}, ids) if row.step and row.ended is None]
    _print(columns, rows, values)
    say(name, "usage is measured when a task ends: see `sacct` or `seff` then")
    return 0


def _columns(text: str) -> list[TextColumn]:
    columns = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, size = word.partition("%")
        width = int(size) if size.lstrip("-").isdigit() else WIDTHS.get(name.lower(), WIDTH)
        left = (name.lower() in ("jobid", "jobidraw") and not size) or size.startswith("-")
        columns.append(TextColumn(_TITLES.get(name.lower(), name), field(name), abs(width), not left))
    return columns


_TITLES = {
    name.lower(): name
    for name in f"{LONG},{USUAL},NodeList,User,Submit,Start,End,Elapsed,ElapsedRaw,NNodes,NCPUS,Timelimit,CPUTime,"
    "CPUTimeRAW,TotalCPU,UserCPU,SystemCPU,ReqCPUS,ReqNodes,Priority,QOS,Reason,WorkDir,Comment,Eligible,Cluster,"
    "DerivedExitCode,AllocNodes,ReqTRES,Planned,Group,MaxRSSNode,TimelimitRaw".split(",")
}


def _print(columns: list[TextColumn], rows: list[JobRow], values: dict[str, str]) -> None:
    lines = []
    table = [[column.value(row) for column in columns] for row in rows]
    parsable = "parsable" in values or "parsable2" in values
    if parsable:
        mark = values.get("delimiter", "|")
        heads = [] if "noheader" in values else [[column.head for column in columns]]
        last = mark if "parsable" in values else ""
        lines = [mark.join(cells) + last for cells in heads + table]
    else:
        if "noheader" not in values:
            lines.append(" ".join(_fit(column, column.head) for column in columns))
            lines.append(" ".join("-" * column.width for column in columns))
        lines += [
            " ".join(_fit(column, text) for column, text in zip(columns, cells, strict=True)) + " " for cells in table
        ]
    if lines:
        print("\n".join(lines))


def _fit(column: TextColumn, text: str) -> str:
    """Return the text of a cell; one that is cut ends in ``+``."""
    cut = text if len(text) <= column.width else text[: column.width - 1] + "+"
    return cut.rjust(column.width) if column.right else cut.ljust(column.width)


def _rows(client: Client, values: dict[str, str], ids: list[str]) -> Iterable[JobRow]:
    now = time.time()
    midnight = read_moment("today", "--starttime", now)
    state = values.get("state", "")
    since = read_moment(values["starttime"], "--starttime", now) if "starttime" in values else None if ids else midnight
    until = read_moment(values["endtime"], "--endtime", now) if "endtime" in values else now + 60
    states = states_named(state) if state else None
    names = {job_name(word) for word in values["name"].split(",")} if values.get("name") else set()
    users = {word for word in values.get("user", "").split(",") if word}
    if not users and not ids and "allusers" not in values:
        users = {user_of(client)}
    groups = {word for key in ("accounts", "partition") for word in values.get(key, "").split(",") if word}
    for job, wanted in _jobs(client, ids, since, until, next(iter(names)) if len(names) == 1 else ""):
        if (users and job.user not in users and not users & {"ALL", "all"}) or (names and job.name not in names):
            continue
        of = {job.group, job.environment.get("SLURM_JOB_PARTITION"), job.environment.get("SLURM_JOB_ACCOUNT")}
        if groups and not groups & of:
            continue
        rows = rows_of(client, job, single="array" in values)
        for row in named(rows, parse_job(wanted)) if wanted else rows:
            if states is not None and row.state not in states:
                continue
            yield row
            if "allocations" not in values and row.started is not None and job.type == "batch":
                yield JobRow(row.job, row.tasks, row.element, row.word, step="batch")


def _jobs(
    client: Client, ids: list[str], since: float | None, until: float, name: str
) -> Iterable[tuple[JobView, str]]:
    """Yield the jobs that were there between two moments, oldest first, or those of the ids."""
    from cress.client import NotFound

    if ids:
        for word in ids:
            try:
                yield client.job(parse_job(word).id), word
            except NotFound:
                continue
        return
    found: dict[int, JobView] = {}
    asks = [{"since": max(since - EARLIER, 0.0) if since is not None else None}, {"state": "waiting"}]
    for ask in [*asks, {"state": "running"}]:
        before = None
        while True:
            page = client.jobs(limit=MOST, before=before, until=until, name=name, **ask)  # type: ignore[arg-type]
            for job in page.jobs:
                if job.type == "batch" and (job.ended is None or since is None or job.ended >= since):
                    found[job.id] = job
            before = page.next
            if before is None:
                break
    for id in sorted(found):
        yield found[id], ""
