"""``sprio``, ``seff``, ``sshare`` and ``sreport``: priorities, efficiency of a job, shares, usage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cress.cli.slurm.common import center, user_of
from cress.cli.slurm.queue import LETTERS, VALUE, option
from cress.cli.slurm.rows import FIELDS, JobRow, named, rows_of
from cress.cli.slurm.tables import printed, widths
from cress.model.errors import InputError
from cress.slurm.arrays import parse_job
from cress.slurm.command_line import parse, values_of
from cress.slurm.moments import read_moment
from cress.slurm.option_table import Option
from cress.slurm.values import memory_text, time_text

if TYPE_CHECKING:
    from cress.client import Client


def _usual(noheader: str) -> tuple[Option, ...]:
    """Return the options that ``sprio`` and ``sshare`` share; the letter of ``--noheader`` differs."""
    return option("noheader", noheader), option("clusters", "M", VALUE), option("verbose", "v")


def sprio(_name: str, words: Sequence[str]) -> int:
    """Print the priorities of waiting jobs."""
    options = (
        option("jobs", "j", VALUE),
        option("user", "u", VALUE),
        option("partition", "p", VALUE),
        *_usual("h"),
        option("long", "l"),
        option("norm", "n"),
        option("weights", "w"),
        option("format", "o", VALUE),
        option("sort", "S", VALUE),
    )
    values = values_of(parse(words, options, mixed=True)[0])
    letters = {**LETTERS, "r": LETTERS["P"], "Y": LETTERS["Q"], "i": LETTERS["i"]}
    heads = {"i": "JOBID", "r": "PARTITION", "u": "USER", "Y": "PRIORITY", "j": "NAME", "o": "ACCOUNT", "n": "QOS"}
    text = values.get("format") or "%.15i %9r %.8u %.10Y"
    wanted = {parse_job(word).id for word in values.get("jobs", "").split(",") if word}
    users = {word for word in values.get("user", "").split(",") if word}
    with center() as client:
        jobs = client.jobs(limit=1000, state="waiting").jobs
    rows = [JobRow(job) for job in jobs if (not wanted or job.id in wanted) and (not users or job.user in users)]
    rows.sort(key=lambda row: -row.job.priority)
    printed(widths(text, letters, {**dict.fromkeys(letters, ""), **heads}), rows, head="noheader" not in values)
    return 0


# The time over which ``sshare`` counts usage, in seconds.
SHARED = 30 * 86400.0


def sshare(_name: str, words: Sequence[str]) -> int:
    """Print the groups with their quotas as shares, and their usage of the last 30 days."""
    options = (
        option("accounts", "A", VALUE),
        option("all", "a"),
        option("users", "u", VALUE),
        *_usual("n"),
        option("parsable", "p"),
        option("parsable2", "P"),
        option("long", "l"),
        option("format", "o", VALUE),
        option("Users", "U"),
    )
    values = values_of(parse(words, options, mixed=True)[0])
    wanted = {word for word in values.get("accounts", "").split(",") if word}
    with center() as client:
        groups = client.groups().groups
        parents = {group.name: group.parent for group in groups}
        seconds = _with_parents(_usage(client, time.time() - SHARED, None, by="day"), parents)
        user = user_of(client)
    whole = sum(seconds.get(name, 0.0) for name, parent in parents.items() if not parent)
    rows = []
    for group in groups:
        if wanted and group.name not in wanted:
            continue
        used = seconds.get(group.name, 0.0)
        share = group.share_of_cluster
        rows.append({
            "account": group.name, "user": user if "*" in group.users or user in group.users else "",
            "rawshares": group.quota, "normshares": "" if share is None else f"{share:.6f}",
            "rawusage": f"{used:.0f}", "effectvusage": f"{used / whole if whole else 0:.6f}",
        })  # fmt: skip
    heads = (values.get("format") or "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare").split(",")
    names = [head.partition("%")[0] for head in heads]
    table = [[row.get(name.lower(), "") for name in names] for row in rows]
    if "parsable" in values or "parsable2" in values:
        last = "|" if "parsable" in values else ""
        for cells in ([] if "noheader" in values else [names]) + table:
            print("|".join(cells) + last)
        return 0
    sizes = [20 if name.lower() == "account" else 12 for name in names]
    lines = [] if "noheader" in values else [names, ["-" * size for size in sizes]]
    for cells in lines + table:
        fitted = [f"{text[:size]:>{size}}" for text, size in zip(cells, sizes, strict=True)]
        print(" ".join([cells[0][: sizes[0]].ljust(sizes[0]), *fitted[1:]]).rstrip())
    return 0


def _with_parents(seconds: Mapping[str, float], parents: Mapping[str, str]) -> dict[str, float]:
    """Return the core seconds of each group with those of all groups below it."""
    found: dict[str, float] = {}
    for name, used in seconds.items():
        above = name
        while above:
            found[above] = found.get(above, 0.0) + used
            above = parents.get(above, "")
    return found


def _usage(client: Client, start: float, end: float | None, *, by: str = "hour") -> dict[str, float]:
    """Return the core seconds of each group between two moments, in whole hours or days."""
    seconds: dict[str, float] = {}
    since: float | None = start
    while since is not None:
        page = client.usage(since=since, until=end, by=by)
        for usage in page.usage:
            seconds[usage.group] = seconds.get(usage.group, 0.0) + usage.core_seconds
        since = page.next
    return seconds


def seff(_name: str, words: Sequence[str]) -> int:
    """Print how much of its request a job used."""
    ids = [word for word in words if not word.startswith("-")]
    if len(ids) != 1:
        raise InputError("one job is needed", hint="seff 12")
    one = parse_job(ids[0])
    from cress.client import NotFound

    with center() as client:
        try:
            job = client.job(one.id)
        except NotFound:
            raise InputError("Job not found.", hint="`sacct` lists jobs") from None
        rows = named(rows_of(client, job, single=one.elements is not None or one.task is not None), one)
    row = rows[0] if len(rows) == 1 else JobRow(job, [task for part in rows for task in part.tasks])
    asked, used = row.elapsed * row.cpus, row.cpu_seconds
    memory = _bytes(job.resource.get("memory", 0)) * (job.tasks.total if job.gang else 1)
    lines = [
        f"Job ID: {row.raw_id}",
        *([f"Array Job ID: {row.id}"] if row.element else []),
        "Cluster: cress",
        f"User/Group: {job.user}/{job.group}",
        f"State: {FIELDS['state'](row)} (exit code {row.code[0]})",
        f"Nodes: {row.count}" if row.count > 1 else f"Cores: {row.cpus:g}",
        *([f"Cores per node: {row.cpus / row.count:g}"] if row.count > 1 else []),
        f"CPU Utilized: {time_text(used)}",
        f"CPU Efficiency: {100 * used / asked if asked else 0:.2f}% of {time_text(asked)} core-walltime",
        f"Job Wall-clock time: {time_text(row.elapsed)}",
        f"Memory Utilized: {memory_text(row.memory)}",
        f"Memory Efficiency: {100 * row.memory / memory if memory else 0:.2f}% of {memory_text(memory)}",
    ]
    print("\n".join(lines))
    return 0


def _bytes(value: object) -> int:
    from cress.model.resources import Measure
    from cress.model.units import parse_amount

    try:
        return int(parse_amount(str(value), Measure.BYTES))
    except InputError:
        return 0


def sreport(_name: str, words: Sequence[str]) -> int:
    """Print the usage of groups: ``cluster utilization``, ``cluster AccountUtilizationByUser``, ``user top``."""
    options = (
        option("time", "t", VALUE),
        option("noheader", "n"),
        option("parsable", "p"),
        option("parsable2", "P"),
        option("all-clusters", "a"),
        option("tres", "T", VALUE),
        option("quiet", "Q"),
        option("verbose", "v"),
    )
    given, rest = parse(words, options, mixed=True)
    values = values_of(given)
    plain = [word.lower() for word in rest if "=" not in word]
    pairs = {key.lower(): value for key, _, value in (word.partition("=") for word in rest if "=" in word)}
    known = (
        ["cluster", "utilization"],
        ["cluster", "accountutilizationbyuser"],
        ["cluster", "userutilizationbyaccount"],
    )
    if plain not in known:
        shown = "; ".join(" ".join(words) for words in known)
        raise InputError(f"unknown report {' '.join(rest) or '(none)'!r}", hint=f"{shown}; or `cress usage`")
    now = time.time()
    midnight = read_moment("today", "start", now)
    start = read_moment(pairs.get("start", "yesterday"), "start", now)
    end = read_moment(pairs["end"], "end", now) if "end" in pairs else midnight if start < midnight else now
    with center() as client:
        seconds = _usage(client, start, end)
        cores = sum(float(str(node.capacity.get("cpu", 0))) for node in client.nodes())
    unit, size = {"h": ("Hours", 3600.0), "s": ("Seconds", 1.0)}.get(
        values.get("time", "m").lower()[:1], ("Minutes", 60.0)
    )
    if plain[1] == "utilization":
        heads = ["Cluster", "Allocate", "Idle", "Reported"]
        whole, used = cores * (end - start) / size, sum(seconds.values()) / size
        rows = [["cress", f"{used:.0f}", f"{max(whole - used, 0):.0f}", f"{whole:.0f}"]]
    else:
        heads = ["Cluster", "Account", "Used"]
        rows = [["cress", group, f"{amount / size:.0f}"] for group, amount in sorted(seconds.items())]
    if "parsable" in values or "parsable2" in values:
        last = "|" if "parsable" in values else ""
        for cells in ([] if "noheader" in values else [heads]) + rows:
            print("|".join(cells) + last)
        return 0
    if "noheader" not in values:
        print("-" * 80)
        print(f"Usage reported in CPU {unit}")
        print("-" * 80)
        print(" ".join(f"{head:>12}" for head in heads))
        print(" ".join("-" * 12 for _ in heads))
    for cells in rows:
        print(" ".join(f"{text:>12}" for text in cells))
    return 0
