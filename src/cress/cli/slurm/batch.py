"""``sbatch``: submit a batch script."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cress.cli.inputs import with_inputs_of_command
from cress.cli.slurm.common import FAILED, center, say, surroundings, user_of
from cress.cli.slurm.rows import elements_of
from cress.model.errors import InputError
from cress.slurm.arrays import compressed, parse_array
from cress.slurm.command_line import Given, parse, without_components
from cress.slurm.jobs import SlurmRequest, Translated, batch_job, read_request, wrapped
from cress.slurm.option_table import SBATCH
from cress.slurm.pbs import OPTIONS, pbs_words
from cress.slurm.script import Script, read_script

if TYPE_CHECKING:
    from cress.client import Client

# Seconds of one request that waits for the end of a job.
WAIT = 60.0
# Ranges of elements that a message shows.
MOST_RANGES = 5
# Variables that set options, as for Slurm.
VARIABLES = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXPORT": "export",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GRES": "gres",
    "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_OPEN_MODE": "open-mode",
    "SBATCH_OUTPUT": "output",
    "SBATCH_ERROR": "error",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_TIMELIMIT": "time",
}


def sbatch(name: str, words: Sequence[str]) -> int:
    """Submit a script and print the id of its job."""
    given, rest = parse(words, SBATCH)
    pbs = all(one.option.name != "ignore-pbs" for one in given)
    wrap = next((one.value for one in reversed(given) if one.option.name == "wrap"), None)
    if wrap is not None:
        if rest:
            raise InputError("script arguments not permitted with --wrap option", hint="put them into the text")
        script, file, arguments = read_script(wrapped(wrap), "wrap"), "wrap", list[str]()
    else:
        without_components(rest[:1])
        file, arguments = (rest[0], rest[1:]) if rest else ("-", [])
        script = read_script(_text(file), file if file != "-" else "standard input", pbs=pbs)
    everything = [*directives(script, file, pbs=pbs), *_from_variables(), *given]
    request = read_request(everything, time.time())
    with center() as client:
        around = surroundings(client, everything)
        translated = batch_job(
            request,
            around,
            script.text,
            arguments,
            script_name="sbatch" if file == "-" else script.name,
            default_output="slurm-%A_%a.out" if request.array is not None else "slurm-%j.out",
        )
        if "quiet" not in request.values:
            for note in (*script.notes, *translated.notes):
                say(name, note)
        return _submit(name, client, request, translated)


def _submit(name: str, client: Client, request: SlurmRequest, translated: Translated) -> int:
    check_order(client, translated)
    if "verbose" in request.values:
        shown = {key: value for key, value in translated.job.items() if key not in ("command", "environment")}
        say(name, f"job file: {shown}")
    test = "test-only" in request.values
    page = client.submit([with_inputs_of_command(client, translated.job)], dry_run=test)
    (job,) = page.jobs
    if test:
        say(name, f"Job {job.name} would be accepted" + (f"; {job.note}" if job.note else ""))
        return 0
    if job.note and "quiet" not in request.values:
        say(name, job.note)
    print(job.id if "parsable" in request.values else f"Submitted batch job {job.id}", flush=True)
    return _wait(client, job.id) if "wait" in request.values else 0


def check_order(client: Client, translated: Translated) -> None:
    """Let a singleton wait for all earlier jobs of its name and user.

    Raises InputError for elements without counterparts in the array of ``aftercorr``.
    """
    check_counterparts(client, translated.job)
    if not translated.singleton:
        return
    user, job = user_of(client), translated.job
    after = dict(job.get("after") or {})  # type: ignore[call-overload]
    for state in ("waiting", "running"):
        for earlier in client.jobs(limit=1000, name=str(job["name"]), user=user, state=state).jobs:
            after.setdefault(str(earlier.id), "any")
    if after:
        job["after"] = after


def check_counterparts(client: Client, job: Mapping[str, Any]) -> None:
    """Raise InputError unless the elements of a job are the first ones of the array that they wait for one by one."""
    tasks, text = job.get("tasks", 1), job.get("environment", {}).get("SLURM_CRESS_ARRAY")
    elements = list(parse_array(text).elements if text else range(tasks))
    for number, condition in (job.get("after") or {}).items():
        if condition != "tasks":
            continue
        first = client.job(int(number))
        others = list(elements_of(first) or range(1))
        # The center compares the sizes.
        if first.ended is None and elements != others[:tasks] and tasks <= len(others):
            raise InputError(
                f"the elements {_shown(elements)} are not the first ones of job {number}, {_shown(others)}",
                hint=f"--array with the elements of job {number} from its first one on, without gaps",
                field="--dependency",
            )


def _shown(elements: list[int]) -> str:
    """Return elements as ranges, at most some of them."""
    ranges = compressed(elements).split(",")
    return ",".join(ranges[:MOST_RANGES]) + ",…" * (len(ranges) > MOST_RANGES)


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    found = file if "/" in file or Path(file).exists() else shutil.which(file) or file
    try:
        return Path(found).read_bytes().decode()
    except OSError as error:
        raise InputError(f"Unable to open file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError("is not a text", hint="a script in UTF-8", file=file) from None


def directives(script: Script, file: str, *, pbs: bool = True) -> list[Given]:
    """Return the options of a script: those of Slurm, else those of PBS. Raises InputError with file and line."""
    given: list[Given] = []
    kinds = script.kinds
    for directive in script.directives:
        try:
            if directive.kind == "SBATCH":
                found, rest = parse(directive.words, SBATCH, file=file, line=directive.line, mixed=True)
                _nothing_left(rest)
                given += found
            elif directive.kind == "PBS" and pbs and "SBATCH" not in kinds:
                given += parse(pbs_words(directive.words), OPTIONS, file=file, line=directive.line)[0]
        except InputError as error:
            raise error.at(file=file, line=directive.line) from None
    return given


def _nothing_left(rest: Sequence[str]) -> None:
    without_components(rest[:1])
    if rest:
        raise InputError(f"{rest[0]!r} is not an option", hint="--NAME=VALUE; a value with spaces needs quotes")


def _from_variables() -> list[Given]:
    by_name = {option.name: option for option in SBATCH}
    return [
        Given(by_name[option], os.environ[variable])
        for variable, option in VARIABLES.items()
        if os.environ.get(variable)
    ]


def _wait(client: Client, id: int) -> int:
    while client.job(id, wait=WAIT).ended is None:
        pass
    return highest_code(client, id)


def highest_code(client: Client, id: int) -> int:
    """Return the highest exit code of the tasks of an ended job; 1 for a task that never ended by itself."""
    codes, after = [0], None
    while True:
        page = client.tasks(id, limit=1000, after=after)
        for task in page.tasks:
            code = task.attempts[-1].code if task.attempts else None
            if task.state != "succeeded":
                codes.append(FAILED if code in (None, 0) else code if code > 0 else 128 - code)
        after = page.next
        if after is None:
            return max(codes)
