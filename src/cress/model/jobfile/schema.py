"""JSON Schema (2020-12) of job files, made from the table of keys, for editors and programs that write job files.

It describes the keys and the form of their values. All that it refuses is refused by the reader too. The constraint
language, local times and the contents of a cluster are checked by the center.
"""

from __future__ import annotations

import msgspec

from cress.model.job import JobType
from cress.model.jobfile.key import Key
from cress.model.jobfile.keys import ALIASES, TABLE
from cress.model.jobfile.misplaced import misplaced
from cress.model.jobfile.schemas import Schema, needed, pattern_of

_ABOUT = "Jobs of Cress: what `cress submit`, `cress apply` and the API take (docs/jobs.md)."
# Jobs with one of these keys have a program.
_PROGRAM = {"anyOf": [needed("command"), needed("parts")]}
_PROGRAM_OR_STEPS = {"anyOf": [needed("command"), needed("parts"), needed("steps")]}
# The required keys of each type.
_NEEDED = {
    JobType.BATCH: (),
    JobType.SERVICE: ("command",),
    JobType.DATABASE: ("command",),
    JobType.CRON: ("when",),
    JobType.DAG: ("steps",),
}


def job_schema() -> Schema:
    """Return the schema of a file: a job, or a list of jobs."""
    definitions: dict[str, Schema] = {type_.value: _mapping(type_) for type_ in JobType}
    definitions["step"] = _mapping(None)
    definitions["job"] = _by_type()
    job = {"$ref": "#/$defs/job"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of Cress",
        "description": _ABOUT,
        "if": {"type": "array"},
        "then": {"items": job, "minItems": 1},
        "else": job,
        "$defs": definitions,
    }


def schema_text() -> str:
    """Return the schema as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(job_schema()), indent=2).decode()


def keys_of(type_: JobType | None) -> list[Key]:
    """Return the keys of a job of this type, or of a step of a dag (``None``)."""
    return [key for key in TABLE if misplaced(key.name, type_) is None]


def _mapping(type_: JobType | None) -> Schema:
    """Return the schema of a job of one type, or of a step: its keys in the usual spelling, and in every other one."""
    properties: dict[str, Schema] = {}
    patterns: dict[str, Schema] = {}
    for key in keys_of(type_):
        schema = {"description": key.description, **key.schema}
        properties[key.name] = schema
        for word in (key.name, *(alias for alias, name in ALIASES.items() if name == key.name)):
            patterns[pattern_of(word)] = key.schema
    return {
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": False,
        **(needed(*_NEEDED[type_]) if type_ else {}),
        **(_PROGRAM if type_ is JobType.BATCH else _PROGRAM_OR_STEPS if type_ is JobType.CRON else {}),
    }


def _by_type() -> Schema:
    """Return the schema that selects the keys by type; without a type it is a batch job."""
    chosen: Schema = {"$ref": f"#/$defs/{JobType.BATCH.value}"}
    for type_ in reversed([job_type for job_type in JobType if job_type is not JobType.BATCH]):
        letters = "".join(f"[{letter}{letter.upper()}]" for letter in type_.value)
        other = {
            "patternProperties": {pattern_of("type"): {"not": {"type": "string", "pattern": f"^\\s*{letters}\\s*$"}}}
        }
        chosen = {"if": {"type": "object", "not": other}, "then": {"$ref": f"#/$defs/{type_.value}"}, "else": chosen}
    return chosen
