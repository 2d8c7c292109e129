"""The names with a meaning in the language itself. All others are attributes that a node has or lacks."""

from __future__ import annotations

import re
from functools import lru_cache

from cress.model.resources import BASE_DIMENSIONS, DISK, Dimensions, Measure

# Facts of every node besides its attributes, and their spelling.
NODE_NAMES = {"name": "Name", "hostname": "Hostname", "address": "Address", "rack": "Rack"}

# Amounts of every cluster. The disk as one amount is the smaller one of reading and writing.
AMOUNTS = {
    "cpu": "CPU",
    "memory": "Memory",
    "network": "Network",
    "disk": "Disk",
    "diskread": "DiskRead",
    "diskwrite": "DiskWrite",
    "iopsread": "IOPSRead",
    "iopswrite": "IOPSWrite",
}
IDLE = "idle"
MEMORY = "memory"

# Measured loads of a node, as shares of its capacity, and bytes; undefined on nodes without measurements.
FREE_MEMORY = "freememory"
LOADS = {
    "cpuload": "CPULoad",
    "memoryload": "MemoryLoad",
    "networkload": "NetworkLoad",
    "diskload": "DiskLoad",
    FREE_MEMORY: "FreeMemory",
}

# Names that only form whole clauses.
NODES, DATA_LOCALITY, RESOURCE, PORT = "nodes", "datalocality", "resource", "port"
EXCLUSIVE_DISK, NETWORK_ADJACENT = "exclusivedisk", "networkadjacent"
JOB_DEPENDENCY, DEPENDED_JOB = "jobdependency", "dependedjob"
ISSUE_AS_WHOLE = "issueaswhole"
PLACEMENT = {
    NODES: "Nodes",
    DATA_LOCALITY: "DataLocality",
    RESOURCE: "Resource",
    PORT: "Port",
    EXCLUSIVE_DISK: "ExclusiveDisk",
    NETWORK_ADJACENT: "NetworkAdjacent",
    JOB_DEPENDENCY: "JobDependency",
    DEPENDED_JOB: "JobDependency",
    ISSUE_AS_WHOLE: "IssueAsWhole",
}

# Clauses in the form of functions, and their spelling.
SPREAD, AWAY_FROM, NEAR, WITHIN = "spread", "awayfrom", "near", "within"
PLACING = {SPREAD: "spread", AWAY_FROM: "away_from", NEAR: "near", WITHIN: "within"}

# Names whose lists may contain patterns of names.
NAMES = ("name", "hostname", NODES, DATA_LOCALITY)

# Names for f(x) only.
WAITTIME, CLUSTER_LOAD = "waittime", "clusterload"
MOMENT = {WAITTIME: "Waittime", CLUSTER_LOAD: "ClusterLoad"}

# ``is`` with this word tests for a missing value; no node has such an attribute.
UNDEFINED = "undefined"

# Attributes of a job in source E that say nothing about nodes, and their keys in a job.
JOB_ATTRIBUTES = {
    "dynamicport": "ports",
    "jobfailure": "job_failure",
    "requirement": "requirement",
}

# The job's own attributes, whose names begin with ``Job.``. Amounts of one task follow the names of dimensions.
JOB = "job."
# Its labels: ``Job.Labels.Tier``.
LABELS = JOB + "labels."
JOB_FACTS = {
    "user": "User",
    "group": "Group",
    "name": "Name",
    "type": "Type",
    "application": "Application",
    "workload": "Workload",
    "priority": "Priority",
    "tasks": "Tasks",
    "gang": "Gang",
    "timelimit": "TimeLimit",
    **{key: written for key, written in AMOUNTS.items() if key != DISK},
}

SPELLING = {
    **NODE_NAMES,
    **AMOUNTS,
    **{IDLE + key: "Idle" + written for key, written in AMOUNTS.items()},
    **LOADS,
    **PLACEMENT,
    **MOMENT,
    **{JOB + key: f"Job.{written}" for key, written in JOB_FACTS.items()},
}


# Names that need no quotes, unless they are words of the grammar or may be meant as a difference of amounts.
_PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
GRAMMAR_WORDS = frozenset(("and", "or", "not", "in", "true", "false"))
QUOTE = "`"


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    """Return the normalized form of a name: in lower case, without ``_`` and ``-``."""
    return name.casefold().replace("_", "").replace("-", "")


def amount_of(key: str, dimensions: Dimensions | None = None) -> tuple[bool, str]:
    """Return whether ``key`` is an idle amount, and the key of its dimension.

    The latter is "" if ``key`` is not an amount.
    """
    known = AMOUNTS.keys() if dimensions is None else AMOUNTS.keys() | {key_of(name) for name in dimensions.custom}
    if key in known:
        return False, key
    rest = key.removeprefix(IDLE)
    return (True, rest) if rest != key and rest in known else (False, "")


def is_quantity(key: str, dimensions: Dimensions | None = None) -> bool:
    """Return whether a name is always a number: an amount of the node or a measured load."""
    return key in LOADS or bool(amount_of(key, dimensions)[1])


# Measures of amounts that have a unit; cores and operations/s are counted.
SIZED = (Measure.BYTES, Measure.BITS_PER_SECOND, Measure.BYTES_PER_SECOND)
_MEASURES = {key_of(name): measure for name, measure in BASE_DIMENSIONS.items()} | {DISK: Measure.BYTES_PER_SECOND}


def measure_of(key: str) -> Measure | None:
    """Return the unit of the quantity ``key``; None if not every cluster has this quantity."""
    if key.startswith(JOB):
        return _MEASURES.get(key.removeprefix(JOB))
    return Measure.BYTES if key == FREE_MEMORY else _MEASURES.get(amount_of(key)[1])


def spelling_of(name: str) -> str:
    """Return the spelling of a name in an expression: in backquotes if it would otherwise be read differently."""
    plain = _PLAIN_NAME.fullmatch(name) and name.casefold() not in GRAMMAR_WORDS and not has_difference(name)
    return name if plain else f"{QUOTE}{name}{QUOTE}"


def has_difference(name: str) -> bool:
    """Return whether a name with a minus may be meant as a difference of amounts, such as ``CPU-IdleCPU``."""
    words = [key_of(word) for word in name.split("-")]
    known = AMOUNTS.keys() | LOADS.keys() | MOMENT.keys()
    return len(words) > 1 and any(word.removeprefix(IDLE) in known for word in words)
