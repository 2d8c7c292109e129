"""Parsers of single values of job files; each returns the value or raises ``InputError``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, TypeVar

from cress.model.attributes import check_tolerances
from cress.model.errors import MAX_ERRORS, InputError, InputErrors
from cress.model.foreign_words import UNLIMITED
from cress.model.group import MAX_GROUP_NAME_LENGTH
from cress.model.job import Condition, JobType, OnPartition
from cress.model.resources import Dimensions, Measure, ResourceVector
from cress.model.run import used_variable
from cress.model.times import DAY, HOUR
from cress.model.units import format_duration, one_of, parse_amount, parse_count, parse_duration
from cress.model.vectors import parse_vector, too_little_memory
from cress.model.whole_numbers import whole_number

# The default request of a task; it is accounted, but does not limit the task's memory.
DEFAULT_RESOURCE = "<1, 512M>"
MAX_TASKS = 10_000_000
# Maximum number of tasks of a service, each of which is a job, and of a database, whose tasks are processed together.
MAX_REPLICAS, MAX_DATABASE = 10_000, 1_000
MAX_PRIORITY = 1_000_000
MAX_NAME_LENGTH = 128
MAX_VARIABLE_LENGTH = 1000
MAX_DIRECTORY_LENGTH = 4095  # PATH_MAX of Linux, without the NUL byte at the end
MAX_STOP_GRACE = HOUR
MAX_RETRIES = 1_000
MAX_BACKOFF = DAY
MAX_AFTER = 1_000
MAX_PIDS = 2**22  # the maximum of Linux
LEAST_LOG = 4096
# Maximum length of an argument or variable: Linux refuses 128 KiB or more (MAX_ARG_STRLEN).
MAX_WORD_BYTES = 128 * 1024 - 1
# Maximum number of words of a command and of variables; MAX_RUN_BYTES bounds their total length.
MAX_WORDS = 100_000
MAX_VARIABLES = 10_000
SHELL = ("/bin/sh", "-c")
# Variables that Cress sets for a task.
MAX_USES = 20
RESERVED_PREFIX = "CRESS_"
RUNTIMES = ("process", "container")
COMMAND_HINT = 'a list such as ["python3", "train.py"], or one text for the shell'

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Commands take these for the job with that id, or a task of it.
READS_AS_ID = re.compile(r"(job-)?[0-9]+(\.[0-9]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_T = TypeVar("_T", int, str, int | str)
_WORDS = {True: ("true", "yes", "on"), False: ("false", "no", "off")}


def command(value: object) -> tuple[str, ...]:
    """Parse the program and its arguments; a single text becomes the shell with that text."""
    if isinstance(value, str):
        if not value.strip():
            raise InputError("is empty", hint=COMMAND_HINT)
        return (*SHELL, as_word(value))
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{shown(value)} is not a command", hint=COMMAND_HINT)
    if not value:
        raise InputError("is empty", hint=COMMAND_HINT)
    if len(value) > MAX_WORDS:
        raise InputError(
            f"{len(value):,} words are too many", hint=f"at most {MAX_WORDS:,}; put large inputs into files"
        )
    words: list[str] = []
    errors: list[InputError] = []
    for position, entry in enumerate(value):
        if len(errors) > MAX_ERRORS:
            break
        try:
            words.append(as_word(as_text(entry)))
        except InputError as error:
            errors.append(error.at(field=f"[{position}]"))
    raise_all(errors)
    if not words[0].strip():
        raise InputError(f"{words[0]!r} is not a program", hint=COMMAND_HINT)
    return tuple(words)


def job_name(value: object) -> str:
    """Parse the name of a job, which cannot be the id of another job or task."""
    text = name(value)
    if READS_AS_ID.fullmatch(text):
        raise InputError(
            f"{text!r} reads as the id of a {'task' if '.' in text else 'job'}", hint="a name with a letter: run-12"
        )
    return text


def name(value: object) -> str:
    """Parse the name of an application, workload, part or step."""
    text = as_text(value)
    if len(text) > MAX_NAME_LENGTH:
        raise InputError(f"a name of {len(text)} characters is too long", hint=f"at most {MAX_NAME_LENGTH}")
    if not NAME.fullmatch(text):
        raise InputError(
            f"{shown(text)} is not a name", hint="letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
        )
    return text


def job_type(value: object) -> JobType:
    """Parse the type of a job."""
    known = [member.value for member in JobType]
    text = value.lower() if isinstance(value, str) else value
    if text not in known:
        hint = one_of(value[:MAX_NAME_LENGTH], known) if isinstance(value, str) else "one of " + ", ".join(known)
        raise InputError(f"unknown type {shown(value)}", hint=hint)
    return JobType(text)


def group(value: object) -> str:
    """Parse the name of a group, which may be any text."""
    found = as_text(value)
    if not found.strip() or len(found) > MAX_GROUP_NAME_LENGTH or not found.isprintable():
        raise InputError(
            f"{shown(found)} is not a name of a group",
            hint=f"1 to {MAX_GROUP_NAME_LENGTH} characters; see `cress groups`",
        )
    return found


# Ranges of indices of an array, first and last.
Ranges: TypeAlias = tuple[tuple[int, int], ...]
# Most indices and ranges of an array in a job file.
MAX_RANGES = 10_000


def tasks(value: object) -> int:
    """Parse a number of tasks."""
    return parse_count(as_number(value), least=1, most=MAX_TASKS)


def most_tasks(type_: JobType) -> int:
    """Return the maximum number of tasks of a job of this type."""
    return {JobType.SERVICE: MAX_REPLICAS, JobType.DATABASE: MAX_DATABASE}.get(type_, MAX_TASKS)


def array(value: object) -> tuple[int, int, Ranges]:
    """Parse the tasks of a job: a number, or the indices of an array such as ``[1, 5, "9-20"]`` or ``1,5,9-20``.

    Return the number of tasks, the number that may run at once (``100%10``; 0: any number), and the indices as ranges,
    ascending and none twice; empty: 0 and up.
    """
    at_once = 0
    if isinstance(value, str) and "%" in value:
        value, _, most = value.partition("%")
        at_once = tasks(most)
    if isinstance(value, list | tuple):
        found = _ranges([str(as_text(part)) if isinstance(part, str | int) else shown(part) for part in value])
    elif isinstance(value, str) and re.search(r"\d\s*[,-]", value):
        found = _ranges(value.split(","))
    else:
        return tasks(value), at_once, ()
    count = sum(last - first + 1 for first, last in found)
    if count > MAX_TASKS:
        raise InputError(f"{count:,} tasks are too many", hint=f"at most {MAX_TASKS:,}")
    return count, at_once, found


def ranges_of(indices: Sequence[int]) -> list[str]:
    """Return ascending indices as a job file has them: ``["5", "9-20"]``."""
    found: list[list[int]] = []
    for index in indices:
        if found and index == found[-1][1] + 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def _ranges(parts: Sequence[str]) -> Ranges:
    """Return ranges of indices in ascending order, merged. Raises InputError."""
    hint = 'indices and ranges, each index once, such as [1, 5, "9-20"]'
    if not 0 < len(parts) <= MAX_RANGES:
        raise InputError(f"{len(parts)} indices and ranges", hint=f"1 to {MAX_RANGES:,}; {hint}")
    found: list[tuple[int, int]] = []
    for part in parts:
        between = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        first, last = (int(between[1]), int(between[2] or between[1])) if between else (1, 0)
        if last < first:
            raise InputError(f"{shown(part)} is neither an index nor a range", hint=hint)
        found.append((first, last))
    found.sort()
    merged = found[:1]
    for first, last in found[1:]:
        if first <= merged[-1][1]:
            raise InputError(f"index {first} is given twice", hint=hint)
        if first == merged[-1][1] + 1:
            merged[-1] = merged[-1][0], last
        else:
            merged.append((first, last))
    return tuple(merged)


def resource(value: object, dimensions: Dimensions) -> ResourceVector:
    """Parse the resource vector of one task."""
    if isinstance(value, Mapping):
        if not value:
            raise InputError("is empty", hint=f"cpu and memory, or leave it out for {DEFAULT_RESOURCE}")
    elif not isinstance(value, str):
        value = as_number(value)
    else:
        value = re.sub(r"^\s*resource\s*=\s*(?=<)", "", value, count=1, flags=re.IGNORECASE)
        if "&&" in value or re.search(r"\bf\s*\(", value):
            amounts = (re.findall(r"<[^<>]*>", value) or ["<1,2G>"])[0]
            raise InputError(
                f"{shown(value)}: a request for resources cannot be relaxed",
                hint=(
                    f"{amounts} here; a clause that can be is one of `requirement`: Resource = {amounts} && f(x) = (…)"
                ),
            )
    request = parse_vector(value, dimensions)
    if not any(request):
        raise InputError("asks for nothing at all", hint="at least a little cpu, for instance <0.1>")
    memory = request[dimensions.index["memory"]] if "memory" in dimensions.index else 0
    if (found := too_little_memory(memory, value, unit="M")) is not None:
        raise InputError(found[0], hint=found[1], field="memory")
    return request


def priority(value: object) -> int:
    """Parse a priority, a whole number; a higher one goes first."""
    text = as_number(value).strip()
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if not re.fullmatch(r"[0-9]{1,12}", digits) or int(digits) > MAX_PRIORITY:
        hint = f"a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}; higher goes first"
        raise InputError(f"{shown(value)} is not a priority", hint=hint)
    return sign * int(digits)


def time_limit(value: object) -> int | None:
    """Parse a time limit above 0; return µs."""
    given = as_number(value)
    if given.strip().lower() in UNLIMITED:
        raise InputError(f"{shown(value)} is not a time limit", hint="leave it out for no limit")
    limit = parse_duration(given)
    if not limit:
        raise InputError("a limit of 0 leaves no time to run", hint="leave it out for no limit")
    return limit


def stop_grace(value: object) -> int:
    """Parse the time between SIGTERM and SIGKILL; return µs."""
    grace = parse_duration(as_number(value))
    if grace > MAX_STOP_GRACE:
        raise InputError(f"{format_duration(grace)} is too long", hint=f"at most {format_duration(MAX_STOP_GRACE)}")
    return grace


def on_partition(value: object) -> OnPartition:
    """Parse ``stop`` or ``keep``."""
    known = [choice.value for choice in OnPartition]
    text = value.strip().lower() if isinstance(value, str) else value
    if text not in known:
        raise InputError(
            f"{shown(value)} is neither stop nor keep", hint="stop: run elsewhere; keep: wait for the node"
        )
    return OnPartition(text)


def environment(value: object) -> tuple[tuple[str, str], ...]:
    """Parse environment variables and their values."""
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is not a mapping", hint="NAME: value for each variable")
    if len(value) > MAX_VARIABLES:
        raise InputError(f"{len(value):,} variables are too many", hint=f"at most {MAX_VARIABLES:,}")
    pairs: list[tuple[str, str]] = []
    errors: list[InputError] = []
    for name, entry in value.items():
        if len(errors) > MAX_ERRORS:
            break
        try:
            named = variable(name)
            pairs.append((named, as_word(as_text(entry), room=MAX_WORD_BYTES - len(named) - 1)))
        except InputError as error:
            errors.append(error.at(field=shown(name).strip("'\"")))
    raise_all(errors)
    return tuple(pairs)


def variable(name: object) -> str:
    """Parse the name of an environment variable."""
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        hint = "letters, digits and `_`, not beginning with a digit"
        raise InputError(f"{shown(name)} is not a name of a variable", hint=hint)
    if name.startswith(RESERVED_PREFIX):
        raise InputError(f"{shown(name)} is reserved", hint=f"Cress itself sets {RESERVED_PREFIX}… for a task")
    if len(name) > MAX_VARIABLE_LENGTH:
        raise InputError(f"a name of {len(name)} characters is too long", hint=f"at most {MAX_VARIABLE_LENGTH}")
    return name


def uses(value: object) -> tuple[str, ...]:
    """Parse the names of jobs whose addresses the tasks get."""
    written = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(written) > MAX_USES:
        raise InputError(f"{len(written):,} names are too many", hint=f"at most {MAX_USES}")
    found: dict[str, str] = {}
    for entry in written:
        name = job_name(entry)
        if (first := found.setdefault(used_variable(name), name)) != name:
            raise InputError(f"{first} and {name} have the same variable {used_variable(name)}", hint="one of them")
    return tuple(found.values())


def directory(value: object) -> str:
    """Parse an absolute path."""
    path = as_word(as_text(value))
    if not path.startswith("/"):
        raise InputError(f"{shown(path)} is not absolute", hint="a path that begins with /")
    if len(path.encode()) > MAX_DIRECTORY_LENGTH:
        raise InputError("the path is too long", hint=f"at most {MAX_DIRECTORY_LENGTH} bytes")
    return path


def runtime(value: object) -> str:
    """Parse the name of a runtime."""
    text = value.strip().lower() if isinstance(value, str) else value
    if text not in RUNTIMES:
        hint = one_of(text, RUNTIMES) if isinstance(text, str) else "one of " + ", ".join(RUNTIMES)
        raise InputError(f"unknown runtime {shown(value)}", hint=hint)
    return str(text)


def pids(value: object) -> int:
    """Parse a number of processes."""
    return parse_count(as_number(value), least=1, most=MAX_PIDS)


def run_as(value: object) -> str:
    """Parse the name of an account of the nodes."""
    text = as_text(value)
    if not _ACCOUNT.fullmatch(text):
        raise InputError(f"{shown(text)} is not a name of an account", hint="as in /etc/passwd of the nodes")
    return text


def log_size(value: object) -> int:
    """Parse the size of kept output; return bytes."""
    size = parse_amount(as_number(value), Measure.BYTES)
    if size < LEAST_LOG:
        raise InputError(f"{shown(value)} is too little", hint="at least 4K")
    return size


def truth(value: object, meaning: str) -> bool:
    """Parse true or false, also as words; ``meaning`` of true is the hint for anything else."""
    if isinstance(value, bool):
        return value
    for answer, words in _WORDS.items():
        if isinstance(value, str) and value.strip().lower() in words:
            return answer
    raise InputError(f"{shown(value)} is neither true nor false", hint=f"true: {meaning}")


def gang(value: object) -> bool:
    """Parse true or false; with f(x), which becomes a clause, the value is true."""
    if isinstance(value, str) and "&&" in value:
        return True
    return truth(value, "all tasks start at once, or none")


def retries(value: object) -> int:
    """Parse a number of retries."""
    return parse_count(as_number(value), least=0, most=MAX_RETRIES)


def backoff(value: object) -> int:
    """Parse the wait before a retry; return µs."""
    wait = parse_duration(as_number(value))
    if wait > MAX_BACKOFF:
        raise InputError(f"{format_duration(wait)} is too long", hint=f"at most {format_duration(MAX_BACKOFF)}")
    return wait


def after(value: object) -> tuple[tuple[int | str, Condition], ...]:
    """Parse ids and names of jobs, each with its condition."""
    if isinstance(value, (Mapping, list, tuple)) and len(value) > MAX_AFTER:
        raise InputError(f"{len(value):,} jobs are too many", hint=f"at most {MAX_AFTER:,}")
    if isinstance(value, Mapping):
        pairs = [(_job_named(job), condition(word)) for job, word in value.items()]
    else:
        jobs = value if isinstance(value, (list, tuple)) else [value]
        pairs = [(_job_named(job), Condition.OK) for job in jobs]
    twice = first_twice([job for job, _ in pairs])
    if twice is not None:
        raise InputError(f"job {twice} is named twice", hint="one condition for each job")
    return tuple(pairs)


def tolerates(value: object) -> tuple[str, ...]:
    """Parse the names of tolerated repulsions: one, or a list."""
    given = value if isinstance(value, (list, tuple)) else as_text(value).split(",")
    names = tuple(as_text(word).strip() for word in given)
    check_tolerances(names, "")
    return tuple(sorted(names))


def first_twice(names: Sequence[_T]) -> _T | None:
    """Return the first name that occurs more than once, if any."""
    counts = Counter(names)
    return next((entry for entry, count in counts.items() if count > 1), None)


def _job_named(value: object) -> int | str:
    if isinstance(value, (Mapping, list, tuple, bool, float)):
        raise InputError(f"{shown(value)} is not a job", hint="a list of ids and names, or `id: condition` for each")
    text = as_text(value).strip()
    if text.isascii() and text.isdigit():
        if not (number := whole_number(text)):
            raise InputError(f"{shown(value)} is not an id of a job", hint="one that `cress jobs` shows")
        return number
    return name(text)


def condition(value: object) -> Condition:
    """Parse the condition of a dependency."""
    known = [member.value for member in Condition]
    text = value.strip().lower() if isinstance(value, str) else value
    if text not in known:
        raise InputError(
            f"{shown(value)} is not a condition",
            hint="ok: it succeeded; any: it is over; failed: a task of it failed; tasks: each task after the same one",
        )
    return Condition(text)


def as_text(value: object) -> str:
    """Return a text, or a whole number as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    raise InputError(f"{shown(value)} is not a text", hint='put it into quotes: "…"')


def as_number(value: object) -> str:
    """Return a number as text without an exponent; a text stays as it is."""
    if isinstance(value, float) and -1e18 < value < 1e18:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value if isinstance(value, str) else as_text(value)
    raise InputError(f"{shown(value)} is not a number", hint="")


def as_word(text: str, room: int = MAX_WORD_BYTES) -> str:
    """Return a text that is valid as an argument of a program: no NUL byte, no broken characters, not too long."""
    if "\0" in text:
        raise InputError("has a zero byte in it", hint="no program can be given one")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InputError(f"{shown(text)} is not a valid text", hint="UTF-8") from None
    if size > room:
        raise InputError(f"a text of {size} bytes is too long", hint=f"at most {room}; put large inputs into files")
    return text


def shown(value: object) -> str:
    """Return a short form of a value for errors, without names of Python types."""
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


def mistakes(error: InputError) -> list[InputError]:
    """Return the mistakes in an error, one by one."""
    return error.errors if isinstance(error, InputErrors) else [error]


def raise_all(errors: list[InputError]) -> None:
    """Raise the collected mistakes, if there are any."""
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
