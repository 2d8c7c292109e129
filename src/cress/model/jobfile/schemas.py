"""JSON Schemas of the values of job file keys.

A schema is never narrower than the reader: all that it refuses is refused by the reader too.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from cress.model import waits
from cress.model.job import Condition
from cress.model.jobfile import checks, domains, families, files, licences, secrets
from cress.model.jobfile.parts import MAX_PARTS
from cress.model.jobfile.ports import MAX_PORTS
from cress.model.jobfile.values import MAX_AFTER, MAX_REPLICAS, MAX_TASKS, MAX_USES
from cress.model.notify import MAX_ADDRESS, Occasion
from cress.model.notify import MOST as MOST_NOTIFIED

Schema: TypeAlias = dict[str, Any]
MAX_STEPS = 1_000

TEXT: Schema = {"type": ["string", "integer"]}
WORD: Schema = {"type": "string", "minLength": 1}
TRUTH: Schema = {
    "anyOf": [
        {"type": "boolean"},
        {
            "type": "string",
            "pattern": "^\\s*([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])\\s*$",
        },
    ]
}
CLAUSE_TRUTH: Schema = {"type": ["boolean", "string"]}
CLAUSE_GANG: Schema = {"anyOf": [*TRUTH["anyOf"], {"type": "string", "pattern": "&&"}]}
DURATION: Schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "[0-9]"}]}
SIZE: Schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "[0-9]"}]}
TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
COMMAND: Schema = {
    "anyOf": [{"type": "string", "pattern": "\\S"}, {"type": "array", "items": TEXT, "minItems": 1}],
}
RESOURCE: Schema = {"type": ["string", "number", "object"]}
PATH: Schema = {"type": "string", "pattern": "^/"}


def count(least: int, most: int) -> Schema:
    """Return the schema of a whole number between these bounds."""
    return {
        "anyOf": [
            {"type": "integer", "minimum": least, "maximum": most},
            {"type": "string", "pattern": "^\\s*[0-9]{1,20}\\s*$"},
        ]
    }


_ARRAY: Schema = {"type": "string", "pattern": "^\\s*[0-9]{1,20}\\s*%\\s*[0-9]{1,20}\\s*$"}
_RANGE = "\\s*[0-9]{1,9}\\s*(-\\s*[0-9]{1,9}\\s*)?"
_INDICES: Schema = {"type": "string", "pattern": f"^{_RANGE}(,{_RANGE})*(%\\s*[0-9]{{1,20}}\\s*)?$"}
_INDEX: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^{_RANGE}$"}]}
_LIST: Schema = {"type": "array", "items": _INDEX, "minItems": 1}
ARRAY: Schema = {"anyOf": [*count(1, MAX_TASKS)["anyOf"], _ARRAY, _INDICES, _LIST]}


def words(*known: str) -> Schema:
    """Return the schema of one of these words, in any case."""
    return {
        "anyOf": [
            {"enum": list(known)},
            {"type": "string", "pattern": f"^\\s*({'|'.join(map(_any_case, known))})\\s*$"},
        ]
    }


def mapping(keys: dict[str, Schema], *required: str) -> Schema:
    """Return the schema of a mapping with these keys and no others; ``pattern_of`` gives their other spellings."""
    return {
        "type": "object",
        "properties": keys,
        "patternProperties": {pattern_of(key): value for key, value in keys.items()},
        "additionalProperties": False,
        **needed(*required),
    }


def needed(*keys: str) -> Schema:
    """Return the schema that requires these keys in any spelling."""
    return (
        {"allOf": [{"not": {"propertyNames": {"not": {"pattern": pattern_of(key)}}}} for key in keys]} if keys else {}
    )


def pattern_of(key: str) -> str:
    """Return a regular expression for all spellings of a key: case, ``_`` and ``-`` are ignored."""
    letters = [_any_case(letter) for letter in key.replace("_", "")]
    return "^[_-]*" + "[_-]*".join(letters) + "[_-]*$"


def _any_case(text: str) -> str:
    return "".join(f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter for letter in text)


_NUMBER_OR_NAME: Schema = {"anyOf": [{"type": "integer", "minimum": 1}, WORD]}
AFTER: Schema = {
    "anyOf": [
        _NUMBER_OR_NAME,
        {"type": "array", "items": _NUMBER_OR_NAME, "maxItems": MAX_AFTER},
        {"type": "object", "additionalProperties": words(*(condition.value for condition in Condition))},
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
            "propertyNames": {"pattern": f"^{licences.NAME}$"},
            "additionalProperties": count(1, licences.MOST),
            "minProperties": 1,
            "maxProperties": licences.MAX_LICENCES,
        },
    ]
}
_DOMAIN_VALUES: dict[str, Schema] = {
    "by": WORD,
    "jobs": TEXT,
    "most_skew": count(1, domains.MOST_SKEW),
    "targets": {"type": "object", "additionalProperties": {"type": "string", "pattern": "%"}, "minProperties": 1},
    "soft": {"type": ["boolean", "string", "number"]},
    "weight": {"type": ["number", "string"]},
}


def _over_domains(keys: tuple[str, ...], **aliases: str) -> Schema:
    """Return the schema of a clause over domains: a text, a mapping with these keys, or a list of both."""
    known = {key: _DOMAIN_VALUES[key] for key in keys} | {key: _DOMAIN_VALUES[of] for key, of in aliases.items()}
    one: Schema = {"anyOf": [TEXT, mapping(known)]}
    return {"anyOf": [*one["anyOf"], {"type": "array", "items": one, "minItems": 1, "maxItems": domains.MOST_CLAUSES}]}


SPREAD: Schema = _over_domains(domains.SPREAD_KEYS)
OF_JOBS: Schema = _over_domains(domains.JOBS_KEYS, job="jobs")
WITHIN: Schema = _over_domains(domains.WITHIN_KEYS)
LABELS: Schema = {
    "anyOf": [
        *TEXTS["anyOf"],
        {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "maxProperties": domains.MOST_LABELS,
        },
    ]
}
_USE: Schema = mapping({"secret": TEXT, "as": words(*secrets.WAYS)})
USES: Schema = {"anyOf": [WORD, {"type": "array", "items": WORD, "minItems": 1, "maxItems": MAX_USES}]}
SECRETS: Schema = {
    "anyOf": [
        {"type": "array", "items": WORD, "maxItems": secrets.MAX_SECRETS},
        {
            "type": "object",
            "propertyNames": {"pattern": f"^{secrets.FILE_NAME}$"},
            "additionalProperties": {"anyOf": [TEXT, _USE]},
            "maxProperties": secrets.MAX_SECRETS,
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
    "failures": count(1, checks.MAX_FAILURES),
}
CHECK: Schema = mapping({key: _CHECK_VALUES[key] for key in checks.CHECK_KEYS})
_FILE_VALUES = {"source": WORD, "path": WORD, "to": WORD, "mode": TEXT, "unpack": TRUTH, "text": TEXT}
_BY_PATH: Schema = {"type": "object", "additionalProperties": WORD}


def file_list(keys: tuple[str, ...], *required: str) -> Schema:
    """Return the schema of files: a list of mappings with these keys, or one mapping by path."""
    entry = mapping({key: _FILE_VALUES[key] for key in keys}, *required)
    return {"anyOf": [{"type": "array", "items": entry, "maxItems": files.MAX_FILES}, _BY_PATH]}


def _input_files() -> Schema:
    """Return the schema of files that are fetched: an entry may also be a path from where the submitter stands."""
    keys = {key: _FILE_VALUES[key] for key in files.FILE_KEYS}
    entry: Schema = {"anyOf": [WORD, mapping(keys, "source"), mapping(keys, "text", "path")]}
    return {"anyOf": [WORD, {"type": "array", "items": entry, "maxItems": files.MAX_FILES}, _BY_PATH]}


IMAGE: Schema = {"anyOf": [WORD, mapping({"name": WORD, "secret": WORD}, "name")]}
INPUT_FILES = _input_files()


_WAIT: Schema = {
    "anyOf": [
        WORD,
        mapping({**dict.fromkeys(waits.KINDS, WORD), "every": DURATION, "timeout": DURATION}),
    ]
}
WAIT_FOR: Schema = {"anyOf": [_WAIT, {"type": "array", "items": _WAIT, "minItems": 1, "maxItems": waits.MOST}]}
_ADDRESS: Schema = {"type": "string", "maxLength": MAX_ADDRESS}
_OCCASIONS: Schema = {"enum": [notice.value for notice in Occasion]}
_NOTIFY: Schema = {
    "anyOf": [
        _ADDRESS,
        mapping({"to": _ADDRESS, "on": {"anyOf": [TEXT, {"type": "array", "items": _OCCASIONS, "minItems": 1}]}}, "to"),
    ]
}
NOTIFY: Schema = {"anyOf": [_NOTIFY, {"type": "array", "items": _NOTIFY, "maxItems": MOST_NOTIFIED}]}
TIMETABLE: Schema = {
    "type": "array",
    "items": mapping({"at": WORD, "tasks": count(0, MAX_REPLICAS)}, *families.TIMETABLE_KEYS),
    "minItems": 1,
    "maxItems": families.MAX_MOMENTS,
}
# A mapping of its own with the keys of a step, to which the whole schema refers.
PARTS: Schema = {
    "type": "object",
    "additionalProperties": mapping(
        {"tasks": count(1, MAX_TASKS), "resource": RESOURCE, "command": COMMAND, "requirement": TEXTS, "rank": TEXT}
    ),
    "minProperties": 1,
    "maxProperties": MAX_PARTS,
}
STEPS: Schema = {
    "type": "object",
    "additionalProperties": {"$ref": "#/$defs/step"},
    "minProperties": 1,
    "maxProperties": MAX_STEPS,
}
