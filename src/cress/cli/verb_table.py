"""The verbs of the command as a table: what their list says, and where their functions are.

A command that runs needs one verb. The files of all verbs took half of the time of a start, so a verb is imported when
it is asked for, and the list of verbs is printed from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_NONE: Mapping[str, object] = MappingProxyType({})
# Options end at the first word of the command that is to run.
_ENDS_AT_COMMAND = MappingProxyType({"allow_interspersed_args": False})


class Verb(NamedTuple):
    """A verb, or a group of verbs with one below it."""

    name: str
    # The first sentence of its help.
    about: str
    # File in ``cress.cli`` and function, such as ``hold:release``. The function is ``app`` for a group of verbs.
    place: str
    # What its file calls the text below the help; groups have their own.
    epilog: str = "EPILOG"
    # File and class, if the verb reads its words itself.
    command: str = ""
    # Settings of the library of the command line.
    settings: Mapping[str, object] = _NONE


# In the order of their users: verbs of users, of operators, the programs, the simulator.
TABLE = (
    Verb(
        "submit",
        "Submit the jobs of files, or a script or a command as a job.",
        "submit:submit",
        command="job_options:JobCommand",
    ),
    Verb("plan", "Show where and when jobs would start.", "plan:plan"),
    Verb("run", "Run a command on the cluster and show its output.", "run:run", settings=_ENDS_AT_COMMAND),
    Verb("alloc", "Hold resources, and open a shell on them.", "alloc:alloc", settings=_ENDS_AT_COMMAND),
    Verb("apply", "Create or update services, databases and cron jobs.", "apply:apply"),
    Verb("validate", "Check job files without a center.", "validate:validate"),
    Verb("schema", "Print the JSON Schema of job files.", "schema:schema"),
    Verb("jobs", "List jobs, newest first.", "jobs:jobs"),
    Verb("job", "Show everything about one job.", "job:job"),
    Verb("explain", "Explain why a job waits, or a group or node has no more.", "explain:explain", "EXPLAIN"),
    Verb("why", "Tell why a job waits, in three lines.", "explain:why", "WHY"),
    Verb("story", "Show everything that happened to a job, a node or a group.", "story:story"),
    Verb("watch", "Follow the state of a job until its end.", "watch:watch"),
    Verb("logs", "Show the output of the tasks of a job.", "logs:logs"),
    Verb("fetch", "Fetch files from the directories of a job's tasks.", "fetch:fetch"),
    Verb("exec", "Run a command in a running task.", "execution:execute"),
    Verb("resolve", "Show where the running tasks of a job are.", "resolve:resolve"),
    Verb("render", "Write a file that follows the places of jobs.", "render:render"),
    Verb("cancel", "Cancel jobs.", "cancel:cancel"),
    Verb("hold", "Hold jobs: start no tasks of them until they are released.", "hold:hold", "HOLD"),
    Verb("release", "Release held jobs, so that they may start.", "hold:release", "RELEASE"),
    Verb("update", "Change time limit, priority, group and more of submitted jobs.", "update:update", "UPDATE"),
    Verb("requeue", "Stop the running tasks of jobs, which then wait again.", "update:requeue", "REQUEUE"),
    Verb("retry", "Submit an ended job once more, or its failed tasks.", "update:retry", "RETRY"),
    Verb("scale", "Change the number of tasks of a service or database.", "scale:scale", "SCALE"),
    Verb("versions", "List the versions of a service or database.", "versions:versions", "VERSIONS"),
    Verb("revert", "Bring back an earlier version of a service or database.", "versions:revert", "REVERT"),
    Verb("restart", "Replace all tasks of a service or database one by one.", "versions:restart", "RESTART"),
    Verb("promote", "Let an update that waits after its canaries go on.", "versions:promote", "PROMOTE"),
    Verb("resume", "Run the unfinished steps of a dag again, or others.", "scale:resume", "RESUME"),
    Verb("trigger", "Run a cron job at once, or for earlier times.", "scale:trigger", "TRIGGER"),
    Verb("groups", "List groups, or change them.", "groups:app"),
    Verb("nodes", "List nodes, cordon or drain them, or change their settings.", "nodes:app"),
    Verb("what-if", "Show what a change would do to the cluster's work.", "what_if:what_if"),
    Verb("rebalance", "Move running tasks to make room.", "rebalance:rebalance"),
    Verb("reserve", "Reserve nodes in advance, for a group or for maintenance.", "reservations:reserve"),
    Verb("reservations", "List advance reservations and maintenance windows.", "reservations:app"),
    Verb("leases", "List leases of workloads, request them, or return them.", "leases:app"),
    Verb("licences", "List the licences of the cluster.", "licences:licences"),
    Verb("status", "Show the cluster in a few lines.", "status:status"),
    Verb("top", "Watch groups, waiting jobs, nodes and events on one screen.", "top:top"),
    Verb("events", "Show events of the cluster.", "events:events"),
    Verb("usage", "Show the resources that groups used over time.", "usage:usage"),
    Verb("efficiency", "Show what finished jobs asked for, and what they used.", "efficiency:efficiency"),
    Verb("login", "Sign in with the center's OpenID Connect provider.", "login:login", "LOGIN"),
    Verb("logout", "Sign out: revoke the token of `cress login`.", "login:logout", "LOGOUT"),
    Verb("whoami", "Show your user name, role and credential at the center.", "users:whoami", "WHOAMI"),
    Verb("token", "Create, list and revoke tokens.", "tokens:app"),
    Verb("secret", "Keep encrypted values for jobs.", "secrets:app"),
    Verb("users", "List users, or set their roles.", "users:app"),
    Verb("audit", "Show refused calls and administrative changes.", "audit:audit"),
    Verb("config", "Show or change the configuration, or check files.", "config:app"),
    Verb("slurm", "Write commands of Slurm that speak to Cress.", "slurm.install:app"),
    Verb("up", "Start a center and executors on this machine.", "up:up"),
    Verb("portal", "Show the cluster in a browser.", "portal:portal"),
    Verb(
        "center",
        "Run a center until it is stopped.",
        "center:center",
        command="configured:ConfiguredCommand",
        settings=MappingProxyType({"auto_envvar_prefix": "CRESS_CENTER"}),
    ),
    Verb(
        "executor",
        "Run an executor until it is stopped.",
        "executor:executor",
        command="configured:ConfiguredCommand",
        settings=MappingProxyType({"auto_envvar_prefix": "CRESS_EXECUTOR"}),
    ),
    Verb("join", "Join a cluster as a node: make a key, get a certificate.", "join:join"),
    Verb("tls", "Make certificates for a cluster.", "tls:app"),
    Verb("store", "Check, back up or restore the store of a center.", "store:app"),
    Verb(
        "install-service",
        "Write a unit of systemd for a center, an executor or a portal.",
        "install_service:install_service",
    ),
    Verb("demo", "Run a mixed workload on its own cluster, and check it.", "demo:demo"),
    Verb(
        "simulate",
        "Replay a trace in virtual time and compare policies.",
        "simulate:simulate",
        command="simulate:Comparing",
    ),
    Verb("size", "Find the number of nodes that a trace needs.", "size:size"),
    Verb("replay", "Decide the log of a center again, and compare.", "replay:replay"),
    Verb("export", "Write recorded jobs as CSV or in Standard Workload Format.", "export:export"),
    Verb("man", "Write the manual pages of all verbs.", "manual:man"),
)
