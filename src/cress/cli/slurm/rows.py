"""Jobs and elements of arrays as rows of squeue, sacct and scontrol, with the values of their fields."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from cress.client.submitted_script import path_of
from cress.model.errors import InputError
from cress.slurm.arrays import OWN_ID, JobName, compressed, parse_array
from cress.slurm.nodelist import compressed as nodelist
from cress.slurm.values import short_time_text, time_text

if TYPE_CHECKING:
    from cress.client import Client, JobView, TaskView

STATES = {
    "waiting": ("PD", "PENDING"),
    "starting": ("CF", "CONFIGURING"),
    "running": ("R", "RUNNING"),
    "succeeded": ("CD", "COMPLETED"),
    "failed": ("F", "FAILED"),
    "timed out": ("TO", "TIMEOUT"),
    "out of memory": ("OOM", "OUT_OF_MEMORY"),
    "lost": ("NF", "NODE_FAIL"),
    "cancelled": ("CA", "CANCELLED"),
}
LIVE = ("waiting", "starting", "running")
PAGE = 10_000


@dataclass
class JobRow:
    """A job, or some tasks of one that is an array: ``element`` is the text of their numbers, empty for a job."""

    job: JobView
    tasks: Sequence[TaskView] = ()
    element: str = ""
    word: str = ""
    step: str = ""

    @property
    def state(self) -> str:
        """The state as Cress calls it."""
        return self.word or self.job.state

    @property
    def id(self) -> str:
        """``12``, ``12_3`` or ``12_[4-9]``."""
        return f"{self.job.id}_{self.element}" if self.element else str(self.job.id)

    @property
    def raw_id(self) -> int:
        """The number that only this row has."""
        single = self.element and len(self.tasks) == 1
        return (self.tasks[0].index + 1) * OWN_ID + self.job.id if single else self.job.id

    def variable(self, name: str) -> str:
        """Return a variable that the job was submitted with."""
        return self.job.environment.get(name, "")

    @property
    def started(self) -> float | None:
        """The start of its first task that has one."""
        if not self.element:
            return self.job.started
        return min((at for task in self.tasks if (at := _started(task)) is not None), default=None)

    @property
    def ended(self) -> float | None:
        """The end of its last task, ``None`` while one lives."""
        if not self.element or self.state in LIVE:
            return self.job.ended if not self.element else None
        ends = [task.attempts[-1].ended for task in self.tasks if task.attempts]
        return max((at for at in ends if at is not None), default=self.job.ended)

    @property
    def elapsed(self) -> float:
        """The seconds since its start, or that it ran."""
        if self.started is None:
            return 0.0
        return (self.ended or time.time()) - self.started

    @cached_property
    def nodes(self) -> list[str]:
        """The nodes on which it runs or ran."""
        return list(dict.fromkeys(task.attempts[-1].node for task in self.tasks if task.attempts))

    @property
    def count(self) -> int:
        """The number of its nodes."""
        return len(self.nodes) or int(self.variable("SLURM_JOB_NUM_NODES") or 1)

    @property
    def cpus(self) -> float:
        """The processors of its tasks that run at once."""
        amount = str(self.job.resource.get("cpu", 1))
        places = self.job.tasks.total if self.job.gang else 1
        try:
            return float(amount) * places
        except ValueError:
            return float(places)

    @property
    def code(self) -> tuple[int, int]:
        """The exit code and the signal of its worst task; a gang has those of its first."""
        codes = [task.attempts[-1].code or 0 for task in self.tasks if task.attempts]
        if self.job.gang and codes:
            codes = codes[:1] if codes[0] else codes
        worst = max(codes, key=abs, default=0)
        if self.state in ("failed", "lost") and not worst:
            return 1, 0
        return (worst, 0) if worst >= 0 else (0, -worst)

    @property
    def memory(self) -> int:
        """The largest peak of memory of a task, in bytes; 0 if unknown."""
        return max((attempt.memory for task in self.tasks for attempt in task.attempts), default=0)

    @property
    def cpu_seconds(self) -> float:
        """The processor time of its tasks."""
        return sum(attempt.cpu for task in self.tasks for attempt in task.attempts)

    @property
    def reason(self) -> str:
        """The reason of a wait in the words of Slurm."""
        if self.state != "waiting":
            return "None"
        if self.job.held:
            return "JobHeldUser"
        # Times, files and addresses are waited for like jobs, and the jobs may have ended since.
        if self.job.reason.startswith("waiting for time"):
            return "BeginTime"
        if self.job.after and self.job.reason_kind in ("after", "after_tasks"):
            return "Dependency"
        if self.job.type == "cron":
            return "BeginTime"
        return "Priority" if "job" in self.job.reason[:40] and "ahead" in self.job.reason else "Resources"


def _started(task: TaskView) -> float | None:
    return task.attempts[-1].started if task.attempts else None


def elements_of(job: JobView) -> tuple[int, ...] | range | None:
    """Return the numbers of the elements by task, ``None`` for a job that is no array."""
    text = job.environment.get("SLURM_CRESS_ARRAY")
    if text:
        return parse_array(text).elements
    return range(job.tasks.total) if job.tasks.total > 1 and not job.gang and job.type == "batch" else None


def tasks_of(client: Client, id: int, state: str = "") -> list[TaskView]:
    """Return all tasks of a job."""
    found: list[TaskView] = []
    after = None
    while True:
        page = client.tasks(id, limit=PAGE, after=after, state=state)
        found += page.tasks
        after = page.next
        if after is None:
            return found


def rows_of(client: Client, job: JobView, *, single: bool = False) -> list[JobRow]:
    """Return the rows of a job: one for each element of an array; waiting elements share one unless ``single``."""
    elements = elements_of(job)
    if elements is None:
        return [JobRow(job, tasks_of(client, job.id))]
    rows, waiting = [], []
    for task in tasks_of(client, job.id):
        if task.state == "waiting" and not single:
            waiting.append(task)
        else:
            rows.append(JobRow(job, (task,), str(elements[task.index]), task.state))
    if waiting:
        text = compressed(sorted(elements[task.index] for task in waiting))
        text = text if len(waiting) == 1 else f"[{text}]"
        rows.insert(0, JobRow(job, waiting, text, "waiting"))
    return rows


def named(rows: Iterable[JobRow], name: JobName) -> list[JobRow]:
    """Return the rows that a name of a job means."""
    found = []
    for row in rows:
        if name.task is not None and not any(task.index == name.task for task in row.tasks):
            continue
        if name.elements is not None and row.element.isdigit() and int(row.element) not in name.elements:
            continue
        found.append(row)
    return found


def moment(at: float | None, without: str = "Unknown") -> str:
    """Return a time as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) if at is not None else without


