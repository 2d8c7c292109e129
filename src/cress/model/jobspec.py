"""Job files: what a user writes to submit a job, read into what the scheduler and the executors need (docs/commands.md).

The center reads them, so that command line, API and Python get the same errors. Keys are read without regard to
capitals, ``_`` and ``-``: ``time_limit``, ``TimeLimit`` and ``time-limit`` are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

import msgspec

from cress.model.errors import InputError, InputErrors, NotAccepted
from cress.model.group import DEFAULT_GROUP, MAX_GROUP_NAME_LENGTH
from cress.model.job import Condition, Job, JobType, OnPartition
from cress.model.resources import Dimensions, ResourceVector
from cress.model.run import Run
from cress.model.times import DAY, HOUR
from cress.model.units import format_duration, one_of, parse_count, parse_duration
from cress.model.vectors import parse_vector

# What a task gets that asks for nothing; it is accounted for and no limit for the task's memory.
DEFAULT_RESOURCE = "<1, 512M>"
MAX_TASKS = 10_000_000
MAX_PRIORITY = 1_000_000
MAX_NAME_LENGTH = 128
MAX_VARIABLE_LENGTH = 1000
MAX_DIRECTORY_LENGTH = 4095  # PATH_MAX of Linux, without the zero at the end
MAX_STOP_GRACE = HOUR
MAX_RETRIES = 1_000
MAX_BACKOFF = DAY
MAX_AFTER = 1_000
# Linux takes no argument and no variable of 128 KiB or more (MAX_ARG_STRLEN), and 2 MB of all together by default.
MAX_WORD_BYTES = 128 * 1024 - 1
MAX_RUN_BYTES = 1_000_000
# Jobs that are submitted together; of a file with more mistakes than the second, nobody reads more.
MAX_JOBS = 10_000
MAX_ERRORS = 100

KEYS = (
    "command",
    "name",
    "type",
    "group",
    "tasks",
    "resource",
    "priority",
    "time_limit",
    "environment",
    "directory",
    "gang",
    "stop_grace",
    "on_partition",
    "retries",
    "backoff",
    "hold",
    "after",
)
ALIASES = {"issue_as_whole": "gang", "env": "environment", "dir": "directory"}
SHELL = ("/bin/sh", "-c")
# Variables that Cress itself sets for a task.
RESERVED_PREFIX = "CRESS_"
COMMAND_HINT = 'a list such as ["python3", "train.py"], or one text for the shell'

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {True: ("true", "yes", "on"), False: ("false", "no", "off")}

_NO_COMMAND: tuple[str, ...] = ()
_NO_VARIABLES: tuple[tuple[str, str], ...] = ()
_NO_JOBS: tuple[tuple[int | str, Condition], ...] = ()
_T = TypeVar("_T")


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


_PLAIN_KEYS = {_plain(key): key for key in KEYS} | {_plain(alias): key for alias, key in ALIASES.items()}


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One job as submitted: what the scheduler sees of it, and how to run it. Both ids are 0: the center gives them.

    ``behind`` are the jobs of the same submit that it comes after, by name; ``parse_jobs`` has made places of them.
    """

    job: Job
    run: Run
    behind: tuple[tuple[str, Condition], ...] = ()


def parse_jobs(entries: object, *, dimensions: Dimensions, user: str) -> list[JobSpec]:
    """The jobs of one submit, read together or not at all.

    Raises InputError, or InputErrors with every mistake; ``field`` begins with the place of its job: ``jobs[2].tasks``.
    """
    hint = "a list of mappings, one for each job"
    if not isinstance(entries, (list, tuple)):
        raise InputError(f"{_shown(entries)} is no list", hint=hint, field="jobs")
    if not entries:
        raise InputError("there is no job in it", hint=hint, field="jobs")
    if len(entries) > MAX_JOBS:
        raise InputError(
            f"{len(entries)} jobs at once are too many", hint=f"at most {MAX_JOBS}; many alike: tasks", field="jobs"
        )
    specs: list[JobSpec] = []
    errors: list[InputError] = []
    for position, entry in enumerate(entries):
        place = f"jobs[{position}]"
        try:
            specs.append(parse_job(_mapping(entry), dimensions=dimensions, user=user))
        except InputError as error:
            errors += [below(each, place) for each in _each(error)]
    _raise(errors)
    return _resolved(specs)


