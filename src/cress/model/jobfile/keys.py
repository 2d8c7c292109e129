"""The table of job file keys.

A row describes one key: its values (schema and parser), the types of jobs that may have it, the structs that get its
value, and its documentation. Parser, JSON Schema, defaults and documentation are made from the table.
"""

from __future__ import annotations

from cress.model.family import Missed, Overlap
from cress.model.job import JobType, OnPartition
from cress.model.jobfile import (
    checks,
    clauses,
    domains,
    families,
    files,
    images,
    licences,
    notify,
    secrets,
    values,
    waits,
)
from cress.model.jobfile.key import (
    BATCH,
    CLAUSES,
    CRON,
    DAG,
    DATABASE,
    ENDING,
    FAMILY,
    JOB,
    JOB_AND_RUN,
    KEPT,
    RANK,
    RUN,
    SERVICE,
    Key,
    truth,
)
from cress.model.jobfile.schemas import (
    AFTER,
    ARRAY,
    CHECK,
    CLAUSE_GANG,
    CLAUSE_TRUTH,
    COMMAND,
    DURATION,
    IMAGE,
    INPUT_FILES,
    LABELS,
    LICENCES,
    NOTIFY,
    OF_JOBS,
    PARTS,
    PATH,
    PORTS,
    RESOURCE,
    SECRETS,
    SIZE,
    SPREAD,
    STEPS,
    TEXT,
    TEXTS,
    TIMETABLE,
    TRUTH,
    USES,
    WAIT_FOR,
    WITHIN,
    WORD,
    count,
    file_list,
    words,
)
from cress.model.jobfile.values import MAX_NAME_LENGTH, MAX_PIDS, MAX_PRIORITY, MAX_RETRIES, MAX_TASKS, RUNTIMES
from cress.model.units import parse_count

ALIASES = {
    "issue_as_whole": "gang",
    "env": "environment",
    "dir": "directory",
    "port": "ports",
    "depended_job": "job_dependency",
    "licence": "licences",
    "license": "licences",
    "licenses": "licences",
}


def minimum(value: object) -> int:
    """Parse a number of tasks, which may be 0."""
    return parse_count(values.as_number(value), most=MAX_TASKS)