@cache
def _account_number(user: str) -> str:
    """Return the number of an account of this machine, empty for a user that has none."""
    import pwd

    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return ""


def _file(row: JobRow, stream: str) -> str:
    return path_of(row.job, stream, row.element, row.raw_id, row.nodes[0] if row.nodes else "")


# Slurm's words for the conditions of `after` that have others there.
_CONDITIONS = {"failed": "notok", "tasks": "corr"}


def _dependency(row: JobRow) -> str:
    return ",".join(f"after{_CONDITIONS.get(kind, kind)}:{id}" for id, kind in row.job.after.items())


def _limit(row: JobRow) -> str:
    return "UNLIMITED" if row.job.time_limit is None else time_text(row.job.time_limit)


def _left(row: JobRow) -> str:
    return "UNLIMITED" if row.job.time_limit is None else short_time_text(row.job.time_limit - row.elapsed)


def _partition(row: JobRow) -> str:
    return row.variable("SLURM_JOB_PARTITION") or row.job.group


def _requested(row: JobRow) -> str:
    parts = [f"cpu={row.cpus:g}"]
    if "memory" in row.job.resource:
        parts.append(f"mem={row.job.resource['memory']}")
    parts.append(f"node={row.count}")
    if "gpu" in row.job.resource:
        parts.append(f"gres/gpu={row.job.resource['gpu']}")
    return ",".join(parts)


def _eligible(row: JobRow) -> str:
    return moment(row.job.submitted)


def state_text(row: JobRow) -> str:
    """Return the state word of accounting."""
    return STATES.get(row.state, ("?", row.state.upper()))[1]