def _resolved(specs: list[JobSpec]) -> list[JobSpec]:
    """Names of jobs of this submit as their places, in the way of ``Job.after``: ``-1`` is the first one."""
    places: dict[str, list[int]] = {}
    for position, spec in enumerate(specs):
        places.setdefault(spec.job.name, []).append(position)
    resolved = []
    errors: list[InputError] = []
    for position, spec in enumerate(specs):
        after = list(spec.job.after)
        for name, condition in spec.behind:
            found = places.get(name, [])
            if len(found) == 1:
                after.append((-found[0] - 1, condition))
                continue
            if found:
                what, hint = f"{len(found)} jobs of this submit are called {name}", "a name of its own for each"
            else:
                what = f"no job of this submit is called {name}"
                hint = "a job that was submitted before by its id; " + one_of(name, places)
            errors.append(InputError(what, hint=hint, field=f"jobs[{position}].after"))
        job = msgspec.structs.replace(spec.job, after=tuple(after))
        resolved.append(msgspec.structs.replace(spec, job=job, behind=()))
    _raise(errors)
    return resolved


def parse_job(mapping: Mapping[str, object], *, dimensions: Dimensions, user: str) -> JobSpec:
    """One job. Raises InputError, or InputErrors with every mistake; ``field`` is the key as it was written."""
    reader = _Reader(mapping)
    command = reader.read("command", _command, _NO_COMMAND)
    if "command" not in reader.given:
        reader.errors.append(InputError("is missing", hint=COMMAND_HINT, field="command"))
    name = reader.read("name", _name, "") or default_name(command)
    type_ = reader.read("type", _type, JobType.BATCH)
    group = reader.read("group", _group, DEFAULT_GROUP)
    tasks = reader.read("tasks", _tasks, 1)
    default = parse_vector(DEFAULT_RESOURCE, dimensions)
    request = reader.read("resource", lambda value: _resource(value, dimensions), default)
    priority = reader.read("priority", _priority, 0)
    time_limit = reader.read("time_limit", _time_limit, None)
    environment = reader.read("environment", _environment, _NO_VARIABLES)
    directory = reader.read("directory", _directory, "")
    gang = reader.read("gang", lambda value: _truth(value, "all tasks start at once, or none"), False)
    stop_grace = reader.read("stop_grace", _stop_grace, Run(job=0, command=()).stop_grace)
    on_partition = reader.read("on_partition", _on_partition, OnPartition.STOP)
    retries = reader.read("retries", _retries, 0)
    backoff = reader.read("backoff", _backoff, Job(id=0, group="", request=()).backoff)
    hold = reader.read("hold", lambda value: _truth(value, "it waits until it is released"), False)
    after = reader.read("after", _after, _NO_JOBS)
    size = sum(len(word.encode()) for word in command)
    size += sum(len(key) + len(value.encode()) for key, value in environment)
    if size > MAX_RUN_BYTES and not reader.errors:
        reader.errors.append(
            InputError(
                f"command and environment have {size} bytes together",
                hint=f"at most {MAX_RUN_BYTES}; put large inputs into files",
                field=reader.given["command"],
            )
        )
    _raise(reader.errors)
    job = Job(
        id=0,
        group=group,
        request=request,
        name=name,
        user=user,
        tasks=tasks,
        gang=gang,
        priority=priority,
        time_limit=time_limit,
        type=type_,
        on_partition=on_partition,
        retries=retries,
        backoff=backoff,
        hold=hold,
        after=tuple((each, condition) for each, condition in after if isinstance(each, int)),
    )
    run = Run(
        job=0,
        command=command,
        name=name,
        group=group,
        user=user,
        tasks=tasks,
        environment=environment,
        directory=directory,
        # The default request bounds nothing: nobody has thought about it.
        memory_limit=request[dimensions.index["memory"]] if "resource" in reader.given else 0,
        time_limit=time_limit,
        stop_grace=stop_grace,
        on_partition=on_partition,
    )
    behind = tuple((each, condition) for each, condition in after if isinstance(each, str))
    return JobSpec(job=job, run=run, behind=behind)


