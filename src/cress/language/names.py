"""The names that mean something to the language itself. All others are attributes that a node has or lacks."""

from __future__ import annotations

import re
from functools import lru_cache

from cress.model.resources import BASE_DIMENSIONS, DISK, Dimensions, Measure

# What a node has besides its attributes, and how it is spelled.
NODE_NAMES = {"name": "Name", "hostname": "Hostname", "address": "Address", "rack": "Rack"}

# Amounts of every cluster. The disk as one amount is the smaller of reading and writing.
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

# What is measured of a node, as parts of what it has, and bytes; undefined where nobody measures.
FREE_MEMORY = "freememory"
LOADS = {
    "cpuload": "CPULoad",
    "memoryload": "MemoryLoad",
    "networkload": "NetworkLoad",
    "diskload": "DiskLoad",
    FREE_MEMORY: "FreeMemory",
}

# Whole clauses only.
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

# Clauses that are written as functions, and how each is spelled.
SPREAD, AWAY_FROM, NEAR, WITHIN = "spread", "awayfrom", "near", "within"
PLACING = {SPREAD: "spread", AWAY_FROM: "away_from", NEAR: "near", WITHIN: "within"}

# Lists of what may have patterns of names.
NAMES = ("name", "hostname", NODES, DATA_LOCALITY)

# Of f(x) only.
WAITTIME, CLUSTER_LOAD = "waittime", "clusterload"
MOMENT = {WAITTIME: "Waittime", CLUSTER_LOAD: "ClusterLoad"}

# What is compared with it by ``is`` is asked whether it has a value; no node has such an attribute.
UNDEFINED = "undefined"

# Attributes of a job in source E that say nothing about a node, and what they are called in a job.
JOB_ATTRIBUTES = {
    "dynamicport": "ports",
    "jobfailure": "job_failure",
    "requirement": "requirement",
}

# What a job knows of itself: its names begin with ``Job.``. Amounts of one task follow the names of dimensions.
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


# Names that need no quotes, unless they are words of the grammar or might be meant as a difference of amounts.
_PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
GRAMMAR_WORDS = frozenset(("and", "or", "not", "in", "true", "false"))
QUOTE = "`"


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    """Return the normalized form of a name: without capitals, ``_`` and ``-``."""
    return name.casefold().replace("_", "").replace("-", "")


def amount_of(key: str, dimensions: Dimensions | None = None) -> tuple[bool, str]:
    """Return whether the amount ``key`` means the idle one, and the key of its dimension; "" if ``key`` is not an
    amount.
    """
    known = AMOUNTS.keys() if dimensions is None else AMOUNTS.keys() | {key_of(name) for name in dimensions.custom}
    if key in known:
        return False, key
    rest = key.removeprefix(IDLE)
    return (True, rest) if rest != key and rest in known else (False, "")


def is_quantity(key: str, dimensions: Dimensions | None = None) -> bool:
    """Return whether a name is always a number: an amount of the node or a measured load."""
    return key in LOADS or bool(amount_of(key, dimensions)[1])


# Measures of amounts that are written with a unit; cores and operations/s are counted.
SIZED = (Measure.BYTES, Measure.BITS_PER_SECOND, Measure.BYTES_PER_SECOND)
_MEASURES = {key_of(name): measure for name, measure in BASE_DIMENSIONS.items()} | {DISK: Measure.BYTES_PER_SECOND}


def measure_of(key: str) -> Measure | None:
    """Return the unit of the quantity ``key``; None if it is not a quantity that every cluster has."""
    if key.startswith(JOB):
        return _MEASURES.get(key.removeprefix(JOB))
    return Measure.BYTES if key == FREE_MEMORY else _MEASURES.get(amount_of(key)[1])


def spelling_of(name: str) -> str:
    """Return how a name is written in an expression: in backquotes where it would be read as something else."""
    plain = _PLAIN_NAME.fullmatch(name) and name.casefold() not in GRAMMAR_WORDS and not has_difference(name)
    return name if plain else f"{QUOTE}{name}{QUOTE}"


def has_difference(name: str) -> bool:
    """Return whether a name with a minus in it may be meant as a difference of amounts, such as ``CPU-IdleCPU``."""
    words = [key_of(word) for word in name.split("-")]
    known = AMOUNTS.keys() | LOADS.keys() | MOMENT.keys()
    return len(words) > 1 and any(word.removeprefix(IDLE) in known for word in words)