# Values by the names that sacct, squeue --Format and scontrol use, in lower case.
FIELDS: dict[str, Callable[[JobRow], str]] = {
    "account": lambda row: row.variable("SLURM_JOB_ACCOUNT") or row.job.group,
    "alloccpus": lambda row: f"{row.cpus:g}" if row.started is not None else "0",
    "allocnodes": lambda row: str(row.count if row.started is not None else 0),
    "alloctres": lambda row: _requested(row) if row.started is not None else "",
    "arrayjobid": lambda row: str(row.job.id),
    "arraytaskid": lambda row: row.element or "N/A",
    "avecpu": lambda row: time_text(row.cpu_seconds),
    "averss": lambda row: f"{row.memory >> 10}K" if row.memory else "",
    "cluster": lambda _row: "cress",
    "command": lambda row: row.job.name,
    "comment": lambda row: row.variable("SLURM_JOB_COMMENT"),
    "constraints": lambda row: row.job.requirement,
    "batchhost": lambda row: row.nodes[0] if row.nodes else "",
    "cpuspertask": lambda row: row.variable("SLURM_CPUS_PER_TASK") or "1",
    "cputime": lambda row: time_text(row.elapsed * row.cpus),
    "cputimeraw": lambda row: str(int(row.elapsed * row.cpus)),
    "deadline": lambda row: moment(row.job.deadline.at if row.job.deadline else None, "N/A"),
    "dependency": _dependency,
    "derivedexitcode": lambda row: "{}:{}".format(*row.code),
    "elapsed": lambda row: time_text(row.elapsed),
    "elapsedraw": lambda row: str(int(row.elapsed)),
    "eligible": _eligible,
    "end": lambda row: moment(row.ended),
    "exitcode": lambda row: "{}:{}".format(*row.code),
    "gid": lambda _row: "",
    "group": lambda row: row.job.group,
    "jobid": lambda row: row.id + (f".{row.step}" if row.step else ""),
    "jobidraw": lambda row: str(row.raw_id) + (f".{row.step}" if row.step else ""),
    "jobname": lambda row: row.step or row.variable("SLURM_JOB_NAME") or row.job.name,
    "licenses": lambda row: ",".join(f"{name}:{count}" for name, count in row.job.licences.items()),
    "maxrss": lambda row: f"{row.memory >> 10}K" if row.memory and row.step else "",
    "maxrssnode": lambda row: row.nodes[0] if row.nodes else "",
    "ncpus": lambda row: f"{row.cpus:g}",
    "nice": lambda row: str(-row.job.priority),
    "nnodes": lambda row: str(row.count),
    "nodelist": lambda row: nodelist(row.nodes) or "None assigned",
    "ntasks": lambda row: row.variable("SLURM_NTASKS") or "1",
    "partition": _partition,
    "planned": lambda row: time_text((row.started or time.time()) - row.job.submitted),
    "priority": lambda row: str(row.job.priority),
    "qos": lambda row: row.variable("SLURM_JOB_QOS") or "normal",
    "reason": lambda row: row.reason,
    "reqcpus": lambda row: f"{row.cpus:g}",
    "reqmem": lambda row: str(row.job.resource.get("memory", "0")),
    "reqnodes": lambda row: str(row.count),
    "reqtres": _requested,
    "reserved": lambda row: time_text((row.started or time.time()) - row.job.submitted),
    "restarts": lambda row: str(max((len(task.attempts) for task in row.tasks), default=1) - 1),
    "start": lambda row: moment(row.started),
    "state": state_text,
    "statecompact": lambda row: STATES.get(row.state, ("?", ""))[0],
    "stderr": lambda row: _file(row, "error"),
    "stdin": lambda row: _file(row, "input"),
    "stdout": lambda row: _file(row, "output"),
    "submit": lambda row: moment(row.job.submitted),
    "systemcpu": lambda _row: "00:00:00",
    "timelimit": _limit,
    "timelimitraw": lambda row: "" if row.job.time_limit is None else str(int(row.job.time_limit // 60)),
    "timeleft": _left,
    "timeused": lambda row: short_time_text(row.elapsed),
    "totalcpu": lambda row: time_text(row.cpu_seconds),
    "uid": lambda row: _account_number(row.job.user),
    "user": lambda row: row.job.user,
    "usercpu": lambda row: time_text(row.cpu_seconds),
    "workdir": lambda row: row.job.directory,
}
# Fields of Slurm for which there is nothing here: they are empty, so that scripts which ask for many are served.
FIELDS |= dict.fromkeys(
    "admincomment associd avecpufreq avediskread avediskwrite avepages avevmsize blockid consumedenergy "
    "consumedenergyraw container dbindex extra failednode flags layout maxdiskread maxdiskreadnode maxdiskreadtask "
    "maxdiskwrite maxdiskwritenode maxdiskwritetask maxpages maxpagesnode maxpagestask maxrsstask maxvmsize "
    "maxvmsizenode maxvmsizetask mcslabel mincpu mincpunode mincputask plannedcpu plannedcpuraw qosraw qosreq "
    "reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reservation reservationid resvcpu resvcpuraw sluid "
    "submitline suspended systemcomment tresusageinave tresusageinmax tresusageinmaxnode tresusageinmaxtask "
    "tresusageinmin tresusageinminnode tresusageinmintask tresusageintot tresusageoutave tresusageoutmax "
    "tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot "
    "wckey wckeyid hetjobid hetjoboffset oversubscribe contiguous corespec network profile mintmpdisk".split(),
    lambda _row: "",
)
ALIASES = {
    "name": "jobname",
    "username": "user",
    "nodes": "allocnodes",
    "numnodes": "nnodes",
    "numcpus": "ncpus",
    "starttime": "start",
    "endtime": "end",
    "submittime": "submit",
    "reasonlist": "nodesorreason",
    "tres": "reqtres",
    "minmemory": "reqmem",
    "jobarrayid": "jobid",
    "prioritylong": "priority",
    "feature": "constraints",
    "tres-alloc": "alloctres",
    "exit_code": "exitcode",
    "derivedec": "derivedexitcode",
    "eligibletime": "eligible",
    "groupname": "group",
    "groupid": "gid",
    "numtasks": "ntasks",
    "pendingtime": "planned",
    "restartcnt": "restarts",
    "userid": "uid",
    "mincpus": "ncpus",
}
FIELDS["nodesorreason"] = lambda row: f"({row.reason})" if row.state == "waiting" else nodelist(row.nodes)


def field(name: str) -> Callable[[JobRow], str]:
    """Return a field by its name. Raises InputError."""
    from cress.model.units import closest

    word = name.lower()
    found = FIELDS.get(ALIASES.get(word, word))
    if found is None:
        near = closest(word, [*FIELDS, *ALIASES])
        raise InputError(f"Invalid field requested: {name!r}", hint=f"did you mean {near}?" if near else "")
    return found