def below(error: InputError, field: str) -> InputError:
    """The same error with its field below ``field``: ``resource`` and ``memory`` make ``resource.memory``."""
    inner = f"{'' if error.field.startswith('[') else '.'}{error.field}" if error.field else ""
    kind = NotAccepted if isinstance(error, NotAccepted) else InputError
    return kind(error.what, hint=error.hint, file=error.file, line=error.line, field=field + inner)


def default_name(command: Sequence[str]) -> str:
    """The name of a job that has none: the last path component of its program, with odd characters as ``-``."""
    words = list(command)
    if tuple(words[:2]) == SHELL and len(words) == 3:
        # Of a shell text the first word that is no assignment.
        words = [word for word in words[2][:4096].split() if "=" not in word]
    program = words[0].rstrip("/").rpartition("/")[2] if words else ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", program).lstrip("._-")[:MAX_NAME_LENGTH].rstrip("-")
    return name or "job"


class _Reader:
    """Takes the values of a mapping one by one and remembers every mistake."""

    def __init__(self, mapping: Mapping[str, object]) -> None:
        self.errors: list[InputError] = []
        # Key → the key as it was written.
        self.given: dict[str, str] = {}
        self._values: dict[str, object] = {}
        unknown = 0
        for written, value in mapping.items():
            key = _known(written)
            if key is None:
                unknown += 1
                if unknown <= MAX_ERRORS:
                    self.errors.append(_unknown_key(written))
            elif key in self.given:
                self.errors.append(
                    InputError("is given twice", hint=f"it is the same as {self.given[key]}", field=str(written))
                )
            else:
                self.given[key] = written
                self._values[key] = value

    def read(self, key: str, parse: Callable[[object], _T], default: _T) -> _T:
        """What ``parse`` makes of the value of ``key``; ``default`` when there is none, or a mistake."""
        if key not in self.given:
            return default
        try:
            return parse(_present(self._values[key]))
        except InputError as error:
            self.errors += [below(each, self.given[key]) for each in _each(error)]
            return default


def _known(written: object) -> str | None:
    return _PLAIN_KEYS.get(_plain(written)) if isinstance(written, str) else None


def _mapping(entry: object) -> Mapping[str, object]:
    if not isinstance(entry, Mapping):
        raise InputError(f"{_shown(entry)} is no mapping", hint='{"command": ["echo", "hello"]}')
    return entry


def _present(value: object) -> object:
    if value is None:
        raise InputError("nothing is given", hint="leave the key out, or give it a value")
    return value


def _unknown_key(written: object) -> InputError:
    if not isinstance(written, str):
        return InputError(f"{_shown(written)} is no key", hint="one of " + ", ".join(KEYS))
    hint = one_of(written[:MAX_NAME_LENGTH], KEYS)
    return InputError(f"unknown key {_shown(written)}", hint=hint, field=_shown(written)[1:-1])


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        if not value.strip():
            raise InputError("is empty", hint=COMMAND_HINT)
        return (*SHELL, _word(value))
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{_shown(value)} is no command", hint=COMMAND_HINT)
    if not value:
        raise InputError("is empty", hint=COMMAND_HINT)
    words: list[str] = []
    errors: list[InputError] = []
    for position, each in enumerate(value):
        try:
            words.append(_word(_text(each)))
        except InputError as error:
            errors.append(error.at(field=f"[{position}]"))
    _raise(errors)
    if not words[0].strip():
        raise InputError(f"{words[0]!r} is no program", hint=COMMAND_HINT)
    return tuple(words)


