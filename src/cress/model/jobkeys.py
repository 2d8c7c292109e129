"""The keys of a job file, in one table: what each means, in which types of jobs it may stand, which values it takes.

``jobspec`` reads by it, and ``jobschema`` makes a JSON Schema of it. The schemas of values are no narrower than what is
read: what they refuse is refused there too.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from cress.model import jobchecks, jobfiles, joblicences
from cress.model.errors import InputError
from cress.model.job import Condition, JobType, OnPartition
from cress.model.jobplans import MAX_MOMENTS, TIMETABLE_KEYS
from cress.model.jobports import MAX_PORTS
from cress.model.jobvalues import (
    MAX_AFTER,
    MAX_NAME_LENGTH,
    MAX_PIDS,
    MAX_PRIORITY,
    MAX_RETRIES,
    MAX_TASKS,
    RUNTIMES,
)
from cress.model.plan import Missed, Overlap

Schema: TypeAlias = dict[str, Any]

BATCH, SERVICE, DATABASE, CRON, DAG = (
    JobType.BATCH,
    JobType.SERVICE,
    JobType.DATABASE,
    JobType.CRON,
    JobType.DAG,
)
ALL = frozenset(JobType)
# Those whose tasks end.
ENDING = frozenset({BATCH, CRON, DAG})
# Those whose tasks are kept up.
KEPT = frozenset({SERVICE, DATABASE})
MAX_STEPS = 1_000

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


class Key(msgspec.Struct, frozen=True):
    """A key: the ``types`` of jobs that it may stand in; ``step``: in steps of a dag too."""

    name: str
    about: str
    schema: Schema
    types: frozenset[JobType] = ALL
    step: bool = True


TEXT: Schema = {"type": ["string", "integer"]}
WORD: Schema = {"type": "string", "minLength": 1}
TRUTH: Schema = {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": "^\\s*([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])\\s*$"}]}  # fmt: skip
CLAUSE_TRUTH: Schema = {"type": ["boolean", "string"]}
DURATION: Schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "[0-9]"}]}
SIZE: Schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "[0-9]"}]}
TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
COMMAND: Schema = {
    "anyOf": [{"type": "string", "pattern": "\\S"}, {"type": "array", "items": TEXT, "minItems": 1}],
}
PATH: Schema = {"type": "string", "pattern": "^/"}


def count(least: int, most: int) -> Schema:
    """A whole number between these."""
    return {
        "anyOf": [
            {"type": "integer", "minimum": least, "maximum": most},
            {"type": "string", "pattern": "^\\s*[0-9]{1,20}\\s*$"},
        ]
    }


_ARRAY: Schema = {"type": "string", "pattern": "^\\s*[0-9]{1,20}\\s*%\\s*[0-9]{1,20}\\s*$"}
ARRAY: Schema = {"anyOf": [*count(1, MAX_TASKS)["anyOf"], _ARRAY]}


def words(*known: str) -> Schema:
    """One of these words, with or without capitals."""
    return {"anyOf": [{"enum": list(known)}, {"type": "string", "pattern": f"^\\s*({'|'.join(map(_any_case, known))})\\s*$"}]}  # fmt: skip


def mapping(keys: dict[str, Schema], *required: str) -> Schema:
    """A mapping with these keys and no others; ``pattern_of`` says how else they may be written."""
    return {
        "type": "object",
        "properties": keys,
        "patternProperties": {pattern_of(key): value for key, value in keys.items()},
        "additionalProperties": False,
        **needed(*required),
    }


def needed(*keys: str) -> Schema:
    """These keys are there, in whatever spelling."""
    return (
        {"allOf": [{"not": {"propertyNames": {"not": {"pattern": pattern_of(key)}}}} for key in keys]} if keys else {}
    )


def pattern_of(key: str) -> str:
    """A regular expression for all spellings of a key: capitals, ``_`` and ``-`` do not count."""
    letters = [_any_case(each) for each in key.replace("_", "")]
    return "^[_-]*" + "[_-]*".join(letters) + "[_-]*$"


def _any_case(text: str) -> str:
    return "".join(f"[{each.lower()}{each.upper()}]" if each.isalpha() else each for each in text)


_NUMBER_OR_NAME: Schema = {"anyOf": [{"type": "integer", "minimum": 1}, WORD]}
AFTER: Schema = {
    "anyOf": [
        _NUMBER_OR_NAME,
        {"type": "array", "items": _NUMBER_OR_NAME, "maxItems": MAX_AFTER},
        {"type": "object", "additionalProperties": words(*(each.value for each in Condition))},
    ]
}
_PORT: Schema = {"type": ["integer", "string"]}
PORTS: Schema = {
    "anyOf": [
        _PORT,
        {
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z][A-Za-z0-9_]*$"},
            "additionalProperties": _PORT,
            "minProperties": 1,
            "maxProperties": MAX_PORTS,
        },
    ]
}
LICENCES: Schema = {
    "anyOf": [
        *TEXTS["anyOf"],
        {
            "type": "object",
            "propertyNames": {"pattern": f"^{joblicences.NAME}$"},
            "additionalProperties": count(1, joblicences.MOST),
            "minProperties": 1,
            "maxProperties": joblicences.MAX_LICENCES,
        },
    ]
}
_CHECK_VALUES = {
    "port": TEXT,
    "url": {"type": "string", "pattern": "^\\s*/"},
    "on": TEXT,
    "command": COMMAND,
    "every": DURATION,
    "timeout": DURATION,
    "delay": DURATION,
    "failures": count(1, jobchecks.MAX_FAILURES),
}
CHECK: Schema = mapping({key: _CHECK_VALUES[key] for key in jobchecks.CHECK_KEYS})
_FILE_VALUES = {"source": WORD, "path": WORD, "to": WORD, "mode": TEXT, "unpack": TRUTH}
_BY_PATH: Schema = {"type": "object", "additionalProperties": WORD}


def _files(keys: tuple[str, ...], *required: str) -> Schema:
    entry = mapping({key: _FILE_VALUES[key] for key in keys}, *required)
    return {"anyOf": [{"type": "array", "items": entry, "maxItems": jobfiles.MAX_FILES}, _BY_PATH]}


_TIMETABLE: Schema = {
    "type": "array",
    "items": mapping({"at": WORD, "tasks": count(0, MAX_TASKS)}, *TIMETABLE_KEYS),
    "minItems": 1,
    "maxItems": MAX_MOMENTS,
}
# Their own mapping, whose keys are those of a step; the schema of the whole refers to it.
STEPS: Schema = {
    "type": "object",
    "additionalProperties": {"$ref": "#/$defs/step"},
    "minProperties": 1,
    "maxProperties": MAX_STEPS,
}

TABLE = (
    Key("command", "The program and its arguments, or one text for the shell.", COMMAND),
    Key("name", "Letters, digits, `.`, `_` and `-`.", {"type": ["string", "integer"], "maxLength": MAX_NAME_LENGTH}, step=False),
    Key("type", "What kind of work it is.", words(*(each.value for each in JobType)), step=False),
    Key("group", "The group that the job counts for.", TEXT, step=False),
    Key("tasks", "Copies of the program; `100%10`: at most ten of them at once.", ARRAY),
    Key("resource", "What one task needs: `<2, 4G>`, or amounts by dimension.", {"type": ["string", "number", "object"]}),
    Key("priority", "Higher goes first.", {"anyOf": [{"type": "integer", "minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY}, {"type": "string"}]}),
    Key("time_limit", "A task that runs for longer is stopped.", DURATION),
    Key("environment", "Variables of the tasks.", {"type": "object", "additionalProperties": TEXT}),
    Key("directory", "Where the tasks start.", PATH),
    Key("max_running", "At most so many tasks at once.", count(1, MAX_TASKS), ENDING),
    Key("gang", "All tasks start at once, or none.", TRUTH, ENDING),
    Key("stop_grace", "From SIGTERM to SIGKILL.", DURATION),
    Key("on_partition", "What becomes of tasks whose node cannot reach the center.", words(*(each.value for each in OnPartition))),
    Key("retries", "How often a failed task is tried again.", count(0, MAX_RETRIES), ENDING),
    Key("backoff", "The wait before a task is tried again, doubled each time.", DURATION),
    Key("hold", "It waits until it is released.", TRUTH),
    Key("after", "Jobs, or steps of a dag, that must end first.", AFTER, ALL),
    Key("requirement", "What a node must be like.", TEXTS),
    Key("rank", "Which of those nodes are better.", TEXT),
    Key("nodes", "Only these nodes.", TEXTS),
    Key("data_locality", "Where the data is.", TEXTS),
    Key("network_adjacent", "All tasks on one rack, or on neighbours.", CLAUSE_TRUTH),
    Key("job_dependency", "Only nodes where this job runs.", TEXTS),
    Key("exclusive_disk", "Each task has a whole disk for itself.", CLAUSE_TRUTH),
    Key("ports", "A number, `dynamic`, or several with names.", PORTS),
    Key("dynamic_port", "The same as `ports: dynamic`.", TRUTH),
    Key("max_per_node", "At most so many tasks on one node.", count(1, MAX_TASKS)),
    Key("max_per_rack", "At most so many tasks on one rack.", count(1, MAX_TASKS)),
    Key("licences", "Licences of the cluster that each task takes: `{matlab: 1}`, or a text.", LICENCES),
    Key("application", "Jobs of one group with the same belong together.", {"type": ["string", "integer"], "maxLength": MAX_NAME_LENGTH}),
    Key("job_failure", "A task that is lost with its node runs again.", TRUTH, ENDING),
    Key("runtime", "In what the tasks run.", words(*RUNTIMES)),
    Key("root", "The root folder of a container.", PATH),
    Key("pids", "At most so many processes in a container.", count(1, MAX_PIDS)),
    Key("run_as", "The account of the node that the tasks run as.", WORD),
    Key("files", "What is brought before the program starts.", _files(jobfiles.FILE_KEYS, "source", "path")),
    Key("outputs", "What is saved when the program has succeeded.", _files(jobfiles.OUTPUT_KEYS, "path", "to")),
    Key("log_size", "So much of stdout and of stderr is kept, each.", SIZE),
    Key("log_copy", "Where both are copied to at the end.", WORD),
    Key("ready", "How to see whether a task is ready.", CHECK, KEPT, step=False),
    Key("alive", "How to see whether a task is alive.", CHECK, KEPT, step=False),
    Key("ready_after", "Without a check: a task is ready so long after its start.", DURATION, KEPT, step=False),
    Key("minimum", "So many tasks are never preempted.", count(0, MAX_TASKS), frozenset({SERVICE}), step=False),
    Key("max_unavailable", "At most so many tasks are out because of an update.", count(1, MAX_TASKS), frozenset({SERVICE}), step=False),
    Key("update_timeout", "A new version that is not ready by then is taken back.", DURATION, KEPT, step=False),
    Key("timetable", "Task counts, and when they begin to hold.", _TIMETABLE, frozenset({SERVICE}), step=False),
    Key("zone", "The time zone of `when` or of the timetable.", WORD, frozenset({SERVICE, CRON}), step=False),
    Key("move_after", "A task moves when its node was away for so long.", DURATION, frozenset({DATABASE}), step=False),
    Key("when", "A cron expression: minute hour day month weekday.", WORD, frozenset({CRON}), step=False),
    Key("overlap", "What happens when the last run is not over.", words(*(each.value for each in Overlap)), frozenset({CRON}), step=False),
    Key("missed", "What happens with runs that were missed.", words(*(each.value for each in Missed)), frozenset({CRON}), step=False),
    Key("steps", "The steps by name, each with the keys of a batch job.", STEPS, frozenset({DAG}), step=False),
    Key("continue", "Those behind this step start however it ended.", TRUTH, frozenset()),
)  # fmt: skip
BY_NAME = {key.name: key for key in TABLE}
KEYS = tuple(BY_NAME)
# What a dag says for all of its steps.
INHERITED = tuple(key.name for key in TABLE if key.step and DAG in key.types and key.name != "after")


def misplaced(key: str, type_: JobType | None) -> InputError | None:
    """What is wrong with a key in a job of this type, or in a step of a dag (``None``)."""
    known = BY_NAME[key]
    if type_ is None:
        if known.step and (BATCH in known.types or not known.types):
            return None
        if BATCH in known.types:
            hint = "the step is called as its key" if key == "name" else "it holds for all steps"
            return InputError("belongs to the whole dag", hint=hint if key != "type" else "steps are batch jobs")
    elif type_ in known.types:
        return None
    if not known.types:
        return InputError("belongs to a step of a dag", hint="steps: {NAME: {…, continue: true}}")
    types = [each.value for each in JobType if each in known.types]
    listed = " or ".join(filter(None, (", ".join(types[:-1]), types[-1])))
    here = "this is a step of a dag" if type_ is None else f"this one is of type {type_.value}"
    return InputError(f"belongs to jobs of type {listed}", hint=here)
