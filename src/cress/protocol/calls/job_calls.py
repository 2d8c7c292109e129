"""Calls about jobs and their tasks."""

from __future__ import annotations

from typing import Any

from cress.protocol.bodies import (
    ApplyBody,
    JobsBody,
    RequeueBody,
    ResumeBody,
    RetryBody,
    RevertBody,
    ScaleBody,
    SignalBody,
    SubmitBody,
    TriggerBody,
    UpdateBody,
)
from cress.protocol.calls.row import CallRow
from cress.protocol.job_views import (
    AppliedJobs,
    CancelledJobs,
    ExplanationView,
    HeldJobs,
    JobFileView,
    JobsPage,
    JobView,
    SubmittedPage,
    TasksPage,
    TaskView,
    VersionsPage,
)
from cress.protocol.queries import JobQuery, JobsQuery, LogsQuery, SubmitQuery, TasksQuery
from cress.protocol.rights import Action

SUBMIT = CallRow(
    "POST",
    "/v1/jobs",
    SubmittedPage,
    body=SubmitBody,
    query=SubmitQuery,
    shown='{"jobs": [{…}, …]}',
    needs=Action.SUBMIT,
    makes=True,
    keyed=True,
    about=(
        "submits jobs, together or not at all; each is a job file as JSON. 201 with their ids, once they are "
        "stored; a `note` lists unknown names in their constraints, `deadline` is the "
        "[forecast](deadlines.md#the-forecast) for a job with a deadline. With `dry_run` the same answer, with ids "
        "0, and nothing is submitted. With `strict` jobs whose deadlines cannot be met are refused (409). With "
        "`starts` the first ten have an `expected_start`, if it is known at once"
    ),
)
JOBS = CallRow(
    "GET",
    "/v1/jobs",
    JobsPage,
    query=JobsQuery,
    about=(
        "jobs, newest first; `next` of a page is `before` of the following one. `since` and `until` bound the "
        "submit time. With `family` the runs of a cron job, the steps of a dag, or the members of a service or "
        "database, which are left out without it. If the history cannot be read, `problem` says why old jobs are "
        "missing"
    ),
)
JOB = CallRow(
    "GET",
    "/v1/jobs/{id}",
    JobView,
    query=JobQuery,
    about="one job; with `wait` the answer comes when the job is over, or after that time",
)
EXPLAIN = CallRow(
    "GET",
    "/v1/jobs/{id}/explanation",
    ExplanationView,
    about=(
        "why the job waits: its `reason`, the expected `start`, what each of its clauses excludes, the `nearest` "
        "nodes, and the single changes with which it would start now (`remedies`), each tried on a copy of the "
        "scheduler. Without a waiting task the reason is empty. If a task runs, `best` are the best nodes for it; "
        "`ended` are the latest attempts that were preempted, lost or failed, and why; `late` is how late it is; "
        "`starting` is what a node does for a task whose program has not begun"
    ),
)
TASKS = CallRow(
    "GET",
    "/v1/jobs/{id}/tasks",
    TasksPage,
    query=TasksQuery,
    about="its tasks by index with all their attempts. With `state` a page may be short and still have a `next`",
)
TASK = CallRow(
    "GET",
    "/v1/jobs/{id}/tasks/{task}",
    TaskView,
    about="one task",
)
APPLY = CallRow(
    "POST",
    "/v1/apply",
    AppliedJobs,
    body=ApplyBody,
    shown='{"jobs": [{…}, …], "dry_run": false}',
    needs=Action.SUBMIT,
    about=(
        'creates or updates services, databases and cron jobs, by group and name; the answer is `{"jobs": [{"id", '
        '"name", "what", "note", "version", "updating", "changes"}]}`, where `what` is `created`, `updated`, '
        "`scaled` or `unchanged`, and `updating` says that `version` of a service or database is not ready as a "
        "whole yet. "
        '`changes` are the keys that differ, each as `{"key", "before", "after"}` in the spelling of the files; `null` '
        "means not given. All jobs are checked "
        "before the first change; if one of them is changed by another request at the same time, "
        "the error 409 lists the changes that were made nevertheless"
    ),
)
SCALE = CallRow(
    "POST",
    "/v1/jobs/{id}/scale",
    JobView,
    body=ScaleBody,
    shown='{"tasks": 5}',
    steers=True,
    about="sets the number of tasks of a service or database",
)
RESUME = CallRow(
    "POST",
    "/v1/jobs/{id}/resume",
    SubmittedPage,
    body=ResumeBody,
    shown='{"steps": ["load"]}',
    needs=Action.SUBMIT,
    steers=True,
    makes=True,
    keyed=True,
    again=False,
    about=(
        "submits the steps of a finished dag that did not succeed as a new dag; 201 with its id. With `steps` these "
        "and all steps behind them run again; with `only` nothing but these. `job` is the dag of a corrected file"
    ),
)
RETRY = CallRow(
    "POST",
    "/v1/jobs/{id}/retry",
    SubmittedPage,
    body=RetryBody,
    shown='{"failed": true}',
    needs=Action.SUBMIT,
    steers=True,
    makes=True,
    keyed=True,
    again=False,
    about=(
        "submits an ended batch job once more, as it was submitted or last changed; 201 with the id of the new job. "
        "With `failed` only the tasks that did not succeed, with their indices"
    ),
)
RESTART = CallRow(
    "POST",
    "/v1/jobs/{id}/restart",
    JobView,
    steers=True,
    again=False,
    about="replaces all tasks of a service or database by new ones of the same kind, as an update does",
)
JOB_FILE = CallRow(
    "GET",
    "/v1/jobs/{id}/file",
    JobFileView,
    steers=True,
    about=(
        "the job file of a job as submitted or last changed, which can be submitted again; for those who may change "
        "the job. Jobs that it waits for have their ids; the file of an ended job has none. Parts of other jobs and "
        "leases have no file"
    ),
)
VERSIONS = CallRow(
    "GET",
    "/v1/jobs/{id}/versions",
    VersionsPage,
    about="the last versions of a service or database, the newest first, with the keys that changed",
)
REVERT = CallRow(
    "POST",
    "/v1/jobs/{id}/revert",
    JobView,
    body=RevertBody,
    shown='{"version": 3}',
    needs=Action.SUBMIT,
    steers=True,
    again=False,
    about="updates a service or database to an earlier version; the number of tasks stays",
)
PROMOTE = CallRow(
    "POST",
    "/v1/jobs/{id}/promote",
    JobView,
    steers=True,
    about="lets an update of a service that waits after its `canary` tasks replace the others",
)
TRIGGER = CallRow(
    "POST",
    "/v1/jobs/{id}/trigger",
    SubmittedPage,
    body=TriggerBody,
    shown='{"at": SECONDS}',
    steers=True,
    makes=True,
    again=False,
    about=(
        "makes a run of a cron job for a moment (default: now), or a run for each of its moments from `since` until "
        "`until`, at most 1,000; 201 with their ids. Unless runs may overlap, each waits for the end of the one before"
    ),
)
SCHEMA = CallRow(
    "GET",
    "/v1/schema",
    dict[str, Any],
    about="the JSON Schema of a job",
)
HOLD = CallRow(
    "POST",
    "/v1/jobs/{id}/hold",
    JobView,
    steers=True,
    about="no further task of the job starts until it is released; running tasks go on",
)
RELEASE = CallRow(
    "POST",
    "/v1/jobs/{id}/release",
    JobView,
    steers=True,
    about="tasks of a held job may start again",
)
HOLD_JOBS = CallRow(
    "POST",
    "/v1/jobs/hold",
    HeldJobs,
    body=JobsBody,
    shown='{"jobs": [12, 13]}',
    steers=True,
    about="holds up to 10,000 jobs: all or none",
)
RELEASE_JOBS = CallRow(
    "POST",
    "/v1/jobs/release",
    HeldJobs,
    body=JobsBody,
    shown='{"jobs": [12, 13]}',
    steers=True,
    about="releases up to 10,000 jobs: all or none",
)
UPDATE_JOBS = CallRow(
    "POST",
    "/v1/jobs/update",
    HeldJobs,
    body=UpdateBody,
    shown='{"jobs": [12], "values": {"time_limit": "2h", "priority": 5}}',
    steers=True,
    about=(
        "gives up to 1,000 jobs new values of some [keys](jobs.md#changing-a-submitted-job): all or none; `null` "
        "is the default of a key"
    ),
)
REQUEUE_JOBS = CallRow(
    "POST",
    "/v1/jobs/requeue",
    HeldJobs,
    body=RequeueBody,
    shown='{"jobs": [12, 13]}',
    steers=True,
    again=False,
    about="stops the running tasks of up to 1,000 jobs, which then wait again; with `hold` the jobs are held",
)
CANCEL = CallRow(
    "POST",
    "/v1/jobs/{id}/cancel",
    JobView,
    steers=True,
    about="stops all tasks of the job, with their grace; no effect on a job that is over",
)
CANCEL_JOBS = CallRow(
    "POST",
    "/v1/jobs/cancel",
    CancelledJobs,
    body=JobsBody,
    shown='{"jobs": [12, 13]}',
    steers=True,
    about=(
        'cancels up to 100,000 jobs: `{"jobs": [{"id", "name", "state", "was_over"}]}`. If one of them does not '
        "exist, the answer is 404 and none is cancelled. They are stored in slices: if the center fails in "
        "between, the answer is an error, the first ones are cancelled, and the call can be repeated"
    ),
)
SIGNAL = CallRow(
    "POST",
    "/v1/jobs/{id}/signal",
    JobView,
    body=SignalBody,
    shown='{"signal": "INT", "task": 0}',
    steers=True,
    again=False,
    about="sends a signal to a running task; without `task` to all running tasks",
)
LOGS = CallRow(
    "GET",
    "/v1/jobs/{id}/logs",
    bytes,
    query=LogsQuery,
    steers=True,
    about=(
        "the output of the task's last attempt, or of the given one, as bytes (`stream`: `stdout`, `stderr`, or "
        "`times`: records of 24 bytes, big-endian, a time in µs since the epoch and the sizes of both that the node "
        "saw then); `follow`: until the task is over, attempt by attempt. To resume after a break, give its attempt "
        "as `since`, and its offset. `framed`: in frames, each with a header of 36 bytes, big-endian: attempt, "
        "offset, bytes missing from there on, bytes that the log keeps (8 each), size of the data after the header "
        "(4). A frame without data is a sign of life, after 5 s of silence. An answer that breaks off is not all: "
        "resume"
    ),
)
EXEC = CallRow(
    "WEBSOCKET",
    "/v1/jobs/{id}/tasks/{task}/exec",
    bytes,
    steers=True,
    again=False,
    about="a command inside a running task: see [below](#commands-in-tasks)",
)