def _name(value: object) -> str:
    name = _text(value)
    if len(name) > MAX_NAME_LENGTH:
        raise InputError(f"a name of {len(name)} characters is too long", hint=f"at most {MAX_NAME_LENGTH}")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{_shown(name)} is no name", hint="letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
        )
    return name


def _type(value: object) -> JobType:
    known = [each.value for each in JobType]
    text = value.lower() if isinstance(value, str) else value
    if text not in known:
        hint = one_of(value[:MAX_NAME_LENGTH], known) if isinstance(value, str) else "one of " + ", ".join(known)
        raise InputError(f"unknown type {_shown(value)}", hint=hint)
    found = JobType(text)
    if found is not JobType.BATCH:
        raise InputError(f"jobs of type {found.value} do not work yet", hint="batch is the only type so far")
    return found


def _group(value: object) -> str:
    group = _text(value)
    if not group.strip() or len(group) > MAX_GROUP_NAME_LENGTH or not group.isprintable():
        raise InputError(
            f"{_shown(group)} is no name of a group",
            hint=f"1 to {MAX_GROUP_NAME_LENGTH} characters; see `cress groups`",
        )
    return group


def _tasks(value: object) -> int:
    return parse_count(_number(value), least=1, most=MAX_TASKS)


def _resource(value: object, dimensions: Dimensions) -> ResourceVector:
    if isinstance(value, Mapping):
        if not value:
            raise InputError("is empty", hint=f"cpu and memory, or leave it out for {DEFAULT_RESOURCE}")
    elif not isinstance(value, str):
        value = _number(value)
    request = parse_vector(value, dimensions)
    if not any(request):
        raise InputError("asks for nothing at all", hint="at least a little cpu, for instance <0.1>")
    return request


def _priority(value: object) -> int:
    text = _number(value).strip()
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if not re.fullmatch(r"[0-9]{1,12}", digits) or int(digits) > MAX_PRIORITY:
        hint = f"a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}; higher goes first"
        raise InputError(f"{_shown(value)} is no priority", hint=hint)
    return sign * int(digits)


def _time_limit(value: object) -> int | None:
    limit = parse_duration(_number(value))
    if not limit:
        raise InputError("a limit of 0 leaves no time to run", hint="leave it out for no limit")
    return limit


def _stop_grace(value: object) -> int:
    grace = parse_duration(_number(value))
    if grace > MAX_STOP_GRACE:
        raise InputError(f"{format_duration(grace)} is too long", hint=f"at most {format_duration(MAX_STOP_GRACE)}")
    return grace


def _on_partition(value: object) -> OnPartition:
    known = [each.value for each in OnPartition]
    text = value.strip().lower() if isinstance(value, str) else value
    if text not in known:
        raise InputError(
            f"{_shown(value)} is neither stop nor keep", hint="stop: run elsewhere; keep: wait for the node"
        )
    return OnPartition(text)


