"""``scontrol``: show and change jobs and nodes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cress.cli.slurm.common import VERSION, center, say
from cress.cli.slurm.nodes import SLURM_STATES, cpus_of, memory_of, partitions, state_of
from cress.cli.slurm.queue import option
from cress.cli.slurm.rows import FIELDS, JobRow, moment, named, rows_of
from cress.client.submitted_script import script_of
from cress.model.errors import InputError
from cress.model.units import closest
from cress.slurm.arrays import job_words, parse_job
from cress.slurm.command_line import parse
from cress.slurm.moments import read_deadline
from cress.slurm.nodelist import compressed, expanded
from cress.slurm.values import seconds, time_text

if TYPE_CHECKING:
    from cress.client import Client, NodeView

OPTIONS = (
    option("oneliner", "o"),
    option("details", "d"),
    option("all", "a"),
    option("hide"),
    option("quiet", "Q"),
    option("verbose", "v"),
    option("future", "F"),
    option("local"),
)


def scontrol(_name: str, words: Sequence[str]) -> int:
    """Show or change a job or a node."""
    given, rest = parse(words, OPTIONS, mixed=True)
    if not rest:
        raise InputError("no command", hint=", ".join(sorted(VERBS)))
    verb = VERBS.get(rest[0])
    if verb is None:
        begun = [known for known in VERBS if known.startswith(rest[0])]
        if rest[0] in INSTEAD:
            raise InputError(f"{rest[0]} is not supported", hint=INSTEAD[rest[0]])
        if len(begun) != 1:
            near = closest(rest[0], VERBS)
            raise InputError(f"invalid keyword: {rest[0]}", hint=f"did you mean {near}?" if near else "")
        verb = VERBS[begun[0]]
    return verb(rest[1:], "oneliner" in {one.option.name for one in given})


def _show(words: Sequence[str], one_line: bool) -> int:
    if not words:
        raise InputError("show what?", hint="job, node, partition, config, hostnames or hostlist")
    what, names = words[0].lower(), list(words[1:])
    if "=" in what:
        what, _, first = words[0].partition("=")
        what, names = what.lower().removesuffix("id").removesuffix("name"), [first, *names]
    what = {"jobid": "job", "nodename": "node", "partitionname": "partition"}.get(what, what)
    if what in ("hostnames", "hostname"):
        print("\n".join(expanded(names[0] if names else os.environ.get("SLURM_JOB_NODELIST", ""))))
        return 0
    if what in ("hostlist", "hostlistsorted"):
        text = names[0] if names else ""
        print(compressed(expanded(text.replace("\n", ","))))
        return 0
    shown: dict[str, Callable[[Client, list[str]], list[list[str]]]] = {
        "job": _jobs, "jobs": _jobs, "node": _nodes, "nodes": _nodes, "partition": _partitions,
        "partitions": _partitions, "config": _config, "version": _version,
        **dict.fromkeys(("licenses", "license", "lic"), _licences),
    }  # fmt: skip
    if what in SHOWN_INSTEAD:
        raise InputError(f"show {what} is not supported", hint=SHOWN_INSTEAD[what])
    if what not in shown:
        near = closest(what, [*shown, "hostnames", "hostlist"])
        raise InputError(f"invalid entity: {what}", hint=f"did you mean {near}?" if near else ", ".join(shown))
    with center() as client:
        for lines in shown[what](client, names):
            print((" " if one_line else "\n   ").join(lines))
            if not one_line and what.startswith(("job", "node", "part")):
                print()
    return 0


def _jobs(client: Client, names: list[str]) -> list[list[str]]:
    from cress.client import NotFound

    found: list[JobRow] = []
    for name in names:
        one = parse_job(name)
        try:
            found += named(rows_of(client, client.job(one.id), single=one.elements is not None), one)
        except NotFound:
            raise InputError("Invalid job id specified", hint="`squeue` lists jobs") from None
    if not names:
        for state in ("running", "waiting"):
            found += [row for job in client.jobs(limit=1000, state=state).jobs for row in rows_of(client, job)]
    return [_job(row) for row in found]


def _job(row: JobRow) -> list[str]:
    job = row.job
    array = [f"ArrayJobId={job.id} ArrayTaskId={row.element}"] if row.element else []
    end = row.ended
    if end is None and row.started is not None and job.time_limit:
        end = row.started + job.time_limit
    return [
        (
            f"JobId={row.raw_id if row.element.isdigit() else job.id} {' '.join([*array, ''])}JobName="
            f"{FIELDS['jobname'](row)}"
        ),
        f"UserId={job.user}({FIELDS['uid'](row) or '?'}) GroupId={job.group} MCS_label=N/A",
        f"Priority={job.priority} Nice=0 Account={FIELDS['account'](row)} QOS={FIELDS['qos'](row)}",
        f"JobState={FIELDS['state'](row)} Reason={row.reason} Dependency={FIELDS['dependency'](row) or '(null)'}",
        (
            f"Requeue={int(job.job_failure)} Restarts={FIELDS['restarts'](row)} "
            f"BatchFlag=1 Reboot=0 ExitCode={FIELDS['exitcode'](row)}"
        ),
        f"RunTime={time_text(row.elapsed)} TimeLimit={FIELDS['timelimit'](row)} TimeMin=N/A",
        f"SubmitTime={moment(job.submitted)} EligibleTime={moment(job.submitted)}",
        (
            f"StartTime={moment(row.started)} EndTime={moment(end)} Deadline="
            f"{moment(job.deadline.at if job.deadline else None, 'N/A')}"
        ),
        f"Partition={FIELDS['partition'](row)} AllocNode:Sid={row.variable('SLURM_SUBMIT_HOST') or 'N/A'}:0",
        f"NodeList={compressed(row.nodes) or '(null)'}",
        f"BatchHost={row.nodes[0] if row.nodes else '(null)'}",
        (
            f"NumNodes={row.count} NumCPUs={row.cpus:g} NumTasks={FIELDS['ntasks'](row)} CPUs/Task="
            f"{row.variable('SLURM_CPUS_PER_TASK') or 1}"
        ),
        f"TRES={FIELDS['reqtres'](row)}",
        f"Features={job.requirement or '(null)'}",
        f"Command={FIELDS['command'](row)}",
        f"WorkDir={job.directory}",
        *(f"{name}={path}" for name in ("StdErr", "StdIn", "StdOut") if (path := FIELDS[name.lower()](row))),
        *([f"Comment={row.variable('SLURM_JOB_COMMENT')}"] if row.variable("SLURM_JOB_COMMENT") else []),
        *([f"CressReason={job.reason}"] if job.reason else []),
    ]


def _nodes(client: Client, names: list[str]) -> list[list[str]]:
    wanted = [node for name in names for node in expanded(name)]
    views = client.nodes()
    by_name = {view.name: view for view in views}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise InputError(f"Node {missing[0]} not found", hint="`sinfo -N` lists nodes")
    return [_node(by_name[name]) for name in wanted or by_name]


def _node(node: NodeView) -> list[str]:
    total, used = cpus_of(node)
    real, allocated = memory_of(node)
    load = node.load.cpu if node.load is not None and hasattr(node.load, "cpu") else 0
    lines = [
        f"NodeName={node.name} Arch={node.attributes.get('Architecture', 'unknown')} CoresPerSocket={int(total)}",
        f"CPUAlloc={int(used)} CPUEfctv={int(total)} CPUTot={int(total)} CPULoad={load}",
        f"AvailableFeatures={_features(node)}",
        f"Gres={'gpu:' + str(node.capacity['gpu']) if 'gpu' in node.capacity else '(null)'}",
        f"NodeAddr={node.address or node.name} NodeHostName={node.attributes.get('Hostname', node.name)}",
        f"OS={node.attributes.get('OS', 'Linux')} {node.attributes.get('OSKernel', '')}",
        f"RealMemory={real >> 20} AllocMem={allocated >> 20} FreeMem={(real - allocated) >> 20} Sockets=1 Boards=1",
        f"State={SLURM_STATES[state_of(node)]} ThreadsPerCore=1 TmpDisk=0 Weight=1",
    ]
    return [*lines, f"Reason={node.reason}"] if node.reason else lines


def _features(node: NodeView) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(node.attributes.items()))


def _partitions(client: Client, names: list[str]) -> list[list[str]]:
    nodes = client.nodes()
    found = []
    for name in partitions(client):
        if names and name.rstrip("*") not in names:
            continue
        total = int(sum(cpus_of(node)[0] for node in nodes))
        found.append([
            f"PartitionName={name.rstrip('*')}",
            f"AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default={'YES' if name.endswith('*') else 'NO'}",
            "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
            "MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
            f"Nodes={compressed(node.name for node in nodes)}",
            "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=YES:4",
            f"State=UP TotalCPUs={total} TotalNodes={len(nodes)} SelectTypeParameters=NONE",
            f"DefMemPerNode=UNLIMITED MaxMemPerNode={max((memory_of(node)[0] >> 20 for node in nodes), default=0)}",
        ])  # fmt: skip
    if names and not found:
        raise InputError(f"Partition {names[0]} not found", hint="`sinfo` lists partitions")
    return found


def _licences(client: Client, names: list[str]) -> list[list[str]]:
    found = [
        [
            f"LicenseName={licence.name}",
            f"Total={licence.total} Used={licence.in_use} Free={licence.free} Reserved=0 Remote=no",
        ]
        for licence in client.licences().licences
        if not names or licence.name in names
    ]
    return found or [["No licenses configured in Slurm."]]


def _config(_client: Client, _names: list[str]) -> list[list[str]]:
    return [[
        "Configuration data of Cress", "ClusterName             = cress", f"SLURM_VERSION           = {VERSION[6:]}",
        "MaxArraySize            = 4000001", "MinJobAge               = 300 sec", "AccountingStorageType   = cress",
    ]]  # fmt: skip


def _version(_client: Client, _names: list[str]) -> list[list[str]]:
    return [[VERSION]]


def _each(words: Sequence[str]) -> list[int]:
    ids = []
    for text in words:
        for word in job_words(text):
            one = parse_job(word.lower().removeprefix("jobid="))
            if one.elements is not None or one.task is not None:
                raise InputError(f"{word}: one element of an array cannot be held alone", hint=str(one.id))
            ids.append(one.id)
    if not ids:
        raise InputError("no job is named", hint="scontrol hold 12")
    return ids


def _hold(words: Sequence[str], _one_line: bool) -> int:
    with center() as client:
        client.hold_jobs(_each(words))
    return 0


def _release(words: Sequence[str], _one_line: bool) -> int:
    with center() as client:
        client.release_jobs(_each(words))
    return 0


def _requeue(words: Sequence[str], _one_line: bool) -> int:
    with center() as client:
        from cress.client import calls

        client.ask(calls.requeue_jobs(_each(words)))
    return 0


def _requeue_held(words: Sequence[str], _one_line: bool) -> int:
    with center() as client:
        from cress.client import calls

        client.ask(calls.requeue_jobs(_each(words), hold=True))
    return 0


def _update(words: Sequence[str], _one_line: bool) -> int:
    values = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{word!r} is not NAME=VALUE", hint="scontrol update NodeName=n1 State=DRAIN Reason=disks")
        values[name.lower()] = value
    with center() as client:
        if "nodename" in values:
            return _update_nodes(client, values)
        ids = _each([values.pop("jobid", values.pop("job", ""))])
        if values == {"priority": "0"}:
            client.hold_jobs(ids)
            return 0
        from cress.client import calls

        client.ask(calls.update_jobs(ids, dict(_changed(*pair) for pair in values.items())))
    return 0


def _changed(name: str, value: str) -> tuple[str, object]:
    """Return the key of a job and its value for a field of ``scontrol update``. Raises InputError."""
    row = CHANGES.get(name)
    if row is None:
        near = closest(name, CHANGES)
        what = f"{name} of a submitted job cannot be changed"
        raise InputError(what, hint=f"did you mean {near}?" if near else ", ".join(CHANGES), field=name)
    key, read = row
    return key, read(value)


def _limit(text: str) -> str | None:
    if text[:1] in ("+", "-"):
        raise InputError(f"{text!r} changes the present limit by an amount", hint="the whole limit, such as 2:00:00")
    length = seconds(text)
    return None if length is None else f"{length}s"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{text!r} is not a whole number", hint="such as 100") from None


# Fields of ``scontrol update JobId=…``: the key of a job, and what reads the value.
CHANGES: dict[str, tuple[str, Callable[[str], object]]] = {
    "timelimit": ("time_limit", _limit),
    "priority": ("priority", _whole),
    "nice": ("priority", lambda text: -_whole(text or "100")),
    "partition": ("group", str),
    "account": ("group", str),
    "arraytaskthrottle": ("max_running", _whole),
    "deadline": ("deadline", lambda text: read_deadline(text, time.time()) if text else None),
}


def _update_nodes(client: Client, values: dict[str, str]) -> int:
    state = values.get("state", "").upper()
    for name in expanded(values["nodename"]):
        if state == "DRAIN":
            client.cordon(name, values.get("reason", ""))
        elif state in ("RESUME", "IDLE", "UNDRAIN"):
            client.uncordon(name)
        elif state == "DOWN":
            client.drain(name, 0.0, values.get("reason", ""))
        else:
            raise InputError(f"{state or 'no state'} is not supported", hint="DRAIN, DOWN or RESUME", field="State")
    return 0


def _ping(_words: Sequence[str], _one_line: bool) -> int:
    with center() as client:
        client.nodes()
    print(f"Slurmctld(primary) at {socket.gethostname()} is UP")
    return 0


def _write(words: Sequence[str], _one_line: bool) -> int:
    """``write batch_script JOB [FILE|-]``."""
    if len(words) < 2 or words[0] != "batch_script":
        raise InputError("write what?", hint="scontrol write batch_script 12 -")
    one = parse_job(words[1])
    with center() as client:
        text = script_of(client.job(one.id))
    if not text:
        raise InputError(f"job {one.id} has no batch script", hint="only jobs of sbatch have one")
    if len(words) > 2 and words[2] == "-":
        print(text, end="")
        return 0
    path = words[2] if len(words) > 2 else f"slurm-{one.id}.sh"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    print(f"batch script for job {one.id} written to {path}")
    return 0


def _places(_words: Sequence[str], _one_line: bool) -> int:
    """Print the nodes of the job of this task, one for each place; its head asks."""
    from cress.cli.slurm.layout import places_of

    id = int(os.environ["CRESS_JOB_ID"])
    with center() as client:
        for _ in range(600):
            places = places_of(client, client.job(id))
            if places:
                print(",".join(place.node for place in places))
                return 0
            time.sleep(0.1)
    say("scontrol", f"error: not all tasks of job {id} run")
    return 1


def _end(_words: Sequence[str], _one_line: bool) -> int:
    """End the waiting tasks of the job of this task; its head asks."""
    from cress.cli.slurm.allocations import release

    id, own = int(os.environ["CRESS_JOB_ID"]), int(os.environ["CRESS_TASK_INDEX"])
    with center() as client:
        release(client, id, [task for task in range(int(os.environ["CRESS_TASK_COUNT"])) if task != own])
    return 0


# What else Slurm's scontrol does and shows, and what does it here.
INSTEAD = {
    "suspend": "`scontrol requeue 12` frees the nodes; programs cannot pause with their memory",
    "resume": "`scontrol release 12` for a held job; `scontrol update NodeName=n1 State=RESUME` for a node",
    "top": "`scontrol update JobId=12 Priority=100`",
    "listpids": "`cress exec 12 -- ps`",
    "create": "`cress reserve` reserves nodes, `cress groups` makes groups",
    "delete": "`cress reservations`, `cress groups`",
    "reboot": "`cress nodes drain n1`, then the tools of the machine",
    "reconfigure": "`cress groups apply`, `cress config`",
    "shutdown": "stop the programs `cress center` and `cress executor`",
    "cancel_reboot": "nodes are not rebooted",
    "notify": "`cress exec 12 -- …` runs a command beside a job",
}
SHOWN_INSTEAD = {
    **dict.fromkeys(("step", "steps", "stepid"), "`cress job 12` shows the tasks"),
    **dict.fromkeys(("reservation", "reservations", "res", "reservationname"), "`cress reservations`"),
    **dict.fromkeys(("assoc_mgr", "assoc", "federation", "topology", "burstbuffer"), "`cress groups`, `cress nodes`"),
}
VERBS: dict[str, Callable[[Sequence[str], bool], int]] = {
    "show": _show,
    "hold": _hold,
    "uhold": _hold,
    "release": _release,
    "requeue": _requeue,
    "requeuehold": _requeue_held,
    "update": _update,
    "ping": _ping,
    "write": _write,
    "cress-places": _places,
    "cress-release": _end,
}