TABLE = (
    Key(
        "command",
        COMMAND,
        values.command,
        into=RUN,
        about="the program and its arguments as a list, passed unchanged; or one text, which `/bin/sh -c` runs",
        default="–",
    ),
    Key(
        "name",
        {"type": ["string", "integer"], "maxLength": MAX_NAME_LENGTH},
        values.job_name,
        into=JOB_AND_RUN,
        step=False,
        about=(
            "the name of the job: letters, digits, `.`, `_`, `-`, at most 128; not an id such as `12` or `12.3`. "
            "Several jobs may have the same name"
        ),
        default="that of the program",
    ),
    Key(
        "type",
        words(*(job_type.value for job_type in JobType)),
        step=False,
        about=(
            "the type of the job: `batch`, `service`, `database`, `cron` or `dag`; "
            "[the last four](jobs.md#types-of-jobs) have "
            "additional keys"
        ),
        default="`batch`",
    ),
    Key(
        "group",
        TEXT,
        values.group,
        into=JOB_AND_RUN,
        step=False,
        about="the group of the job, whose quota it uses",
        default="`default`",
    ),
    Key(
        "tasks",
        ARRAY,
        about=(
            "number of copies of the program, 1 to 10,000,000; each has its number in `CRESS_TASK_INDEX`, from 0. Or "
            'the indices that they have there: `[1, 5, "9-20"]`, `1,5,9-20`'
        ),
        default="1",
    ),
    Key(
        "resource",
        RESOURCE,
        about="resources of one task: `<cpu, memory, network, disk>`, other dimensions by name",
        default="`<1, 512M>`",
    ),
    Key(
        "priority",
        {"anyOf": [{"type": "integer", "minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY}, {"type": "string"}]},
        values.priority,
        into=JOB,
        about="priority, -1,000,000 to 1,000,000; higher goes first in groups whose policy uses priorities",
        default="0",
    ),
    Key(
        "time_limit",
        DURATION,
        values.time_limit,
        into=JOB_AND_RUN,
        about="the time after which a running task is stopped: `90s`, `30min`, `1h30m`; a plain number is seconds",
        default="none",
    ),
    Key(
        "deadline",
        DURATION,
        types=ENDING,
        step=False,
        about=(
            "the time by which all tasks should end: counted from the submission (`6h`), or a date and time "
            "(`2026-12-01 18:00` in the zone of the cluster, `2026-12-01 18:00 +02:00`, `… Europe/Berlin`); for a cron "
            "job counted from the start of each run; for a dag [the steps get their deadlines from "
            "it](jobs.md#deadlines)"
        ),
        default="none",
    ),
    Key(
        "environment",
        {"type": "object", "additionalProperties": TEXT},
        values.environment,
        into=RUN,
        about="environment variables; names that begin with `CRESS_` are reserved",
        default="none",
    ),
    Key(
        "secrets",
        SECRETS,
        secrets.secrets,
        into=RUN,
        about=(
            "[secrets](secrets.md) of the user or group: `{DB_PASSWORD: db}` as a variable, `{key.pem: {secret: "
            "db, as: file}}` or `[db]` as a file in the folder `CRESS_SECRETS`"
        ),
        default="none",
    ),
    Key(
        "uses",
        USES,
        values.uses,
        into=RUN,
        about=(
            "services and databases of the group whose addresses the tasks get: `[db]` sets `CRESS_SERVICE_DB` to "
            "`HOST:PORT` of a [ready](names.md#in-the-environment) task. A task starts once there is one"
        ),
        default="none",
    ),
    Key(
        "directory",
        PATH,
        values.directory,
        into=RUN,
        about="the directory in which tasks start, an absolute path",
        default=(
            "the current one of `cress submit`; for services, databases and cron jobs the directory of the file; "
            "with `files` a new one for each attempt"
        ),
    ),
    Key(
        "max_running",
        count(1, MAX_TASKS),
        types=ENDING,
        about=(
            "the maximum number of tasks that run at once; `tasks: 100%10` is the same as `tasks: 100`, "
            "`max_running: 10`"
        ),
        default="any number",
    ),
    Key(
        "gang",
        CLAUSE_GANG,
        values.gang,
        into=JOB,
        types=ENDING | {SERVICE},
        about=(
            "`true`: all tasks start at once, or none; `issue_as_whole` is a synonym. With f(x) [it may start in "
            "part](jobs.md#gangs-that-start-in-part) later: `4 && f(x) = (Waittime > 5min)`. In a service, [the tasks "
            "of a first start and those that are added](services.md#starting-as-a-whole)"
        ),
        default="`false`",
    ),
    Key(
        "parts",
        PARTS,
        types=frozenset({BATCH, CRON}),
        about=(
            "a gang of [several kinds of tasks](jobs.md#gangs-with-parts): by name their `tasks`, and "
            "`resource`, `command`, `requirement` and `rank` where they differ from the job's: `{driver: "
            '{command: ./driver}, workers: {tasks: 8, resource: "<8, 32G>", command: ./worker}}`. All start at '
            "once, or none"
        ),
        default="none",
    ),
    Key(
        "stop_grace",
        DURATION,
        values.stop_grace,
        into=JOB_AND_RUN,
        about="the time between SIGTERM and SIGKILL when a task is stopped, at most 1h",
        default="`5s`",
    ),
    Key(
        "on_partition",
        words(*(choice.value for choice in OnPartition)),
        values.on_partition,
        into=JOB_AND_RUN,
        about=(
            "what happens to a task whose node cannot reach the center for longer than the option `term`: `stop` (the "
            "node stops it and it runs elsewhere) or `keep` (it continues, and nothing replaces it until the "
            "node is back or an operator runs `cress nodes forget`)"
        ),
        default="`stop`",
    ),
    Key(
        "retries",
        count(0, MAX_RETRIES),
        values.retries,
        into=JOB,
        types=ENDING,
        about=(
            "how often a failed task (exit code, time limit) is retried, at most 1,000; tasks that were "
            "preempted or lost with their node are always retried, and do not count"
        ),
        default="0",
    ),
    Key(
        "backoff",
        DURATION,
        values.backoff,
        into=JOB,
        about="the wait before a retry, doubled each time up to the option `backoff_most`; at most 1d",
        default="`10s`",
    ),
    Key(
        "hold",
        TRUTH,
        truth("it waits until it is released"),
        into=JOB,
        about="`true`: the job waits until it is released",
        default="`false`",
    ),
    Key(
        "after",
        AFTER,
        about=(
            "jobs that must end first: ids, or names of jobs of the same submit. A list if each must succeed, or "
            "a mapping, such as `{12: any, prepare: ok}`, with `ok`, `any` (however it ends), `failed` (a task "
            "of it failed) or `tasks` (each task waits for the task of the same index to succeed). A job whose "
            "condition can no longer be met is cancelled"
        ),
        default="none",
    ),
    Key(
        "wait_for",
        WAIT_FOR,
        waits.wait_for,
        into=JOB,
        types=frozenset({BATCH, CRON}),
        about=(
            "things that must be there before a task starts: `/data/in.csv`, `https://…`, `HOST:PORT`, `{path: …, "
            "timeout: 6h}`, or `{time: 2026-12-01 18:00}`; several in a list ([waiting for files, addresses and "
            "times](workflows.md#waiting-for-files-and-addresses))"
        ),
        default="none",
    ),
    Key(
        "requirement",
        TEXTS,
        clauses.requirement,
        into=CLAUSES,
        about=(
            "a condition that the node must satisfy: `GCC >= 4.5 && Memory >= 8G`; in a list, all conditions must "
            "hold ([the language](constraints.md))"
        ),
        default="none",
    ),
    Key(
        "rank",
        TEXT,
        clauses.rank,
        into=RANK,
        about="a score that orders these nodes, highest first: `0.5 * CPU + 0.5 * IdleNetwork`",
        default="none",
    ),
    Key(
        "nodes",
        TEXTS,
        clauses.nodes,
        into=CLAUSES,
        about="run only on these nodes: names and addresses, `[web-1, 192.168.1.2-8]`",
        default="all",
    ),
    Key(
        "data_locality",
        TEXTS,
        clauses.data_locality,
        into=CLAUSES,
        about=(
            "nodes that have the data, in the form of `nodes`; or the path of the data, or "
            "`hdfs://namenode:8020/logs` ([data](data.md))"
        ),
        default="none",
    ),
    Key(
        "network_adjacent",
        CLAUSE_TRUTH,
        clauses.network_adjacent,
        into=CLAUSES,
        about=(
            "`true`: all tasks run on one rack or on neighbouring racks, together with other jobs of the same "
            "`application`"
        ),
        default="`false`",
    ),
    Key(
        "job_dependency",
        TEXTS,
        clauses.job_dependency,
        into=CLAUSES,
        about=(
            "run only on nodes where this job runs: its name, `group/name` of another group; `depended_job` is a "
            "synonym"
        ),
        default="none",
    ),
    Key(
        "exclusive_disk",
        CLAUSE_TRUTH,
        clauses.exclusive_disk,
        into=CLAUSES,
        about="`true`: each task gets a whole disk",
        default="`false`",
    ),
    Key(
        "ports",
        PORTS,
        about=(
            "a port number, `dynamic` (a free port is chosen), or several by name: `{http: 8080, admin: dynamic}`; "
            "`port` is a synonym. Tasks find them in `CRESS_PORT` (the first) and `CRESS_PORT_name`, other "
            "programs with `cress resolve`"
        ),
        default="none",
    ),
    Key(
        "dynamic_port",
        TRUTH,
        about="`true`: the same as `ports: dynamic`",
        default="`false`",
    ),
    Key(
        "max_per_node",
        count(1, MAX_TASKS),
        values.tasks,
        into=JOB,
        about="the maximum number of tasks of the job on one node",
        default="any number",
    ),
    Key(
        "max_per_rack",
        count(1, MAX_TASKS),
        values.tasks,
        into=JOB,
        about="the maximum number of tasks of the job on one rack",
        default="any number",
    ),
    Key(
        "spread",
        SPREAD,
        domains.spread,
        into=CLAUSES,
        about=(
            "tasks are [spread over the values of an attribute](constraints.md#spread) of the nodes: `zone`, "
            "`{by: zone, most_skew: 2}`, `{by: zone, targets: {a: 50%, b: 30%}}`; several in a list. With `soft: "
            "true`, `soft: 5min` or f(x) a preference, at once or later"
        ),
        default="none",
    ),
    Key(
        "away_from",
        OF_JOBS,
        domains.away_from,
        into=CLAUSES,
        about=(
            "avoid nodes, or with `by: rack` racks, where tasks of [these "
            "jobs](constraints.md#near-and-away) run: a name (`db`, `web-*`), labels (`tier=db`), `self`, or "
            "`{jobs: db, by: zone, soft: 5min}`; several in a list"
        ),
        default="none",
    ),
    Key(
        "near",
        OF_JOBS,
        domains.near,
        into=CLAUSES,
        about="run only on nodes, or with `by: zone` in zones, where a task of these jobs runs; form as `away_from`",
        default="none",
    ),
    Key(
        "within",
        WITHIN,
        domains.within,
        into=CLAUSES,
        about=(
            "run all tasks [within one value of an attribute](constraints.md#topology): `switch`, or `[{by: switch, "
            "soft: 10min}, zone]`; a gang goes to the tightest one"
        ),
        default="none",
    ),
    Key(
        "labels",
        LABELS,
        domains.labels,
        into=JOB_AND_RUN,
        about="labels of the job, by which other jobs select it: `{tier: db}`; in conditions `Job.Labels.tier`",
        default="none",
    ),
    Key(
        "licences",
        LICENCES,
        licences.licences,
        into=JOB,
        about=(
            "[licences of the cluster](licences.md) that each task takes while it runs: `matlab`, `matlab=2`, or "
            "`{matlab: 1, ansys: 2}`; `licence`, `license` and `licenses` are synonyms"
        ),
        default="none",
    ),
    Key(
        "tolerates",
        TEXTS,
        values.tolerates,
        into=JOB,
        about=(
            "names that nodes repel; those nodes accept this job anyway ([nodes that "
            "choose](constraints.md#nodes-that-choose)): `gpu`, `[gpu, spot]`"
        ),
        default="none",
    ),
    Key(
        "application",
        {"type": ["string", "integer"], "maxLength": MAX_NAME_LENGTH},
        values.name,
        into=JOB,
        about="a name shared by jobs of one group that belong together",
        default="none",
    ),
    Key(
        "workload",
        {"type": ["string", "integer"], "maxLength": MAX_NAME_LENGTH},
        values.name,
        into=JOB,
        about=(
            "the framework of the job in its group: tasks start in idle [leases](fragments.md) of earlier tasks of the "
            "workload, which are kept for `lease_idle`"
        ),
        default="none",
    ),
    Key(
        "job_failure",
        TRUTH,
        truth("its tasks run again when their node is lost"),
        into=JOB,
        types=ENDING | {SERVICE},
        about=(
            "`false`: a task that is lost with its node counts as failed and is not retried; a lost task of a service "
            "[is not replaced](services.md#tasks-that-are-lost)"
        ),
        default="`true`",
    ),
    Key(
        "movable",
        TRUTH,
        truth("its tasks may be stopped and restarted on another node"),
        into=JOB,
        types=ENDING | {SERVICE},
        about=(
            "`true`: tasks may be stopped and restarted from the beginning on another node, [to free nodes and devices "
            "or to make room](rebalance.md); not for gangs. Tasks of a service are movable unless this is `false`"
        ),
        default="`false`",
    ),
    Key(
        "runtime",
        words(*RUNTIMES),
        values.runtime,
        into=RUN,
        about="the runtime of the tasks: `process` or `container` ([containers](containers.md))",
        default="the executor's",
    ),
    Key(
        "root",
        PATH,
        values.directory,
        into=RUN,
        about="the directory on the node that becomes the root file system of the container",
        default="that of the node, read-only",
    ),
    Key(
        "image",
        IMAGE,
        images.image,
        into=RUN,
        about=(
            "the [image](containers.md#images) of the container: `python:3.12`, `oci-archive:PATH`, or "
            "`{name, secret}` with the credentials of its registry"
        ),
        default="none: the file system of the node, or `root`",
    ),
    Key(
        "pids",
        count(1, MAX_PIDS),
        values.pids,
        into=RUN,
        about="the maximum number of processes in a container",
        default="the executor's",
    ),
    Key(
        "run_as",
        WORD,
        values.run_as,
        into=RUN,
        about="the account on the node under which tasks run",
        default="the user's, where the executor is root",
    ),
    Key(
        "files",
        INPUT_FILES,
        files.files,
        into=RUN,
        about=(
            "[files](files.md) fetched before the program starts: `[input.csv]` from where you stand, "
            "`{path: address}`, or a list of `{source, path, mode, unpack}` or `{text, path, mode}`"
        ),
        default="none",
    ),
    Key(
        "workdir",
        WORD,
        about=(
            "a folder from where you stand, whose files are [uploaded](files.md#from-where-you-stand) and copied into "
            "the directory of each attempt"
        ),
        default="none",
    ),
    Key(
        "outputs",
        file_list(files.OUTPUT_KEYS, "path", "to"),
        files.outputs,
        into=RUN,
        about="files saved when the program has succeeded: `{path: address}`, or a list of `{path, to}`",
        default="none",
    ),
    Key(
        "notify",
        NOTIFY,
        notify.notify,
        into=RUN,
        about=(
            "addresses that get a message when the job ends or is late: `https://…` or `mailto:ann@example.org`, or "
            "`{to: ADDRESS, on: [failed, late]}`, or a list of these ([notifications](notifications.md))"
        ),
        default="none",
    ),
    Key(
        "job_token",
        TRUTH,
        truth("tasks get a token for the API of the center, for their own job"),
        into=RUN,
        about=(
            "`true`: tasks find a [token for their own job](users.md#tokens-of-jobs) in `CRESS_TOKEN`, and the "
            "center in `CRESS_URL`"
        ),
        default="`false`",
    ),
    Key(
        "log_size",
        SIZE,
        values.log_size,
        into=RUN,
        about="how much of the end of stdout, and of stderr, is kept",
        default="the executor's",
    ),
    Key(
        "log_copy",
        WORD,
        files.address,
        into=RUN,
        about="the address to which the kept output is copied at the end",
        default="none",
    ),
    Key(
        "ready",
        CHECK,
        checks.check,
        into=RUN,
        types=KEPT,
        step=False,
        about="the readiness check of a task",
    ),
    Key(
        "alive",
        CHECK,
        checks.check,
        into=RUN,
        types=KEPT,
        step=False,
        about="the liveness check of a task",
    ),
    Key(
        "ready_after",
        DURATION,
        checks.duration(0, checks.MOST_WAIT),
        into=FAMILY,
        types=KEPT,
        step=False,
        about="the time after its start at which a task without a check counts as ready",
    ),
    Key(
        "minimum",
        count(0, MAX_TASKS),
        minimum,
        into=JOB,
        types=frozenset({SERVICE}),
        step=False,
        about="the number of tasks that are never preempted",
    ),
    Key(
        "max_unavailable",
        count(0, MAX_TASKS),
        minimum,
        into=FAMILY,
        types=frozenset({SERVICE}),
        step=False,
        about="the maximum number of tasks that are unavailable because of an update; 0 needs `surge`",
    ),
    Key(
        "surge",
        count(0, MAX_TASKS),
        minimum,
        into=FAMILY,
        types=frozenset({SERVICE}),
        step=False,
        about="the number of tasks that run in addition during an update",
    ),
    Key(
        "canary",
        count(0, MAX_TASKS),
        minimum,
        into=FAMILY,
        types=frozenset({SERVICE}),
        step=False,
        about="the number of tasks that an update replaces before it waits for `cress promote`; 0: all",
    ),
    Key(
        "update_timeout",
        DURATION,
        checks.duration(checks.LEAST_WAIT, checks.MOST_WAIT),
        into=FAMILY,
        types=KEPT,
        step=False,
        about="the time after which a new version that is not ready is rolled back",
    ),
    Key(
        "timetable",
        TIMETABLE,
        families.timetable,
        into=FAMILY,
        types=frozenset({SERVICE}),
        step=False,
        about="numbers of tasks, and the cron expressions from whose times on they apply",
    ),
    Key(
        "zone",
        WORD,
        families.zone,
        into=FAMILY,
        types=frozenset({SERVICE, CRON}),
        step=False,
        about="the time zone of `when` or of the timetable",
    ),
    Key(
        "move_after",
        DURATION,
        checks.duration(0, checks.MOST_WAIT),
        into=FAMILY,
        types=frozenset({DATABASE}),
        step=False,
        about="the time after which a task moves to another node when its node is away",
    ),
    Key(
        "when",
        WORD,
        families.expression,
        into=FAMILY,
        types=frozenset({CRON}),
        step=False,
        only_steps=True,
        about=(
            "the times of a cron job as a cron expression (minute hour day month weekday); of a step: a condition on "
            "earlier steps, `check.rows > 0`"
        ),
    ),
    Key(
        "overlap",
        words(*(choice.value for choice in Overlap)),
        families.overlap,
        into=FAMILY,
        types=frozenset({CRON}),
        step=False,
        about="what happens to a run while the previous one has not ended",
    ),
    Key(
        "missed",
        words(*(choice.value for choice in Missed)),
        families.missed,
        into=FAMILY,
        types=frozenset({CRON}),
        step=False,
        about="what happens to missed runs",
    ),
    Key(
        "steps",
        STEPS,
        types=frozenset({DAG, CRON}),
        step=False,
        about="the steps by name, each with the keys of a batch job; of a cron job: each run is a dag with these steps",
    ),
    Key(
        "continue",
        TRUTH,
        types=frozenset(),
        about="steps after this one start even if it does not succeed",
    ),
)
BY_NAME = {key.name: key for key in TABLE}
KEYS = tuple(BY_NAME)
# Keys of a dag that apply to all of its steps.
INHERITED = tuple(key.name for key in TABLE if key.step and DAG in key.types and key.name != "after")