def _environment(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise InputError(f"{_shown(value)} is no mapping", hint="NAME: value for each variable")
    pairs: list[tuple[str, str]] = []
    errors: list[InputError] = []
    for name, each in value.items():
        try:
            variable = _variable(name)
            pairs.append((variable, _word(_text(each), room=MAX_WORD_BYTES - len(variable) - 1)))
        except InputError as error:
            errors.append(error.at(field=_shown(name).strip("'\"")))
    _raise(errors)
    return tuple(pairs)


def _variable(name: object) -> str:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        hint = "letters, digits and `_`, not beginning with a digit"
        raise InputError(f"{_shown(name)} is no name of a variable", hint=hint)
    if name.startswith(RESERVED_PREFIX):
        raise InputError(f"{_shown(name)} is reserved", hint=f"Cress itself sets {RESERVED_PREFIX}… for a task")
    if len(name) > MAX_VARIABLE_LENGTH:
        raise InputError(f"a name of {len(name)} characters is too long", hint=f"at most {MAX_VARIABLE_LENGTH}")
    return name


def _directory(value: object) -> str:
    directory = _word(_text(value))
    if not directory.startswith("/"):
        raise InputError(f"{_shown(directory)} is not absolute", hint="a path that begins with /")
    if len(directory.encode()) > MAX_DIRECTORY_LENGTH:
        raise InputError("the path is too long", hint=f"at most {MAX_DIRECTORY_LENGTH} bytes")
    return directory


def _truth(value: object, meaning: str) -> bool:
    if isinstance(value, bool):
        return value
    for answer, words in _WORDS.items():
        if isinstance(value, str) and value.strip().lower() in words:
            return answer
    raise InputError(f"{_shown(value)} is neither true nor false", hint=f"true: {meaning}")


def _retries(value: object) -> int:
    return parse_count(_number(value), least=0, most=MAX_RETRIES)


def _backoff(value: object) -> int:
    backoff = parse_duration(_number(value))
    if backoff > MAX_BACKOFF:
        raise InputError(f"{format_duration(backoff)} is too long", hint=f"at most {format_duration(MAX_BACKOFF)}")
    return backoff


def _after(value: object) -> tuple[tuple[int | str, Condition], ...]:
    """Ids and names of jobs, each with its condition."""
    if isinstance(value, Mapping):
        pairs = [(_job_named(each), _condition(word)) for each, word in value.items()]
    else:
        jobs = value if isinstance(value, (list, tuple)) else [value]
        pairs = [(_job_named(each), Condition.OK) for each in jobs]
    if len(pairs) > MAX_AFTER:
        raise InputError(f"{len(pairs)} jobs are too many", hint=f"at most {MAX_AFTER}")
    named = [each for each, _ in pairs]
    if len(set(named)) < len(named):
        twice = next(each for each in named if named.count(each) > 1)
        raise InputError(f"job {twice} is named twice", hint="one condition for each job")
    return tuple(pairs)


def _job_named(value: object) -> int | str:
    if isinstance(value, (Mapping, list, tuple, bool, float)):
        raise InputError(f"{_shown(value)} is no job", hint="a list of ids and names, or `id: condition` for each")
    text = _text(value).strip()
    if text.isascii() and text.isdigit():
        if len(text) > 18 or not int(text):
            raise InputError(f"{_shown(value)} is no id of a job", hint="one that `cress jobs` shows")
        return int(text)
    return _name(text)


def _condition(value: object) -> Condition:
    known = [each.value for each in Condition]
    text = value.strip().lower() if isinstance(value, str) else value
    if text not in known:
        raise InputError(
            f"{_shown(value)} is no condition", hint="ok: it succeeded; any: it is over; failed: a task of it failed"
        )
    return Condition(text)


def _text(value: object) -> str:
    """A text, or a whole number as the text that a person has written."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    raise InputError(f"{_shown(value)} is no text", hint='put it into quotes: "…"')


def _number(value: object) -> str:
    """A number as text, never with an exponent; a text as it is."""
    if isinstance(value, float) and -1e18 < value < 1e18:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value if isinstance(value, str) else _text(value)
    raise InputError(f"{_shown(value)} is no number", hint="")


def _word(text: str, room: int = MAX_WORD_BYTES) -> str:
    """A text that can be handed to a program: no zero byte, no broken characters, not too long."""
    if "\0" in text:
        raise InputError("has a zero byte in it", hint="no program can be given one")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InputError(f"{_shown(text)} is no valid text", hint="UTF-8") from None
    if size > room:
        raise InputError(f"a text of {size} bytes is too long", hint=f"at most {room}; put large inputs into files")
    return text


def _shown(value: object) -> str:
    """A value as people see it in an error: short, and never a mystery of types."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a number of more than 64 bits"
    text = repr(value[:61] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= 63 else text[:60] + "…" + text[-1]


def _each(error: InputError) -> list[InputError]:
    return error.errors if isinstance(error, InputErrors) else [error]


def _raise(errors: list[InputError]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors[:MAX_ERRORS])
